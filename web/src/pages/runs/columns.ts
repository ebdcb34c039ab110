/// What is known of the table's columns: how wide, how aligned, how a value is written. Pure.

import type { Kind, KnownColumn } from "../../api/table";
import type { Key } from "../../i18n/en";
import { duration, exactly, hparam, number } from "../../lib/format";

export interface Column {
  name: string;
  width: number;
  isPinned: boolean;
}

export const SPARK = "spark:";
export const NAME: Column = { name: "name", width: 250, isPinned: true };
const FIRST = ["name", "status", "experiment"];
const LAST = ["tags", "created", "duration"];
const HPARAMS = 4;
const METRICS = 4;

/// What is shown to those who have chosen nothing: what most runs have.
export function automatic(known: KnownColumn[]): Column[] {
  const of = (beginning: string, most: number) =>
    known.filter((each) => each.name.startsWith(beginning)).slice(0, most).map((each) => each.name);
  const kinds = new Map(known.map((each) => [each.name, each.kind]));
  const names = [...FIRST, ...curve(known), ...of("metrics.", METRICS), ...of("hparams.", HPARAMS), ...LAST];
  return names.map((name) => (name === "name" ? NAME : { name, width: initialWidth(kindOf(name, kinds), name), isPinned: false }));
}

/// A curve of what most runs have, best of all of a loss; not of what is logged but once.
function curve(known: KnownColumn[]): string[] {
  const tags = known
    .filter((each) => each.name.startsWith("metrics."))
    .map((each) => parts(each.name).label)
    .filter((tag) => !/^(hparam|system)\//.test(tag));
  const found = tags.find((tag) => /loss/i.test(tag)) ?? tags[0];
  return found === undefined ? [] : [`${SPARK}${found}`];
}

const OWN: Record<string, Key> = {
  id: "column.id",
  name: "column.name",
  path: "column.path",
  status: "column.status",
  experiment: "column.experiment",
  workspace: "column.workspace",
  owner: "column.owner",
  job: "column.job",
  created: "column.created",
  started: "column.started",
  updated: "column.updated",
  ended: "column.ended",
  heartbeat: "column.heartbeat",
  duration: "column.duration",
  note: "column.note",
  tags: "column.tags",
  machine: "column.machine",
  location: "column.location",
  command: "column.command",
  problem: "column.problem",
  progress: "column.progress",
  exit_code: "column.exit_code",
  attempt: "column.attempt",
  archived: "column.archived",
};
const AGGREGATES = ["last", "min", "max", "step", "count"] as const;
export type Aggregate = (typeof AGGREGATES)[number];

/// A column's name in parts: `metrics.val/loss.last` is the last value of `val/loss`.
export function parts(name: string): { kind: "own" | "hparam" | "metric" | "spark"; label: string; aggregate?: Aggregate } {
  if (name.startsWith(SPARK)) return { kind: "spark", label: name.slice(SPARK.length) };
  if (name.startsWith("hparams.")) return { kind: "hparam", label: unquoted(name.slice(8)) };
  if (name.startsWith("metrics.")) {
    const rest = name.slice(8);
    const aggregate = AGGREGATES.find((each) => rest.endsWith(`.${each}`));
    const tag = aggregate ? rest.slice(0, -aggregate.length - 1) : rest;
    return { kind: "metric", label: unquoted(tag), aggregate: aggregate ?? "last" };
  }
  return { kind: "own", label: name };
}

/// The columns whose label another one has, too: a metric's last value and its curve.
export function ambiguous(names: string[]): Set<string> {
  const labels = names.map((name) => parts(name).label);
  return new Set(names.filter((_, at) => labels.indexOf(labels[at]!) !== labels.lastIndexOf(labels[at]!)));
}

/// The same metric's other column.
export function withAggregate(name: string, aggregate: Aggregate): string {
  const { aggregate: own } = parts(name);
  return name.endsWith(`.${own}`) ? `${name.slice(0, -own!.length)}${aggregate}` : `${name}.${aggregate}`;
}

function unquoted(text: string): string {
  const quoted = /^"(.*)"$/.exec(text) ?? /^'(.*)'$/.exec(text);
  return quoted ? quoted[1]!.replace(/\\(.)/g, "$1") : text;
}

/// The text that names a column of a run itself, or null for what users have named.
export function ownLabel(name: string): Key | null {
  return OWN[name] ?? null;
}

export function kindOf(name: string, known: ReadonlyMap<string, Kind>): Kind {
  const found = known.get(name);
  if (found) return found;
  if (name.startsWith("metrics.")) return "metric";
  if (["created", "started", "updated", "ended", "heartbeat"].includes(name)) return "time";
  if (name === "duration" || name === "tags") return name;
  return name === "id" || name === "progress" ? "number" : "text";
}

export function isNumeric(kind: Kind): boolean {
  return kind === "number" || kind === "metric" || kind === "duration";
}

export function initialWidth(kind: Kind, name: string): number {
  if (name.startsWith(SPARK)) return 130;
  if (kind === "tags") return 140;
  if (name === "status") return 104;
  if (kind === "time") return 110;
  return kind === "text" && !name.startsWith("hparams.") ? 150 : Math.min(180, Math.max(90, parts(name).label.length * 7.5 + 44));
}

/// A value as the table writes it.
export function written(value: unknown, kind: Kind): string {
  if (value === null || value === undefined) return "";
  if (kind === "duration") return duration(Number(value));
  if (kind === "metric") return typeof value === "number" ? number(value) : String(value);
  if (kind === "time") return exactly(new Date(Number(value) * 1000).toISOString());
  if (Array.isArray(value)) return value.join(", ");
  return hparam(value);
}

/// Columns that were kept, if they are any: `name` is always among them.
export function isLayout(value: unknown): value is Column[] {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value.every(
      (each: Partial<Column> | null) =>
        typeof each?.name === "string" && typeof each.width === "number" && typeof each.isPinned === "boolean",
    ) &&
    value.some((each: Column) => each.name === "name")
  );
}

/// Pinned columns first; each where it starts, if it is pinned.
export function laidOut(columns: Column[], before: number): { column: Column; left: number | null }[] {
  const ordered = [...columns.filter((each) => each.isPinned), ...columns.filter((each) => !each.isPinned)];
  let left = before;
  return ordered.map((column) => {
    const at = column.isPinned ? left : null;
    left += column.width;
    return { column, left: at };
  });
}

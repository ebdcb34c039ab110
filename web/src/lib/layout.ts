/// How the compare page shows its runs, as it stands in the address: only what differs from the
/// default does. Pure.

export type XAxis = "step" | "relative" | "wall" | `tag:${string}`;
export type Part = "charts" | "images" | "parallel" | "scatter";

export interface Layout {
  part: Part;
  /// Which tags and runs, as regular expressions; all if empty.
  tags: string;
  names: string;
  smoothing: number;
  x: XAxis;
  logX: boolean;
  logY: boolean;
  clip: boolean;
  /// Hyperparameters; "all" is all of them except seeds; none is no groups.
  group: string[] | "all" | null;
  spread: "std" | "minmax";
  /// A hyperparameter that gives runs their colours; empty: their own.
  colour: string;
  /// Runs that are not drawn.
  hide: number[];
  /// Whether all runs are named, where they are many.
  list: boolean;
  /// Sections that are closed.
  closed: string[];
  /// The chart that fills the window.
  full: string;
  /// What scatter and parallel coordinates show.
  axes: string[];
}

export const plain: Layout = {
  part: "charts",
  tags: "",
  names: "",
  smoothing: 0.6,
  x: "step",
  logX: false,
  logY: false,
  clip: false,
  group: null,
  spread: "std",
  colour: "",
  hide: [],
  list: false,
  closed: [],
  full: "",
  axes: [],
};

const SYSTEM = "system"; // what `tbhub run --system-metrics` logs
const PARTS: string[] = ["images", "parallel", "scatter"];
const NAMES = ["part", "tags", "names", "smooth", "x", "log", "clip", "group", "spread", "colour", "hide", "list", "closed", "full", "axes"];

/// What an address says; what it says wrongly is the default.
export function read(query: URLSearchParams): Layout {
  const part = query.get("part") ?? "";
  const smoothing = Number(query.get("smooth") ?? plain.smoothing);
  const x = query.get("x") ?? "";
  const log = query.get("log") ?? "";
  const group = query.get("group");
  return {
    part: PARTS.includes(part) ? (part as Part) : "charts",
    tags: query.get("tags") ?? "",
    names: query.get("names") ?? "",
    smoothing: smoothing >= 0 && smoothing <= 0.999 ? smoothing : plain.smoothing,
    x: x === "relative" || x === "wall" || x.startsWith("tag:") ? (x as XAxis) : "step",
    logX: log.includes("x"),
    logY: log.includes("y"),
    clip: query.get("clip") === "1",
    group: group === null ? null : group === "*" ? "all" : list(group),
    spread: query.get("spread") === "minmax" ? "minmax" : "std",
    colour: query.get("colour") ?? "",
    hide: list(query.get("hide")).map(Number).filter((run) => Number.isInteger(run) && run > 0),
    list: query.get("list") === "1",
    closed: list(query.get("closed")),
    full: query.get("full") ?? "",
    axes: list(query.get("axes")),
  };
}

/// The changes of an address that say this.
export function write(layout: Layout): Record<string, string | null> {
  const said: Record<string, string | null> = Object.fromEntries(NAMES.map((name) => [name, null]));
  if (layout.part !== "charts") said.part = layout.part;
  said.tags = layout.tags || null;
  said.names = layout.names || null;
  if (layout.smoothing !== plain.smoothing) said.smooth = String(layout.smoothing);
  if (layout.x !== "step") said.x = layout.x;
  said.log = `${layout.logX ? "x" : ""}${layout.logY ? "y" : ""}` || null;
  if (layout.clip) said.clip = "1";
  if (layout.group !== null) said.group = layout.group === "all" ? "*" : join(layout.group);
  if (layout.spread !== "std") said.spread = layout.spread;
  said.colour = layout.colour || null;
  said.hide = layout.hide.join(",") || null;
  if (layout.list) said.list = "1";
  said.closed = join(layout.closed) || null;
  said.full = layout.full || null;
  said.axes = join(layout.axes) || null;
  return said;
}

/// Names are apart by commas; a comma within one is written as %2C.
function list(text: string | null): string[] {
  return text ? text.split(",").map(decodeURIComponent) : [];
}

function join(names: string[]): string {
  return names.map(encodeURIComponent).join(",");
}

/// A regular expression as somebody is typing it: null while it is none.
export function pattern(text: string): RegExp | null {
  try {
    return new RegExp(text, "i");
  } catch {
    return null;
  }
}

/// Runs that are hidden, with some more of them or without: they are shown if all of them are hidden.
export function toggled(hide: readonly number[], runs: readonly number[]): number[] {
  const now = new Set(hide);
  if (runs.every((run) => now.has(run))) return hide.filter((run) => !runs.includes(run));
  return [...new Set([...hide, ...runs])].sort((one, other) => one - other);
}

const GAP = 12; // pixels between charts, as in the style sheet

/// How many charts stand side by side: they are wider in a wide window, to a point.
export function columnsFor(width: number, windowWidth: number): number {
  const least = Math.min(720, Math.max(400, 0.22 * windowWidth));
  return Math.max(1, Math.floor((width + GAP) / (least + GAP)));
}

/// What a chart is called within its section. What the machine's directory and its tags both say is
/// said by the section alone.
export function titleOf(tag: string, section: string): string {
  return section ? tag.slice(section.length + 1) : tag;
}

/// Tags by what stands before their first slash, in their order; those without one come first. What
/// the machine was doing comes behind what was logged, and what has but one point (`singles`) last.
export function sections(
  tags: readonly string[],
  singles: ReadonlySet<string> = new Set(),
): { name: string; tags: string[] }[] {
  const found = new Map<string, string[]>();
  for (const tag of tags) {
    const slash = tag.indexOf("/");
    const name = slash > 0 ? tag.slice(0, slash) : "";
    const mine = found.get(name);
    if (mine) mine.push(tag);
    else found.set(name, [tag]);
  }
  return [...found]
    .map(([name, mine]) => {
      const isSingle = (tag: string) => singles.has(tag);
      const rank = mine.every(isSingle) ? 2 : name === SYSTEM ? 1 : 0;
      return { name, rank, tags: [...mine.filter((tag) => !isSingle(tag)), ...mine.filter(isSingle)] };
    })
    .sort((one, other) => one.rank - other.rank || (one.name < other.name ? -1 : 1))
    .map(({ name, tags }) => ({ name, tags }));
}

/// How many characters of directories all names begin with.
export function sharedLength(names: readonly string[]): number {
  const [first = "", ...rest] = names;
  let length = rest.length > 0 ? first.lastIndexOf("/") + 1 : 0;
  for (const name of rest) {
    while (length > 0 && !name.startsWith(first.slice(0, length))) length = first.lastIndexOf("/", length - 2) + 1;
  }
  return length;
}

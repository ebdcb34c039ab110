/// The lines of the table: runs alone, or groups of runs, each of which may be open and then has its
/// runs below it.

import type { Problem } from "../../api/client";
import { asProblem } from "../../api/resource.svelte";
import { groups as askGroups, type Asked, type Groups } from "../../api/table";
import { RunRows, type Row } from "./rows.svelte";

export interface Group {
  index: number;
  keys: [string, unknown][];
  count: number;
  select: string;
  isOpen: boolean;
  of: (column: string) => { mean: number | null; min: number | null; max: number | null } | undefined;
}

export type Line =
  | { kind: "run"; index: number; row: Row; depth: number }
  | { kind: "group"; index: number; group: Group }
  | { kind: "unknown"; index: number; depth: number };

const MOST_GROUPS = 1000;

export interface Lines {
  readonly count: number | undefined;
  /// How many runs there are in all.
  readonly runs: number | undefined;
  readonly problem: Problem | undefined;
  at(index: number): Line;
  find(id: number): number | undefined;
  see(from: number, to: number): void;
  refresh(settle?: () => () => void, columns?: string[]): Promise<void>;
  ids(from: number, to: number): Promise<number[]>;
  close(): void;
}

export class FlatLines implements Lines {
  readonly #rows: RunRows;

  constructor(asked: Asked, columns: string[]) {
    this.#rows = new RunRows(asked, columns);
  }

  get count() {
    return this.#rows.total;
  }
  get runs() {
    return this.#rows.total;
  }
  get problem() {
    return this.#rows.problem;
  }

  at(index: number): Line {
    const row = this.#rows.at(index);
    return row ? { kind: "run", index, row, depth: 0 } : { kind: "unknown", index, depth: 0 };
  }

  find(id: number) {
    return this.#rows.find(id);
  }
  see(from: number, to: number) {
    this.#rows.see(from, to);
  }
  refresh(settle?: () => () => void, columns?: string[]) {
    return this.#rows.refresh(settle, columns);
  }
  ids(from: number, to: number) {
    return this.#rows.ids(from, to);
  }
  close() {
    this.#rows.close();
  }
}

export class GroupedLines implements Lines {
  problem = $state.raw<Problem | undefined>(undefined);
  #groups = $state.raw<Groups | undefined>(undefined);
  #open = $state.raw<ReadonlyMap<string, RunRows>>(new Map());
  #asked: Asked;
  #by: string[];
  #columns: string[];
  #numbers: string[];
  #version = 0;

  constructor(asked: Asked, by: string[], columns: string[], numbers: string[]) {
    this.#asked = asked;
    this.#by = by;
    this.#columns = columns;
    this.#numbers = numbers;
    void this.#load();
  }

  async #load(settle?: () => () => void): Promise<void> {
    const version = ++this.#version;
    // Groups are sorted by what they have: by the columns that are put together, or how many runs.
    const sortable = [...this.#by, ...this.#numbers, "count"];
    const sort = this.#asked.sort.split(",").filter((each) => sortable.includes(each.replace(/^-/, "")));
    try {
      const asked = { ...this.#asked, sort: sort.join(",") };
      const found = await askGroups(asked, this.#by, this.#numbers, MOST_GROUPS);
      if (version !== this.#version) return;
      const after = settle?.();
      this.#groups = found;
      this.problem = undefined;
      after?.();
    } catch (error) {
      if (version === this.#version) this.problem = asProblem(error);
    }
  }

  /// Where each group begins, and where the last ends.
  #starts = $derived.by(() => {
    const starts = [0];
    for (const select of this.#groups?.select ?? []) {
      const rows = this.#open.get(select);
      starts.push(starts.at(-1)! + 1 + (rows === undefined ? 0 : (rows.total ?? 1)));
    }
    return starts;
  });

  get count() {
    return this.#groups === undefined ? undefined : this.#starts.at(-1)!;
  }

  get runs() {
    return this.#groups?.count.reduce((sum, each) => sum + each, 0);
  }

  /// How many groups there are that are not shown.
  get left() {
    return this.#groups === undefined ? 0 : Math.max(0, this.#groups.total - this.#groups.select.length);
  }

  #groupAt(index: number): number {
    let low = 0;
    let high = this.#starts.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.#starts[middle]! <= index) low = middle;
      else high = middle;
    }
    return low;
  }

  at(index: number): Line {
    const groups = this.#groups;
    if (groups === undefined) return { kind: "unknown", index, depth: 0 };
    const number = this.#groupAt(index);
    const select = groups.select[number];
    if (select === undefined) return { kind: "unknown", index, depth: 0 };
    const within = index - this.#starts[number]! - 1;
    if (within >= 0) {
      const row = this.#open.get(select)?.at(within);
      return row ? { kind: "run", index, row, depth: 1 } : { kind: "unknown", index, depth: 1 };
    }
    const group: Group = {
      index: number,
      keys: this.#by.map((name) => [name, groups.keys[name]?.[number]]),
      count: groups.count[number]!,
      select,
      isOpen: this.#open.has(select),
      of: (column) => {
        const found = groups.columns[column];
        if (!found) return undefined;
        return { mean: found.mean[number] ?? null, min: found.min[number] ?? null, max: found.max[number] ?? null };
      },
    };
    return { kind: "group", index, group };
  }

  toggle(group: Group): void {
    const open = new Map(this.#open);
    const rows = open.get(group.select);
    if (rows) {
      rows.close();
      open.delete(group.select);
    } else {
      const made = new RunRows({ ...this.#asked, q: group.select }, this.#columns);
      made.see(0, 100);
      open.set(group.select, made);
    }
    this.#open = open;
  }

  /// The runs of a group.
  idsOf(group: Group): Promise<number[]> {
    const rows = this.#open.get(group.select) ?? new RunRows({ ...this.#asked, q: group.select }, ["id"]);
    return rows.ids(0, group.count);
  }

  find(id: number): number | undefined {
    for (const [number, select] of (this.#groups?.select ?? []).entries()) {
      const within = this.#open.get(select)?.find(id);
      if (within !== undefined) return this.#starts[number]! + 1 + within;
    }
    return undefined;
  }

  see(from: number, to: number): void {
    const groups = this.#groups;
    if (groups === undefined || groups.select.length === 0) return;
    for (let number = this.#groupAt(from); number < groups.select.length; number++) {
      const start = this.#starts[number]! + 1;
      if (start > to) break;
      this.#open.get(groups.select[number]!)?.see(Math.max(0, from - start), to - start);
    }
  }

  /// Shows these columns, and these numbers of the groups.
  show(columns: string[], numbers: string[], settle?: () => () => void): Promise<void> {
    this.#numbers = numbers;
    return this.refresh(settle, columns);
  }

  async refresh(settle?: () => () => void, columns = this.#columns): Promise<void> {
    this.#columns = columns;
    await Promise.all([...this.#open.values()].map((rows) => rows.refresh(undefined, columns)));
    await this.#load(settle);
  }

  async ids(from: number, to: number): Promise<number[]> {
    const found: number[] = [];
    for (let index = from; index < to; index++) {
      const line = this.at(index);
      if (line.kind === "run") found.push(line.row.id);
    }
    return found;
  }

  close(): void {
    this.#version++;
    for (const rows of this.#open.values()) rows.close();
  }
}

/// What the colours of a comparison mean: an entry for each run, each group, or each value. Pure.

import type { Value } from "../../lib/colours";
import { hparam } from "../../lib/format";
import { nameOf } from "./field";
import type { Group } from "./lines";

export interface Entry {
  label: string;
  colour: string;
  runs: number[];
  /// Those of its lines.
  keys: string[];
}

export function ofGroups(groups: readonly Group[]): Entry[] {
  return groups.map(({ label, colour, runs }) => ({ label, colour, runs, keys: [label] }));
}

export function ofRuns(runs: readonly number[], name: (run: number) => string, colour: (run: number) => string): Entry[] {
  return runs.map((run) => ({ label: name(run), colour: colour(run), runs: [run], keys: [String(run)] }));
}

/// Runs by their value of a column, in the order of the values.
export function ofValues(
  runs: readonly number[],
  column: string,
  value: (run: number) => Value,
  colour: (run: number) => string,
): Entry[] {
  const found = new Map<Value, number[]>();
  for (const run of runs) {
    const mine = value(run) ?? null;
    found.set(mine, [...(found.get(mine) ?? []), run]);
  }
  return [...found]
    .sort(([one], [other]) => (typeof one === "number" && typeof other === "number" ? one - other : String(one) < String(other) ? -1 : 1))
    .map(([value, mine]) => ({
      label: `${nameOf(column)}=${hparam(value)}`,
      colour: colour(mine[0]!),
      runs: mine,
      keys: mine.map(String),
    }));
}

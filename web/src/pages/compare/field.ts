/// A column of runs as an axis: numbers on a line, by their logarithm where they span it; words one
/// above the other. Pure.

import type { Value } from "../../lib/colours";
import { number } from "../../lib/format";

export interface Axis {
  /// From 0 to 1; null for what is missing.
  at: (value: Value) => number | null;
  ticks: { at: number; text: string }[];
}

const WIDE = 20;
const FEW = 8;
const ROOM = 0.05; // of the axis, between two marks

export function axis(values: Value[]): Axis {
  const known = values.filter((each) => each !== null && each !== undefined);
  const numbers = known.filter((each): each is number => typeof each === "number" && Number.isFinite(each));
  if (numbers.length > 0 && known.every((each) => typeof each === "number")) return ofNumbers(numbers);
  const words = [...new Set(known.map(String))].sort();
  const place = (word: string) => (words.length === 1 ? 0.5 : words.indexOf(word) / (words.length - 1));
  return {
    at: (value) => (value === null || value === undefined ? null : place(String(value))),
    ticks: words.map((word) => ({ at: place(word), text: word })),
  };
}

function ofNumbers(numbers: number[]): Axis {
  const low = Math.min(...numbers);
  const high = Math.max(...numbers);
  const isLog = low > 0 && high / low >= WIDE;
  const scale = isLog ? Math.log : (x: number) => x;
  const back = isLog ? Math.exp : (x: number) => x;
  const span = scale(high) - scale(low);
  const at = (value: Value) =>
    typeof value !== "number" || !Number.isFinite(value) ? null : span === 0 ? 0.5 : (scale(value) - scale(low)) / span;
  // Few values are marked themselves; of many, the axis is.
  const values = [...new Set(numbers)].sort((one, other) => one - other);
  if (values.length <= FEW) return { at, ticks: apart(values.map((value) => ({ at: at(value)!, text: number(value) }))) };
  const shares = [0, 0.25, 0.5, 0.75, 1];
  return { at, ticks: shares.map((share) => ({ at: share, text: number(rounded(back(scale(low) + share * span))) })) };
}

/// Marks that leave each other room; both ends stay.
function apart(ticks: Axis["ticks"]): Axis["ticks"] {
  const kept = ticks.slice(0, 1);
  for (const tick of ticks.slice(1, -1)) {
    if (tick.at - kept.at(-1)!.at >= ROOM && ticks.at(-1)!.at - tick.at >= ROOM) kept.push(tick);
  }
  return ticks.length > 1 ? [...kept, ticks.at(-1)!] : kept;
}

function rounded(value: number): number {
  return Number(value.toPrecision(3));
}

/// The name of a column as people know it.
export function nameOf(column: string): string {
  return column.replace(/^hparams\./, "").replace(/^metrics\.(.*?)(\.last)?$/, "$1");
}

/// Runs put together: which belong to one group, and the mean and spread of a group's lines. Pure.

import type { Value } from "./colours";

export type Spread = "std" | "minmax";

export interface Curve {
  x: Float64Array;
  y: Float32Array;
}

export interface Band {
  x: Float64Array;
  mean: Float32Array;
  low: Float32Array;
  high: Float32Array;
}

const SEEDS = /(^|[._-])(random_?)?(seed|trial|replica|repeat)$/i;

/// Whether a hyperparameter only tells repetitions apart.
export function isSeed(name: string): boolean {
  return SEEDS.test(name);
}

/// Runs by what they have in common: the values of some hyperparameters, or of all but seeds.
export function groupRuns(
  runs: readonly number[],
  by: readonly string[] | "all",
  value: (run: number, name: string) => Value,
  names: readonly string[],
): Map<string, number[]> {
  // What is the same in all runs says nothing.
  const told =
    by === "all"
      ? names.filter((name) => !isSeed(name) && new Set(runs.map((run) => value(run, name))).size > 1)
      : by;
  const groups = new Map<string, number[]>();
  for (const run of runs) {
    const label = told.map((name) => `${name}=${value(run, name) ?? "–"}`).join(", ");
    const members = groups.get(label);
    if (members) members.push(run);
    else groups.set(label, [run]);
  }
  return groups;
}

const GRID = 600;

/// The mean of some curves and its spread, where there are any. Curves over the same places are put
/// together there; others on a grid, between the two points beside each place.
export function band(curves: Curve[], spread: Spread): Band {
  const x = sharedPlaces(curves) ?? grid(curves);
  const mean = new Float32Array(x.length);
  const low = new Float32Array(x.length);
  const high = new Float32Array(x.length);
  const sums = new Float64Array(x.length);
  const squares = new Float64Array(x.length);
  const counts = new Uint32Array(x.length);
  low.fill(Infinity);
  high.fill(-Infinity);
  for (const curve of curves) {
    const values = curve.x.length === x.length && curve.x[0] === x[0] && isSame(curve.x, x) ? curve.y : at(curve, x);
    for (let i = 0; i < x.length; i++) {
      const value = values[i]!;
      if (!Number.isFinite(value)) continue;
      counts[i]!++;
      // Welford's way: no large numbers are subtracted.
      const before = value - sums[i]!;
      sums[i]! += before / counts[i]!;
      squares[i]! += before * (value - sums[i]!);
      if (value < low[i]!) low[i] = value;
      if (value > high[i]!) high[i] = value;
    }
  }
  for (let i = 0; i < x.length; i++) {
    if (counts[i] === 0) {
      mean[i] = low[i] = high[i] = NaN;
      continue;
    }
    mean[i] = sums[i]!;
    if (spread === "std") {
      const deviation = Math.sqrt(squares[i]! / counts[i]!);
      low[i] = sums[i]! - deviation;
      high[i] = sums[i]! + deviation;
    }
  }
  return { x, mean, low, high };
}

function sharedPlaces(curves: Curve[]): Float64Array | null {
  const first = curves[0]?.x ?? new Float64Array();
  return curves.every((curve) => isSame(curve.x, first)) ? first : null;
}

function isSame(one: Float64Array, other: Float64Array): boolean {
  if (one === other) return true;
  if (one.length !== other.length) return false;
  for (let i = 0; i < one.length; i++) if (one[i] !== other[i]) return false;
  return true;
}

function grid(curves: Curve[]): Float64Array {
  let low = Infinity;
  let high = -Infinity;
  for (const { x } of curves) {
    if (x.length === 0) continue;
    low = Math.min(low, x[0]!);
    high = Math.max(high, x[x.length - 1]!);
  }
  const places = new Float64Array(low <= high ? GRID : 0);
  for (let i = 0; i < places.length; i++) places[i] = low + ((high - low) * i) / (GRID - 1);
  return places;
}

/// A curve at some places; NaN outside of it.
function at({ x, y }: Curve, places: Float64Array): Float32Array {
  const found = new Float32Array(places.length);
  let next = 0;
  for (let i = 0; i < places.length; i++) {
    const place = places[i]!;
    while (next < x.length && x[next]! < place) next++;
    if (next === x.length || (next === 0 && x[0]! > place)) found[i] = NaN;
    else if (x[next] === place || next === 0) found[i] = y[next]!;
    else {
      const share = (place - x[next - 1]!) / (x[next]! - x[next - 1]!);
      found[i] = y[next - 1]! + share * (y[next]! - y[next - 1]!);
    }
  }
  return found;
}

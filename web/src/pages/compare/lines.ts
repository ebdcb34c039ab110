/// What a chart draws: lines made of series, smoothed, in groups, over the axis that was chosen. Pure.

import type { Series } from "../../api/series";
import { band, type Spread } from "../../lib/bands";
import type { XAxis } from "../../lib/layout";
import { smooth } from "../../lib/smoothing";

export interface Line {
  key: string;
  label: string;
  colour: string;
  x: Float64Array;
  y: Float32Array;
  /// As it was logged, where `y` is not.
  raw: Float32Array | null;
  low: Float32Array | null;
  high: Float32Array | null;
  /// Where the run went back to an earlier step, on the axis.
  restarts: number[];
  hasGaps: boolean;
}

export interface Group {
  label: string;
  colour: string;
  runs: number[];
}

export interface Look {
  x: XAxis;
  smoothing: number;
  spread: Spread;
}

/// Series over their axis; those of a group as one line with a band, where there are groups.
export function linesOf(
  series: readonly Series[],
  look: Look,
  label: (run: number) => string,
  colour: (run: number) => string,
  groups: readonly Group[] | null,
): Line[] {
  if (groups !== null) return groupLines(series, look, groups);
  return series.map((each) => {
    const y = look.smoothing > 0 ? smooth(each.means, look.smoothing) : each.values;
    return {
      key: String(each.run),
      label: label(each.run),
      colour: colour(each.run),
      x: axisOf(each, look.x),
      y,
      raw: y === each.values ? null : each.values,
      low: null,
      high: null,
      restarts: look.x === "step" ? each.restarts : [],
      hasGaps: each.values.some((value) => !Number.isFinite(value)),
    };
  });
}

function groupLines(series: readonly Series[], look: Look, groups: readonly Group[]): Line[] {
  const byRun = new Map(series.map((each) => [each.run, each]));
  const lines: Line[] = [];
  for (const group of groups) {
    const mine = group.runs.flatMap((run) => byRun.get(run) ?? []);
    if (mine.length === 0) continue;
    const curves = mine.map((each) => ({
      x: axisOf(each, look.x),
      y: smooth(each.means, look.smoothing),
    }));
    const { x, mean, low, high } = band(curves, look.spread);
    lines.push({
      key: group.label,
      label: `${group.label || "–"} (${mine.length})`,
      colour: group.colour,
      x,
      y: mean,
      raw: null,
      low,
      high,
      restarts: [],
      hasGaps: false,
    });
  }
  return lines;
}

/// Seconds since the first point; seconds since the epoch; steps; or another tag's values.
export function axisOf(series: Series, x: XAxis): Float64Array {
  if (x === "step") return series.steps;
  if (x === "wall") return series.walls;
  if (x !== "relative") return series.xs ?? new Float64Array(series.steps.length).fill(NaN);
  const start = series.walls[0] ?? 0;
  return series.walls.map((wall) => wall - start);
}

/// Lines, beyond which what was logged is not drawn below what is smoothed.
export const MANY = 30;

export interface Extent {
  low: number;
  high: number;
}

/// From where to where lines reach on the axis; only what is above zero where it is logarithmic.
export function xExtent(lines: readonly Line[], isLog: boolean): Extent {
  let low = Infinity;
  let high = -Infinity;
  for (const { x } of lines) {
    for (let at = 0; at < x.length; at++) {
      const value = x[at]!;
      if (isLog && value <= 0) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low <= high ? { low, high } : { low: isLog ? 1 : 0, high: isLog ? 10 : 1 };
}

const CLIPPED = 0.02; // of the values, at each end
const SAMPLE = 20_000;

/// From where to where lines reach upwards between two places of the axis. Clipped, a few that are
/// far away do not count.
export function yExtent(lines: readonly Line[], from: number, to: number, isLog: boolean, clip: boolean): Extent {
  let low = Infinity;
  let high = -Infinity;
  const sample: number[] = [];
  let count = 0;
  for (const line of lines) count += line.x.length;
  const stride = Math.max(1, Math.floor(count / SAMPLE));
  // Raw values are faint, and bands are wide: what is drawn belongs to the picture, unless it is
  // clipped.
  const isRawDrawn = lines.length <= MANY;
  for (const line of lines) {
    const shown = clip ? [line.y] : [line.y, isRawDrawn ? line.raw : null, line.low, line.high];
    for (const values of shown) {
      if (values === null) continue;
      for (let at = 0; at < values.length; at++) {
        const value = values[at]!;
        if (!Number.isFinite(value) || (isLog && value <= 0)) continue;
        const place = line.x[at]!;
        if (place < from || place > to) continue;
        if (clip) {
          if (at % stride === 0) sample.push(value);
        } else {
          if (value < low) low = value;
          if (value > high) high = value;
        }
      }
    }
  }
  if (clip && sample.length > 0) {
    sample.sort((one, other) => one - other);
    low = sample[Math.floor(CLIPPED * (sample.length - 1))]!;
    high = sample[Math.ceil((1 - CLIPPED) * (sample.length - 1))]!;
  }
  if (low > high) return { low: isLog ? 0.1 : 0, high: 1 };
  if (isLog) return low === high ? { low: low / 2, high: high * 2 } : { low: low / 1.1, high: high * 1.1 };
  const room = low === high ? Math.abs(low) * 0.1 || 1 : (high - low) * 0.05;
  return { low: low - room, high: high + room };
}

/// The point of a line next to a place, by bisection; -1 if it has none near: axes grow, except
/// over another tag, where all points are looked at.
export function nearest(x: Float64Array, place: number, isSorted: boolean): number {
  if (x.length === 0) return -1;
  if (!isSorted) {
    let best = -1;
    for (let at = 0; at < x.length; at++) {
      if (best < 0 || Math.abs(x[at]! - place) < Math.abs(x[best]! - place)) best = at;
    }
    return best;
  }
  let low = 0;
  let high = x.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle]! < place) low = middle + 1;
    else high = middle;
  }
  return low > 0 && place - x[low - 1]! < x[low]! - place ? low - 1 : low;
}

/// Lines as rows of text for other programs.
export function csv(lines: readonly Line[], x: string): string {
  const rows = [[x, "run", "value", "smoothed", "low", "high"].join(",")];
  for (const line of lines) {
    const name = /[",\n]/.test(line.label) ? `"${line.label.replaceAll('"', '""')}"` : line.label;
    for (let at = 0; at < line.x.length; at++) {
      const value = line.raw ? line.raw[at] : line.y[at];
      const rest = [line.raw ? line.y[at] : "", line.low?.[at] ?? "", line.high?.[at] ?? ""];
      rows.push([line.x[at], name, value, ...rest].join(","));
    }
  }
  return `${rows.join("\n")}\n`;
}

const FEW = 3;
const MOST_TICKS = 9;

/// Where a logarithmic axis has its marks: at powers of ten, at 1, 2 and 5 of each where those are
/// few, and evenly where there is hardly any.
export function logTicks(low: number, high: number): number[] {
  if (!(low > 0) || !(high > low) || !Number.isFinite(high)) return [];
  const first = Math.floor(Math.log10(low));
  const last = Math.ceil(Math.log10(high));
  const stride = Math.max(1, Math.ceil((last - first) / MOST_TICKS));
  const at = (factors: number[]) => {
    const found = [];
    for (let power = first; power <= last; power += stride) {
      for (const factor of factors) found.push(Number(`${factor}e${power}`));
    }
    return found.filter((tick) => tick >= low && tick <= high);
  };
  for (const factors of [[1], [1, 2, 5], [1, 2, 3, 4, 5, 6, 7, 8, 9]]) {
    const found = at(factors);
    if (found.length >= FEW) return found;
  }
  return [0.1, 0.5, 0.9].map((share) => Number((low + share * (high - low)).toPrecision(3)));
}

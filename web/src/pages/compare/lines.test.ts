import { expect, it } from "vitest";

import type { Series } from "../../api/series";
import { csv, linesOf, logTicks, nearest, xExtent, yExtent } from "./lines";

function series(run: number, values: number[], more: Partial<Series> = {}): Series {
  return {
    run,
    tag: "loss",
    total: values.length,
    restarts: [],
    steps: Float64Array.from(values.keys()),
    walls: Float64Array.from(values.keys(), (at) => 100 + 10 * at),
    values: Float32Array.from(values),
    means: Float32Array.from(values),
    xs: null,
    ...more,
  };
}

const look = { x: "step", smoothing: 0, spread: "std" } as const;
const named = (run: number) => `run ${run}`;
const black = () => "#000000";

it("draws a line for each run, over the axis that was chosen", () => {
  const [line] = linesOf([series(1, [1, 2, NaN])], { ...look, x: "relative" }, named, black, null);
  expect([...line!.x]).toEqual([0, 10, 20]);
  expect([line!.label, line!.raw, line!.hasGaps]).toEqual(["run 1", null, true]);
  const [over] = linesOf([series(1, [1], { xs: Float64Array.of(7) })], { ...look, x: "tag:n" }, named, black, null);
  expect([...over!.x]).toEqual([7]);
});

it("keeps what was logged beside what is smoothed", () => {
  const [line] = linesOf([series(1, [1, 2, 4])], { ...look, smoothing: 0.5 }, named, black, null);
  expect([...line!.raw!]).toEqual([1, 2, 4]);
  expect(line!.y[0]).toBe(1);
  expect(line!.y[2]).toBeLessThan(4);
});

it("smooths means, not extremes", () => {
  const logged = series(1, [-3, 3, -3, 3], { means: Float32Array.of(0, 0.1, 0, 0.1) });
  const [line] = linesOf([logged], { ...look, smoothing: 0.5 }, named, black, null);
  expect(Math.max(...line!.y)).toBeLessThan(0.1);
  expect(Math.max(...line!.raw!)).toBe(3);
});

it("draws groups as one line with a band", () => {
  const groups = [
    { label: "lr=1", colour: "#111111", runs: [1, 2] },
    { label: "lr=2", colour: "#222222", runs: [9] },
  ];
  const lines = linesOf([series(1, [1, 3]), series(2, [3, 5])], look, named, black, groups);
  expect(lines.map((line) => line.label)).toEqual(["lr=1 (2)"]);
  expect([...lines[0]!.y]).toEqual([2, 4]);
  expect([...lines[0]!.low!]).toEqual([1, 3]);
});

it("reaches as far as its lines; clipped, a spike does not count", () => {
  const values = Array.from({ length: 1000 }, (_, at) => (at === 500 ? 1e6 : Math.sin(at)));
  const lines = linesOf([series(1, values)], look, named, black, null);
  expect(xExtent(lines, false)).toEqual({ low: 0, high: 999 });
  expect(xExtent(lines, true).low).toBe(1);
  expect(yExtent(lines, 0, 999, false, false).high).toBeGreaterThan(1e6);
  expect(yExtent(lines, 0, 999, false, true).high).toBeLessThan(2);
  expect(yExtent(lines, 0, 100, false, false).high).toBeLessThan(2);
  expect(yExtent([], 0, 1, true, true)).toEqual({ low: 0.1, high: 1 });
});

it("finds the point next to the cursor", () => {
  const x = Float64Array.of(0, 10, 20);
  expect([-5, 4, 6, 14.9, 99].map((place) => nearest(x, place, true))).toEqual([0, 0, 1, 1, 2]);
  expect(nearest(Float64Array.of(5, 1, 9), 2, false)).toBe(1);
  expect(nearest(new Float64Array(), 1, true)).toBe(-1);
});

it("writes what it draws", () => {
  const lines = linesOf([series(1, [1, 2])], look, () => 'a,"b"', black, null);
  expect(csv(lines, "step")).toBe('step,run,value,smoothed,low,high\n0,"a,""b""",1,,,\n1,"a,""b""",2,,,\n');
});

it("marks a logarithmic axis at round numbers, however wide or narrow it is", () => {
  expect(logTicks(0.005, 20)).toEqual([0.01, 0.1, 1, 10]);
  expect(logTicks(0.15, 2.5)).toEqual([0.2, 0.5, 1, 2]);
  expect(logTicks(1.01, 1.02).length).toBe(3);
  expect(logTicks(1e-300, 1e300).length).toBeLessThan(12);
  expect([logTicks(0, 1), logTicks(NaN, 1), logTicks(2, 1)]).toEqual([[], [], []]);
});

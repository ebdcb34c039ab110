import { expect, it } from "vitest";

import type { Line } from "./lines";
import { gaps, svg, thinned } from "./paint";

function line(values: number[]): Line {
  const y = Float32Array.from(values);
  const x = Float64Array.from(values, (_, at) => at);
  return { key: "1", label: "a", colour: "#000000", x, y, raw: null, low: null, high: null, restarts: [], hasGaps: true };
}

const box = { left: 0, top: 0, width: 1000, height: 100 };
const same = (value: number) => value;

it("marks what is not finite from the first to the last, however many they are", () => {
  const values = Array.from({ length: 1000 }, (_, at) => (at < 300 || at > 900 ? NaN : 50));
  const found = gaps(line(values), box, same, same, 9);
  const places = found.map(({ x }) => x);
  expect(places[0]).toBe(0);
  expect(places.filter((x) => x < 300).at(-1)).toBeGreaterThan(290);
  expect(places.filter((x) => x > 300 && x <= 900)).toEqual([]);
  expect(places.at(-1)).toBeGreaterThan(990);
  expect(places.every((x, at) => at === 0 || x - places[at - 1]! >= 9)).toBe(true);
  // Where there was a value before, that is its height; else it lies near the floor.
  expect(found.at(-1)!.y).toBe(50);
  expect(found[0]!.y).toBe(94);
});

it("marks nothing where a line has no place on the axis", () => {
  expect(gaps(line([NaN, NaN]), box, () => NaN, same, 9)).toEqual([]);
  expect(gaps({ ...line([1, 2]), hasGaps: false }, box, same, same, 9)).toEqual([]);
});

it("leaves out bars that would lie upon each other", () => {
  expect(thinned([1, 2, 3, 10, NaN, 11, 14], 3)).toEqual([1, 10, 14]);
});

it("draws the marks in a drawing, too", () => {
  const part = (value: number) => value / 3;
  const drawn = svg("t", [line([1, NaN, 1])], part, part, { x: [], y: [] });
  expect(drawn).toMatch(/<path d="[^"]+" fill="#000000"\/>/);
});

import { expect, it } from "vitest";

import { byValue, distance, ofNumber, ofRuns, oklch } from "./colours";

it("knows white, black and a red", () => {
  expect(oklch(1, 0, 0)).toBe("#ffffff");
  expect(oklch(0, 0, 0)).toBe("#000000");
  expect(oklch(0.6279554, 0.2576833, 29.2338851)).toBe("#ff0000");
});

it("gives a run its colour, whoever else is there, and neighbours others", () => {
  expect(ofNumber(7, false)).toBe(ofNumber(7, false));
  const some = Array.from({ length: 20 }, (_, at) => ofNumber(at, true));
  expect(new Set(some).size).toBe(20);
});

it("tells runs that are compared apart, whatever their numbers are", () => {
  const sets = [[30, 29, 28, 27], [1, 21, 41, 61], [4, 11, 18, 101, 7, 216], [7, 31, 32, 33, 34, 35, 36]];
  for (const runs of sets) {
    for (const isDark of [false, true]) {
      const colours = runs.map(ofRuns(runs, isDark));
      const pairs = colours.flatMap((one, at) => colours.slice(0, at).map((other) => distance(one, other)));
      expect(Math.min(...pairs)).toBeGreaterThan(0.09);
    }
  }
});

it("keeps colours when runs come later, in any order, and as long as that can be those of the numbers", () => {
  const before = [12, 3, 32].map(ofRuns([12, 3, 32], false));
  expect([12, 3, 32].map(ofRuns([40, 32, 3, 60, 12], false))).toEqual(before);
  expect(ofRuns([3, 12], false)(3)).toBe(ofNumber(3, false));
  const many = Array.from({ length: 20 }, (_, at) => 5 * at);
  expect(new Set(many.map(ofRuns(many, true))).size).toBe(20);
  expect(ofRuns(Array.from({ length: 1000 }, (_, at) => at), false)(999)).toMatch(/^#/);
});

it("is seen on its ground", () => {
  const light = (colour: string) =>
    [1, 3, 5]
      .map((at) => parseInt(colour.slice(at, at + 2), 16) / 255)
      .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4))
      .reduce((sum, x, at) => sum + x * [0.2126, 0.7152, 0.0722][at]!, 0);
  for (let number = 0; number < 20; number++) {
    expect(1.05 / (light(ofNumber(number, false)) + 0.05)).toBeGreaterThan(3);
    expect((light(ofNumber(number, true)) + 0.05) / (light("#161920") + 0.05)).toBeGreaterThan(3);
  }
});

it("gives numbers a ramp, by their logarithm where they span it", () => {
  const colour = byValue([1e-4, 1e-3, 1e-2], false);
  expect(colour(1e-3)).toBe(byValue([0, 1, 2], false)(1));
  expect(colour(1e-4)).not.toBe(colour(1e-2));
});

it("gives words colours apart, the same in any order, and grey to what is missing", () => {
  const colour = byValue(["sgd", "adam", null], false);
  expect(colour("adam")).toBe(byValue(["adam", "sgd"], false)("adam"));
  expect(colour("adam")).not.toBe(colour("sgd"));
  expect(colour(null)).toBe("#9aa0ad");
});

import { expect, it } from "vitest";

import { byValue, ofNumber, oklch } from "./colours";

it("knows white, black and a red", () => {
  expect(oklch(1, 0, 0)).toBe("#ffffff");
  expect(oklch(0, 0, 0)).toBe("#000000");
  expect(oklch(0.6279554, 0.2576833, 29.2338851)).toBe("#ff0000");
});

it("gives a run its colour, whoever else is there, and neighbours others", () => {
  expect(ofNumber(7, false)).toBe(ofNumber(7, false));
  const some = Array.from({ length: 24 }, (_, at) => ofNumber(at, true));
  expect(new Set(some).size).toBe(24);
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

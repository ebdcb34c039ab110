import { expect, it } from "vitest";

import { axis, nameOf } from "./field";

it("puts numbers on a line, by their logarithm where they span it", () => {
  const plain = axis([0, 5, 10, null]);
  expect([plain.at(0), plain.at(5), plain.at(10), plain.at(null), plain.at(NaN)]).toEqual([0, 0.5, 1, null, null]);
  expect(axis([1e-4, 1e-2]).at(1e-3)).toBeCloseTo(0.5);
  expect(axis([3, 3]).at(3)).toBe(0.5);
});

it("marks few values themselves, and many where it is even", () => {
  const texts = (values: number[]) => axis(values).ticks.map((tick) => tick.text);
  expect(texts([128, 32, 64, 32])).toEqual(["32", "64", "128"]);
  expect(texts([0, 1, 1.01, 50, 100])).toEqual(["0", "50", "100"]);
  expect(texts(Array.from({ length: 11 }, (_, at) => at))).toEqual(["0", "2.5", "5", "7.5", "10"]);
  expect(texts([3, 3])).toEqual(["3"]);
});

it("puts words one above the other", () => {
  const words = axis(["sgd", "adam", "sgd", true]);
  expect(words.ticks.map((tick) => tick.text)).toEqual(["adam", "sgd", "true"]);
  expect(words.at("sgd")).toBe(0.5);
});

it("knows a column by its last name", () => {
  expect(["hparams.lr", "metrics.val/loss", "metrics.loss.last"].map(nameOf)).toEqual(["lr", "val/loss", "loss"]);
});

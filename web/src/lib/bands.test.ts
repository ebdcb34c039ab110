import { expect, it } from "vitest";

import { band, groupRuns, isSeed } from "./bands";

const steps = Float64Array.of(0, 1, 2);
const one = { x: steps, y: Float32Array.of(1, 2, 3) };
const other = { x: Float64Array.from(steps), y: Float32Array.of(3, NaN, 5) };

it("puts curves over the same steps together there", () => {
  const std = band([one, other], "std");
  expect([...std.mean]).toEqual([2, 2, 4]);
  expect([...std.low]).toEqual([1, 2, 3]);
  expect([...std.high]).toEqual([3, 2, 5]);
  const range = band([one, other], "minmax");
  expect([...range.low]).toEqual([1, 2, 3]);
  expect([...range.high]).toEqual([3, 2, 5]);
});

it("puts others together on a grid, each where it is", () => {
  const short = { x: Float64Array.of(0, 10), y: Float32Array.of(0, 10) };
  const long = { x: Float64Array.of(5, 20), y: Float32Array.of(5, 20) };
  const { x, mean, low, high } = band([short, long], "minmax");
  expect([x[0], x.at(-1)]).toEqual([0, 20]);
  for (let i = 0; i < x.length; i++) {
    expect(mean[i]).toBeCloseTo(x[i]!, 4);
    expect(low[i]).toBeCloseTo(x[i]!, 4);
    expect(high[i]).toBeCloseTo(x[i]!, 4);
  }
});

it("has nothing to say of no curves", () => {
  expect(band([], "std").x.length).toBe(0);
});

it("groups by some hyperparameters, or by all but the seed", () => {
  const hparams: Record<number, Record<string, number | string>> = {
    1: { lr: 0.1, seed: 1, name: "x" },
    2: { lr: 0.1, seed: 2, name: "x" },
    3: { lr: 0.2, seed: 1, name: "x" },
  };
  const value = (run: number, name: string) => hparams[run]![name];
  const all = groupRuns([1, 2, 3], "all", value, ["lr", "seed", "name"]);
  expect([...all]).toEqual([
    ["lr=0.1", [1, 2]],
    ["lr=0.2", [3]],
  ]);
  expect([...groupRuns([1, 2, 3], ["seed"], value, []).values()]).toEqual([[1, 3], [2]]);
});

it("knows what only tells repetitions apart", () => {
  expect(["seed", "random_seed", "train.seed", "trial"].every(isSeed)).toBe(true);
  expect(["seeds_per_acre", "lr", "trials"].some(isSeed)).toBe(false);
});

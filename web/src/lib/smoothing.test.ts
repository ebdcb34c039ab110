import { describe, expect, it } from "vitest";

import { smooth } from "./smoothing";

/// TensorBoard's algorithm as its documentation has it, in doubles and without shortcuts.
function oracle(values: number[], weight: number): number[] {
  let last = values.length > 0 ? 0 : NaN;
  let counted = 0;
  const isConstant = values.every((value) => value === values[0]);
  return values.map((value) => {
    if (isConstant || !Number.isFinite(value)) return value;
    last = last * weight + (1 - weight) * value;
    counted++;
    return last / (weight === 1 ? 1 : 1 - Math.pow(weight, counted));
  });
}

const noisy = Array.from({ length: 3000 }, (_, at) => Math.sin(at / 50) + ((at * 7919) % 13) / 13);
const cases: Record<string, number[]> = {
  none: [],
  one: [3],
  constant: [2, 2, 2, 2],
  noisy,
  "with NaN": noisy.map((value, at) => (at % 10 === 3 ? NaN : value)),
  "with infinities": [1, Infinity, 2, -Infinity, 3],
  "NaN first": [NaN, 1, 2, 3],
};

describe("smoothing", () => {
  for (const [name, given] of Object.entries(cases)) {
    for (const weight of [0, 0.3, 0.6, 0.9, 0.99, 0.999]) {
      it(`of ${name} by ${weight} is TensorBoard's`, () => {
        const values = Float32Array.from(given);
        expect([...smooth(values, weight)]).toEqual([...Float32Array.from(oracle([...values], weight))]);
      });
    }
  }

  it("begins at the first value", () => {
    expect(smooth(Float32Array.of(5, 7), 0.99)[0]).toBeCloseTo(5, 5);
  });
});

import { expect, it } from "vitest";

import { differences } from "./diff";

it("what differs comes first, and what is missing differs", () => {
  const found = differences([
    { lr: 0.1, seed: 1, depth: 3 },
    { lr: 0.1, seed: 2 },
  ]);
  expect(found.map((row) => [row.name, row.isSame])).toEqual([
    ["depth", false],
    ["seed", false],
    ["lr", true],
  ]);
  expect(found[0]!.values).toEqual([3, undefined]);
});

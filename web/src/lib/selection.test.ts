import { expect, it } from "vitest";

import { extend, nothing, only, toggle, without } from "./selection";

const ids = (selection: { ids: ReadonlySet<number> }) => [...selection.ids].sort((a, b) => a - b);

it("a run is selected by one click and no longer by the next", () => {
  const one = toggle(nothing, 3);
  expect(ids(one)).toEqual([3]);
  expect(ids(toggle(one, 3))).toEqual([]);
  expect(ids(nothing)).toEqual([]);
});

it("a range becomes what its beginning is", () => {
  const begun = toggle(only([8]), 3);
  expect(ids(extend(begun, [3, 4, 5]))).toEqual([3, 4, 5, 8]);
  const off = toggle(only([3, 4, 5]), 4);
  expect(ids(extend(off, [4, 5]))).toEqual([3]);
});

it("what is gone is selected no more", () => {
  expect(ids(without(only([1, 2, 3]), [2, 9]))).toEqual([1, 3]);
});

import { expect, it } from "vitest";

import { compareNaturally } from "./natural";

it("numbers in names are compared as numbers", () => {
  const names = ["b", "epoch10.pt", "epoch12.pt", "epoch5.pt", "a/2/x", "a/10/x", "a/1"];
  expect(names.sort(compareNaturally)).toEqual(["a/1", "a/2/x", "a/10/x", "b", "epoch5.pt", "epoch10.pt", "epoch12.pt"]);
});

import { expect, it } from "vitest";

import { byNote } from "./table";

it("runs with the same note are changed together", () => {
  const notes = new Map([[1, "good"], [2, ""], [3, "good"]]);
  expect([...byNote(notes)]).toEqual([["good", [1, 3]], ["", [2]]]);
});

import { expect, it } from "vitest";

import { inOrder } from "./statuses";

it("what runs comes first, then what failed, and at the end what nobody knows", () => {
  const given = ["unknown", "finished", "lost", "failed", "running"].map((status) => ({ status }));
  expect(inOrder(given).map((each) => each.status)).toEqual(["running", "failed", "lost", "finished", "unknown"]);
});

import { expect, it } from "vitest";

import { only } from "../../lib/selection";
import { comeBack, leave } from "./left";

it("a selection is kept for every address, the place in the table for its own", () => {
  const selection = only([3, 4]);
  leave({ selection, query: "q=lr", cursor: 40, scroll: 900 });
  expect(comeBack("q=lr")).toEqual({ selection, query: "q=lr", cursor: 40, scroll: 900 });
  expect(comeBack("")).toEqual({ selection, query: "", cursor: 0, scroll: 0 });
});

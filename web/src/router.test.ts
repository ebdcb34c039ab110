import { expect, it } from "vitest";

import { match } from "./router";

it.each([
  ["/", "/", {}],
  ["/runs/7", "/runs/:run/:tab?", { run: "7" }],
  ["/runs/7/log", "/runs/:run/:tab?", { run: "7", tab: "log" }],
  ["/compare", "/compare", {}],
  ["/settings", "/settings/:tab?", {}],
  ["/board/a%20b", "/board/:board", { board: "a b" }],
])("%s is the page %s", (path, route, params) => {
  const found = match(path);
  expect([found?.route.path, found?.params]).toEqual([route, params]);
});

it.each(["/nothing", "/runs", "/runs/7/log/more", "/boards/12345678/"])("%s is no page of ours", (path) => {
  expect(match(path)).toBe(null);
});

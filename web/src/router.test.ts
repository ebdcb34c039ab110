import { expect, it } from "vitest";

import { match } from "./router";

it.each([
  ["/", "/", {}],
  ["/runs/7", "/runs/:run*", { run: "7" }],
  ["/runs/7/log", "/runs/:run*", { run: "7/log" }],
  ["/runs/exp8/run82", "/runs/:run*", { run: "exp8/run82" }],
  ["/runs/a%2Fb/c%20d/log", "/runs/:run*", { run: "a/b/c d/log" }],
  ["/compare", "/compare", {}],
  ["/settings", "/settings/:tab?", {}],
  ["/board/a%20b", "/board/:board", { board: "a b" }],
])("%s is the page %s", (path, route, params) => {
  const found = match(path);
  expect([found?.route.path, found?.params]).toEqual([route, params]);
});

it.each(["/nothing", "/runs", "/runs/", "/settings/a/b", "/boards/12345678/"])("%s is no page of ours", (path) => {
  expect(match(path)).toBe(null);
});

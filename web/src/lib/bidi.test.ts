import { expect, it } from "vitest";

import { isolated } from "./bidi";
import { fill } from "./i18n.svelte";

it("isolates names that turn the direction, and no others", () => {
  expect(isolated("run1")).toBe("run1");
  expect(isolated("a\u202eb")).toBe("\u2068a\u202eb\u2069");
  expect(isolated("مرحبا")).toBe("\u2068مرحبا\u2069");
  expect(isolated("a\u2069\u202eb")).toBe("\u2068a\u202eb\u2069");
});

it("does so in texts", () => {
  expect(fill("{name} was deleted.", { name: "a\u202eb" })).toBe("\u2068a\u202eb\u2069 was deleted.");
});

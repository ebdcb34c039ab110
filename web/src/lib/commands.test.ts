import { expect, it } from "vitest";

import { fitness } from "./commands.svelte";

it("what begins like what was typed fits better than what has its letters somewhere", () => {
  const texts = ["Go to Settings", "Theme: Dark", "Settings"];
  const best = texts.toSorted((a, b) => (fitness(b, "set") ?? -99) - (fitness(a, "set") ?? -99));
  expect(best[0]).toBe("Settings");
  expect(fitness("Theme: Dark", "thdk")).not.toBe(null);
  expect(fitness("Theme: Dark", "xyz")).toBe(null);
});

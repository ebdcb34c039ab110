import { expect, it } from "vitest";

import { en, type Key } from "../i18n/en";
import { zh } from "../i18n/zh";
import { fill } from "./i18n.svelte";

it("a text has forms for one and for many, and its values put in", () => {
  expect(fill("{n} run|{n} runs", { n: 1 })).toBe("1 run");
  expect(fill("{n} run|{n} runs", { n: 1200 })).toBe("1,200 runs");
  expect(fill("hello {name}", { name: "ada" })).toBe("hello ada");
});

it("both languages put in the same values", () => {
  const names = (text: string) => new Set([...text.matchAll(/\{(\w+)\}/g)].map((found) => found[1]));
  for (const key of Object.keys(en) as Key[]) expect([key, names(zh[key])]).toEqual([key, names(en[key])]);
});

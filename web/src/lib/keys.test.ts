import { expect, test } from "vitest";

import { answering, nameOf } from "./keys.svelte";

const list = [{ keys: "mod+k", always: true }, { keys: "mod+a" }, { keys: "x" }, { keys: "g r" }, { keys: "r" }];

test("a key is named with what is held", () => {
  const none = { shiftKey: false, ctrlKey: false, metaKey: false, altKey: false };
  expect(nameOf({ ...none, key: "a", ctrlKey: true })).toBe("mod+a");
  expect(nameOf({ ...none, key: "J", shiftKey: true })).toBe("shift+j");
  expect(nameOf({ ...none, key: "End" })).toBe("end");
});

test("who types, or has a window open, keeps all keys but those that are for everywhere", () => {
  expect(answering(list, "mod+a", "", false)?.keys).toBe("mod+a");
  expect(answering(list, "mod+a", "", true)).toBeUndefined();
  expect(answering(list, "x", "", true)).toBeUndefined();
  expect(answering(list, "mod+k", "", true)?.keys).toBe("mod+k");
});

test("two keys in a row come before one", () => {
  expect(answering(list, "r", "g", false)?.keys).toBe("g r");
  expect(answering(list, "r", "", false)?.keys).toBe("r");
});

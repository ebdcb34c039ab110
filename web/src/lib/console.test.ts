import { expect, it } from "vitest";

import { marked, matching, plainLines } from "./console";

it("colours are taken out and progress bars show their last state", () => {
  const text = "\u001b[31mred\u001b[0m\nepoch 1\repoch 2\repoch 3\n\u001b]0;title\u0007done\r\n";
  expect(plainLines(text)).toEqual(["red", "epoch 3", "done"]);
});

it("an open line at the end is a line", () => {
  expect(plainLines("a\nb")).toEqual(["a", "b"]);
  expect(plainLines("")).toEqual([]);
});

it("texts are found whatever their case", () => {
  expect(matching(["Loss 1", "acc", "loss 2"], "LOSS")).toEqual([0, 2]);
  expect(marked("loss LOSS", "loss")).toEqual(["", "loss", " ", "LOSS", ""]);
  expect(marked("loss", "")).toEqual(["loss"]);
});

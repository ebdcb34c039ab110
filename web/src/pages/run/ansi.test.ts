import { expect, it } from "vitest";

import { marked, plainLines } from "../../lib/console";
import { beginnings, cut, rawLines, styled, type Piece } from "./ansi";

function shown(text: string): Piece[][] {
  const lines = rawLines(text);
  const begins = beginnings(lines);
  return lines.map((line, at) => styled(line, begins[at]));
}

it("has the sixteen colours and bold", () => {
  expect(shown("a\u001b[31mred\u001b[0m b\u001b[1;92mgood\u001b[22m!\u001b[39m.")).toEqual([
    [
      { text: "a", style: "" },
      { text: "red", style: "red" },
      { text: " b", style: "" },
      { text: "good", style: "bright-green bold" },
      { text: "!", style: "bright-green" },
      { text: ".", style: "" },
    ],
  ]);
  expect(shown("\u001b[38;5;1ma\u001b[38;5;12mb\u001b[38;2;1;31;32mc\u001b[48;5;31md\u001b[mz")[0]).toEqual([
    { text: "a", style: "red" },
    { text: "b", style: "bright-blue" },
    { text: "c", style: "" },
    { text: "d", style: "" },
    { text: "z", style: "" },
  ]);
});

it("keeps the blanks between colours", () => {
  expect(shown("\u001b[31ma\u001b[0m  \u001b[32mb\u001b[0m")[0]!.map(({ text }) => text)).toEqual(["a", "  ", "b"]);
});

it("keeps a colour over lines, and shows the last state of a line", () => {
  expect(shown("\u001b[31mone\ntwo\n\u001b[0m10%\r\u001b[32m20%\r\nend")).toEqual([
    [{ text: "one", style: "red" }],
    [{ text: "two", style: "red" }],
    [{ text: "20%", style: "green" }],
    [{ text: "end", style: "green" }],
  ]);
});

it("says what the plain lines say, whatever a program prints", () => {
  const text = "\u001b]0;a\nb\u0007x\n\u001b[2K\u001b[1A\u001b[33;1m<b>&\u001b[0K\u0007\n\r\n\u001b[31m\u001b[0m\nlast\u001b[";
  expect(shown(text).map((line) => line.map((piece) => piece.text).join(""))).toEqual(plainLines(text));
});

it("is cut where matches are", () => {
  const pieces = [{ text: "lo", style: "red" }, { text: "ss loss", style: "" }];
  expect(cut(pieces, marked("loss loss", "ss l")).map(({ text, isHit }) => [text, isHit])).toEqual([
    ["lo", false],
    ["ss l", true],
    ["oss", false],
  ]);
  expect(cut(pieces, ["loss loss"]).length).toBe(2);
  expect(cut([], [""])).toEqual([]);
});

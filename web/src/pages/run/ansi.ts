/// The colours of a console: the sixteen every terminal has, and bold. Others are left out, as is
/// everything else that a terminal would obey. What is made are texts and names of classes. Pure.

import { CONTROLS } from "../../lib/console";

export interface Piece {
  text: string;
  /// Classes: "red", "green bold"; empty for what is plain.
  style: string;
}

interface State {
  colour: string;
  isBold: boolean;
}

const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const STYLES = /\u001b\[([0-9;]*)m/g;
// Everything but styles; some of these reach over the end of a line.
const OTHERS = /\u001b(?:\[[0-9;?]*[ -/]*[@-ln-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;
const PLAIN: State = { colour: "", isBold: false };

/// A console's lines with their styles still in them, as many as `plainLines` has.
export function rawLines(text: string): string[] {
  const lines = text.replace(OTHERS, "").split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/// How each line begins: a style lasts until another takes its place, over any number of lines.
export function beginnings(lines: readonly string[]): State[] {
  let state = PLAIN;
  return lines.map((line) => {
    const begin = state;
    state = after(state, line);
    return begin;
  });
}

function after(state: State, line: string): State {
  if (!line.includes("\u001b")) return state;
  for (const [, codes] of line.matchAll(STYLES)) state = applied(state, codes!);
  return state;
}

/// A line as `plainLines` has it, in pieces of one style each.
export function styled(line: string, begin: State = PLAIN): Piece[] {
  const states = line.split("\r");
  const at = states.findLastIndex((each) => each.replace(STYLES, "").trim() !== "");
  if (at < 0) return [];
  let state = after(begin, states.slice(0, at).join(""));
  const pieces: Piece[] = [];
  // A text and the codes behind it in turn.
  states[at]!.split(STYLES).forEach((part, index) => {
    if (index % 2) state = applied(state, part);
    else pieces.push({ text: part.replace(CONTROLS, ""), style: classes(state) });
  });
  return pieces.filter(({ text }) => text !== "");
}

function applied(state: State, codes: string): State {
  let { colour, isBold } = state;
  const numbers = codes.split(";").map(Number);
  for (let at = 0; at < numbers.length; at++) {
    const code = numbers[at]!;
    if (code === 0) [colour, isBold] = ["", false];
    else if (code === 1) isBold = true;
    else if (code === 22) isBold = false;
    else if (code === 39) colour = "";
    else if (code >= 30 && code <= 37) colour = COLOURS[code - 30]!;
    else if (code >= 90 && code <= 97) colour = `bright-${COLOURS[code - 90]!}`;
    else if (code === 38 || code === 48) {
      // Of 256 the first sixteen are these; what follows belongs to it in any case.
      const isIndex = numbers[at + 1] === 5;
      const index = numbers[at + 2] ?? 0;
      if (code === 38) colour = isIndex && index < 16 ? `${index < 8 ? "" : "bright-"}${COLOURS[index % 8]!}` : "";
      at += isIndex ? 2 : 4;
    }
  }
  return { colour, isBold };
}

function classes({ colour, isBold }: State): string {
  return [colour, isBold ? "bold" : ""].filter(Boolean).join(" ");
}

/// Pieces of style cut where matches begin and end; of `marked`, every other part is a match.
export function cut(pieces: readonly Piece[], marked: readonly string[]): (Piece & { isHit: boolean })[] {
  const found: (Piece & { isHit: boolean })[] = [];
  let part = 0;
  let left = marked[0]?.length ?? 0;
  for (const { text, style } of pieces) {
    let at = 0;
    while (at < text.length) {
      while (left === 0 && part < marked.length - 1) left = marked[++part]!.length;
      const length = left > 0 ? Math.min(left, text.length - at) : text.length - at;
      found.push({ text: text.slice(at, at + length), style, isHit: part % 2 === 1 });
      at += length;
      left -= length;
    }
  }
  return found;
}

/// Sentences of the hub as they are shown: the hint apart from what it is about, commands as code. Pure.

export interface Part {
  text: string;
  isCode: boolean;
}

export interface Message {
  what: Part[];
  hint: Part[];
}

// Where a hint begins, in the languages of the hub.
const HINT = /(?:^|\s)hint: |(?:^|(?<=。))提示：/;
const PATH = /(?:[a-z0-9]+:\/)?(?:\/[^\s/:：，,;]+)+\/([^\s/:：，,;]+)/gi;

export function parseMessage(text: string): Message {
  const found = HINT.exec(text);
  if (found === null) return { what: parts(text), hint: [] };
  return { what: parts(text.slice(0, found.index)), hint: parts(text.slice(found.index + found[0].length)) };
}

/// A message where there is little room: without its hint, and of paths only the ends, but commands whole.
export function brief(text: string): string {
  const { what } = parseMessage(text);
  return what.map((part) => (part.isCode ? part.text : part.text.replace(PATH, "…/$1"))).join("");
}

function parts(text: string): Part[] {
  return text
    .split(/(`[^`]+`)/)
    .filter(Boolean)
    .map((part) => (/^`[^`]+`$/.test(part) ? { text: part.slice(1, -1), isCode: true } : { text: part, isCode: false }));
}

/// Sentences of the hub as they are shown: the hint apart from what it is about, commands as code. Pure.

export interface Part {
  text: string;
  isCode: boolean;
}

export interface Message {
  what: Part[];
  hint: Part[];
}

export function parseMessage(text: string): Message {
  const at = text.search(/(?:^|\s)hint: /);
  if (at < 0) return { what: parts(text), hint: [] };
  return { what: parts(text.slice(0, at)), hint: parts(text.slice(at).trim().slice("hint: ".length)) };
}

/// A message where there is little room: without its hint, and of paths only the ends.
export function brief(text: string): string {
  const { what } = parseMessage(text);
  const said = what.map((part) => part.text).join("");
  return said.replace(/(?:[a-z0-9]+:\/)?(?:\/[^\s/:：，,;]+)+\/([^\s/:：，,;]+)/gi, "…/$1");
}

function parts(text: string): Part[] {
  return text
    .split(/(`[^`]+`)/)
    .filter(Boolean)
    .map((part) => (/^`[^`]+`$/.test(part) ? { text: part.slice(1, -1), isCode: true } : { text: part, isCode: false }));
}

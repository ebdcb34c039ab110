/// What a program has printed, as lines of plain text: colours are taken out, and of a line that was
/// written over (a progress bar) the last state is kept. Pure.

const ESCAPES = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;
/// What a line has besides its text once everything that a terminal obeys is out of it.
export const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001a\u001c-\u001f\u007f]/g;

export function plainLines(text: string): string[] {
  const lines = text.replace(ESCAPES, "").split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines.map((line) => {
    const states = line.split("\r");
    const last = states.findLast((state) => state.trim() !== "") ?? "";
    return last.replace(CONTROLS, "");
  });
}

/// Which lines have a text in them, upper and lower case alike.
export function matching(lines: string[], wanted: string): number[] {
  const text = wanted.toLowerCase();
  if (!text) return [];
  return lines.flatMap((line, at) => (line.toLowerCase().includes(text) ? [at] : []));
}

/// A line in parts, every other of which is a match.
export function marked(line: string, wanted: string): string[] {
  const text = wanted.toLowerCase();
  if (!text) return [line];
  const lower = line.toLowerCase();
  if (lower.length !== line.length) return [line]; // letters whose small form is longer
  const parts: string[] = [];
  let at = 0;
  for (let next = lower.indexOf(text); next >= 0; next = lower.indexOf(text, at)) {
    parts.push(line.slice(at, next), line.slice(next, next + text.length));
    at = next + text.length;
  }
  return [...parts, line.slice(at)];
}

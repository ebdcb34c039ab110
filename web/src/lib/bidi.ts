/// Names that turn the direction of a line, in a text: what stands beside them stays as it is. Pure.

const TURNS = /[\u0590-\u08ff\u200e\u200f\u202a-\u202e\u2066-\u2069\ufb1d-\ufdff\ufe70-\ufeff]/;

/// A name with an isolate around it, where it has characters that need one. What it opens itself and
/// does not close would reach beyond the isolate only if it closed ours first.
export function isolated(name: string): string {
  return TURNS.test(name) ? `\u2068${name.replace(/[\u2066-\u2069]/g, "")}\u2069` : name;
}

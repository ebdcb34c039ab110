/// The order of names with numbers in them: epoch5 before epoch10. Pure.

// The same order in every language, so that a list is the same for all who look at it.
const order = new Intl.Collator("en", { numeric: true });

export function compareNaturally(one: string, other: string): number {
  return order.compare(one, other) || (one < other ? -1 : one > other ? 1 : 0);
}

/// The order in which statuses are told: what goes on, what went wrong, what is over. Pure.

const ORDER = ["running", "queued", "starting", "failed", "lost", "killed", "finished"];

export function inOrder<T extends { status: string }>(counts: T[]): T[] {
  const rank = ({ status }: T) => (ORDER.includes(status) ? ORDER.indexOf(status) : ORDER.length);
  return [...counts].sort((a, b) => rank(a) - rank(b));
}

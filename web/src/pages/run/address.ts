/// Which run and which section an address of a run may mean. Pure.

export const sections = ["overview", "log", "code", "files", "system"] as const;

/// One way to read what follows `/runs/` in an address.
export interface Reading {
  /// A number, or a name.
  run: number | string;
  tab?: string;
}

/// The readings of an address, the preferred one first. A name may contain slashes: `run82/log` is the
/// run that is called so, otherwise the console of run82. `303/log` is always that of the run with the
/// number, and other text behind a number is a section that does not exist, unless a run is called so.
export function readingsOf(address: string): Reading[] {
  const slash = address.lastIndexOf("/");
  const before = address.slice(0, Math.max(slash, 0));
  const last = address.slice(slash + 1);
  const isSection = (sections as readonly string[]).includes(last);
  const whole = numberOf(address);
  if (whole) return [{ run: whole }];
  const number = numberOf(before);
  if (number && isSection) return [{ run: number, tab: last }];
  const readings: Reading[] = [{ run: address }];
  if (number) readings.push({ run: number, tab: last });
  else if (before && isSection) readings.push({ run: before, tab: last });
  return readings;
}

/// The number that a text is; 0 if it is none that a run can have.
function numberOf(text: string): number {
  return /^\d{1,15}$/.test(text) ? Number(text) : 0;
}

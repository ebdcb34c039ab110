/// What the command palette offers: pages say what can be done on them while they are shown.

import { onDestroy } from "svelte";

import type { Icon } from "../ui/icons";

export interface Command {
  id: string;
  label: () => string;
  run: () => void;
  icon?: Icon;
  keys?: string;
  /// More words it is found by.
  words?: string;
  isOff?: () => boolean;
}

const all = $state<{ list: Command[] }>({ list: [] });

export function commands(): Command[] {
  return all.list.filter((each) => !each.isOff?.());
}

/// Offers these for as long as the component that calls this is there.
export function useCommands(...mine: Command[]): void {
  all.list = [...all.list, ...mine];
  const ids = new Set(mine.map((each) => each.id));
  onDestroy(() => {
    all.list = all.list.filter((each) => !ids.has(each.id));
  });
}

/// How well a text fits what was typed, the letters in their order; null if not at all.
export function fitness(text: string, typed: string): number | null {
  const lower = text.toLowerCase();
  const wanted = typed.toLowerCase().replaceAll(" ", "");
  if (!wanted) return 0;
  const whole = lower.indexOf(typed.toLowerCase().trim());
  if (whole >= 0) return whole === 0 || /\W/.test(lower[whole - 1]!) ? 100 - whole : 60 - whole;
  let score = 0;
  let at = -1;
  for (const letter of wanted) {
    const next = lower.indexOf(letter, at + 1);
    if (next < 0) return null;
    score += next === at + 1 ? 2 : next === 0 || /\W/.test(lower[next - 1]!) ? 1 : -1;
    at = next;
  }
  return score;
}

/// Keyboard shortcuts: who is on the page says which keys it answers to, and the help shows them.
/// A shortcut is one key ("/", "shift+x") or two in a row ("g r"). While somebody types, or has a
/// window open, keys are theirs: only a shortcut that says so answers then.

import { onDestroy } from "svelte";

export interface Shortcut {
  keys: string;
  /// What it does, and the heading it stands under in the help.
  what: () => string;
  group: () => string;
  run: (event: KeyboardEvent) => void;
  /// Not in the help: another way of writing one that is.
  hidden?: boolean;
  /// Answers in fields and open windows, too.
  always?: boolean;
  /// Does not answer, and is not in the help.
  isOff?: () => boolean;
}

const all = $state<{ list: Shortcut[] }>({ list: [] });
let first = "";
let firstAt = 0;

export function shortcuts(): Shortcut[] {
  return all.list.filter((each) => !each.isOff?.());
}

/// Answers to these keys for as long as the component that calls this is there.
export function useShortcuts(...mine: Shortcut[]): void {
  all.list = [...all.list, ...mine];
  onDestroy(() => {
    all.list = all.list.filter((each) => !mine.some((own) => own.keys === each.keys && own.run === each.run));
  });
}

/// A key press in the words of shortcuts.
export function nameOf(event: Pick<KeyboardEvent, "key" | "shiftKey" | "ctrlKey" | "metaKey" | "altKey">): string {
  const key = event.key === " " ? "space" : event.key.length === 1 ? event.key : event.key.toLowerCase();
  const isLetter = /^[a-z]$/i.test(key);
  const parts = [];
  if (event.ctrlKey || event.metaKey) parts.push("mod");
  if (event.altKey) parts.push("alt");
  // What shift does to other signs is in the sign.
  if (event.shiftKey && (isLetter || key.length > 1)) parts.push("shift");
  parts.push(isLetter ? key.toLowerCase() : key);
  return parts.join("+");
}

export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target instanceof HTMLTextAreaElement) return true;
  if (target instanceof HTMLSelectElement) return true;
  return target instanceof HTMLInputElement && !["checkbox", "radio", "button", "range"].includes(target.type);
}

/// What has the focus uses this key itself: a button is pressed by Enter and the space bar. The boxes of
/// lines, which are not reached by Tab, follow the cursor.
function isPressing(pressed: string, target: EventTarget | null): boolean {
  if (!["enter", "space"].includes(pressed) || !(target instanceof Element)) return false;
  return target.closest("a[href], button, summary, input:not([tabindex='-1'])") !== null;
}

/// Whether something lies over the page that keys are meant for.
function isInWindow(target: EventTarget | null): boolean {
  if (document.querySelector("dialog[open]")) return true;
  return target instanceof Element && target.closest("[role=dialog], [role=menu]") !== null;
}

/// The shortcut that answers to a key, the one before it being `before`; the latest that was made.
export function answering<T extends Pick<Shortcut, "keys" | "always">>(
  list: T[],
  pressed: string,
  before: string,
  isTheirs: boolean,
): T | undefined {
  const among = isTheirs ? list.filter((each) => each.always) : list;
  const both = before && `${before} ${pressed}`;
  return among.findLast((each) => each.keys === both) ?? among.findLast((each) => each.keys === pressed);
}

/// The one listener of the page.
export function onKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing) return;
  const pressed = nameOf(event);
  const isTheirs = isTyping(event.target) || isInWindow(event.target) || isPressing(pressed, event.target);
  const found = answering(shortcuts(), pressed, event.timeStamp - firstAt < 1200 ? first : "", isTheirs);
  first = found || isTheirs ? "" : pressed;
  firstAt = event.timeStamp;
  if (!found) return;
  event.preventDefault();
  found.run(event);
}

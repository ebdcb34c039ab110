/// Keyboard shortcuts: who is on the page says which keys it answers to, and the help shows them.
/// A shortcut is one key ("/", "shift+x") or two in a row ("g r"); none fires while somebody types.

import { onDestroy } from "svelte";

export interface Shortcut {
  keys: string;
  /// What it does, and the heading it stands under in the help.
  what: () => string;
  group: () => string;
  run: (event: KeyboardEvent) => void;
  /// Not in the help: another way of writing one that is.
  hidden?: boolean;
}

const all = $state<{ list: Shortcut[] }>({ list: [] });
let first = "";
let firstAt = 0;

export function shortcuts(): Shortcut[] {
  return all.list;
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

/// The one listener of the page.
export function onKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing) return;
  const pressed = nameOf(event);
  const hasModifier = pressed.startsWith("mod+");
  if (!hasModifier && (isTyping(event.target) || document.querySelector("dialog[open]"))) return;
  const both = event.timeStamp - firstAt < 1200 && first ? `${first} ${pressed}` : "";
  const found =
    all.list.findLast((each) => each.keys === both) ??
    all.list.findLast((each) => each.keys === pressed);
  first = found ? "" : pressed;
  firstAt = event.timeStamp;
  if (!found) return;
  event.preventDefault();
  found.run(event);
}

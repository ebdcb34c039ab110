/// Where the page is: the address as state. Links are followed without loading the page anew, when
/// they lead to one of our routes; all others are the browser's.

import { base } from "../api/client";
import { match, type Match } from "../router";

class Place {
  path = $state("/");
  query = $state.raw(new URLSearchParams());
  found = $state.raw<Match | null>(null);

  constructor() {
    if (typeof window === "undefined") return;
    this.#read();
    addEventListener("popstate", () => this.#read());
  }

  #read(): void {
    this.path = location.pathname.slice(base.length) || "/";
    this.query = new URLSearchParams(location.search);
    this.found = match(this.path);
  }

  /// Goes to a path below the base, with its query.
  go(to: string, how: { replace?: boolean } = {}): void {
    const where = base + to;
    if (where === location.pathname + location.search) return;
    const changesPage = new URL(where, location.origin).pathname !== location.pathname;
    history[how.replace ? "replaceState" : "pushState"](null, "", where);
    this.#read();
    if (changesPage) document.getElementById("main")?.scrollTo(0, 0);
  }

  /// Changes some of the query and keeps the rest; empty values are taken out.
  set(changes: Record<string, string | null | undefined>, how: { push?: boolean } = {}): void {
    const query = new URLSearchParams(this.query);
    for (const [name, value] of Object.entries(changes)) {
      if (value) query.set(name, value);
      else query.delete(name);
    }
    const text = query.toString();
    this.go(this.path + (text ? `?${text}` : ""), { replace: !how.push });
  }
}

export const place = new Place();

/// A click on a link that leads to a page of ours is followed here.
export function follow(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element).closest("a");
  if (!link || link.target || link.hasAttribute("download")) return;
  const to = new URL(link.href);
  if (to.origin !== location.origin || !to.pathname.startsWith(`${base}/`)) return;
  const path = to.pathname.slice(base.length);
  // A board's own pages are TensorBoard's, and end with a slash or have more behind it.
  if (path.startsWith("/boards/") || match(path) === null) return;
  event.preventDefault();
  place.go(path + to.search);
}

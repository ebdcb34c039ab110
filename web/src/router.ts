/// Which address shows which page. Routes are data; pages are loaded when they are first visited.

import type { Component } from "svelte";

import { base } from "./api/client";
import type { Icon } from "./ui/icons";
import type { Key } from "./i18n/en";

/// A page takes the `params` of its address, or nothing.
export type Page = Component<any>;

export interface Route {
  /// `:name` is any one part, `:name?` one that may be missing, `:name*` all that are left, at least one.
  path: string;
  title: Key;
  load: () => Promise<{ default: Page }>;
  /// Where it stands in the navigation, if it does.
  nav?: { icon: Icon; keys: string };
  /// The entry of the navigation it belongs to.
  within?: string;
}

export const routes: Route[] = [
  {
    path: "/",
    title: "nav.runs",
    load: () => import("./pages/runs/index.svelte"),
    nav: { icon: "runs", keys: "g r" },
  },
  {
    path: "/runs/:run*",
    title: "nav.runs",
    load: () => import("./pages/run/index.svelte"),
    within: "/",
  },
  {
    path: "/compare",
    title: "nav.compare",
    load: () => import("./pages/compare/index.svelte"),
    nav: { icon: "compare", keys: "g c" },
  },
  {
    path: "/boards",
    title: "nav.boards",
    load: () => import("./pages/boards/index.svelte"),
    nav: { icon: "boards", keys: "g b" },
  },
  {
    path: "/board/:board",
    title: "nav.boards",
    load: () => import("./pages/board/index.svelte"),
    within: "/boards",
  },
  {
    path: "/settings/:tab?",
    title: "nav.settings",
    load: () => import("./pages/settings/index.svelte"),
    nav: { icon: "settings", keys: "g s" },
  },
];

export interface Match {
  route: Route;
  params: Record<string, string>;
}

/// The route of a path below the hub's base.
export function match(path: string, among: Route[] = routes): Match | null {
  const parts = path.split("/").filter(Boolean);
  for (const route of among) {
    const params = fit(route.path.split("/").filter(Boolean), parts);
    if (params !== null) return { route, params };
  }
  return null;
}

function fit(pattern: string[], parts: string[]): Record<string, string> | null {
  const hasRest = pattern.at(-1)?.endsWith("*");
  if (parts.length > pattern.length && !hasRest) return null;
  const params: Record<string, string> = {};
  for (const [at, wanted] of pattern.entries()) {
    const part = parts[at];
    if (!wanted.startsWith(":")) {
      if (part !== wanted) return null;
    } else if (part === undefined) {
      if (!wanted.endsWith("?")) return null;
    } else if (wanted.endsWith("*")) {
      params[wanted.slice(1, -1)] = parts.slice(at).map(decodeURIComponent).join("/");
    } else {
      params[wanted.slice(1).replace(/\?$/, "")] = decodeURIComponent(part);
    }
  }
  return params;
}

/// An address as it stands in a link.
export function href(path: string, query: Record<string, string | undefined> = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) search.set(name, value);
  const text = search.toString();
  return `${base}${path}${text ? `?${text}` : ""}`;
}

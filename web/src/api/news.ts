/// What changes, as it changes: the hub's stream of events, one for the page, shared by all who
/// listen. It rests while nobody looks at the page, because a browser keeps few connections to one
/// place; whoever listens is then told that anything may have changed.

import { base } from "./client";
import { connection } from "./connection.svelte";

export type Kind = "board" | "runs" | "experiments" | "hello";
/// `Event` of the hub's models: what has changed, to be asked for anew.
export interface News {
  kind: Kind;
  id: string | null;
  data: Record<string, unknown>;
}
type Listener = (news: News) => void;

const KINDS: Kind[] = ["board", "runs", "experiments", "hello"];
const listeners = new Set<Listener>();
let source: EventSource | null = null;
let isFirst = true;

/// Calls back for every event of these kinds, and for `hello` when some may have been missed.
/// Returns what ends it.
export function listen(kinds: Exclude<Kind, "hello">[], told: Listener): () => void {
  const wanted: string[] = [...kinds, "hello"];
  const listener: Listener = (news) => {
    if (wanted.includes(news.kind)) told(news);
  };
  listeners.add(listener);
  connect();
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) disconnect();
  };
}

function connect(): void {
  if (source !== null || document.hidden) return;
  const mine = (source = new EventSource(`${base}/api/v1/events`));
  // A browser tries again where nobody answers, and gives up where a proxy says that nobody does;
  // neither tells that the hub is away.
  mine.onerror = () => {
    mine.close();
    if (mine !== source) return;
    source = null;
    isFirst = false; // whatever happened meanwhile was missed
    connection.whenBack(() => listeners.size > 0 && connect());
  };
  for (const kind of KINDS) {
    source.addEventListener(kind, (event) => {
      // The first greeting tells nothing that has not just been asked for.
      const wasFirst = isFirst;
      isFirst = false;
      if (kind === "hello" && wasFirst) return;
      const news = JSON.parse((event as MessageEvent<string>).data) as News;
      for (const listener of [...listeners]) listener(news);
    });
  }
}

function disconnect(): void {
  source?.close();
  source = null;
}

if (typeof document !== "undefined") {
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) disconnect();
    else if (listeners.size > 0) connect();
  });
}

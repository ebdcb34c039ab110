/// All boards that may be seen, the newest first. What the news name is asked for by itself: a list
/// costs the hub as much as its boards, and everybody who looks would ask for it.

import { api, Problem } from "../../api/client";
import type { News } from "../../api/news";
import { Resource } from "../../api/resource.svelte";
import { type Board, type Boards, withBoard } from "./states";

export const LIMIT = 1000;
const SOON = 100; // milliseconds, in which more may change
const FEW = 8; // boards that are asked for one by one

export class BoardList extends Resource<Boards> {
  readonly #changed = new Map<string, boolean>(); // by id, whether it is gone
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    super((signal) => api.get("/api/v1/boards", { query: { all: true, limit: LIMIT }, signal }));
  }

  /// Something has changed: a board, or nobody knows what. However much does, it is soon shown.
  note(news: News): void {
    this.#changed.set(news.id ?? "", news.data.deleted === true);
    this.#timer ??= setTimeout(() => void this.#refresh(), SOON);
  }

  /// Nobody looks any more.
  close(): void {
    clearTimeout(this.#timer);
  }

  async #refresh(): Promise<void> {
    this.#timer = undefined;
    const changed = [...this.#changed];
    this.#changed.clear();
    const before = this.value;
    const isMuch = changed.length > FEW || changed.some(([id]) => id === "");
    if (!before || this.isLoading || isMuch) return this.load();
    const found = await Promise.all(changed.map(([id, isGone]) => (isGone ? null : ask(id))));
    if (this.isLoading) return; // all of them, since we have asked
    if (this.value !== before || found.includes(undefined)) return this.load();
    this.value = changed.reduce((list, [id], at) => withBoard(list, id, found[at] ?? null), before);
  }
}

/// A board; null if it is gone, undefined if nobody knows.
async function ask(id: string): Promise<Board | null | undefined> {
  try {
    return await api.get("/api/v1/boards/{board}", { path: { board: id } });
  } catch (error) {
    return error instanceof Problem && error.status === 404 ? null : undefined;
  }
}

/// Small curves of the runs in sight. They are asked for together, a moment after scrolling has come
/// to rest, and kept until a run has been written to again.

import { points } from "../../api/series";

export interface Points {
  x: ArrayLike<number>;
  y: ArrayLike<number>;
}

const POINTS = 60;
const REST = 120; // ms
const AGAIN = 1500; // ms until runs that are still being read are asked for anew
const MOST = 2000;

export class Sparks {
  #kept = $state.raw<ReadonlyMap<string, { version: unknown; points: Points | undefined }>>(new Map());
  #timer: ReturnType<typeof setTimeout> | undefined;
  #controller: AbortController | null = null;

  /// These runs, each with what tells whether it has news, are in sight.
  see(runs: { id: number; version: unknown }[], tags: string[]): void {
    if (tags.length === 0 || runs.length === 0) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#ask(runs, tags), REST);
  }

  of(id: number, tag: string): Points | undefined {
    return this.#kept.get(`${id} ${tag}`)?.points;
  }

  async #ask(runs: { id: number; version: unknown }[], tags: string[]): Promise<void> {
    const wanted = runs.filter(({ id, version }) => tags.some((tag) => this.#kept.get(`${id} ${tag}`)?.version !== version));
    if (wanted.length === 0) return;
    this.#controller?.abort();
    const controller = (this.#controller = new AbortController());
    try {
      const found = await points({ runs: wanted.map(({ id }) => id), tags, points: POINTS }, controller.signal);
      const kept = new Map(this.#kept.size > MOST ? [] : this.#kept);
      const loading = new Set(found.loading);
      for (const { id, version } of wanted) {
        for (const tag of tags) if (!loading.has(id)) kept.set(`${id} ${tag}`, { version, points: kept.get(`${id} ${tag}`)?.points });
      }
      for (const each of found.series) {
        const version = loading.has(each.run) ? undefined : wanted.find(({ id }) => id === each.run)?.version;
        kept.set(`${each.run} ${each.tag}`, { version, points: { x: each.steps, y: each.values } });
      }
      this.#kept = kept;
      if (loading.size > 0) this.#timer = setTimeout(() => void this.#ask(runs, tags), AGAIN);
    } catch {
      // A table without curves is a table; they are asked for again with the next rows.
    }
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#controller?.abort();
  }
}

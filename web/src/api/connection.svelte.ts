/// Whether the hub answers. Who was not answered says so; the hub is then asked, again and again, until
/// it is back, and whoever waits for that is told. A moment without an answer is nobody's business; a
/// few seconds are shown.

import { base } from "./client";

const PAUSE = 2000; // between two questions, in ms
const PATIENCE = 4000; // until it counts as lost

export class Connection {
  isLost = $state(false);
  #waiting = new Set<() => void>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #ask: () => Promise<boolean>;

  constructor(ask: () => Promise<boolean>) {
    this.#ask = ask;
  }

  /// Something was not answered: calls back, once, when the hub answers. Returns what gives that up.
  whenBack(told: () => void): () => void {
    this.#waiting.add(told);
    if (this.#timer === undefined) this.#later(Date.now());
    return () => this.#waiting.delete(told);
  }

  #later(since: number): void {
    this.#timer = setTimeout(() => void this.#look(since), PAUSE);
  }

  async #look(since: number): Promise<void> {
    if (!(await this.#ask())) {
      this.isLost = Date.now() - since >= PATIENCE;
      this.#later(since);
      return;
    }
    this.isLost = false;
    this.#timer = undefined;
    const told = [...this.#waiting];
    this.#waiting.clear();
    for (const each of told) each();
  }
}

/// A proxy in front of a hub that is not there answers, too: 502 and its like.
async function isThere(): Promise<boolean> {
  try {
    return (await fetch(`${base}/healthz`, { cache: "no-store" })).status < 500;
  } catch {
    return false;
  }
}

export const connection = new Connection(isThere);

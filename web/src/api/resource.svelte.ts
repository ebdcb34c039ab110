/// Something asked of the hub that a component shows: loading, there, or a problem. What was there
/// stays while it is asked for anew, so that nothing flickers; an older answer never replaces a
/// newer one. What the hub did not answer is asked for again when it is back.

import { Problem } from "./client";
import { connection } from "./connection.svelte";

export class Resource<T> {
  value = $state.raw<T | undefined>(undefined);
  problem = $state.raw<Problem | undefined>(undefined);
  isLoading = $state(false);
  #asked = 0;
  #controller: AbortController | null = null;
  readonly #ask: (signal: AbortSignal) => Promise<T>;

  constructor(ask: (signal: AbortSignal) => Promise<T>) {
    this.#ask = ask;
  }

  /// Asks anew; what was being asked is given up.
  async load(): Promise<void> {
    const mine = ++this.#asked;
    this.#controller?.abort();
    this.#controller = new AbortController();
    this.isLoading = true;
    try {
      const value = await this.#ask(this.#controller.signal);
      if (mine !== this.#asked) return;
      this.value = value;
      this.problem = undefined;
    } catch (error) {
      if (mine !== this.#asked) return;
      this.problem = asProblem(error);
      if (this.problem.isAway) connection.whenBack(() => mine === this.#asked && void this.load());
    } finally {
      if (mine === this.#asked) this.isLoading = false;
    }
  }

  /// Forgets what there was: something else is shown now.
  clear(): void {
    this.#asked++;
    this.#controller?.abort();
    this.value = undefined;
    this.problem = undefined;
    this.isLoading = false;
  }
}

export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(0, "page", error instanceof Error ? error.message : String(error));
}

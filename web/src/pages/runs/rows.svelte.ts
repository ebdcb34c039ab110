/// The rows of a table of runs, of which only those near the eye are known. They are asked for in
/// pieces; when something has changed the pieces that are shown are asked for anew, all together, and
/// replace the old ones at once. A row keeps its number, so that what is looked at can stay where it
/// is while others come and go.

import type { Problem } from "../../api/client";
import { asProblem } from "../../api/resource.svelte";
import { rows as ask, type Asked, type Rows } from "../../api/table";

export const PIECE = 100;
const ALL_AT_ONCE = 10_000;

export interface Row {
  id: number;
  name: string;
  get: (column: string) => unknown;
}

export class RunRows {
  /// How many there are; undefined until the first answer.
  total = $state.raw<number | undefined>(undefined);
  problem = $state.raw<Problem | undefined>(undefined);
  #pieces = $state.raw<ReadonlyMap<number, Rows>>(new Map());
  #asking = new Map<number, AbortController>();
  #asked: Asked;
  #columns: string[];
  #version = 0;
  #seen: [number, number] = [0, PIECE];

  constructor(asked: Asked, columns: string[]) {
    this.#asked = asked;
    this.#columns = columns;
  }

  at(index: number): Row | undefined {
    const piece = this.#pieces.get(Math.floor(index / PIECE));
    const within = index % PIECE;
    const id = piece?.columns.id[within];
    if (piece === undefined || id === undefined) return undefined;
    return { id, name: piece.columns.name[within]!, get: (column) => piece.columns[column]?.[within] };
  }

  /// Where a run is, among what is known.
  find(id: number): number | undefined {
    for (const [number, piece] of this.#pieces) {
      const within = piece.columns.id.indexOf(id);
      if (within >= 0) return number * PIECE + within;
    }
    return undefined;
  }

  /// These are about to be seen.
  see(from: number, to: number): void {
    this.#seen = [from, to];
    for (const number of this.#numbers()) {
      if (!this.#pieces.has(number) && !this.#asking.has(number)) void this.#load(number);
    }
  }

  #numbers(): number[] {
    const first = Math.max(0, Math.floor(this.#seen[0] / PIECE));
    const last = Math.floor(Math.max(0, Math.min(this.#seen[1], this.total ?? PIECE) - 1) / PIECE);
    return Array.from({ length: last - first + 1 }, (_, at) => first + at);
  }

  async #load(number: number): Promise<void> {
    const version = this.#version;
    const controller = new AbortController();
    this.#asking.set(number, controller);
    try {
      const piece = await ask(this.#asked, this.#columns, number * PIECE, PIECE, controller.signal);
      if (version !== this.#version) return;
      this.#pieces = new Map(this.#pieces).set(number, piece);
      this.total = piece.total;
      this.problem = undefined;
    } catch (error) {
      if (version === this.#version && !controller.signal.aborted) this.problem = asProblem(error);
    } finally {
      if (this.#asking.get(number) === controller) this.#asking.delete(number);
    }
  }

  /// Asks for what is shown anew, with these columns; `settle` is called right before the answers
  /// replace what there was and returns what is to be done right after.
  async refresh(settle?: () => () => void, columns = this.#columns): Promise<void> {
    const version = ++this.#version;
    for (const controller of this.#asking.values()) controller.abort();
    this.#asking.clear();
    this.#columns = columns;
    const numbers = this.#numbers();
    try {
      const found = await Promise.all(
        numbers.map((number) => ask(this.#asked, columns, number * PIECE, PIECE)),
      );
      if (version !== this.#version) return;
      const isSame = numbers.every((number, at) => this.#pieces.get(number)?.revision === found[at]?.revision);
      if (isSame && this.#pieces.size === numbers.length) return;
      const after = settle?.();
      this.#pieces = new Map(numbers.map((number, at) => [number, found[at]!]));
      this.total = found.at(-1)?.total ?? 0;
      this.problem = undefined;
      after?.();
    } catch (error) {
      if (version === this.#version) this.problem = asProblem(error);
    }
  }

  /// The numbers of the runs in a range of rows, whether they are known or not.
  async ids(from: number, to: number): Promise<number[]> {
    const known = Array.from({ length: to - from }, (_, at) => this.at(from + at)?.id);
    if (known.every((id) => id !== undefined)) return known as number[];
    const found: number[] = [];
    for (let at = from; at < to; at += ALL_AT_ONCE) {
      const part = await ask(this.#asked, ["id"], at, Math.min(ALL_AT_ONCE, to - at));
      found.push(...part.columns.id);
      if (part.columns.id.length === 0) break;
    }
    return found;
  }

  close(): void {
    this.#version++;
    for (const controller of this.#asking.values()) controller.abort();
    this.#asking.clear();
  }
}

/// The runs as a table: windows of rows, what columns there are, groups, and changes of many.

import { address, send } from "./client";

/// Columns by name, each as long as there are rows; `id` and `name` are always there.
export interface Rows {
  total: number;
  offset: number;
  revision: string;
  columns: { id: number[]; name: string[]; [name: string]: unknown[] };
}

export type Kind = "text" | "number" | "bool" | "time" | "duration" | "tags" | "metric";

export interface KnownColumn {
  name: string;
  kind: Kind;
  runs: number;
}

export interface Groups {
  total: number;
  offset: number;
  keys: Record<string, (boolean | number | string | null)[]>;
  count: number[];
  /// The selector of each group's runs.
  select: string[];
  columns: Record<string, { mean: (number | null)[]; min: (number | null)[]; max: (number | null)[] }>;
}

/// Which runs, and in which order.
export interface Asked {
  q: string;
  search: string;
  sort: string;
  archived: boolean;
}

async function get<T>(path: string, query: Record<string, unknown>, signal?: AbortSignal): Promise<T> {
  const response = await send("GET", address(path, {}, query), { signal });
  return (await response.json()) as T;
}

export function rows(
  asked: Asked,
  columns: string[],
  offset: number,
  limit: number,
  signal?: AbortSignal,
): Promise<Rows> {
  return get("/api/v1/runs/table", { ...asked, columns: columns.join(","), offset, limit }, signal);
}

export function columns(q: string, archived: boolean, signal?: AbortSignal): Promise<KnownColumn[]> {
  return get("/api/v1/runs/columns", { q, archived }, signal);
}

export function groups(
  asked: Asked,
  by: string[],
  numbers: string[],
  limit: number,
  signal?: AbortSignal,
): Promise<Groups> {
  const query = { ...asked, by: by.join(","), columns: numbers.join(","), limit };
  return get("/api/v1/runs/groups", query, signal);
}

export interface Change {
  add_tags?: string[];
  remove_tags?: string[];
  note?: string;
  archived?: boolean;
}

export async function change(ids: number[], what: Change): Promise<number> {
  const response = await send("POST", address("/api/v1/runs/bulk"), { body: { ids, ...what } });
  return ((await response.json()) as { changed: number }).changed;
}

export const AT_ONCE = 500; // what fits into an address

/// The selector of these runs.
export function named(ids: number[]): string {
  return ids.map((id) => `trial:${id}`).join(" ");
}

/// The notes of runs, by their numbers; "" for those without.
export async function notes(ids: number[]): Promise<Map<number, string>> {
  const found = new Map<number, string>();
  for (let at = 0; at < ids.length; at += AT_ONCE) {
    const q = named(ids.slice(at, at + AT_ONCE));
    const part = await rows({ q, search: "", sort: "", archived: true }, ["note"], 0, AT_ONCE);
    for (const [index, id] of part.columns.id.entries()) found.set(id, String(part.columns.note?.[index] ?? ""));
  }
  return found;
}

/// Gives runs the notes they had.
export async function restoreNotes(before: ReadonlyMap<number, string>): Promise<void> {
  for (const [note, ids] of byNote(before)) await change(ids, { note });
}

/// The runs of each note.
export function byNote(notes: ReadonlyMap<number, string>): Map<string, number[]> {
  const found = new Map<string, number[]>();
  for (const [id, note] of notes) {
    const ids = found.get(note);
    if (ids) ids.push(id);
    else found.set(note, [id]);
  }
  return found;
}

/// Deletes runs, with their files or without.
export async function remove(ids: number[], files: boolean): Promise<number> {
  let deleted = 0;
  for (let at = 0; at < ids.length; at += AT_ONCE) {
    const select = named(ids.slice(at, at + AT_ONCE));
    const response = await send("DELETE", address("/api/v1/runs", {}, { select, files }));
    deleted += ((await response.json()) as { runs: number }).runs;
  }
  return deleted;
}

/// What a deletion would remove.
export async function wouldRemove(ids: number[]): Promise<{ runs: number; files: number; bytes: number }> {
  const found = { runs: 0, files: 0, bytes: 0 };
  for (let at = 0; at < ids.length; at += AT_ONCE) {
    const select = named(ids.slice(at, at + AT_ONCE));
    const query = { select, files: true, dry_run: true };
    const response = await send("DELETE", address("/api/v1/runs", {}, query));
    const part = (await response.json()) as typeof found;
    found.runs += part.runs;
    found.files += part.files;
    found.bytes += part.bytes;
  }
  return found;
}

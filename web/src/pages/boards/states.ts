/// What a board's state allows, what is said of its times, and lists of them. Pure.

import type { Schemas } from "../../api/client";
import { duration } from "../../lib/format";

export type Board = Schemas["Board"];
export type Boards = Schemas["Boards"];
type Seen = Pick<Board, "state"> & { closed?: boolean };

/// It holds a place.
export function isLive(board: Pick<Board, "state">): boolean {
  return !["STOPPED", "TERMINATED", "FAILED"].includes(board.state);
}

/// It can be looked at.
export function isUp(board: Seen): boolean {
  return !board.closed && (board.state === "RUNNING" || board.state === "WAITING");
}

/// It can be started again under the same id.
export function canStart(board: Seen): boolean {
  return !board.closed && (board.state === "STOPPED" || board.state === "FAILED");
}

/// What is said of it beside its state, each once: what cannot be read, what it waits for, why it restarts or ended.
export function notes(board: Pick<Board, "message" | "problem">): string[] {
  return [...new Set([board.problem, board.message])].filter(Boolean);
}

/// How long nobody has looked, and after how long it is stopped: "3m 12s / 30m".
export function idle(board: Pick<Board, "state" | "active" | "idle_timeout">, now: number): string {
  if (!isLive(board)) return "–";
  const seconds = Math.max(0, (now - Date.parse(board.active)) / 1000);
  const passed = seconds < 60 ? "< 1m" : duration(Math.floor(seconds / 60) * 60);
  return board.idle_timeout ? `${passed} / ${duration(board.idle_timeout)}` : passed;
}

/// Seconds until it is ended, if it is to be.
export function left(board: Pick<Board, "state" | "deadline">, now: number): number | null {
  if (!isLive(board) || !board.deadline) return null;
  return Math.max(0, (Date.parse(board.deadline) - now) / 1000);
}

/// A list, the newest first, after a board has changed, come, or gone (null).
export function withBoard(list: Boards, id: string, board: Board | null): Boards {
  const others = list.boards.filter((each) => each.id !== id);
  const was = others.length < list.boards.length;
  if (board === null) return { ...list, boards: others, total: list.total - (was ? 1 : 0) };
  if (was) return { ...list, boards: list.boards.map((each) => (each.id === id ? board : each)) };
  const older = others.findIndex((each) => Date.parse(each.created) < Date.parse(board.created));
  if (older >= 0) others.splice(older, 0, board);
  else if (others.length === list.total) others.push(board);
  else return list; // it is one of those that are not shown
  return { ...list, boards: others, total: list.total + 1 };
}

import { expect, test } from "vitest";

import { type Board, type Boards, canStart, idle, isLive, isUp, left, notes, withBoard } from "./states";

const now = Date.parse("2026-11-17T12:00:00Z");

test("a board that has ended holds no place, and may start again unless it is over", () => {
  expect(["QUEUED", "WAITING", "STOPPING"].map((state) => isLive({ state: state as "QUEUED" }))).toEqual([true, true, true]);
  expect(["STOPPED", "FAILED", "TERMINATED"].map((state) => canStart({ state: state as "STOPPED" }))).toEqual([true, true, false]);
  expect(isUp({ state: "WAITING" })).toBe(true);
  expect(isUp({ state: "STARTING" })).toBe(false);
});

test("a board whose data its owner may not see is neither looked at nor started", () => {
  expect(isUp({ state: "RUNNING", closed: true })).toBe(false);
  expect(canStart({ state: "STOPPED", closed: true })).toBe(false);
  expect(isLive({ state: "RUNNING" })).toBe(true);
});

test("what is said of a board is said once", () => {
  expect(notes({ problem: "", message: "" })).toEqual([]);
  expect(notes({ problem: "cannot be read", message: "cannot be read" })).toEqual(["cannot be read"]);
  expect(notes({ problem: "cannot be read", message: "restarts" })).toEqual(["cannot be read", "restarts"]);
});

test("idle time stands beside its limit", () => {
  const board = { state: "RUNNING" as const, active: "2026-11-17T11:56:30Z", idle_timeout: 1800 };
  expect(idle(board, now)).toBe("3m / 30m");
  expect(idle({ ...board, idle_timeout: null }, now)).toBe("3m");
  expect(idle({ ...board, active: "2026-11-17T12:00:05Z" }, now)).toBe("< 1m / 30m");
  expect(idle({ ...board, state: "STOPPED" }, now)).toBe("–");
});

test("an end that is set is counted down to", () => {
  expect(left({ state: "RUNNING", deadline: "2026-11-17T12:01:00Z" }, now)).toBe(60);
  expect(left({ state: "RUNNING", deadline: "2026-11-17T11:01:00Z" }, now)).toBe(0);
  expect(left({ state: "RUNNING", deadline: null }, now)).toBe(null);
  expect(left({ state: "STOPPED", deadline: "2026-11-17T12:01:00Z" }, now)).toBe(null);
});

test("a list is kept up to date by one board at a time", () => {
  const board = (id: string, minute: number, name = id) =>
    ({ id, name, created: `2026-11-17T12:0${minute}:00Z` }) as Board;
  const list = (total: number, ...boards: Board[]): Boards => ({ total, offset: 0, boards });
  const two = list(2, board("b", 5), board("a", 3));
  expect(withBoard(two, "a", board("a", 3, "new"))).toEqual(list(2, board("b", 5), board("a", 3, "new")));
  expect(withBoard(two, "c", board("c", 7))).toEqual(list(3, board("c", 7), board("b", 5), board("a", 3)));
  expect(withBoard(two, "c", board("c", 4))).toEqual(list(3, board("b", 5), board("c", 4), board("a", 3)));
  expect(withBoard(two, "c", board("c", 1))).toEqual(list(3, board("b", 5), board("a", 3), board("c", 1)));
  expect(withBoard(two, "b", null)).toEqual(list(1, board("a", 3)));
  expect(withBoard(two, "c", null)).toEqual(two);
});

test("of a list that is cut off, a board that is not shown is left out", () => {
  const shown = { id: "a", created: "2026-11-17T12:00:00Z" } as Board;
  const old = { id: "b", created: "2026-11-17T11:00:00Z" } as Board;
  const cut: Boards = { total: 1500, offset: 0, boards: [shown] };
  expect(withBoard(cut, "b", old)).toBe(cut);
});

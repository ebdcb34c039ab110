import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { Connection } from "./connection.svelte";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("a hub that stays away is said to, and who waits is told once when it is back", async () => {
  let isThere = false;
  const connection = new Connection(async () => isThere);
  const told = vi.fn();
  connection.whenBack(told);
  await vi.advanceTimersByTimeAsync(2500);
  expect(connection.isLost).toBe(false);
  await vi.advanceTimersByTimeAsync(4000);
  expect(connection.isLost).toBe(true);
  isThere = true;
  await vi.advanceTimersByTimeAsync(2000);
  expect(connection.isLost).toBe(false);
  await vi.advanceTimersByTimeAsync(20_000);
  expect(told).toHaveBeenCalledOnce();
});

test("a moment without an answer is not shown", async () => {
  const connection = new Connection(async () => true);
  const told = vi.fn();
  connection.whenBack(told);
  await vi.advanceTimersByTimeAsync(2500);
  expect(told).toHaveBeenCalledOnce();
  expect(connection.isLost).toBe(false);
});

test("who no longer waits is not told", async () => {
  const connection = new Connection(async () => true);
  const told = vi.fn();
  connection.whenBack(told)();
  await vi.advanceTimersByTimeAsync(5000);
  expect(told).not.toHaveBeenCalled();
});

test("it is asked anew when it goes away again", async () => {
  const connection = new Connection(async () => true);
  const told = vi.fn();
  connection.whenBack(() => connection.whenBack(told));
  await vi.advanceTimersByTimeAsync(5000);
  expect(told).toHaveBeenCalledOnce();
});

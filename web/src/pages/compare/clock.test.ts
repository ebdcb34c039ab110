import { expect, it } from "vitest";

import { moment, moments } from "./clock";

const at = (...parts: [number, number, number, number, number, number]) => new Date(...parts).getTime() / 1000;

it("is the day and the time, of twenty-four hours", () => {
  expect(moment(at(2026, 10, 16, 0, 4, 7))).toBe("2026-11-16 00:04:07");
  expect(moment(at(2026, 0, 2, 16, 0, 0))).toBe("2026-01-02 16:00:00");
});

it("says the day where it begins, and as much of the time as tells marks apart", () => {
  const evening = at(2026, 10, 15, 20, 0, 0);
  expect(moments([evening, null, evening + 4 * 3600, evening + 8 * 3600], 4 * 3600)).toEqual([
    "20:00\n2026-11-15",
    "",
    "00:00\n2026-11-16",
    "04:00",
  ]);
  expect(moments([evening, evening + 15], 15)).toEqual(["20:00:00\n2026-11-15", "20:00:15"]);
  expect(moments([evening], 86_400)).toEqual(["2026-11-15"]);
});

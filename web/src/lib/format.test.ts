import { expect, it } from "vitest";

import { ago, bytes, duration, hparam, number, short } from "./format";

it.each([
  [0, "0"],
  [1234567, "1,234,567"],
  [0.3141592653, "0.31416"],
  [12.5, "12.5"],
  [123456.789, "123,457"],
  [1.5e-7, "1.5e−7"],
  [-0.25, "−0.25"],
  [2e12 + 0.5, "2e12"],
  [Number.NaN, "NaN"],
  [Infinity, "∞"],
  [null, "–"],
])("the value %s is shown as %s", (value, text) => {
  expect(number(value)).toBe(text);
});

it.each([
  [0.5, "0.5s"],
  [59, "59s"],
  [60, "1m"],
  [3725, "1h 2m"],
  [90000, "1d 1h"],
  [-1, "–"],
])("%s seconds are %s", (seconds, text) => {
  expect(duration(seconds)).toBe(text);
});

it("sizes have three digits at most", () => {
  expect([0, 999, 1500, 123456, 5e9].map(bytes)).toEqual(["0 B", "999 B", "1.5 kB", "123 kB", "5.0 GB"]);
});

it("hyperparameters are shown as they were written", () => {
  expect([0.001, 1e-5, 3, "adam", true, 0.1 + 0.2].map(hparam)).toEqual(["0.001", "1e-5", "3", "adam", "true", "0.3"]);
});

it("times are told in the reader's language", () => {
  const now = Date.parse("2026-11-17T12:00:00Z");
  expect(ago("2026-11-17T11:55:00Z", now)).toBe("5 min. ago");
  expect(ago("2026-11-15T12:00:00Z", now, "zh")).toBe("前天");
  expect(ago("2026-11-17T11:59:50Z", now)).toBe("now");
});

it("writes large numbers short", () => {
  expect([0, 999, 12_500, -3e6, 2e9].map(short)).toEqual(["0", "999", "12.5k", "−3M", "2B"]);
});

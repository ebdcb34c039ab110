import { expect, it } from "vitest";

import { ambiguous, automatic, isLayout, laidOut, parts, withAggregate, written } from "./columns";

it("names of columns have parts", () => {
  expect(parts("metrics.val/loss.min")).toEqual({ kind: "metric", label: "val/loss", aggregate: "min" });
  expect(parts('metrics."top 5".max')).toEqual({ kind: "metric", label: "top 5", aggregate: "max" });
  expect(parts("hparams.model.depth")).toEqual({ kind: "hparam", label: "model.depth" });
  expect(withAggregate("metrics.a.b.last", "max")).toBe("metrics.a.b.max");
});

it("pinned columns stand first, each behind the one before", () => {
  const columns = [
    { name: "a", width: 50, isPinned: false },
    { name: "name", width: 100, isPinned: true },
    { name: "b", width: 60, isPinned: true },
  ];
  expect(laidOut(columns, 40).map(({ column, left }) => [column.name, left])).toEqual([
    ["name", 40],
    ["b", 140],
    ["a", null],
  ]);
});

it("a layout that was kept is believed only if it is one", () => {
  expect(isLayout(automatic([]))).toBe(true);
  for (const wrong of [null, [], {}, [{ name: "x", width: 3, isPinned: false }], [{ name: 7 }]])
    expect(isLayout(wrong)).toBe(false);
});

it("values are written by their kind", () => {
  expect(written(0.123456789, "metric")).toBe("0.12346");
  expect(written("NaN", "metric")).toBe("NaN");
  expect(written(75, "duration")).toBe("1m 15s");
  expect(written(["a", "b"], "tags")).toBe("a, b");
  expect(written(null, "number")).toBe("");
});

it("those who have chosen nothing see what most runs have", () => {
  const known = ["a", "b", "c", "d", "e"].map((name) => ({ name: `hparams.${name}`, kind: "number" as const, runs: 1 }));
  const names = automatic(known).map((each) => each.name);
  expect(names.slice(0, 3)).toEqual(["name", "status", "experiment"]);
  expect(names).toContain("hparams.d");
  expect(names).not.toContain("hparams.e");
});

it("those who have chosen nothing see a curve of a loss, or of what else there is", () => {
  const of = (...tags: string[]) =>
    automatic(tags.map((tag) => ({ name: `metrics.${tag}.last`, kind: "metric" as const, runs: 1 })))
      .map((each) => each.name)
      .filter((name) => name.startsWith("spark:"));
  expect(of("hparam/loss", "acc", "val/Loss")).toEqual(["spark:val/Loss"]);
  expect(of("system/cpu_percent", "reward")).toEqual(["spark:reward"]);
  expect(of("hparam/acc")).toEqual([]);
});

it("tells which columns have the same name", () => {
  const names = ["name", "spark:train/loss", "metrics.train/loss.last", "metrics.val/loss.last"];
  expect([...ambiguous(names)]).toEqual(["spark:train/loss", "metrics.train/loss.last"]);
});

import { expect, it } from "vitest";

import { columnsFor, pattern, plain, read, sections, sharedLength, titleOf, toggled, write, type Layout } from "./layout";

function there(layout: Layout): Layout {
  const said = Object.entries(write(layout)).filter(([, value]) => value !== null);
  return read(new URLSearchParams(new URLSearchParams(said as [string, string][]).toString()));
}

it("says nothing of what is plain", () => {
  expect(Object.values(write(plain)).every((value) => value === null)).toBe(true);
  expect(there(plain)).toEqual(plain);
});

it("comes back as it went", () => {
  const layout: Layout = {
    part: "scatter",
    tags: "^loss|a&b=c",
    names: "run.*[12]",
    smoothing: 0.9,
    x: "tag:samples/s, all",
    logX: true,
    logY: true,
    clip: true,
    group: ["lr", "a,b", "c%2Cd"],
    spread: "minmax",
    colour: "hparams.lr",
    hide: [3, 12],
    list: true,
    closed: ["train", ""],
    full: "train/loss",
    axes: ["hparams.lr", "metrics.a,b.last"],
  };
  expect(there(layout)).toEqual(layout);
  expect(there({ ...plain, group: "all" }).group).toBe("all");
});

it("takes what is wrong for the default", () => {
  expect(read(new URLSearchParams("part=x&smooth=7&x=y&spread=z&hide=a,-1,0.5&list=x"))).toEqual(plain);
});

it("knows no regular expression that is being typed", () => {
  expect(pattern("(")).toBeNull();
  expect(pattern("LOSS")?.test("train/loss")).toBe(true);
});

it("has a section for each beginning", () => {
  expect(sections(["loss", "train/a", "train/b/c", "eval/a"])).toEqual([
    { name: "", tags: ["loss"] },
    { name: "eval", tags: ["eval/a"] },
    { name: "train", tags: ["train/a", "train/b/c"] },
  ]);
});

it("shows curves first, the machine's behind them, and single points last", () => {
  const tags = ["best", "hparam/acc", "system/cpu", "train/best", "train/loss"];
  const singles = new Set(["best", "hparam/acc", "train/best"]);
  expect(sections(tags, singles)).toEqual([
    { name: "train", tags: ["train/loss", "train/best"] },
    { name: "system", tags: ["system/cpu"] },
    { name: "", tags: ["best"] },
    { name: "hparam", tags: ["hparam/acc"] },
  ]);
});

it("knows which directories all names share", () => {
  const rest = (...names: string[]) => names.map((name) => name.slice(sharedLength(names)));
  expect(rest("a/b/c", "a/b/d")).toEqual(["c", "d"]);
  expect(rest("a/b/c", "a/bb/d", "a/b")).toEqual(["b/c", "bb/d", "b"]);
  expect(rest("a/b", "c")).toEqual(["a/b", "c"]);
  expect(rest("a/b")).toEqual(["a/b"]);
  expect(rest("a/b", "a/b")).toEqual(["b", "b"]);
});

it("hides runs, and shows them when all of them are hidden", () => {
  expect(toggled([], [7])).toEqual([7]);
  expect(toggled([7], [3])).toEqual([3, 7]);
  expect(toggled([3, 7], [3])).toEqual([7]);
  expect(toggled([3], [3, 4])).toEqual([3, 4]); // a group, some of which was hidden
  expect(toggled([3, 4, 9], [3, 4])).toEqual([9]);
});

it("has as many columns as there is room for", () => {
  expect(columnsFor(320, 360)).toBe(1);
  expect(columnsFor(1172, 1280)).toBe(2);
  expect(columnsFor(2452, 2560)).toBe(4);
  expect(columnsFor(0, 1280)).toBe(1);
});

it("calls a chart by what its section does not say", () => {
  expect(titleOf("train/loss", "train")).toBe("loss");
  expect(titleOf("train/train/loss", "train")).toBe("train/loss");
  expect(titleOf("system/cpu_percent", "system")).toBe("cpu_percent");
  expect(titleOf("loss", "")).toBe("loss");
});

import { expect, it } from "vitest";

import { ofGroups, ofRuns, ofValues } from "./legend";

const black = () => "#000000";

it("names runs, groups, and values in their order", () => {
  expect(ofRuns([7], (run) => `run ${run}`, black)).toEqual([{ label: "run 7", colour: "#000000", runs: [7], keys: ["7"] }]);
  expect(ofGroups([{ label: "lr=1", colour: "#000000", runs: [1, 2] }])[0]!.keys).toEqual(["lr=1"]);
  const values = new Map([[1, 0.1], [2, 0.01], [3, 0.1]]);
  const found = ofValues([1, 2, 3, 4], "hparams.lr", (run) => values.get(run), black);
  expect(found.map(({ label, runs }) => [label, runs])).toEqual([
    ["lr=0.01", [2]],
    ["lr=0.1", [1, 3]],
    ["lr=–", [4]],
  ]);
});

import { expect, test } from "vitest";

import { settingsOf, usesOf } from "./stores";

test("a prefix decides what can be set, and what is hidden while it is typed", () => {
  const s3 = Object.fromEntries(settingsOf("s3://bucket/path").map((each) => [each.name, each.isSecret]));
  expect(s3).toEqual({ access_key_id: false, secret_access_key: true, session_token: true, region: false, endpoint: false });
  expect(settingsOf(" ABFS://c@a/").some((each) => each.name === "account_key" && each.isSecret)).toBe(true);
  expect(settingsOf("/data/runs")).toEqual([]);
  expect(settingsOf("")).toEqual([]);
});

test("a key that can only read is fine for boards, and the role for runs is named", () => {
  const roles = { boards: "Reader: get", runs: "Writer: get, put" };
  const check = (name: string, good: boolean) => ({ check: name, good, text: "" });
  const readOnly = { good: false, usable_for: ["boards" as const], roles, findings: [check("credentials", true), check("write", false)] };
  expect(usesOf(readOnly)).toEqual([
    { purpose: "boards", isGood: true, role: "" },
    { purpose: "runs", isGood: false, role: "Writer: get, put" },
  ]);
});

test("no role helps where the credentials are wrong", () => {
  const findings = [{ check: "credentials", good: false, text: "" }];
  const uses = usesOf({ good: false, usable_for: [], roles: { boards: "Reader", runs: "Writer" }, findings });
  expect(uses.map(({ isGood, role }) => [isGood, role])).toEqual([
    [false, ""],
    [false, ""],
  ]);
});

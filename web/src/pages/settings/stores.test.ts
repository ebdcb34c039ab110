import { expect, test } from "vitest";

import { settingsOf } from "./stores";

test("a prefix decides what can be set, and what is hidden while it is typed", () => {
  const s3 = Object.fromEntries(settingsOf("s3://bucket/path").map((each) => [each.name, each.isSecret]));
  expect(s3).toEqual({ access_key_id: false, secret_access_key: true, session_token: true, region: false, endpoint: false });
  expect(settingsOf(" ABFS://c@a/").some((each) => each.name === "account_key" && each.isSecret)).toBe(true);
  expect(settingsOf("/data/runs")).toEqual([]);
  expect(settingsOf("")).toEqual([]);
});

/// Which settings the hub takes for which store, as `docs/storage.md` lists them. Pure.

import type { Schemas } from "../../api/client";

export interface Use {
  purpose: "boards" | "runs";
  isGood: boolean;
  /// The role that grants what is missing; empty if no role would help, or none is known.
  role: string;
}

/// What a connection can be used for, as a test of everything has found.
export function usesOf(found: Schemas["StorageFindings"]): Use[] {
  const isKnown = found.findings.some((each) => each.check === "credentials" && each.good);
  return (["boards", "runs"] as const).map((purpose) => {
    const isGood = found.usable_for.includes(purpose);
    return { purpose, isGood, role: isGood || !isKnown ? "" : (found.roles[purpose] ?? "") };
  });
}

export interface Setting {
  name: string;
  isSecret: boolean;
}

const KEYS = ["access_key_id", "secret_access_key", "session_token", "region", "endpoint"];
const STORES: Record<string, string[]> = {
  s3: KEYS,
  oss: KEYS,
  gs: ["service_account_key", "token", "endpoint"],
  az: ["account_name", "account_key", "sas_key", "connection_string", "tenant_id", "client_id", "client_secret", "endpoint"],
};
STORES.abfs = STORES.az!;
const SECRET = /secret|key$|token|connection_string/;

/// What can be set for a prefix; nothing for one that is no bucket.
export function settingsOf(uri: string): Setting[] {
  const scheme = uri.trim().match(/^([a-z0-9]+):\/\//i)?.[1]?.toLowerCase() ?? "";
  return (STORES[scheme] ?? []).map((name) => ({ name, isSecret: SECRET.test(name) }));
}

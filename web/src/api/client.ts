/// Calls of `/api/v1`, typed by the hub's own schema. What the hub refuses is thrown as a `Problem`
/// with the sentence it gave; somebody who is no longer known is sent to log in, and comes back.

import { currentLanguage, t } from "../lib/i18n.svelte";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

/// Where the hub's pages begin, without a slash at the end; empty at the root of its address.
export const base: string =
  typeof document === "undefined" ? "" : new URL(document.baseURI).pathname.replace(/\/$/, "");

export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: Record<string, unknown>;

  constructor(status: number, code: string, message: string, details: Record<string, unknown> = {}) {
    super(sentence(message));
    this.name = "Problem";
    this.status = status;
    this.code = code;
    this.details = details;
  }

  /// Nobody has answered, or a proxy in the hub's place.
  get isAway(): boolean {
    return this.code === "unreachable" || (this.code === "unknown" && this.status >= 502 && this.status <= 504);
  }
}

type Method = "get" | "post" | "put" | "patch" | "delete";
type With<M extends Method> = {
  [P in keyof paths]: paths[P][M] extends { responses: unknown } ? P : never;
}[keyof paths];
type Json<T> = T extends { content: { "application/json": infer B } } ? B : undefined;
type Answer<P extends keyof paths, M extends Method> = paths[P][M] extends { responses: infer R }
  ? R extends { 201: infer T }
    ? Json<T>
    : R extends { 200: infer T }
      ? Json<T>
      : undefined
  : never;
type Body<P extends keyof paths, M extends Method> = paths[P][M] extends {
  requestBody: { content: { "application/json": infer B } };
}
  ? B
  : undefined;
type Parameters<P extends keyof paths, M extends Method> = paths[P][M] extends {
  parameters: infer Q;
}
  ? Q
  : never;
type Query<P extends keyof paths, M extends Method> =
  Parameters<P, M> extends { query?: infer Q } ? Q : never;

export interface Options<P extends keyof paths, M extends Method> {
  path?: Record<string, string | number>;
  query?: Query<P, M>;
  body?: Body<P, M>;
  signal?: AbortSignal;
}

/// The full address of a path of the API, with its parameters filled in.
export function address(
  path: string,
  parameters: Record<string, string | number> = {},
  query: Record<string, unknown> = {},
): string {
  const filled = path.replace(/\{([^}]+)\}/g, (_, name: string) => {
    const value = String(parameters[name.replace(/:path$/, "")] ?? "");
    return value.split("/").map(encodeURIComponent).join("/");
  });
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === "") continue;
    search.set(name, Array.isArray(value) ? value.join(",") : String(value));
  }
  const text = search.toString();
  return `${base}${filled}${text ? `?${text}` : ""}`;
}

/// Any request to the hub; for answers that are not JSON, and for paths the schema has no type for.
export async function send(
  method: string,
  where: string,
  options: { body?: unknown; signal?: AbortSignal } = {},
): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(where, {
      method,
      headers: options.body === undefined ? {} : { "content-type": "application/json" },
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
      signal: options.signal,
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Problem(0, "unreachable", t("trouble.silent"));
  }
  if (response.ok) return response;
  if (response.status === 401) logIn();
  throw await problemOf(response);
}

async function call<P extends keyof paths, M extends Method>(
  method: M,
  path: P,
  options: Options<P, M> = {},
): Promise<Answer<P, M>> {
  const where = address(path, options.path, (options.query ?? {}) as Record<string, unknown>);
  const response = await send(method.toUpperCase(), where, options);
  const text = await response.text();
  return (text ? JSON.parse(text) : undefined) as Answer<P, M>;
}

export const api = {
  get: <P extends With<"get">>(path: P, options?: Options<P, "get">) => call("get", path, options),
  post: <P extends With<"post">>(path: P, options?: Options<P, "post">) =>
    call("post", path, options),
  put: <P extends With<"put">>(path: P, options?: Options<P, "put">) => call("put", path, options),
  patch: <P extends With<"patch">>(path: P, options?: Options<P, "patch">) =>
    call("patch", path, options),
  delete: <P extends With<"delete">>(path: P, options?: Options<P, "delete">) =>
    call("delete", path, options),
};

async function problemOf(response: Response): Promise<Problem> {
  try {
    const { error } = (await response.json()) as {
      error: { code: string; message: string; details?: Record<string, unknown> };
    };
    return new Problem(response.status, error.code, error.message, error.details);
  } catch {
    return new Problem(response.status, "unknown", t("trouble.answered", { status: String(response.status) }));
  }
}

function logIn(): void {
  const after = location.pathname + location.search;
  location.assign(`${base}/login?next=${encodeURIComponent(after)}`);
}

/// A text of the hub with its full stop; it may begin with a name, whose case matters.
function sentence(text: string): string {
  return /[.!?:…。！？：]$/.test(text) ? text : text + (currentLanguage() === "zh" ? "。" : ".");
}

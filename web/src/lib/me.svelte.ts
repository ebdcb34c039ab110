/// Who is looking, and what they may; asked once.

import { api } from "../api/client";
import { Resource } from "../api/resource.svelte";

class Me extends Resource<Awaited<ReturnType<typeof ask>>> {
  constructor() {
    super(ask);
  }

  get mayWrite(): boolean {
    const me = this.value;
    return me !== undefined && me.scope !== "read" && me.user.role !== "viewer";
  }

  get isAdmin(): boolean {
    return this.value?.user.role === "admin" && this.value.scope === "admin";
  }
}

function ask(signal: AbortSignal) {
  return api.get("/api/v1/me", { signal });
}

export const me = new Me();

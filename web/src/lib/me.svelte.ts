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

  /// May stop, kill and delete boards and revoke their links: those it is shown are its own, or it is an
  /// admin. Any role may, also a member who was made viewer, unless the token only reads.
  get mayEnd(): boolean {
    return this.value !== undefined && this.value.scope !== "read";
  }

  get isAdmin(): boolean {
    return this.value?.user.role === "admin" && this.value.scope === "admin";
  }
}

function ask(signal: AbortSignal) {
  return api.get("/api/v1/me", { signal });
}

export const me = new Me();

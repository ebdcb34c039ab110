/// What time it is, told anew every ten seconds: for "3 minutes ago" and for durations that grow.

class Clock {
  now = $state(Date.now());

  constructor() {
    if (typeof window !== "undefined") setInterval(() => (this.now = Date.now()), 10_000);
  }
}

export const clock = new Clock();

/// Short messages in a corner of the page: what was done, with a way back where there is one.

export interface Toast {
  id: number;
  text: string;
  kind: "info" | "good" | "bad";
  action?: { label: string; run: () => void };
  onclose?: () => void;
}

const SECONDS = { info: 5, good: 4, bad: 10 };
let next = 1;

class Toasts {
  list = $state.raw<Toast[]>([]);

  /// Shows a message; returns what takes it away.
  show(
    text: string,
    more: Partial<Omit<Toast, "id" | "text">> & { seconds?: number } = {},
  ): () => void {
    const kind = more.kind ?? "info";
    const made: Toast = { id: next++, text, kind, action: more.action, onclose: more.onclose };
    this.list = [...this.list.slice(-3), made];
    const timer = setTimeout(() => this.close(made.id), 1000 * (more.seconds ?? SECONDS[kind]));
    return () => {
      clearTimeout(timer);
      this.close(made.id);
    };
  }

  /// Says what went wrong.
  problem(error: unknown): void {
    this.show(error instanceof Error ? error.message : String(error), { kind: "bad" });
  }

  close(id: number): void {
    const gone = this.list.find((each) => each.id === id);
    this.list = this.list.filter((each) => each.id !== id);
    gone?.onclose?.();
  }
}

export const toasts = new Toasts();

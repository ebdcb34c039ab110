/// How the table was left, for who comes back to it: the runs that were selected, and, if the same runs
/// are asked for, what was in sight and where the cursor was. It lasts as long as the page.

import { nothing, type Selection } from "../../lib/selection";

export interface Left {
  selection: Selection;
  /// What was asked for: the query of the address.
  query: string;
  cursor: number;
  scroll: number;
}

let last: Left = { selection: nothing, query: "", cursor: 0, scroll: 0 };

export function leave(left: Left): void {
  last = left;
}

/// What there is to come back to, at this address.
export function comeBack(query: string): Left {
  return last.query === query ? last : { selection: last.selection, query, cursor: 0, scroll: 0 };
}

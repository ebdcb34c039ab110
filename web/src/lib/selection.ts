/// Which runs are selected, by number: the table may be sorted, filtered and refreshed meanwhile.
/// Values never change; each change makes a new one. Pure.

export interface Selection {
  readonly ids: ReadonlySet<number>;
  /// Where a range begins: the row that was last clicked.
  readonly anchor: number | null;
}

export const nothing: Selection = { ids: new Set(), anchor: null };

/// One more, or one less.
export function toggle(selection: Selection, id: number): Selection {
  const ids = new Set(selection.ids);
  if (!ids.delete(id)) ids.add(id);
  return { ids, anchor: id };
}

/// All of these as well; they become as the anchor is.
export function extend(selection: Selection, range: Iterable<number>): Selection {
  const isOn = selection.anchor === null || selection.ids.has(selection.anchor);
  const ids = new Set(selection.ids);
  for (const id of range) {
    if (isOn) ids.add(id);
    else ids.delete(id);
  }
  return { ids, anchor: selection.anchor };
}

export function only(ids: Iterable<number>): Selection {
  return { ids: new Set(ids), anchor: null };
}

export function without(selection: Selection, gone: Iterable<number>): Selection {
  const ids = new Set(selection.ids);
  for (const id of gone) ids.delete(id);
  return { ids, anchor: selection.anchor };
}

/// Hyperparameters of several runs side by side: those that differ first. Pure.

export interface Difference {
  name: string;
  /// One for each run; undefined where it has none.
  values: unknown[];
  isSame: boolean;
}

export function differences(all: Record<string, unknown>[]): Difference[] {
  const names = [...new Set(all.flatMap((each) => Object.keys(each)))].sort();
  const rows = names.map((name) => {
    const values = all.map((each) => each[name]);
    return { name, values, isSame: values.every((value) => value === values[0]) };
  });
  return [...rows.filter((row) => !row.isSame), ...rows.filter((row) => row.isSame)];
}

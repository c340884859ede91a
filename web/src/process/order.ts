// Sorting of the page's tables. Pure.

export type SortValue = number | string | bigint | null;

export interface Sort {
  readonly column: string;
  readonly down: boolean;
}

// compare orders two values upwards; unknown comes last in either direction.
export function compare(a: SortValue, b: SortValue, down: boolean): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  const order = a < b ? -1 : a > b ? 1 : 0;
  return down ? -order : order;
}

// sorted orders rows by one value; equal rows keep their order.
export function sorted<T>(rows: readonly T[], value: (row: T) => SortValue, down: boolean): T[] {
  return rows
    .map((row) => ({ row, value: value(row) }))
    .sort((a, b) => compare(a.value, b.value, down))
    .map((entry) => entry.row);
}

// keepOrder puts rows in the order of `before`; new ones come last, in their own order.
export function keepOrder<T, K>(rows: readonly T[], key: (row: T) => K, before: readonly K[]): T[] {
  const byKey = new Map(rows.map((row) => [key(row), row]));
  const out: T[] = [];
  for (const k of before) {
    const row = byKey.get(k);
    if (row === undefined) continue;
    out.push(row);
    byKey.delete(k);
  }
  out.push(...byKey.values());
  return out;
}

// sortText and parseSort are the form in the address: "-cpu" is CPU downwards.
export function sortText(sort: Sort): string {
  return `${sort.down ? '-' : ''}${sort.column}`;
}

export function parseSort(text: string | null, columns: readonly string[], fallback: Sort): Sort {
  if (text === null) return fallback;
  const column = text.replace(/^-/, '');
  return columns.includes(column) ? { column, down: text.startsWith('-') } : fallback;
}

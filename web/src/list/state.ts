// What the list page shows and how: kept in the address (so that a link shows the
// same) and, for what is a habit rather than a question, in this browser.

import { batch, computed, signal } from '@preact/signals';
import { type ColumnId, DEFAULT_COLUMNS, parseColumns, parseSort, SETS } from '../columns';
import type { Row } from '../deltas';
import { type Grammar, KEYS, parseFilter, values } from '../filter';
import { route } from '../route';
import { isBoolean, kept } from '../settings';
import { holderKeys } from './holderkeys';

const isText = (value: unknown): value is string => typeof value === 'string';
const isWidths = (value: unknown): value is Record<string, number> =>
  typeof value === 'object' && value !== null && Object.values(value).every((n) => typeof n === 'number');
const isSets = (value: unknown): value is Record<string, string> =>
  typeof value === 'object' && value !== null && Object.values(value).every(isText);

const DEFAULT_SORT = '-cpu';

export const query = signal('');
export const sortText = kept('list.sort', DEFAULT_SORT, isText);
export const tree = kept('list.tree', false, isBoolean);
export const kernel = kept('list.kernel', false, isBoolean);
export const columnText = kept('list.columns', DEFAULT_COLUMNS.join(','), isText);
export const widths = kept<Record<string, number>>('list.widths', {}, isWidths);
export const ownSets = kept<Record<string, string>>('list.sets', {}, isSets);

export const gaugesOpen = kept('list.gauges', true, isBoolean); // narrow screens may fold them
export const locked = signal(false); // by L
export const hovered = signal(false); // the pointer is in the table
export const cursorMoved = signal(false); // a cursor key less than 3 s ago
export const descendants = signal(false);
export const selected = signal<string | null>(null);
export const previewOpen = signal(true);
export const copyOpen = signal(false);
export const columnsOpen = signal(false);
export const filterOpen = signal(false); // narrow: the filter has its own row

// holders says which processes hold a port, file or socket: "port:80" to what the rows
// of those are found by. What is not there has not been answered.
export const holders = signal<ReadonlyMap<string, ReadonlySet<string>>>(new Map());
export const LIST_KEYS: Grammar = { ...KEYS, ...holderKeys((term) => holders.peek().get(term)) };

export const filter = computed(() => {
  void holders.value;
  return parseFilter(query.value, LIST_KEYS);
});

// asked is what the filter asks the server for, without what it does not understand.
const askedText = computed(() => {
  const terms = parseFilter(query.value, LIST_KEYS).terms.filter(
    (t) => t.key !== null && !t.error && LIST_KEYS[t.key]?.test,
  );
  const all = terms.flatMap((t) => values(t.text.slice(t.text.indexOf(':') + 1)).map((v) => `${t.key}:${v}`));
  return JSON.stringify([...new Set(all)]);
});
export const asked = computed(() => JSON.parse(askedText.value) as string[]);
export const answered = computed(() => asked.value.every((term) => holders.value.has(term)));
export const sort = computed(() => parseSort(sortText.value) ?? { column: 'cpu' as ColumnId, descending: true });
export const columns = computed(() => parseColumns(columnText.value));

// Collapsed rows: a rule for all, and those that differ from it.
export const collapseAll = signal(false);
export const exceptions = signal<ReadonlySet<string>>(new Set());

export function isCollapsed(row: Row): boolean {
  return collapseAll.peek() !== exceptions.peek().has(row.key);
}

export function setCollapsed(row: Row, collapsed: boolean): void {
  if (isCollapsed(row) === collapsed) return;
  const next = new Set(exceptions.peek());
  if (next.has(row.key)) next.delete(row.key);
  else next.add(row.key);
  exceptions.value = next;
}

export function setAllCollapsed(collapsed: boolean): void {
  batch(() => {
    collapseAll.value = collapsed;
    exceptions.value = new Set();
  });
}

export function setSort(column: ColumnId, descending: boolean): void {
  sortText.value = (descending ? '-' : '') + column;
}

export const setNames = computed(() => [...Object.keys(SETS), ...Object.keys(ownSets.value)]);

export const listTitle = 'procinsh / list';

// listPath is the link of the list as it is shown.
export function listPath(): string {
  const params = new URLSearchParams();
  if (query.value.trim()) params.set('q', query.value.trim());
  if (sortText.value !== DEFAULT_SORT) params.set('sort', sortText.value);
  if (tree.value) params.set('tree', '1');
  if (kernel.value) params.set('kernel', '1');
  if (columnText.value !== DEFAULT_COLUMNS.join(',')) params.set('cols', columnText.value);
  const text = params.toString().replaceAll('%3A', ':').replaceAll('%2C', ',');
  return text ? `/?${text}` : '/';
}

// readAddress takes what a link says; what it does not say stays as it was.
export function readAddress(): void {
  if (location.pathname !== '/') return;
  const params = new URLSearchParams(location.search);
  if ([...params.keys()].length === 0) return;
  batch(() => {
    query.value = params.get('q') ?? '';
    const wanted = params.get('sort');
    if (wanted !== null && parseSort(wanted)) sortText.value = wanted;
    tree.value = params.get('tree') === '1';
    kernel.value = params.get('kernel') === '1';
    const cols = params.get('cols');
    if (cols !== null) columnText.value = parseColumns(cols).join(',');
  });
}

// writeAddress keeps the address in step, without a step in the history.
export function writeAddress(): void {
  const path = listPath();
  if (route.peek().page !== 'list') return;
  if (location.pathname + location.search !== path) history.replaceState(history.state, '', path + location.hash);
}

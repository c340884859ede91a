// The list at work: store and view in, order and table out. One animation frame is
// asked for, never forced.

import { batch, computed, signal } from '@preact/signals';
import { announce } from '../announce';
import { type Column, columnById, type Show } from '../columns';
import type { Row } from '../deltas';
import { kernelNamed } from '../filter';
import { navigate, processPath } from '../route';
import { allCores, comfortable } from '../settings';
import { store } from '../store';
import type { Table } from '../table';
import { Order } from '../tree';
import { layoutFor, NARROW } from './layout';
import * as view from './state';

const CURSOR_MS = 3000;
export const order = new Order();
export const counts = signal({ matches: 0, total: 0, kernelHidden: 0 });
export const narrow = signal(false);

let table: Table | null = null;
let asked = 0;
let lastKey = '';
let stopCursor = 0;

// setTable says which table is on screen; null when the list is left.
export function setTable(shown: Table | null): void {
  table = shown;
  if (asked) cancelAnimationFrame(asked);
  asked = 0;
  store.fresh = true;
}

export const shownTable = (): Table | null => table;

const coarse = () => matchMedia('(pointer: coarse)').matches;

export function isLocked(): boolean {
  if (view.locked.value) return true;
  return store.frame.value.kind === 'live' && (view.hovered.value || view.cursorMoved.value);
}

function show(): Show {
  const frame = store.frame.value;
  return {
    now: frame.kind === 'live' || frame.kind === 'held' ? Math.max(store.capturedAt, 1) : frame.at,
    cores: allCores.value ? Math.max(1, store.totals.value?.cores ?? 1) : 1,
    past: frame.kind === 'past',
  };
}

// refresh brings order and table in step with store and view.
export function refresh(): void {
  asked = 0;
  if (!table) return;
  const frame = store.frame.value;
  const { column, descending } = view.sort.value;
  const kernel = view.kernel.value || kernelNamed(view.filter.value);
  const selected = view.selected.value;
  const row = selected === null ? null : store.find(selected);
  store.kept = frame.kind === 'live' ? row : store.kept;
  const moment = show();
  const all = view.collapseAll.peek();
  const except = view.exceptions.peek();
  const collapsed = (r: Row) => (except.size === 0 ? all : all !== except.has(r.key));
  const key = `${column} ${descending} ${kernel} ${frame.kind}`;
  const fresh = store.fresh || key !== lastKey;
  lastKey = key;
  order.update(fresh ? store.rows() : [], store.added, fresh, {
    sortKey: (columnById(column) as Column).sortKey,
    descending,
    tree: view.tree.value,
    kernel,
    filter: view.filter.value,
    descendants: view.descendants.value,
    collapsed,
    pinned: row,
    locked: isLocked(),
    now: moment.now,
  });
  store.fresh = false;
  store.added = [];
  const { matches, total, kernelHidden } = order;
  const before = counts.peek();
  if (before.matches !== matches || before.total !== total || before.kernelHidden !== kernelHidden) {
    counts.value = { matches, total, kernelHidden };
  }
  table.setSort(column, descending);
  table.setView({
    order,
    show: moment,
    tree: view.tree.value,
    collapsed,
    selected,
    live: frame.kind === 'live' || frame.kind === 'held',
  });
  table.render();
}

export function invalidate(): void {
  if (asked === 0) asked = requestAnimationFrame(refresh);
}

export function relayout(): void {
  if (!table) return;
  const width = table.width;
  if (width === 0) return;
  narrow.value = width < NARROW;
  table.setLayout(layoutFor(width, view.columns.value, view.widths.value, comfortable.value ? 28 : 24, coarse()));
  invalidate();
}

export function select(row: Row | null): void {
  batch(() => {
    view.selected.value = row?.key ?? null;
    if (row) view.previewOpen.value = true;
  });
}

export function openProcess(row: Row, newTab: boolean): void {
  const path = processPath(row.summary.identity);
  if (newTab) window.open(path, '_blank', 'noopener');
  else {
    select(row);
    navigate(path);
  }
}

export function sortBy(column: Column): void {
  const { column: current, descending } = view.sort.value;
  const down = current === column.id ? !descending : column.downFirst;
  store.fresh = true; // also while the order is locked: a press sorts once
  view.setSort(column.id, down);
  invalidate();
}

export function moveCursor(step: number): void {
  const row = table?.neighbour(view.selected.value, step);
  if (!row || !table) return;
  view.selected.value = row.key;
  view.cursorMoved.value = true;
  clearTimeout(stopCursor);
  stopCursor = window.setTimeout(() => {
    view.cursorMoved.value = false;
  }, CURSOR_MS);
  if (asked) cancelAnimationFrame(asked);
  refresh();
  table.reveal(row, true);
}

export function toggleHold(): void {
  if (store.frame.value.kind === 'live') {
    if (!store.loaded.value) return;
    store.hold();
    announce('Held: the list stands still');
  } else {
    store.release();
    announce('Live again');
  }
}

// goTo selects a row wherever it is, opening what is collapsed above it.
export function goTo(row: Row): void {
  for (let up = row.parent; up; up = up.parent) view.setCollapsed(up, false);
  select(row);
  if (asked) cancelAnimationFrame(asked);
  refresh();
  table?.reveal(row, table.hasFocus());
}

export const isEmpty = computed(
  () => store.loaded.value && counts.value.matches === 0 && view.query.value.trim() !== '' && view.answered.value,
);

// chosen is the selected row; it changes only when another row object is meant, not
// with each second.
export const chosen = computed((): Row | null => {
  void store.tick.value;
  const key = view.selected.value;
  return key === null ? null : store.find(key);
});

export const selectedRow = (): Row | null => chosen.value;

// The keys of the list.

import { copyText } from '../clipboard';
import { COLUMNS } from '../columns';
import { filterFocused, focusFilter, setQuery } from '../filterline';
import { bindKeys } from '../keys';
import { allCores } from '../settings';
import { store } from '../store';
import { goTo, moveCursor, openProcess, select, selectedRow, shownTable, sortBy, toggleHold } from './control';
import * as view from './state';

// inTable: cursor keys are the table's only when nothing else has the focus.
const inTable = (event: KeyboardEvent): boolean => {
  const target = event.target;
  return target === document.body || (target instanceof HTMLElement && target.closest('.grid-body') !== null);
};

export function bindListKeys(): () => void {
  const bind = (
    keys: string,
    label: string,
    run: (event: KeyboardEvent) => unknown,
    more: { inFields?: boolean; hidden?: boolean; group?: string } = {},
  ) => ({ keys, label, group: 'List', run, ...more });
  const cursor = (keys: string, label: string, step: () => number) =>
    bind(keys, label, (event) => {
      if (!inTable(event)) return false;
      return moveCursor(step());
    });
  const toggle = (held: { value: boolean }) => () => {
    held.value = !held.value;
  };
  return bindKeys([
    bind('/', 'filter', () => focusFilter()),
    bind(
      'Ctrl+f',
      'filter; once more: the browser’s own search',
      () => {
        if (filterFocused()) return false;
        return focusFilter();
      },
      { inFields: true },
    ),
    bind('Escape', 'leave rewind, close the preview, clear', () => {
      const frame = store.frame.value.kind;
      if (frame === 'past' || frame === 'file') store.release();
      else if (view.selected.value !== null && view.previewOpen.value) view.previewOpen.value = false;
      else if (view.selected.value !== null) select(null);
      else if (view.query.value !== '') setQuery('');
      else return false;
      return true;
    }),
    bind('Space', 'hold / live', () => toggleHold()),
    cursor('ArrowDown', 'down', () => 1),
    cursor('ArrowUp', 'up', () => -1),
    cursor('PageDown', 'a page down', () => shownTable()?.pageRows ?? 10),
    cursor('PageUp', 'a page up', () => -(shownTable()?.pageRows ?? 10)),
    cursor('Home', 'first row', () => Number.NEGATIVE_INFINITY),
    cursor('End', 'last row', () => Number.POSITIVE_INFINITY),
    bind('ArrowRight', 'expand, then first child', (event) => {
      const row = selectedRow();
      if (!inTable(event) || !row || !view.tree.value || !row.firstChild) return false;
      if (view.isCollapsed(row)) view.setCollapsed(row, false);
      else moveCursor(1);
      return true;
    }),
    bind('ArrowLeft', 'collapse, then parent', (event) => {
      const row = selectedRow();
      if (!inTable(event) || !row || !view.tree.value) return false;
      if (row.firstChild && !view.isCollapsed(row)) view.setCollapsed(row, true);
      else if (row.parent) goTo(row.parent);
      return true;
    }),
    bind('*', 'expand all', () => view.setAllCollapsed(false)),
    bind('-', 'collapse all', () => view.setAllCollapsed(true)),
    bind('Enter', 'open', (event) => {
      const row = selectedRow();
      if (!inTable(event) || !row) return false;
      return openProcess(row, false);
    }),
    bind('Ctrl+Enter', 'open in a new tab', () => {
      const row = selectedRow();
      if (!row) return false;
      return openProcess(row, true);
    }),
    bind('t', 'tree / flat', toggle(view.tree)),
    bind('L', 'lock the order', toggle(view.locked)),
    bind('k', 'kernel threads', toggle(view.kernel)),
    bind('%', 'CPU per core / of all cores', toggle(allCores)),
    bind('p', 'parent of the selected', () => {
      const id = selectedRow()?.summary.parent_id;
      const parent = id ? store.byPid(id.pid) : null;
      if (!parent) return false;
      return goTo(parent);
    }),
    bind('c', 'in the tree: what is below a match', toggle(view.descendants)),
    bind('y', 'copy a link to this view', () => {
      void copyText(location.origin + view.listPath(), 'Link');
    }),
    bind('Y', 'copy as …', () => {
      view.copyOpen.value = true;
    }),
    bind('r', 'connect anew', () => store.live.restart()),
    ...COLUMNS.filter((column) => column.letter !== '').map((column) =>
      bind(`s ${column.letter}`, column.label, () => sortBy(column), { group: 'Sort by' }),
    ),
  ]);
}

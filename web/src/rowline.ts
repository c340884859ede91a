// One row of the list in the document: made once, then written to only where it changed.

import type { Column, Show } from './columns';
import { MARK_MS, type Row } from './deltas';
import { ago, UNKNOWN } from './format';
import type { Order } from './tree';

// maxGuides levels of tree lines are drawn; deeper rows say their level.
const maxGuides = 10;

export interface View {
  order: Order;
  show: Show;
  tree: boolean;
  collapsed: (row: Row) => boolean;
  selected: string | null; // key
  live: boolean; // marks are counted on only in the live list
}

export interface Layout {
  columns: readonly Column[];
  widths: readonly number[]; // CSS px, one a column
  rowHeight: number;
  narrow: boolean; // two lines a row
}

export interface Cell {
  element: HTMLElement;
  node: Text;
  text: string;
  tone: string;
  hinted: boolean;
}

export interface Line {
  element: HTMLElement;
  cells: Cell[];
  guide: Text;
  twist: HTMLElement;
  link: HTMLAnchorElement;
  mark: Text;
  row: Row | null;
  summary: unknown;
  index: number;
  className: string;
  level: number;
  expanded: string;
  selected: boolean;
  twisted: string;
  tab: number;
  place: number; // among the body's elements before this render, -1 when not there
}

export function make(tag: string, className: string, role?: string): HTMLElement {
  const element = document.createElement(tag);
  element.className = className;
  if (role) element.setAttribute('role', role);
  return element;
}

// guideText draws the lines from the root down to a row.
function guideText(row: Row, order: Order): string {
  if (row.depth === 0) return '';
  if (row.depth > maxGuides) return `⋯ ${row.depth} ${order.hasNextShown(row) ? '├ ' : '└ '}`;
  let text = order.hasNextShown(row) ? '├ ' : '└ ';
  for (let up = row.parent; up && up.depth > 0; up = up.parent) {
    text = (order.hasNextShown(up) ? '│ ' : '  ') + text;
  }
  return text;
}

function toneOf(column: Column, text: string, row: Row): string {
  switch (column.id) {
    case 'state':
      return text === 'R' ? 'ok' : text === 'D' || text === 'Z' ? 'bad' : '';
    case 'user':
      return row.summary.uid === 0 ? 'quiet' : '';
    case 'command':
    case 'exe':
    case 'cgroup':
    case 'ppid':
    case 'tty':
      return 'second';
    case 'pid':
      return 'quiet';
    case 'maps':
      return 'quiet';
    default:
      return text === '0' || text === '0.0' || text === UNKNOWN ? 'quiet' : '';
  }
}

// makeLine makes the elements of one row, empty.
export function makeLine(columns: readonly Column[]): Line {
  const element = make('div', 'row', 'row');
  element.tabIndex = -1;
  const guide = document.createTextNode('');
  const twist = make('span', 'twist');
  twist.setAttribute('aria-hidden', 'true');
  const link = document.createElement('a');
  link.className = 'row-link';
  link.tabIndex = -1;
  const mark = document.createTextNode('');
  const cells = columns.map((column): Cell => {
    const kind = `cell c-${column.id}${column.right ? ' cell-right' : ''}${column.mono ? ' cell-mono' : ''}`;
    const cell = make('div', kind, column.id === 'name' ? 'rowheader' : 'gridcell');
    const node = document.createTextNode('');
    if (column.id === 'name') {
      const lead = make('span', 'guide');
      lead.setAttribute('aria-hidden', 'true');
      lead.append(guide);
      const word = make('span', 'mark');
      word.append(mark);
      link.append(node);
      cell.append(lead, twist, link, word);
    } else cell.append(node);
    element.append(cell);
    return { element: cell, node, text: '', tone: '', hinted: false };
  });
  return {
    element,
    cells,
    guide,
    twist,
    link,
    mark,
    row: null,
    summary: null,
    index: -1,
    className: 'row',
    level: 0,
    expanded: '',
    selected: false,
    twisted: '',
    tab: -1,
    place: -1,
  };
}

// updateLine writes what changed of a row; it is `index` rows from the top.
export function updateLine(
  line: Line,
  row: Row,
  index: number,
  view: View,
  layout: Layout,
  href: (row: Row) => string,
): void {
  const { element } = line;
  if (line.index !== index) {
    line.index = index;
    element.style.transform = `translateY(${index * layout.rowHeight}px)`;
    element.setAttribute('aria-rowindex', String(index + 2));
  }
  const now = view.show.now;
  const isNew = view.live && row.born > 0 && row.gone === 0 && now - row.born < MARK_MS;
  const dim = !row.match;
  const selected = row.key === view.selected;
  let className = 'row';
  if (row.gone) className += ' row-gone';
  else if (isNew) className += ' row-new';
  if (dim) className += ' row-dim';
  if (selected) className += ' row-selected';
  if (row.sums) className += ' row-sum';
  if (className !== line.className) {
    line.className = className;
    element.className = className;
  }
  if (selected !== line.selected) {
    line.selected = selected;
    if (selected) element.setAttribute('aria-selected', 'true');
    else element.removeAttribute('aria-selected');
  }
  const level = view.tree ? row.depth + 1 : 0;
  if (level !== line.level) {
    line.level = level;
    if (level) element.setAttribute('aria-level', String(level));
    else element.removeAttribute('aria-level');
  }
  const expanded = view.tree && row.firstChild ? String(!view.collapsed(row)) : '';
  if (expanded !== line.expanded) {
    line.expanded = expanded;
    if (expanded) element.setAttribute('aria-expanded', expanded);
    else element.removeAttribute('aria-expanded');
  }
  const twisted = expanded === '' ? '' : expanded === 'true' ? '▾' : '▸';
  if (twisted !== line.twisted) {
    line.twisted = twisted;
    line.twist.textContent = twisted;
  }
  write(line.guide, view.tree ? guideText(row, view.order) : '');
  let mark = '';
  if (row.gone) mark = view.live ? `exited ${ago(now - row.gone)}` : 'exited';
  else if (isNew) mark = 'started';
  else if (row.pinned) mark = 'not in the filter';
  else if (row.sums) mark = `+${row.sums.processes - (row.gone ? 0 : 1)}`;
  write(line.mark, mark);

  const columns = layout.columns;
  const fresh = line.summary === null;
  if (fresh) {
    line.summary = row;
    line.link.href = href(row);
  }
  for (let i = 0; i < columns.length; i++) {
    const column = columns[i] as Column;
    const cell = line.cells[i] as Cell;
    if (fresh && cell.hinted) {
      cell.element.removeAttribute('title');
      cell.hinted = false;
    }
    const text = column.text(row, view.show);
    if (text !== cell.text) {
      cell.text = text;
      cell.node.data = text;
    }
    const tone = toneOf(column, text, row);
    if (tone !== cell.tone) {
      if (cell.tone) cell.element.classList.remove(`cell-${cell.tone}`);
      if (tone) cell.element.classList.add(`cell-${tone}`);
      cell.tone = tone;
    }
    if (text === UNKNOWN && !cell.hinted) {
      cell.element.title = column.hint(row, view.show);
      cell.hinted = true;
    }
  }
}

function write(node: Text, text: string): void {
  if (node.data !== text) node.data = text;
}

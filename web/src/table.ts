// The windowed table: as many rows in the document as fit the screen, recycled, with
// text written only where it changed, and one canvas for what is drawn in cells.
//
// Spaces: a row's index counts from the top of the whole list; y is CSS px from the
// top of the list (index × row height); the canvas lies over the mounted rows and
// moves with them.

import type { Column, Show } from './columns';
import type { Row } from './deltas';
import { ago, UNKNOWN } from './format';
import { type History, TICKS } from './history';
import { palette } from './palette';
import { dark } from './settings';
import { drawRow, layoutRow, type Segment, type StripPalette, stripPalette } from './striprow';
import type { Order } from './tree';

const OVERSCAN = 3;
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

export interface Actions {
  href(row: Row): string;
  select(row: Row): void;
  open(row: Row, newTab: boolean): void;
  toggle(row: Row): void;
  sort(column: Column): void;
  resize(column: Column, width: number): void;
  scrolled(): void;
  hover(inside: boolean): void;
}

export interface Layout {
  columns: readonly Column[];
  widths: readonly number[]; // CSS px, one a column
  rowHeight: number;
  narrow: boolean; // two lines a row
}

interface Cell {
  element: HTMLElement;
  node: Text;
  text: string;
  tone: string;
  hinted: boolean;
}

interface Line {
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

function make(tag: string, className: string, role?: string): HTMLElement {
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

export class Table {
  readonly element: HTMLElement; // the treegrid
  private readonly head: HTMLElement;
  private readonly scroller: HTMLElement;
  private readonly space: HTMLElement;
  private readonly body: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private layout: Layout = { columns: [], widths: [], rowHeight: 24, narrow: false };
  private view: View | null = null;
  private readonly bound = new Map<Row, Line>();
  private pool: Line[] = [];
  private readonly lines = new WeakMap<Element, Line>();
  private headers: { column: Column; cell: HTMLElement; button: HTMLButtonElement | null }[] = [];
  private active: Row | null = null; // the row with the tab stop
  private sort = '';
  private first = 0;
  private readonly buffer = new Float32Array(TICKS);
  private readonly observer: ResizeObserver;
  // Cached, since reading it from the element would force a layout in each render.
  private top = 0;
  private viewHeight = 0;
  private viewWidth = 0;
  onResize: () => void = () => {};

  constructor(
    private readonly actions: Actions,
    private readonly history: History,
  ) {
    this.element = make('div', 'grid', 'treegrid');
    this.element.setAttribute('aria-label', 'Processes');
    this.element.dataset.region = 'table';
    this.scroller = make('div', 'grid-scroll');
    const headGroup = make('div', 'grid-headgroup', 'rowgroup');
    this.head = make('div', 'grid-head', 'row');
    this.head.setAttribute('aria-rowindex', '1');
    headGroup.append(this.head);
    this.space = make('div', 'grid-space');
    this.body = make('div', 'grid-body', 'rowgroup');
    this.canvas = document.createElement('canvas');
    this.canvas.className = 'grid-canvas';
    this.canvas.setAttribute('aria-hidden', 'true');
    this.space.append(this.body, this.canvas);
    this.scroller.append(headGroup, this.space);
    this.element.append(this.scroller);
    this.observer = new ResizeObserver(() => this.measure());
    this.observer.observe(this.scroller);
    this.listen();
  }

  close(): void {
    this.observer.disconnect();
    this.element.remove();
  }

  get width(): number {
    return this.viewWidth;
  }

  private measure(): void {
    const { clientWidth, clientHeight } = this.scroller;
    if (clientWidth === this.viewWidth && clientHeight === this.viewHeight) return;
    this.viewWidth = clientWidth;
    this.viewHeight = clientHeight;
    this.onResize();
  }

  private listen(): void {
    const rowOf = (event: Event): Line | null => {
      const target = event.target instanceof Element ? event.target.closest('.row') : null;
      return target ? (this.lines.get(target) ?? null) : null;
    };
    this.scroller.addEventListener(
      'scroll',
      () => {
        this.top = this.scroller.scrollTop;
        this.actions.scrolled();
      },
      { passive: true },
    );
    this.body.addEventListener('click', (event) => {
      const line = rowOf(event);
      if (!line?.row || event.button !== 0) return;
      const target = event.target as Element;
      if (target.closest('.twist') && line.row.firstChild) {
        this.actions.toggle(line.row);
        return;
      }
      if (event.shiftKey) {
        const cell = target.closest('.cell');
        const at = line.cells.findIndex((c) => c.element === cell);
        const column = this.layout.columns[at];
        if (column?.sortable) {
          event.preventDefault();
          this.actions.sort(column);
        }
        return;
      }
      if (event.metaKey || event.ctrlKey || event.altKey) return;
      if (target.closest('a')) {
        event.preventDefault();
        this.actions.open(line.row, false);
        return;
      }
      this.active = line.row;
      this.actions.select(line.row);
      line.element.focus({ preventScroll: true });
    });
    this.body.addEventListener('dblclick', (event) => {
      const line = rowOf(event);
      if (line?.row && !(event.target as Element).closest('a, .twist')) this.actions.open(line.row, false);
    });
    // Full figures are written into a title only when somebody points at a cell.
    this.body.addEventListener('pointerover', (event) => {
      const line = rowOf(event);
      const target = event.target instanceof Element ? event.target.closest('.cell') : null;
      if (!line?.row || !target || !this.view) return;
      const at = line.cells.findIndex((c) => c.element === target);
      const column = this.layout.columns[at];
      const cell = line.cells[at];
      if (!column || !cell) return;
      const hint = column.hint(line.row, this.view.show);
      if (hint) cell.element.title = hint;
      else cell.element.removeAttribute('title');
      cell.hinted = hint !== '';
    });
    const mouse = (inside: boolean) => (event: PointerEvent) => {
      if (event.pointerType === 'mouse') this.actions.hover(inside);
    };
    this.scroller.addEventListener('pointerenter', mouse(true));
    this.scroller.addEventListener('pointerleave', mouse(false));
    this.element.addEventListener('focusin', (event) => {
      const line = rowOf(event);
      if (line?.row) this.active = line.row;
    });
    this.head.addEventListener('keydown', (event) => this.headKey(event));
  }

  // The header is one tab stop; arrows walk it, with Shift they widen the column.
  private headKey(event: KeyboardEvent): void {
    const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (step === 0) return;
    const buttons = this.headers.filter((h) => h.button !== null);
    const at = buttons.findIndex((h) => h.button === event.target);
    const here = buttons[at];
    if (!here) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.shiftKey) {
      const index = this.layout.columns.indexOf(here.column);
      this.actions.resize(here.column, (this.layout.widths[index] ?? 80) + step * 16);
      return;
    }
    const next = buttons[Math.min(buttons.length - 1, Math.max(0, at + step))];
    if (!next?.button) return;
    for (const h of buttons) if (h.button) h.button.tabIndex = h === next ? 0 : -1;
    next.button.focus();
  }

  setLayout(layout: Layout): void {
    const same =
      layout.columns.length === this.layout.columns.length &&
      layout.columns.every((column, i) => column === this.layout.columns[i]) &&
      layout.narrow === this.layout.narrow;
    this.layout = layout;
    this.palette = null;
    const template = layout.widths.map((w) => `${w}px`).join(' ');
    this.element.style.setProperty('--cols', template);
    this.element.style.setProperty('--row', `${layout.rowHeight}px`);
    this.element.style.setProperty('--wide', `${layout.widths.reduce((a, b) => a + b, 0)}px`);
    this.element.classList.toggle('grid-narrow', layout.narrow);
    this.element.setAttribute('aria-colcount', String(layout.columns.length));
    if (same) return;
    for (const line of this.bound.values()) line.element.remove();
    this.bound.clear();
    this.pool = [];
    this.sort = '';
    this.makeHead();
  }

  private makeHead(): void {
    this.head.replaceChildren();
    this.headers = this.layout.columns.map((column, i) => {
      const cell = make('div', `head-cell c-${column.id}${column.right ? ' cell-right' : ''}`, 'columnheader');
      let button: HTMLButtonElement | null = null;
      if (column.sortable) {
        button = document.createElement('button');
        button.type = 'button';
        button.className = 'head-button';
        button.title = column.title;
        button.tabIndex = -1;
        button.textContent = column.label;
        if (column.letter) button.setAttribute('aria-keyshortcuts', `s ${column.letter}`);
        button.addEventListener('click', () => this.actions.sort(column));
        cell.append(button);
      } else {
        cell.textContent = column.label;
        cell.title = column.title;
      }
      const grip = make('div', 'head-grip');
      grip.addEventListener('pointerdown', (event) => this.dragWidth(event, column, i));
      cell.append(grip);
      this.head.append(cell);
      return { column, cell, button };
    });
    const firstButton = this.headers.find((h) => h.button)?.button;
    if (firstButton) firstButton.tabIndex = 0;
  }

  private dragWidth(event: PointerEvent, column: Column, index: number): void {
    if (event.button !== 0) return;
    event.preventDefault();
    const grip = event.currentTarget as HTMLElement;
    grip.setPointerCapture(event.pointerId);
    const from = event.clientX;
    const width = this.layout.widths[index] ?? 80;
    const move = (e: PointerEvent) => this.actions.resize(column, width + e.clientX - from);
    const up = () => {
      grip.removeEventListener('pointermove', move);
      grip.removeEventListener('pointerup', up);
      grip.removeEventListener('pointercancel', up);
    };
    grip.addEventListener('pointermove', move);
    grip.addEventListener('pointerup', up);
    grip.addEventListener('pointercancel', up);
  }

  setSort(columnId: string, descending: boolean): void {
    const sort = (descending ? '-' : '') + columnId;
    if (sort === this.sort) return;
    this.sort = sort;
    for (const { column, cell, button } of this.headers) {
      const on = column.id === columnId;
      if (on) cell.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
      else cell.removeAttribute('aria-sort');
      cell.classList.toggle('head-sorted', on);
      if (button) button.textContent = on ? `${column.label} ${descending ? '▼' : '▲'}` : column.label;
    }
  }

  // rowAt gives the row `step` below (or above) one, clamped.
  neighbour(key: string | null, step: number): Row | null {
    const rows = this.view?.order.rows ?? [];
    if (rows.length === 0) return null;
    const at = key === null ? -1 : rows.findIndex((row) => row.key === key);
    if (at < 0) return (step < 0 && step > -Infinity ? rows.at(-1) : rows[0]) ?? null;
    return rows[Math.min(rows.length - 1, Math.max(0, at + step))] ?? null;
  }

  get pageRows(): number {
    return Math.max(1, Math.floor((this.viewHeight - this.head.offsetHeight) / this.layout.rowHeight) - 1);
  }

  // reveal scrolls just far enough to show a row, and gives it the focus if asked.
  reveal(row: Row, focus: boolean): void {
    const at = this.view?.order.rows.indexOf(row) ?? -1;
    if (at < 0) return;
    const { rowHeight } = this.layout;
    const room = this.viewHeight - this.head.offsetHeight;
    const y = at * rowHeight;
    if (y < this.top) this.scroller.scrollTop = y;
    else if (y + rowHeight > this.top + room) this.scroller.scrollTop = y + rowHeight - room;
    this.top = this.scroller.scrollTop;
    this.active = row;
    this.render();
    if (focus) this.bound.get(row)?.element.focus({ preventScroll: true });
  }

  hasFocus(): boolean {
    return this.element.contains(document.activeElement);
  }

  focusRow(): void {
    const line = (this.active && this.bound.get(this.active)) || [...this.bound.values()][0];
    line?.element.focus({ preventScroll: true });
  }

  get scrollTop(): number {
    return this.top;
  }

  set scrollTop(y: number) {
    this.scroller.scrollTop = y;
    this.top = this.scroller.scrollTop;
  }

  setView(view: View): void {
    this.view = view;
  }

  render(): void {
    const { view, layout } = this;
    if (!view) return;
    const rows = view.order.rows;
    const { rowHeight } = layout;
    const height = `${rows.length * rowHeight}px`;
    if (this.space.style.height !== height) {
      this.space.style.height = height;
      this.element.setAttribute('aria-rowcount', String(rows.length + 1));
    }
    this.element.classList.toggle('grid-flat', !view.tree);
    const first = Math.max(0, Math.floor(this.top / rowHeight) - OVERSCAN);
    const last = Math.min(rows.length, first + Math.ceil(this.viewHeight / rowHeight) + 2 * OVERSCAN);
    this.first = first;

    const focused = document.activeElement instanceof HTMLElement ? this.lines.get(document.activeElement) : undefined;
    const wanted = new Set<Row>();
    for (let i = first; i < last; i++) wanted.add(rows[i] as Row);
    // The focused row stays mounted wherever it is, so that the focus is not lost.
    const away = focused?.row && !wanted.has(focused.row) && view.order.shows(focused.row) ? focused.row : null;
    for (const [row, line] of this.bound) {
      if (wanted.has(row) || row === away) continue;
      this.bound.delete(row);
      if (line === focused) {
        // Its process is no longer in the list: the focus moves to its neighbour below.
        line.row = null;
        this.pool.unshift(line); // used again last
      } else this.pool.push(line);
    }
    if (this.active && !view.order.shows(this.active)) this.active = null;

    const wantedLines: Line[] = [];
    for (let i = first; i < last; i++) {
      const row = rows[i] as Row;
      const line = this.bind(row);
      this.update(line, row, i, view);
      wantedLines.push(line);
    }
    for (const line of this.pool) {
      if (line.place >= 0) line.element.remove();
      line.place = -1;
    }
    this.arrange(wantedLines, focused);
    if (away) {
      // Above or below the window, where its place on the screen is.
      const line = this.bind(away);
      const index = rows.indexOf(away);
      this.update(line, away, index, view);
    }
    if (this.pool.length > 64) this.pool.length = 64;
    if (focused && focused.row === null) {
      const next = rows[Math.min(Math.max(focused.index, first), last - 1)];
      if (next) {
        this.active = next;
        this.bound.get(next)?.element.focus({ preventScroll: true });
      }
    }
    this.tabStop(view);
    this.draw(first, last);
  }

  // arrange brings the elements into the order of the screen, for those who read them
  // in order, with the fewest moves. The focused one is never moved: that would take
  // the focus from it.
  private arrange(lines: readonly Line[], focused: Line | undefined): void {
    let at = 0;
    for (let node = this.body.firstElementChild; node; node = node.nextElementSibling) {
      const line = this.lines.get(node);
      if (line) line.place = at++;
    }
    const fixed = focused ? lines.indexOf(focused) : -1;
    const keep = stays(lines, fixed);
    let next: HTMLElement | null = null;
    for (let i = lines.length - 1; i >= 0; i--) {
      const line = lines[i] as Line;
      if (!keep.has(i)) this.body.insertBefore(line.element, next);
      line.place = i;
      next = line.element;
    }
  }

  private tabStop(view: View): void {
    let stop = this.active && this.bound.has(this.active) ? this.active : null;
    if (!stop) for (const row of this.bound.keys()) if (row.key === view.selected) stop = row;
    stop ??= view.order.rows[this.first] ?? null;
    for (const [row, line] of this.bound) {
      const index = row === stop ? 0 : -1;
      if (line.tab !== index) {
        line.tab = index;
        line.element.tabIndex = index;
      }
    }
  }

  private bind(row: Row): Line {
    const known = this.bound.get(row);
    if (known) return known;
    const line = this.pool.pop() ?? this.makeLine();
    line.row = row;
    line.summary = null;
    this.bound.set(row, line);
    return line;
  }

  private makeLine(): Line {
    const element = make('div', 'row', 'row');
    element.tabIndex = -1;
    const guide = document.createTextNode('');
    const twist = make('span', 'twist');
    twist.setAttribute('aria-hidden', 'true');
    const link = document.createElement('a');
    link.className = 'row-link';
    link.tabIndex = -1;
    const mark = document.createTextNode('');
    const cells = this.layout.columns.map((column): Cell => {
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
    const line: Line = {
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
    this.lines.set(element, line);
    return line;
  }

  private update(line: Line, row: Row, index: number, view: View): void {
    const { element } = line;
    if (line.index !== index) {
      line.index = index;
      element.style.transform = `translateY(${index * this.layout.rowHeight}px)`;
      element.setAttribute('aria-rowindex', String(index + 2));
    }
    const now = view.show.now;
    const isNew = view.live && row.born > 0 && row.gone === 0 && now - row.born < 5000;
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

    const columns = this.layout.columns;
    const fresh = line.summary === null;
    if (fresh) {
      line.summary = row;
      line.link.href = this.actions.href(row);
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

  // draw paints sparklines, strips and bars of the mounted rows.
  private draw(first: number, last: number): void {
    const { view, layout } = this;
    if (!view) return;
    const scale = Math.min(2, window.devicePixelRatio || 1);
    const width = Math.max(
      1,
      layout.widths.reduce((a, b) => a + b, 0),
    );
    const height = Math.max(1, (last - first) * layout.rowHeight);
    const w = Math.round(width * scale);
    const h = Math.round(height * scale);
    const canvas = this.canvas;
    if (canvas.width !== w || canvas.height !== h) {
      canvas.width = w;
      canvas.height = h;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    const top = `translateY(${first * layout.rowHeight}px)`;
    if (canvas.style.transform !== top) canvas.style.transform = top;
    const ctx = canvas.getContext('2d');
    if (!ctx) return;
    ctx.setTransform(scale, 0, 0, scale, 0, 0);
    ctx.clearRect(0, 0, width, height);
    const rows = view.order.rows;
    const { role } = palette();
    let x = 0;
    for (let i = 0; i < layout.columns.length; i++) {
      const column = layout.columns[i] as Column;
      const wide = layout.widths[i] as number;
      if (column.id === 'spark') this.drawSparks(ctx, rows, first, last, x + 6, wide - 12, role('cpu'));
      else if (column.id === 'maps') this.drawStrips(ctx, rows, first, last, x + 6, wide - 12);
      else if (column.id === 'cpu') {
        this.drawBars(ctx, rows, first, last, i, x, wide, role('cpu'), (row) => {
          const cpu = row.sums ? row.sums.cpu : row.summary.cpu_percent;
          return cpu === null || row.gone || cpu < 1 ? 0 : (cpu / 100) * 24;
        });
      } else if (column.id === 'rss') {
        const most = largest(rows);
        this.drawBars(ctx, rows, first, last, i, x, wide, role('mem'), (row) => {
          const share = row.gone || row.sums || most === 0 ? 0 : row.summary.rss_bytes / most;
          return share < 0.01 ? 0 : share * (wide - 14);
        });
      }
      if (!layout.narrow) x += wide;
    }
  }

  private drawSparks(
    ctx: CanvasRenderingContext2D,
    rows: readonly Row[],
    first: number,
    last: number,
    x: number,
    width: number,
    colour: string,
  ): void {
    const { rowHeight } = this.layout;
    const line = this.buffer;
    const step = width / (TICKS - 1);
    const tall = Math.min(16, rowHeight - 8);
    ctx.beginPath();
    for (let i = first; i < last; i++) {
      const row = rows[i] as Row;
      if (row.slot < 0) continue;
      this.history.line(row.slot, line);
      let most = 100;
      for (let k = 0; k < TICKS; k++) if ((line[k] as number) > most) most = line[k] as number;
      const base = (i - first) * rowHeight + (rowHeight + tall) / 2;
      // A level stretch is one line, however many samples it has.
      let level = Number.NaN;
      for (let k = 0; k < TICKS; k++) {
        const value = line[k] as number;
        if (Number.isNaN(value)) {
          if (!Number.isNaN(level)) ctx.lineTo(x + (k - 1) * step, level);
          level = Number.NaN;
          continue;
        }
        const y = base - Math.sqrt(value / most) * tall;
        if (y === level) continue;
        if (!Number.isNaN(level)) {
          ctx.lineTo(x + (k - 1) * step, level);
          ctx.lineTo(x + k * step, y);
        } else ctx.moveTo(x + (k - 0.5) * step, y); // a single sample is a mark of half a step
        level = y;
      }
      if (!Number.isNaN(level)) ctx.lineTo(x + width, level);
    }
    ctx.strokeStyle = colour;
    ctx.lineWidth = 1;
    ctx.stroke();
  }

  private palette: StripPalette | null = null;
  private paletteDark = false;

  private colours(): StripPalette {
    if (this.palette === null || this.paletteDark !== dark.value) {
      this.palette = stripPalette();
      this.paletteDark = dark.value;
    }
    return this.palette;
  }

  private drawStrips(
    ctx: CanvasRenderingContext2D,
    rows: readonly Row[],
    first: number,
    last: number,
    x: number,
    width: number,
  ): void {
    const { rowHeight } = this.layout;
    const colours = this.colours();
    const y = Math.floor((rowHeight - 10) / 2);
    for (let i = first; i < last; i++) {
      const row = rows[i] as Row;
      if (row.maps === null || row.maps.boxes.length === 0 || row.gone) continue;
      if (row.stripOf !== row.maps || row.stripWidth !== width) {
        row.strip = layoutRow(row.maps, width);
        row.stripOf = row.maps;
        row.stripWidth = width;
      }
      if (!row.match) ctx.globalAlpha = 0.5;
      drawRow(ctx, row.strip as Segment[], x, (i - first) * rowHeight + y, 10, colours);
      ctx.globalAlpha = 1;
    }
  }

  // drawBars underlines a figure by its size: 2 px, from the right edge of its cell.
  private drawBars(
    ctx: CanvasRenderingContext2D,
    rows: readonly Row[],
    first: number,
    last: number,
    index: number,
    x: number,
    wide: number,
    colour: string,
    size: (row: Row) => number,
  ): void {
    const { rowHeight, narrow, widths, columns } = this.layout;
    let right = x + wide - 6;
    let foot = rowHeight - 3;
    if (narrow) {
      // Two lines: CPU over RSS at the right edge of the row.
      right = widths.reduce((a, b) => a + b, 0) - 14;
      foot = (columns[index] as Column).id === 'cpu' ? 20 : 41;
    }
    ctx.fillStyle = colour;
    ctx.beginPath();
    for (let i = first; i < last; i++) {
      const row = rows[i] as Row;
      const length = Math.min(wide - 8, size(row));
      if (length < 2) continue;
      ctx.rect(right - length, (i - first) * rowHeight + foot, length, 2);
    }
    ctx.fill();
  }
}

// stays picks the longest run of lines that are already in order: all others move.
// The line at index fixed is always in it.
function stays(lines: readonly Line[], fixed: number): Set<number> {
  const pivot = fixed >= 0 ? (lines[fixed] as Line).place : -1;
  const tails: number[] = []; // index of the smallest last place of a run, by its length
  const before: number[] = new Array(lines.length).fill(-1);
  for (let i = 0; i < lines.length; i++) {
    const place = (lines[i] as Line).place;
    if (place < 0) continue;
    if (fixed >= 0 && i !== fixed && i < fixed !== place < pivot) continue;
    let low = 0;
    let high = tails.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((lines[tails[middle] as number] as Line).place < place) low = middle + 1;
      else high = middle;
    }
    before[i] = low > 0 ? (tails[low - 1] as number) : -1;
    tails[low] = i;
  }
  const keep = new Set<number>();
  for (let i = tails.at(-1) ?? -1; i >= 0; i = before[i] as number) keep.add(i);
  return keep;
}

function write(node: Text, text: string): void {
  if (node.data !== text) node.data = text;
}

function largest(rows: readonly Row[]): number {
  let most = 0;
  for (const row of rows) {
    if (!row.gone && row.summary.rss_bytes > most) most = row.summary.rss_bytes;
  }
  return most;
}

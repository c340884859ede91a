// The windowed table: as many rows in the document as fit the screen, recycled, with
// text written only where it changed, and one canvas for what is drawn in cells.
//
// Spaces: a row's index counts from the top of the whole list; y is CSS px from the
// top of the list (index × row height); the canvas lies over the mounted rows and
// moves with them.

import type { Column } from './columns';
import type { Row } from './deltas';
import type { History } from './history';
import { Painter } from './paint';
import { type Layout, type Line, make, makeLine, updateLine, type View } from './rowline';

const OVERSCAN = 3;

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

export class Table {
  readonly element: HTMLElement; // the treegrid
  private readonly head: HTMLElement;
  private readonly scroller: HTMLElement;
  private readonly space: HTMLElement;
  private readonly body: HTMLElement;
  private readonly painter = new Painter();
  private layout: Layout = { columns: [], widths: [], rowHeight: 24, narrow: false };
  private view: View | null = null;
  private readonly bound = new Map<Row, Line>();
  private pool: Line[] = [];
  private readonly lines = new WeakMap<Element, Line>();
  private headers: { column: Column; cell: HTMLElement; button: HTMLButtonElement | null }[] = [];
  private active: Row | null = null; // the row with the tab stop
  private sort = '';
  private first = 0;
  private readonly observer: ResizeObserver;
  // Cached, since reading it from the element would force a layout in each render.
  private top = 0;
  private viewHeight = 0;
  private viewWidth = 0;
  onResize: () => void = () => {};

  constructor(
    private readonly actions: Actions,
    private readonly history: () => History,
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
    this.space.append(this.body, this.painter.canvas);
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
    this.painter.forget();
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
      updateLine(line, row, i, view, layout, this.actions.href);
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
      updateLine(line, away, index, view, layout, this.actions.href);
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
    this.painter.draw(this.history(), view.order, layout, first, last);
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

  private fresh(): Line {
    const line = makeLine(this.layout.columns);
    this.lines.set(line.element, line);
    return line;
  }

  private bind(row: Row): Line {
    const known = this.bound.get(row);
    if (known) return known;
    const line = this.pool.pop() ?? this.fresh();
    line.row = row;
    line.summary = null;
    this.bound.set(row, line);
    return line;
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

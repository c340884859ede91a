// The list page: bar, gauges, table, preview and foot, and the wiring between the
// store, the order and the table. One animation frame is asked for, never forced.

import { batch, computed, effect, signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { announce } from '../announce';
import { KeysLink, TopBar } from '../bar';
import { copyText } from '../clipboard';
import { COLUMNS, type Column, columnById, type Show } from '../columns';
import type { Row } from '../deltas';
import { kernelNamed } from '../filter';
import { bytes, clock, count, percent, UNKNOWN } from '../format';
import { bindKeys } from '../keys';
import { Lamp } from '../lamps';
import { lazy } from '../lazy';
import { Lifetime } from '../life';
import { notice } from '../notice';
import { navigate, plainClick, processPath, route } from '../route';
import { allCores, comfortable, dark } from '../settings';
import { store } from '../store';
import { KIND_LETTER, KIND_NAME, type Kind } from '../striprow';
import { Table } from '../table';
import { Order } from '../tree';
import { FilterLine, filterFocused, focusFilter, setQuery } from './filterline';
import { Gauges } from './gauges';
import { clampWidth, layoutFor, NARROW } from './layout';
import * as view from './state';

const HeldNote = lazy(async () => (await import('./rare')).HeldNote);
const Empty = lazy(async () => (await import('./rare')).Empty);
const Preview = lazy(async () => (await import('./preview')).Preview);
const ColumnsSheet = lazy(async () => (await import('./sheets')).ColumnsSheet);
const CopySheet = lazy(async () => (await import('./sheets')).CopySheet);

const STALE_INTERVALS = 2.5;
const CURSOR_MS = 3000;
const WAITING_MS = 3000;

const order = new Order();
const counts = signal({ matches: 0, total: 0, kernelHidden: 0 });
const now = signal(Date.now());
const mountedAt = signal(0);
const narrow = signal(false);

let table: Table | null = null;
let asked = 0;
let lastKey = '';
let scrollKept = 0;
let stopCursor = 0;

const coarse = () => matchMedia('(pointer: coarse)').matches;

function isLocked(): boolean {
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
function refresh(): void {
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

function invalidate(): void {
  if (asked === 0) asked = requestAnimationFrame(refresh);
}

function relayout(): void {
  if (!table) return;
  const width = table.width;
  if (width === 0) return;
  narrow.value = width < NARROW;
  table.setLayout(layoutFor(width, view.columns.value, view.widths.value, comfortable.value ? 28 : 24, coarse()));
  invalidate();
}

function select(row: Row | null): void {
  batch(() => {
    view.selected.value = row?.key ?? null;
    if (row) view.previewOpen.value = true;
  });
}

function openProcess(row: Row, newTab: boolean): void {
  const path = processPath(row.summary.identity);
  if (newTab) window.open(path, '_blank', 'noopener');
  else {
    select(row);
    navigate(path);
  }
}

function sortBy(column: Column): void {
  const { column: current, descending } = view.sort.value;
  const down = current === column.id ? !descending : column.downFirst;
  store.fresh = true; // also while the order is locked: a press sorts once
  view.setSort(column.id, down);
  invalidate();
}

function moveCursor(step: number): void {
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

function toggleHold(): void {
  if (store.frame.value.kind === 'live') {
    if (!store.loaded.value) return;
    store.hold();
    announce('Held: the list stands still');
  } else {
    store.release();
    announce('Live again');
  }
}

// inTable: cursor keys are the table's only when nothing else has the focus.
const inTable = (event: KeyboardEvent): boolean => {
  const target = event.target;
  return target === document.body || (target instanceof HTMLElement && target.closest('.grid-body') !== null);
};

function bindListKeys(): () => void {
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
    cursor('PageDown', 'a page down', () => table?.pageRows ?? 10),
    cursor('PageUp', 'a page up', () => -(table?.pageRows ?? 10)),
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

// goTo selects a row wherever it is, opening what is collapsed above it.
function goTo(row: Row): void {
  for (let up = row.parent; up; up = up.parent) view.setCollapsed(up, false);
  select(row);
  if (asked) cancelAnimationFrame(asked);
  refresh();
  table?.reveal(row, table.hasFocus());
}

const isEmpty = computed(() => store.loaded.value && counts.value.matches === 0 && view.query.value.trim() !== '');

// chosen is the selected row; it changes only when another row object is meant, not
// with each second.
const chosen = computed((): Row | null => {
  void store.tick.value;
  const key = view.selected.value;
  return key === null ? null : store.find(key);
});

const selectedRow = (): Row | null => chosen.value;

// staleFor is how long nothing came, once that is longer than it should be.
const staleFor = computed((): number | null => {
  const heard = store.live.heard.value;
  const kind = store.live.state.value.kind;
  if (heard === 0 || kind === 'off' || kind === 'hidden' || kind === 'polling') return null;
  const quiet = now.value - heard;
  return quiet > STALE_INTERVALS * Math.max(1000, Math.min(store.interval.value, 10_000)) ? quiet : null;
});

const isStale = computed(() => staleFor.value !== null);

function Lamps() {
  const stale = staleFor.value;
  const frame = store.frame.value;
  const state = store.live.state.value;
  if (frame.kind === 'held') {
    return (
      <Lamp word="HELD" tone="warn" fill="off">
        {`${Math.max(0, Math.round((now.value - frame.since) / 1000))} s`}
      </Lamp>
    );
  }
  if (frame.kind === 'past') {
    return (
      <Lamp word="HELD" tone="warn" fill="off">
        {`−${Math.round(Math.max(0, store.capturedAt - frame.at) / 1000)} s`}
      </Lamp>
    );
  }
  if (frame.kind === 'file') {
    return (
      <Lamp word="SAVED" tone="warn" fill="off">
        {clock(frame.at)}
      </Lamp>
    );
  }
  if (state.kind === 'refused') return <Lamp word="DENIED" tone="bad" fill="trouble" />;
  if (state.kind === 'polling') {
    return (
      <Lamp word="POLLING" tone="warn">
        2.0 s
      </Lamp>
    );
  }
  if (stale !== null) {
    return (
      <Lamp word="STALE" tone="bad" fill="trouble">
        {`${(stale / 1000).toFixed(1)} s`}
      </Lamp>
    );
  }
  if (state.kind === 'live') {
    return (
      <Lamp word="LIVE" tone="ok" title="How far apart the last two lists were">
        {`${(store.interval.value / 1000).toFixed(1)} s`}
      </Lamp>
    );
  }
  if (state.kind === 'lost') return <Lamp word="OFF" tone="bad" fill="trouble" />;
  return <Lamp word="CONNECTING" tone="quiet" fill="off" />;
}

function Notes() {
  const state = store.live.state.value;
  const frame = store.frame.value;
  const said = notice.value;
  return (
    <>
      {said && (
        <div class={`note note-${said.tone}`} role="alert">
          <span class="note-text">{said.text}</span>
          {said.link && (
            <a
              class="link"
              href={said.link.href}
              onClick={(event) => {
                if (!plainClick(event) || !said.link) return;
                event.preventDefault();
                navigate(said.link.href);
              }}
            >
              {said.link.label}
            </a>
          )}
          <button
            type="button"
            class="button button-text"
            onClick={() => {
              notice.value = null;
              if (route.value.page !== 'list') navigate(view.listPath());
            }}
          >
            Dismiss
          </button>
        </div>
      )}
      {state.kind === 'lost' && (
        <div class="note note-bad">
          <span class="note-text">
            {state.status === 0
              ? `Could not refresh at ${clock(state.at)}: connection lost, retrying.`
              : `Could not refresh at ${clock(state.at)}: ${state.error}`}
            {store.capturedAt > 0 && ` Showing ${clock(store.capturedAt)}.`}
          </span>
          <button type="button" class="button" onClick={() => store.live.restart()}>
            Retry
          </button>
        </div>
      )}
      {state.kind === 'refused' && store.loaded.value && (
        <div class="note note-bad">
          <span class="note-text">
            {state.error} Showing {clock(store.capturedAt)}.
          </span>
          <button type="button" class="button" onClick={() => store.live.restart()}>
            Retry
          </button>
        </div>
      )}
      {state.kind === 'polling' && (
        <div class="note note-warn">
          <span class="note-text">polling: 4 other views are open{state.error !== null && `. ${state.error}`}</span>
        </div>
      )}
      {frame.kind !== 'live' && <HeldNote />}
    </>
  );
}

function Waiting() {
  const state = store.live.state.value;
  if (state.kind === 'refused') {
    return (
      <div class="denied">
        <p class="denied-text">{state.error}</p>
        <p class="second">Nothing here can change that; the text above says what would.</p>
        <button type="button" class="button" onClick={() => store.live.restart()}>
          Try again
        </button>
      </div>
    );
  }
  const long = mountedAt.value > 0 && now.value - mountedAt.value > WAITING_MS;
  return (
    <div class="waiting">
      {Array.from({ length: 8 }, (_, i) => (
        <p class="waiting-row mono" key={String(i)} aria-hidden="true">
          ····
        </p>
      ))}
      <p class="waiting-text">{long ? 'still waiting for /proc' : ''}</p>
    </div>
  );
}

const LEGEND: readonly Kind[] = ['code', 'readonly', 'data', 'heap', 'anonymous', 'shared', 'stack'];
const LEGEND_SHORT: Partial<Record<Kind, string>> = { anonymous: 'anon' };

// Own is what this tool takes itself.
function Own() {
  const self = store.totals.value?.self;
  if (!self) return null;
  return (
    <span class="foot-self" title="What procinsh itself takes: CPU of one core, resident memory">
      this tool{' '}
      <span class="mono">
        {self.cpu_percent === null ? UNKNOWN : `${percent(self.cpu_percent)} %`} {bytes(self.rss_bytes)}
      </span>
    </span>
  );
}

const coreCount = computed(() => store.totals.value?.cores ?? 0);

function Foot() {
  const { matches, total, kernelHidden } = counts.value;
  const toggle = (label: preact.ComponentChildren, held: { value: boolean }, key: string, title: string) => (
    <button
      type="button"
      class="button button-text foot-toggle"
      aria-pressed={held.value}
      aria-keyshortcuts={key}
      title={title}
      onClick={() => {
        held.value = !held.value;
      }}
    >
      {label}
    </button>
  );
  const auto =
    !view.locked.value && store.frame.value.kind === 'live' && (view.hovered.value || view.cursorMoved.value);
  const cores = coreCount.value;
  return (
    <footer class="foot list-foot" data-region="foot">
      <span class="mono foot-count">
        {count(matches)} of {count(total)} shown
      </span>
      {toggle(
        <>
          Tree <b>{view.tree.value ? 'on' : 'off'}</b>
        </>,
        view.tree,
        't',
        'Tree or flat (t)',
      )}
      {toggle(
        <>
          <span class="foot-word">Kernel threads </span>
          <span class="foot-short">Kernel </span>
          <b>{view.kernel.value ? 'shown' : `hidden (${count(kernelHidden)})`}</b>
        </>,
        view.kernel,
        'k',
        'Kernel threads (k)',
      )}
      {toggle(
        <>
          <span class="foot-word">CPU </span>100 % = <b>{allCores.value ? `all ${cores || ''} cores` : 'one core'}</b>
        </>,
        allCores,
        '%',
        'What 100 % means (%)',
      )}
      {toggle(
        <>
          Order <b>{view.locked.value ? 'locked' : auto ? 'held a moment' : 'moves'}</b>
        </>,
        view.locked,
        'L',
        'Lock the order (L). It is held by itself while the pointer is in the table and for 3 s after a cursor key.',
      )}
      <Own />
      <span class="foot-legend">
        {LEGEND.map((kind) => (
          <span class="legend" key={kind}>
            <span class={`legend-square kind-${kind}`} aria-hidden="true" />
            {KIND_LETTER[kind]} {LEGEND_SHORT[kind] ?? KIND_NAME[kind]}
          </span>
        ))}
      </span>
      <span class="foot-end">
        <button
          type="button"
          class="button button-text"
          aria-haspopup="dialog"
          aria-keyshortcuts="Shift+Y"
          onClick={() => {
            view.copyOpen.value = true;
          }}
        >
          Copy
        </button>
        <KeysLink />
      </span>
    </footer>
  );
}

function SortSelect() {
  const { column, descending } = view.sort.value;
  return (
    <div class="sorter" data-region="sort">
      <label class="sorter-label">
        <span class="caption">Sort</span>
        <select
          class="field sorter-field"
          value={column}
          onChange={(event) => {
            const chosen = columnById(event.currentTarget.value);
            if (chosen) view.setSort(chosen.id, chosen.downFirst);
          }}
        >
          {COLUMNS.filter((c) => c.sortable).map((c) => (
            <option key={c.id} value={c.id}>
              {c.label}
            </option>
          ))}
        </select>
      </label>
      <button type="button" class="button" onClick={() => view.setSort(column, !descending)}>
        {descending ? '▼ down' : '▲ up'}
      </button>
      <button
        type="button"
        class="button button-text sorter-end"
        aria-expanded={view.gaugesOpen.value}
        onClick={() => {
          view.gaugesOpen.value = !view.gaugesOpen.value;
        }}
      >
        Gauges
      </button>
      <button
        type="button"
        class="button button-text"
        aria-haspopup="dialog"
        onClick={() => {
          view.columnsOpen.value = true;
        }}
      >
        Columns
      </button>
    </div>
  );
}

export function ListPage(props: { active: boolean }) {
  const host = useRef<HTMLDivElement>(null);
  const { active } = props;

  useEffect(() => {
    const life = new Lifetime();
    view.readAddress();
    mountedAt.value = Date.now();
    table = new Table(
      {
        href: (row) => processPath(row.summary.identity),
        select,
        open: openProcess,
        toggle: (row) => view.setCollapsed(row, !view.isCollapsed(row)),
        sort: sortBy,
        resize: (column, width) => {
          view.widths.value = { ...view.widths.value, [column.id]: clampWidth(width) };
        },
        scrolled: () => {
          scrollKept = table?.scrollTop ?? 0;
          invalidate();
        },
        hover: (inside) => {
          view.hovered.value = inside;
        },
      },
      store.history,
    );
    table.onResize = relayout;
    host.current?.append(table.element);
    const made = table;
    store.fresh = true;
    life.add(() => {
      if (asked) cancelAnimationFrame(asked);
      asked = 0;
      made.close();
      if (table === made) table = null;
      view.hovered.value = false;
    });
    life.add(bindListKeys());
    // What the table shows, and its shape.
    life.add(
      effect(() => {
        void [store.tick.value, view.query.value, view.sortText.value, view.tree.value, view.kernel.value];
        void [view.selected.value, view.descendants.value, view.exceptions.value, view.collapseAll.value];
        void [dark.value, allCores.value, isLocked()];
        invalidate();
      }),
    );
    life.add(
      effect(() => {
        void [view.columnText.value, view.widths.value, comfortable.value];
        relayout();
      }),
    );
    life.add(effect(view.writeAddress));
    let said = '';
    life.add(
      effect(() => {
        const text = view.query.value.trim();
        const { matches, total } = counts.value;
        if (text === said) return;
        said = text;
        if (text) announce(`${matches} of ${total} processes match`);
      }),
    );
    life.interval(500, () => {
      if (document.visibilityState !== 'hidden') now.value = Date.now();
    });
    life.listen(window, 'popstate', () => view.readAddress());
    requestAnimationFrame(() => {
      if (table === made) {
        refresh();
        made.scrollTop = scrollKept;
      }
    });
    return () => life.close();
  }, []);

  // One stream a tab: while a process page is opening, the list keeps what it has.
  useEffect(() => {
    if (!active) return;
    store.live.start();
    return () => store.live.stop();
  }, [active]);

  useEffect(() => {
    if (active) document.title = view.listTitle;
  }, [active]);

  const row = selectedRow();
  const loaded = store.loaded.value;
  const held = store.frame.value.kind !== 'live';
  const shownColumns = view.columns.value.map((id) => columnById(id) as Column);
  const empty = isEmpty.value;
  return (
    <div class={`page list${narrow.value ? ' list-narrow' : ''}${view.filterOpen.value ? ' list-filtering' : ''}`}>
      <TopBar
        title="list"
        page="list"
        lamps={<Lamps />}
        actions={
          <>
            <button
              type="button"
              class="button bar-filter"
              aria-expanded={view.filterOpen.value}
              onClick={() => {
                if (view.filterOpen.value) view.filterOpen.value = false;
                else focusFilter();
              }}
            >
              Filter
            </button>
            <button
              type="button"
              class={`button bar-hold${held ? ' button-armed' : ''}`}
              aria-keyshortcuts="Space"
              onClick={toggleHold}
            >
              {held ? 'Live' : 'Hold'}
              <kbd class="key bar-key">Space</kbd>
            </button>
            <button
              type="button"
              class="button bar-columns"
              aria-haspopup="dialog"
              onClick={() => {
                view.columnsOpen.value = true;
              }}
            >
              Columns
            </button>
          </>
        }
      >
        <FilterLine />
      </TopBar>
      <main class="list-main">
        <Notes />
        {(!narrow.value || view.gaugesOpen.value) && <Gauges stale={isStale.value} />}
        {narrow.value && <SortSelect />}
        <div class="list-table" ref={host} aria-busy={!loaded}>
          {!loaded && <Waiting />}
          {empty && <Empty kernelHidden={counts.peek().kernelHidden} />}
        </div>
        {row && view.previewOpen.value && <Preview row={row} select={goTo} />}
      </main>
      <Foot />
      {view.columnsOpen.value && <ColumnsSheet />}
      {view.copyOpen.value && <CopySheet row={row} rows={() => order.rows} columns={shownColumns} />}
    </div>
  );
}

// The space as text: the same tree, the same selection, in the table of the list.

import { effect } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { type Column, type ColumnId, columnById, NARROW_COLUMNS } from '../columns';
import { Row } from '../deltas';
import { type Filter, kernelNamed } from '../filter';
import { stateName } from '../format';
import { History } from '../history';
import { Lifetime } from '../life';
import { processPath } from '../route';
import type { Layout } from '../rowline';
import { allCores, comfortable, dark } from '../settings';
import { Table } from '../table';
import { Order } from '../tree';
import type { ProcessSummary } from '../wire.gen';
import type { Space } from './control';
import type { SpaceData } from './data';
import * as view from './state';
import { HOSTS } from './structure';

// The structure tells a few states; of the others only that they pass in an instant.
function columnHere(id: ColumnId): Column {
  const column = columnById(id) as Column;
  if (id !== 'state') return column;
  return {
    ...column,
    title: 'State: D disk wait, T stopped, t traced, Z zombie; blank for who runs, sleeps or idles',
    hint: ({ summary }) => (summary.state === '' ? 'runs, sleeps or idles' : stateName(summary.state)),
  };
}

const COLUMNS: readonly ColumnId[] = ['name', 'pid', 'user', 'state', 'cpu', 'rss', 'thr', 'container'];
const NARROW = 700;

function summaryOf(data: SpaceData, i: number): ProcessSummary {
  const parent = data.parents[i] as number;
  const cpu = data.cpu[i] as number;
  return {
    identity: data.identity(i),
    parent_id: parent >= 0 ? data.identity(parent) : null,
    name: data.name[i] ?? '',
    executable: null,
    command_line: null,
    command_line_truncated: false,
    kernel_thread: data.isKernel(i),
    uid: data.uid[i] ?? 0,
    euid: data.euid[i] ?? 0,
    username: data.user[i] ?? null,
    effective_username: data.effectiveUser[i] ?? null,
    state: data.state(i),
    cpu_percent: Number.isFinite(cpu) ? cpu : null,
    rss_bytes: data.rss[i] as number,
    thread_count: data.threads[i] as number,
    started_at: 0,
    cgroup: null,
    container: data.container[i] ?? null,
    vms_bytes: 0,
    nice: 0,
    tty: null,
    processor: 0,
    read_bytes_rate: null,
    write_bytes_rate: null,
    run_id: data.run[i] ?? null,
    map_summary: null,
  };
}

export interface ListHandle {
  move(step: number): void;
  page(): number;
  open(newTab: boolean): void;
  expand(): void;
  collapse(): void;
  focus(): void;
}

function layoutFor(width: number): Layout {
  if (width < NARROW) {
    const columns = NARROW_COLUMNS.map(columnHere);
    return { columns, widths: [width - 104, 104, 0, 0], rowHeight: 44, narrow: true };
  }
  const columns = COLUMNS.map(columnHere);
  const widths = columns.map((column) => column.width || 140);
  const rest = width - widths.reduce((a, b) => a + b, 0);
  widths[0] = Math.max(160, (widths[0] as number) + rest);
  const coarse = matchMedia('(pointer: coarse)').matches;
  return { columns, widths, rowHeight: coarse ? 44 : comfortable.value ? 28 : 24, narrow: false };
}

export function AsList(props: { space: Space; handle: (handle: ListHandle | null) => void }) {
  const host = useRef<HTMLDivElement>(null);
  const { space, handle } = props;
  useEffect(() => {
    const life = new Lifetime();
    const { data } = space;
    const rows = new Map<string, Row>();
    const order = new Order();
    let sort: { column: ColumnId; descending: boolean } = { column: 'pid', descending: false };
    let asked = 0;
    let isStale = true;
    let isSought = false; // the selected row is to be scrolled to
    const isCollapsed = (row: Row) => view.collapsed.peek().has(row.key);
    const setCollapsed = (row: Row, on: boolean) => {
      const next = new Set(view.collapsed.peek());
      if (on) next.add(row.key);
      else next.delete(row.key);
      view.collapsed.value = next;
    };
    const table = new Table(
      {
        href: (row) => processPath(row.summary.identity),
        select: (row) => space.select(data.byKey.get(row.key) ?? -1),
        open: (row, newTab) => space.open(data.byKey.get(row.key) ?? -1, newTab),
        toggle: (row) => setCollapsed(row, !isCollapsed(row)),
        sort: (column) => {
          const down = sort.column === column.id ? !sort.descending : column.downFirst;
          sort = { column: column.id, descending: down };
          ask();
        },
        resize: () => {},
        scrolled: () => ask(),
        hover: () => {},
      },
      () => history,
    );
    const history = new History();
    const ask = () => {
      if (asked === 0) asked = requestAnimationFrame(draw);
    };
    const gather = () => {
      isStale = false;
      const seen = new Set<string>();
      for (let i = HOSTS; i < data.count; i++) {
        if (!data.isProcess(i)) continue;
        const key = data.key(i);
        seen.add(key);
        const row = rows.get(key);
        if (row) row.update(summaryOf(data, i));
        else rows.set(key, new Row(summaryOf(data, i)));
      }
      for (const key of rows.keys()) if (!seen.has(key)) rows.delete(key);
    };
    const selectedRow = () => rows.get(view.selected.peek() ?? '') ?? null;
    const draw = () => {
      asked = 0;
      if (isStale) gather();
      const filter: Filter = {
        text: view.query.peek(),
        terms: view.filter.peek().terms,
        test: view.isFiltering.peek() ? ({ summary }) => space.match[data.byKey.get(keyOf(summary)) ?? -1] === 1 : null,
      };
      order.update(rows.values(), [], true, {
        sortKey: (columnById(sort.column) as Column).sortKey,
        descending: sort.descending,
        tree: true,
        kernel: kernelNamed(filter),
        filter,
        descendants: false,
        collapsed: isCollapsed,
        pinned: selectedRow(),
        locked: false,
        now: data.capturedAt,
      });
      table.setSort(sort.column, sort.descending);
      table.setView({
        order,
        show: { now: Math.max(1, data.capturedAt), cores: 1, past: false },
        tree: true,
        collapsed: isCollapsed,
        selected: view.selected.peek(),
        live: false,
      });
      table.render();
      const row = isSought && rows.size > 0 && table.width > 0 ? selectedRow() : null;
      if (!row) return;
      isSought = false;
      table.reveal(row, table.hasFocus());
    };
    const relayout = () => {
      if (table.width === 0) return;
      table.setLayout(layoutFor(table.width));
      ask();
    };
    table.onResize = relayout;
    table.element.setAttribute('aria-label', 'Processes of the space');
    host.current?.append(table.element);
    space.onData = () => {
      isStale = true;
      ask();
    };
    life.add(() => {
      space.onData = () => {};
      cancelAnimationFrame(asked);
      table.close();
    });
    life.add(
      effect(() => {
        void [view.collapsed.value, view.query.value, dark.value, allCores.value];
        ask();
      }),
    );
    life.add(
      effect(() => {
        void comfortable.value;
        relayout();
      }),
    );
    life.add(
      effect(() => {
        void view.selected.value;
        isSought = true;
        ask();
      }),
    );
    const focusOn = (row: Row | null | undefined) => {
      if (!row) return;
      space.select(data.byKey.get(row.key) ?? -1);
      cancelAnimationFrame(asked);
      draw();
      table.reveal(row, true);
    };
    handle({
      move: (step) => focusOn(table.neighbour(view.selected.peek(), step)),
      page: () => table.pageRows,
      open: (newTab) => space.open(data.byKey.get(view.selected.peek() ?? '') ?? -1, newTab),
      expand() {
        const row = selectedRow();
        if (!row?.firstChild) return;
        if (isCollapsed(row)) setCollapsed(row, false);
        else focusOn(table.neighbour(row.key, 1));
      },
      collapse() {
        const row = selectedRow();
        if (!row) return;
        if (row.firstChild && !isCollapsed(row)) setCollapsed(row, true);
        else focusOn(row.parent);
      },
      focus: () => table.focusRow(),
    });
    life.add(() => handle(null));
    return () => life.close();
  }, [space, handle]);
  return <div class="space-list" ref={host} />;
}

const keyOf = (summary: ProcessSummary): string => `${summary.identity.pid}@${summary.identity.start_time_ticks}`;

// The list page: bar, gauges, table, preview and foot.

import { effect } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { announce } from '../announce';
import { HoldButton, TopBar } from '../bar';
import { type Column, columnById } from '../columns';
import { FilterButton, type Filtered, FilterLine } from '../filterline';
import { lazy } from '../lazy';
import { Lifetime } from '../life';
import { processPath } from '../route';
import { allCores, comfortable, dark } from '../settings';
import { store } from '../store';
import { Table } from '../table';
import {
  counts,
  goTo,
  invalidate,
  isEmpty,
  isLocked,
  narrow,
  openProcess,
  order,
  refresh,
  relayout,
  select,
  selectedRow,
  setTable,
  sortBy,
  toggleHold,
} from './control';
import { Foot, SortSelect } from './foot';
import { Gauges } from './gauges';
import { clampWidth } from './layout';
import { bindListKeys } from './shortcuts';
import * as view from './state';
import { isStale, Lamps, mountedAt, Notes, now, Waiting } from './status';

const Empty = lazy(async () => (await import('./rare')).Empty);
const Preview = lazy(async () => (await import('./preview')).Preview);
const ColumnsSheet = lazy(async () => (await import('./sheets')).ColumnsSheet);
const CopySheet = lazy(async () => (await import('./sheets')).CopySheet);

const filtered: Filtered = {
  query: view.query,
  open: view.filterOpen,
  keys: view.LIST_KEYS,
  example: 'Filter: name, user:root, cpu>0.5',
};

let scrollKept = 0;

export function ListPage(props: { active: boolean }) {
  const host = useRef<HTMLDivElement>(null);
  const { active } = props;

  useEffect(() => {
    const life = new Lifetime();
    view.readAddress();
    mountedAt.value = Date.now();
    const table = new Table(
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
          scrollKept = table.scrollTop;
          invalidate();
        },
        hover: (inside) => {
          view.hovered.value = inside;
        },
      },
      () => store.shownHistory,
    );
    table.onResize = relayout;
    host.current?.append(table.element);
    setTable(table);
    life.add(() => {
      setTable(null);
      table.close();
      view.hovered.value = false;
    });
    life.add(bindListKeys());
    // What the table shows, and its shape.
    life.add(
      effect(() => {
        void [store.tick.value, view.filter.value, view.sortText.value, view.tree.value, view.kernel.value];
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
        if (text === said || !view.answered.value) return;
        said = text;
        if (!text) return;
        // After the frame that puts it into effect.
        requestAnimationFrame(() => {
          const { matches, total } = counts.peek();
          announce(`${matches} of ${total} processes match`);
        });
      }),
    );
    life.interval(500, () => {
      if (document.visibilityState !== 'hidden') now.value = Date.now();
    });
    life.listen(window, 'popstate', () => view.readAddress());
    const first = requestAnimationFrame(() => {
      refresh();
      table.scrollTop = scrollKept;
    });
    life.add(() => cancelAnimationFrame(first));
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
            <FilterButton open={view.filterOpen}>Filter</FilterButton>
            <HoldButton held={held} toggle={toggleHold} />
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
        <FilterLine page={filtered} />
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

// A flat table with rows of one height of which only those in sight are mounted:
// 60,000 mappings cost what 40 do. The order of a live table stands still while
// the pointer is in it and for 3 s after a cursor key.

import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { comfortable } from '../settings';
import { keepOrder, type Sort, type SortValue, sorted } from './order';

const OVERSCAN = 8;
// Column gap and the two edges of a row, CSS px, as in process.css.
const GAP = 12;
const EDGES = 16;
const KEY_LOCK_MS = 3000;

export interface Column<T> {
  readonly id: string;
  readonly title: string;
  readonly width: string; // one track of a CSS grid
  readonly figure?: boolean; // right-aligned figures
  readonly sort?: (row: T) => SortValue;
  readonly down?: boolean; // the first press sorts downwards
  readonly cell: (row: T) => ComponentChildren;
  readonly hint?: (row: T) => string | undefined;
  readonly narrow?: 'hide'; // left out below 700 px
}

export interface GridProps<T, K extends string | number> {
  readonly label: string;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly rowKey: (row: T) => K;
  readonly sort: Sort;
  readonly onSort: (sort: Sort) => void;
  readonly selected?: K | null;
  readonly onSelect?: (row: T) => void;
  readonly onOpen?: (row: T) => void;
  readonly rowClass?: (row: T) => string;
  readonly empty: ComponentChildren;
  readonly live?: boolean; // rows change by themselves
}

function useMedia(query: string): boolean {
  const [match, setMatch] = useState(() => matchMedia(query).matches);
  useLayoutEffect(() => {
    const media = matchMedia(query);
    const change = () => setMatch(media.matches);
    change();
    media.addEventListener('change', change);
    return () => media.removeEventListener('change', change);
  }, [query]);
  return match;
}

export function Grid<T, K extends string | number>(props: GridProps<T, K>) {
  const { rowKey, sort } = props;
  const narrow = useMedia('(max-width: 699px)');
  const coarse = useMedia('(pointer: coarse)');
  const rowHeight = coarse ? 44 : comfortable.value ? 28 : 24;
  const scroller = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [view, setView] = useState(400);
  const [active, setActive] = useState<K | null>(null);
  const inside = useRef(false);
  const keyedAt = useRef(Number.NEGATIVE_INFINITY);
  const wantFocus = useRef(false);
  const order = useRef<{ keys: readonly K[]; by: string }>({ keys: [], by: '' });

  const columns = narrow ? props.columns.filter((c) => c.narrow !== 'hide') : props.columns;
  const column = props.columns.find((c) => c.id === sort.column);
  const by = `${sort.column} ${sort.down}`;
  const rows = useMemo(() => {
    const locked = props.live && (inside.current || performance.now() - keyedAt.current < KEY_LOCK_MS);
    const next =
      locked && order.current.by === by
        ? keepOrder(props.rows, rowKey, order.current.keys)
        : column?.sort === undefined
          ? [...props.rows]
          : sorted(props.rows, column.sort, sort.down);
    order.current = { keys: next.map(rowKey), by };
    return next;
  }, [props.rows, by, props.live, column?.sort, rowKey, sort.down]);

  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    const sizes = new ResizeObserver(() => setView(element.clientHeight));
    sizes.observe(element);
    setView(element.clientHeight);
    return () => sizes.disconnect();
  }, []);

  const chosen = active ?? props.selected ?? null;
  const at = Math.max(
    0,
    rows.findIndex((row) => rowKey(row) === chosen),
  );
  const first = Math.max(0, Math.floor(top / rowHeight) - OVERSCAN);
  const last = Math.min(rows.length - 1, Math.ceil((top + view) / rowHeight) + OVERSCAN);
  const shown: number[] = [];
  for (let i = first; i <= last; i++) shown.push(i);
  // The row with the focus stays mounted when it is scrolled away.
  if (rows.length > 0 && (at < first || at > last)) shown.push(at);

  const reveal = (index: number) => {
    const element = scroller.current;
    if (element === null) return;
    const head = element.querySelector<HTMLElement>('.flat-head')?.offsetHeight ?? 0;
    const y = index * rowHeight;
    if (y < element.scrollTop) element.scrollTop = y;
    else if (y + rowHeight > element.scrollTop + element.clientHeight - head) {
      element.scrollTop = y + rowHeight - element.clientHeight + head;
    }
    setTop(element.scrollTop);
  };
  const move = (index: number) => {
    const to = Math.max(0, Math.min(rows.length - 1, index));
    const row = rows[to];
    if (row === undefined) return;
    wantFocus.current = true;
    setActive(rowKey(row));
    props.onSelect?.(row);
    reveal(to);
  };
  useLayoutEffect(() => {
    if (!wantFocus.current) return;
    wantFocus.current = false;
    scroller.current?.querySelector<HTMLElement>('[role="row"][tabindex="0"]')?.focus({ preventScroll: true });
  });

  // A selection made elsewhere (the strip, an address) is scrolled to.
  const selected = props.selected ?? null;
  const revealed = useRef<K | null>(null);
  useLayoutEffect(() => {
    if (selected === null || selected === revealed.current) return;
    const index = rows.findIndex((row) => rowKey(row) === selected);
    if (index < 0) return;
    revealed.current = selected;
    if (active !== selected) {
      setActive(null);
      reveal(index);
    }
  }, [selected, rows]);

  const keys = (event: KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const target = event.target as HTMLElement;
    if (target.closest('.flat-head') !== null) return;
    const page = Math.max(1, Math.floor(view / rowHeight) - 2);
    const moves: Record<string, number> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      PageDown: at + page,
      PageUp: at - page,
      Home: 0,
      End: rows.length - 1,
    };
    const to = moves[event.key];
    if (to !== undefined) {
      keyedAt.current = performance.now();
      if (event.key === 'ArrowUp' && at === 0) headButton()?.focus();
      else move(to);
      event.preventDefault();
    } else if (event.key === 'Enter' && target.getAttribute('role') === 'row') {
      const row = rows[at];
      if (row !== undefined && props.onOpen !== undefined) {
        props.onOpen(row);
        event.preventDefault();
      }
    }
  };
  const headButton = () => scroller.current?.querySelector<HTMLElement>('.flat-head [tabindex="0"]');
  const headKeys = (event: KeyboardEvent) => {
    const buttons = [...(scroller.current?.querySelectorAll<HTMLElement>('.flat-head button') ?? [])];
    const here = buttons.indexOf(document.activeElement as HTMLElement);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step !== undefined) {
      buttons[(here + step + buttons.length) % buttons.length]?.focus();
      event.preventDefault();
    } else if (event.key === 'ArrowDown') {
      move(at);
      event.preventDefault();
    }
  };

  // Every row is a grid of its own: a common width keeps their columns in line.
  const least = columns.reduce((sum, c) => sum + Number(/\d+/.exec(c.width)?.[0] ?? 0) + GAP, EDGES);
  const tracks = { gridTemplateColumns: columns.map((c) => c.width).join(' ') };
  const stop = columns.some((c) => c.id === sort.column) ? sort.column : columns[0]?.id;
  return (
    <div
      class="flat"
      role="grid"
      aria-label={props.label}
      aria-rowcount={rows.length + 1}
      aria-colcount={columns.length}
      ref={scroller}
      data-scroll=""
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      onKeyDown={keys}
      onPointerEnter={() => {
        inside.current = true;
      }}
      onPointerLeave={() => {
        inside.current = false;
      }}
    >
      <div
        class="flat-head"
        role="row"
        aria-rowindex={1}
        style={{ ...tracks, minWidth: `${least}px` }}
        onKeyDown={headKeys}
      >
        {columns.map((c) => {
          const on = sort.column === c.id;
          const text = on ? `${c.title} ${sort.down ? '▼' : '▲'}` : c.title;
          return (
            <div
              class={c.figure ? 'flat-th num' : 'flat-th'}
              role="columnheader"
              key={c.id}
              aria-sort={on ? (sort.down ? 'descending' : 'ascending') : 'none'}
            >
              {c.sort === undefined ? (
                text
              ) : (
                <button
                  type="button"
                  class="flat-sort"
                  tabIndex={c.id === stop ? 0 : -1}
                  onClick={() => {
                    order.current = { keys: [], by: '' };
                    props.onSort({ column: c.id, down: on ? !sort.down : (c.down ?? false) });
                  }}
                >
                  {text}
                </button>
              )}
            </div>
          );
        })}
      </div>
      {rows.length === 0 ? (
        <div class="flat-empty" role="row">
          <div role="gridcell">{props.empty}</div>
        </div>
      ) : (
        <div
          class="flat-space"
          role="rowgroup"
          style={{ height: `${rows.length * rowHeight}px`, minWidth: `${least}px` }}
        >
          {shown.map((i) => {
            const row = rows[i] as T;
            const key = rowKey(row);
            const on = key === chosen;
            return (
              // biome-ignore lint/a11y/useKeyWithClickEvents: the grid around takes the keys.
              <div
                class={`flat-row${on ? ' flat-on' : ''} ${props.rowClass?.(row) ?? ''}`}
                role="row"
                key={key}
                aria-rowindex={i + 2}
                aria-selected={on}
                tabIndex={i === at ? 0 : -1}
                style={{ ...tracks, top: `${i * rowHeight}px`, height: `${rowHeight}px` }}
                onClick={(event) => {
                  // A link or a button in the row does what it says and nothing else.
                  if ((event.target as HTMLElement).closest('a, button') !== null) return;
                  setActive(key);
                  props.onSelect?.(row);
                }}
                onDblClick={() => props.onOpen?.(row)}
              >
                {columns.map((c) => (
                  <div class={c.figure ? 'flat-td num' : 'flat-td'} role="gridcell" key={c.id} title={c.hint?.(row)}>
                    {c.cell(row)}
                  </div>
                ))}
              </div>
            );
          })}
        </div>
      )}
    </div>
  );
}

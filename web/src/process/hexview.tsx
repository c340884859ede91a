// The bytes of one window of memory: rows of 16 (8 on a narrow page) with a ruler
// and ASCII, or words of 8 bytes with what they point to. Only rows in sight are
// mounted. Changed bytes are underlined with an edge; what could not be read is
// hatched, with the reason once.

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { visible } from '../format';
import { asciiByte, type Block, hexByte, hexRows, shortAddress, type Word, wordAt, wordsOf } from '../hex';
import { KIND_LETTER } from '../strip';
import { type Region, regionAt } from './maps';

const ROW = 20;
const OVERSCAN = 6;

export interface HexSelection {
  readonly cursor: number; // index into the block
  readonly anchor: number; // the other end of the selection
}

export interface HexProps {
  readonly block: Block;
  readonly changed: Uint8Array;
  readonly columns: number;
  readonly little: boolean;
  readonly words: boolean;
  readonly regions: readonly Region[];
  readonly selection: HexSelection;
  readonly onSelect: (selection: HexSelection) => void;
  readonly onFollow: () => void; // Enter: the word at the cursor as an address
  readonly onEndian: () => void;
  readonly reason: string; // why bytes past the read ones are not readable
}

function useWindow(count: number): {
  ref: { current: HTMLDivElement | null };
  first: number;
  last: number;
  onScroll: (event: Event) => void;
  reveal: (row: number) => void;
} {
  const ref = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [view, setView] = useState(300);
  useLayoutEffect(() => {
    const element = ref.current;
    if (element === null) return;
    const sizes = new ResizeObserver(() => setView(element.clientHeight));
    sizes.observe(element);
    setView(element.clientHeight);
    return () => sizes.disconnect();
  }, []);
  return {
    ref,
    first: Math.max(0, Math.floor(top / ROW) - OVERSCAN),
    last: Math.min(count - 1, Math.ceil((top + view) / ROW) + OVERSCAN),
    onScroll: (event) => setTop((event.currentTarget as HTMLElement).scrollTop),
    reveal: (row) => {
      const element = ref.current;
      if (element === null) return;
      const y = row * ROW;
      if (y < element.scrollTop) element.scrollTop = y;
      else if (y + 2 * ROW > element.scrollTop + element.clientHeight) {
        element.scrollTop = y + 2 * ROW - element.clientHeight;
      }
    },
  };
}

// pointsTo names the mapping a word points into: "H heap +0x120"; null when none.
export function pointsTo(value: bigint | null, regions: readonly Region[]): { region: Region; text: string } | null {
  if (value === null || value < 4096n) return null;
  const region = regionAt(regions, value);
  if (region === null) return null;
  const by = value - region.start;
  return { region, text: `${KIND_LETTER[region.kind]} ${visible(region.name)} +0x${by.toString(16)}` };
}

function Bytes(props: HexProps) {
  const { block, columns, selection, changed } = props;
  const rows = hexRows(block.address, block.requested, columns);
  const win = useWindow(rows.length);
  const lead = Number(block.address % BigInt(columns));
  const low = Math.min(selection.cursor, selection.anchor);
  const high = Math.max(selection.cursor, selection.anchor);
  const rowOf = (index: number) => Math.floor((index + lead) / columns);
  const dragging = useRef(false);

  const to = (index: number, extend: boolean) => {
    const cursor = Math.max(0, Math.min(block.requested - 1, index));
    props.onSelect({ cursor, anchor: extend ? selection.anchor : cursor });
    win.reveal(rowOf(cursor));
  };
  const keys = (event: KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const { cursor } = selection;
    const page = Math.max(1, win.last - win.first - 2 * OVERSCAN) * columns;
    const moves: Record<string, number> = {
      ArrowRight: cursor + 1,
      ArrowLeft: cursor - 1,
      ArrowDown: cursor + columns,
      ArrowUp: cursor - columns,
      PageDown: cursor + page,
      PageUp: cursor - page,
      Home: cursor - ((cursor + lead) % columns),
      End: cursor - ((cursor + lead) % columns) + columns - 1,
    };
    const next = moves[event.key];
    if (next !== undefined) to(next, event.shiftKey);
    else if (event.key === 'Enter') props.onFollow();
    else if (event.key === 'e') props.onEndian();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const indexAt = (event: Event): number | null => {
    const cell = (event.target as HTMLElement).closest<HTMLElement>('[data-i]');
    return cell === null ? null : Number(cell.dataset.i);
  };
  const shown: number[] = [];
  for (let r = win.first; r <= win.last; r++) shown.push(r);
  const at = rowOf(selection.cursor);
  if (at < win.first || at > win.last) shown.push(at);
  return (
    <div
      class={`hex hex-${columns}`}
      role="grid"
      tabIndex={0}
      aria-label="Bytes"
      aria-rowcount={rows.length + 1}
      aria-colcount={columns + 2}
      aria-multiselectable="true"
      aria-activedescendant={`byte-${selection.cursor}`}
      ref={win.ref}
      data-hex=""
      data-scroll=""
      onScroll={win.onScroll}
      onKeyDown={keys}
      onPointerDown={(event) => {
        const index = indexAt(event);
        if (index === null || event.button !== 0) return;
        dragging.current = true;
        props.onSelect({ cursor: index, anchor: event.shiftKey ? selection.anchor : index });
      }}
      onPointerMove={(event) => {
        if (!dragging.current || event.buttons === 0) return;
        const index = indexAt(event);
        if (index !== null && index !== selection.cursor) props.onSelect({ cursor: index, anchor: selection.anchor });
      }}
      onPointerUp={() => {
        dragging.current = false;
      }}
    >
      <div class="hex-row hex-ruler" role="row" aria-rowindex={1}>
        <span class="hex-address" role="columnheader">
          address
        </span>
        {Array.from({ length: columns }, (_, c) => (
          <span class="hex-cell" role="columnheader" key={c}>
            {hexByte(c)}
          </span>
        ))}
        <span class="hex-ascii" role="columnheader">
          ascii
        </span>
      </div>
      <div class="hex-space" role="rowgroup" style={{ height: `${rows.length * ROW}px` }}>
        {shown.map((r) => {
          const row = rows[r];
          if (row === undefined) return null;
          return (
            <div class="hex-row" role="row" key={r} aria-rowindex={r + 2} style={{ top: `${r * ROW}px` }}>
              <span class="hex-address" role="rowheader">
                {shortAddress(row.address)}
              </span>
              {row.index.map((i, c) => {
                const key = `${c}`;
                if (i < 0) {
                  return (
                    <span class="hex-cell" role="gridcell" key={key}>
                      {' '}
                    </span>
                  );
                }
                const value = block.bytes[i];
                const picked = i >= low && i <= high;
                let name = 'hex-cell';
                if (value === undefined) name += ' hex-none';
                else if (changed[i] === 1) name += ' hex-changed';
                else if (value === 0) name += ' zero';
                if (picked) name += ' hex-picked';
                if (i === selection.cursor) name += ' hex-cursor';
                return (
                  <span
                    class={name}
                    role="gridcell"
                    key={key}
                    id={`byte-${i}`}
                    data-i={i}
                    aria-selected={picked}
                    aria-label={value === undefined ? 'not readable' : undefined}
                  >
                    {value === undefined ? '' : hexByte(value)}
                  </span>
                );
              })}
              <span class="hex-ascii" role="gridcell">
                {row.index.map((i, c) => {
                  const value = i < 0 ? undefined : block.bytes[i];
                  const picked = i >= low && i <= high && i >= 0;
                  return (
                    <span key={c} class={picked ? 'hex-char hex-picked' : 'hex-char'} data-i={i < 0 ? undefined : i}>
                      {value === undefined ? ' ' : asciiByte(value)}
                    </span>
                  );
                })}
              </span>
            </div>
          );
        })}
      </div>
    </div>
  );
}

function Words(props: HexProps) {
  const { block, selection, changed, regions, little } = props;
  const words: Word[] = wordsOf(block, little);
  const win = useWindow(words.length);
  const lead = words[0]?.offset ?? 0;
  const at = Math.max(0, Math.min(words.length - 1, Math.floor((selection.cursor - lead) / 8)));
  const to = (index: number) => {
    const word = words[Math.max(0, Math.min(words.length - 1, index))];
    if (word === undefined) return;
    props.onSelect({ cursor: word.offset, anchor: word.offset + 7 });
    win.reveal(Math.floor((word.offset - lead) / 8));
  };
  const keys = (event: KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const page = Math.max(1, win.last - win.first - 2 * OVERSCAN);
    const moves: Record<string, number> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      PageDown: at + page,
      PageUp: at - page,
      Home: 0,
      End: words.length - 1,
    };
    const next = moves[event.key];
    if (next !== undefined) to(next);
    else if (event.key === 'Enter') props.onFollow();
    else if (event.key === 'e') props.onEndian();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const shown: number[] = [];
  for (let r = win.first; r <= win.last; r++) shown.push(r);
  if (words.length > 0 && (at < win.first || at > win.last)) shown.push(at);
  return (
    <div
      class="hex hex-words"
      role="grid"
      tabIndex={0}
      aria-label="Words"
      aria-rowcount={words.length + 1}
      aria-colcount={4}
      aria-activedescendant={`word-${at}`}
      ref={win.ref}
      data-hex=""
      data-scroll=""
      onScroll={win.onScroll}
      onKeyDown={keys}
    >
      <div class="hex-row hex-ruler" role="row" aria-rowindex={1}>
        <span class="hex-address" role="columnheader">
          address
        </span>
        <span class="hex-word" role="columnheader">
          {little ? 'word, little-endian' : 'word, big-endian'}
        </span>
        <span class="hex-points" role="columnheader">
          points to
        </span>
        <span class="hex-ascii" role="columnheader">
          ascii
        </span>
      </div>
      <div class="hex-space" role="rowgroup" style={{ height: `${words.length * ROW}px` }}>
        {shown.map((r) => {
          const word = words[r];
          if (word === undefined) return null;
          const target = pointsTo(word.value, regions);
          const bytes = block.bytes.subarray(word.offset, word.offset + 8);
          const fresh = changed.subarray(word.offset, word.offset + 8).includes(1);
          return (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the grid around takes the keys.
            <div
              class={`hex-row${r === at ? ' hex-picked' : ''}`}
              role="row"
              key={r}
              id={`word-${r}`}
              aria-rowindex={r + 2}
              aria-selected={r === at}
              style={{ top: `${r * ROW}px` }}
              onClick={() => props.onSelect({ cursor: word.offset, anchor: word.offset + 7 })}
              onDblClick={() => props.onFollow()}
            >
              <span class="hex-address" role="rowheader">
                {shortAddress(word.address)}
              </span>
              <span
                class={`hex-word${word.value === null ? ' hex-none' : fresh ? ' hex-changed' : ''}`}
                role="gridcell"
              >
                {word.value === null ? '' : word.value.toString(16).padStart(16, '0')}
              </span>
              <span class="hex-points" role="gridcell">
                {target === null ? '' : <span class={`kind-text kind-text-${target.region.kind}`}>{target.text}</span>}
              </span>
              <span class="hex-ascii" role="gridcell">
                {Array.from(bytes, asciiByte).join('')}
              </span>
            </div>
          );
        })}
      </div>
    </div>
  );
}

export function HexView(props: HexProps) {
  const { block } = props;
  const missing = block.requested - block.bytes.length;
  return (
    <div class="hexview">
      {props.words ? <Words {...props} /> : <Bytes {...props} />}
      {missing > 0 && (
        <div class="line line-warn">
          <span class="line-text">
            <span class="hatch" aria-hidden="true" /> {missing} bytes from{' '}
            {shortAddress(block.address + BigInt(block.bytes.length))} are not readable: {props.reason}
          </span>
        </div>
      )}
    </div>
  );
}

// pointerAt is the word under the cursor, null when fewer than 8 bytes are left.
export function pointerAt(block: Block, cursor: number, little: boolean): bigint | null {
  return wordAt(block.bytes, cursor, little);
}

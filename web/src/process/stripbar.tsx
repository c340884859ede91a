// The address strip above the sections: hover or arrow keys walk the mappings and
// name each on a fixed line; Enter opens it in Memory; a drag sums what it covers.

import type { Signal } from '@preact/signals';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ago, bytes, bytesUnit, count, visible } from '../format';
import { fullAddress } from '../hex';
import { dark } from '../settings';
import { drawStrip, KIND_NAME, layoutStrip, regionAtX, type Segment, segmentOf, stripPalette } from '../strip';
import { now } from './clock';
import { type Region, sumOf } from './maps';
import type { Space } from './model';

const HEIGHT = 30;

// sizeText is a size on a block: "41 MiB".
function sizeText(size: number): string {
  const [figure, unit] = bytesUnit(size);
  return `${figure.replace(/\.\d+$/, '')} ${unit}`;
}

// describe is what the fixed line says of one mapping.
export function describe(region: Region): string {
  const { map } = region;
  const parts = [`${map.start}–${map.end}`, map.permissions, `size ${bytes(region.size)}`];
  parts.push(`RSS ${bytes(map.rss_bytes)}`, `PSS ${bytes(map.pss_bytes)}`);
  if (region.wx) parts.push('W+X');
  parts.push(map.pathname === null ? KIND_NAME[region.kind] : visible(map.pathname));
  return parts.join('  ');
}

function describeRange(regions: readonly Region[], a: number, b: number): string {
  const picked = regions.slice(Math.min(a, b), Math.max(a, b) + 1);
  const first = picked[0];
  const last = picked.at(-1);
  if (first === undefined || last === undefined) return '';
  const sum = sumOf(picked);
  return `${first.map.start}–${last.map.end}  ${count(sum.count)} maps  size ${bytes(sum.size)}  RSS ${bytes(
    sum.rss,
  )}  PSS ${bytes(sum.pss)}  Esc clears`;
}

export function StripBar(props: { space: Space; walk: Signal<number>; open: (region: Region) => void }) {
  const { space, walk } = props;
  const { regions } = space;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [hover, setHover] = useState(-1);
  const [range, setRange] = useState<readonly [number, number] | null>(null);
  const [focused, setFocused] = useState(false);
  const drag = useRef<{ at: number; x: number; moved: boolean } | null>(null);
  const segments: Segment[] = useMemo(() => layoutStrip(regions, width), [regions, width]);
  const at = Math.min(walk.value, regions.length - 1);
  const marked = hover >= 0 ? hover : at;
  const theme = dark.value;

  useEffect(() => {
    const element = canvas.current;
    if (element === null) return;
    const sizes = new ResizeObserver(() => setWidth(element.clientWidth));
    sizes.observe(element);
    setWidth(element.clientWidth);
    return () => sizes.disconnect();
  }, []);

  useEffect(() => {
    const element = canvas.current;
    const ctx = element?.getContext('2d');
    if (!element || !ctx || width === 0) return;
    const ratio = devicePixelRatio || 1;
    element.width = Math.round(width * ratio);
    element.height = Math.round(HEIGHT * ratio);
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    const shown = hover >= 0 || focused ? marked : -1;
    drawStrip(ctx, segments, width, HEIGHT, stripPalette(), { region: shown, range, focused }, sizeText);
  }, [segments, width, theme, marked, range, focused, hover]);

  // A new reading may have fewer mappings than the one a drag was made on.
  useEffect(() => {
    if (range !== null && Math.max(...range) >= regions.length) setRange(null);
  }, [regions.length, range]);

  const point = (event: PointerEvent): number => {
    const box = canvas.current?.getBoundingClientRect();
    return box === undefined ? -1 : regionAtX(segments, event.clientX - box.left);
  };
  const jump = (by: 1 | -1): number => {
    const here = segmentOf(segments, at);
    if (here === null) return Math.max(at, 0);
    const blocks = segments.filter((s) => s.kind !== 'gap');
    return blocks[blocks.indexOf(here) + by]?.first ?? at;
  };
  const keys = (event: KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey || regions.length === 0) return;
    const last = regions.length - 1;
    const moves: Record<string, () => number> = {
      ArrowRight: () => Math.min(last, at + 1),
      ArrowLeft: () => Math.max(0, at - 1),
      PageDown: () => jump(1),
      PageUp: () => jump(-1),
      Home: () => 0,
      End: () => last,
    };
    const move = moves[event.key];
    if (move !== undefined) {
      const to = move();
      if (event.shiftKey) setRange([range?.[0] ?? Math.max(0, at), to]);
      else setRange(null);
      setHover(-1);
      walk.value = to;
      event.preventDefault();
    } else if (event.key === 'Enter') {
      const region = regions[at];
      if (region !== undefined) props.open(region);
      event.preventDefault();
    } else if (event.key === 'Escape' && range !== null) {
      setRange(null);
      event.preventDefault();
    }
  };

  const region = regions[marked];
  const showing = hover >= 0 || focused;
  const read =
    space.capturedAt === null ? 'maps not read yet' : `maps read ${ago(Math.max(0, now.value - space.capturedAt))}`;
  const line =
    range !== null
      ? describeRange(regions, range[0], range[1])
      : region !== undefined && showing
        ? describe(region)
        : `gaps folded · ${count(regions.length)} maps${space.truncated ? ', cut at the limit' : ''} · ${read}`;
  return (
    <div class="stripbar" data-region="strip">
      <div
        class="stripbar-slider"
        role="slider"
        tabIndex={0}
        aria-label="Address space"
        aria-valuemin={0}
        aria-valuemax={Math.max(0, regions.length - 1)}
        aria-valuenow={Math.max(0, at)}
        aria-valuetext={regions[at] === undefined ? 'no mappings' : describe(regions[at])}
        onKeyDown={keys}
        onFocus={() => {
          setFocused(true);
          if (walk.value < 0 && regions.length > 0) walk.value = 0;
        }}
        onBlur={() => setFocused(false)}
        onPointerDown={(event) => {
          const to = point(event);
          if (to < 0 || event.button !== 0) return;
          drag.current = { at: to, x: event.clientX, moved: false };
          setRange(null);
          event.currentTarget.setPointerCapture(event.pointerId);
        }}
        onPointerMove={(event) => {
          const to = point(event);
          setHover(to);
          const from = drag.current;
          if (from === null || to < 0) return;
          if (Math.abs(event.clientX - from.x) > 4) from.moved = true;
          if (from.moved) setRange([from.at, to]);
        }}
        onPointerUp={() => {
          const from = drag.current;
          drag.current = null;
          if (from === null || from.moved) return;
          walk.value = from.at;
          const picked = regions[from.at];
          if (picked !== undefined) props.open(picked);
        }}
        onPointerLeave={() => setHover(-1)}
      >
        <canvas class="stripbar-canvas" ref={canvas} />
      </div>
      <div class="stripbar-line">
        <span class="stripbar-end">{regions[0] === undefined ? '' : short(regions[0].start)}</span>
        <span class={showing || range !== null ? 'stripbar-text stripbar-region' : 'stripbar-text'}>
          {space.error !== null && space.regions.length === 0 ? `maps: ${visible(space.error)}` : line}
        </span>
        <span class="stripbar-end">{regions.length === 0 ? '' : short(lastUser(regions).end)}</span>
      </div>
    </div>
  );
}

const short = (address: bigint) => `0x${fullAddress(address).slice(2).replace(/^0{4}/, '')}`;

// The vsyscall page at the very top is the kernel's; the strip's right end is the process's own.
function lastUser(regions: readonly Region[]): Region {
  return regions.findLast((r) => r.start < 1n << 63n) ?? (regions.at(-1) as Region);
}

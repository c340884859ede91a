// The address strip: one process's mappings in address order, at 10 px in a list
// row and at 30 px with labels above the detail. Layout is pure; drawing takes a
// canvas context and the colours of the theme.
//
// x and w are CSS pixels from the left edge of the strip. Widths follow the
// logarithm of the size with a floor of 2 %, so that a 4 KiB guard beside 28 TiB
// of nothing can still be seen and hit.

import { KIND_LETTER, KINDS, type Kind, PAGE, type Segment, type StripPalette, spread, weight } from './striprow';

export * from './striprow';

/** What the strip needs of a mapping. */
export interface StripRegion {
  readonly start: bigint;
  readonly end: bigint;
  readonly size: number;
  readonly kind: Kind;
  readonly wx: boolean;
  readonly name: string;
}

/** Gaps below this are not worth a fold. */
const GAP_MIN = 16 * 1024 * 1024;
/** Folded gaps on one strip; the largest are kept. */
const GAP_COUNT = 6;
/** A block is at least this wide before neighbours are merged, so that a letter fits. */
const BLOCK_MIN = 42;
const GAP_SHARE = 0.035;
/** Lists longer than this are pooled before they are merged by size. */
const POOL = 1500;
/** A name is not cut below this many letters. */
const SHORT_NAME = 4;
/** Where the kernel's half begins; the vsyscall page lies in it. */
const KERNEL = 1n << 63n;

interface Block {
  kind: Kind;
  size: number;
  wx: boolean;
  name: string;
  nameSize: number;
  first: number;
  last: number;
  /** Bytes by kind, to decide which colour a merged block has. */
  bytes: Partial<Record<Kind, number>>;
  /** Unmapped bytes before it when that gap is folded, else 0. */
  gap: number;
}

function join(a: Block, b: Block): Block {
  const bytes = { ...a.bytes };
  for (const kind of KINDS) {
    const more = b.bytes[kind];
    if (more !== undefined) bytes[kind] = (bytes[kind] ?? 0) + more;
  }
  // A guard is address space without memory: it never names a block that has any.
  const of = (kind: Kind) => (kind === 'guard' ? 0 : (bytes[kind] ?? 0));
  let kind: Kind = a.kind === 'guard' ? b.kind : a.kind;
  for (const k of KINDS) if (of(k) > of(kind)) kind = k;
  const named = a.kind !== kind ? b : b.kind !== kind ? a : a.nameSize >= b.nameSize ? a : b;
  return {
    kind,
    size: a.size + b.size,
    wx: a.wx || b.wx,
    name: named.name,
    nameSize: named.nameSize,
    first: a.first,
    last: b.last,
    bytes,
    gap: a.gap,
  };
}

/** keptGaps are the indices of the regions before which a gap is folded: the largest few. */
function keptGaps(regions: readonly StripRegion[]): Map<number, number> {
  const gaps: { at: number; size: number }[] = [];
  for (let i = 1; i < regions.length; i++) {
    const size = Number((regions[i] as StripRegion).start - (regions[i - 1] as StripRegion).end);
    // The hole below the kernel's half is no gap of the process: addresses cannot lie in it.
    if ((regions[i] as StripRegion).start >= KERNEL) continue;
    if (size >= GAP_MIN) gaps.push({ at: i, size });
  }
  gaps.sort((a, b) => b.size - a.size || a.at - b.at);
  return new Map(gaps.slice(0, GAP_COUNT).map((gap) => [gap.at, gap.size]));
}

/** span is what a block asks of the width: a guard is thin whatever it covers. */
function span(block: Block): number {
  return weight(block.kind === 'guard' ? PAGE : block.size);
}

/** merge joins neighbours, the least first, until at most `most` blocks are left or only gaps part them. */
function merge(blocks: Block[], most: number): Block[] {
  let list = blocks;
  while (list.length > most) {
    const pairs: { at: number; cost: number }[] = [];
    for (let i = 1; i < list.length; i++) {
      const a = list[i - 1] as Block;
      const b = list[i] as Block;
      if (b.gap > 0) continue;
      const alike = a.kind === b.kind || a.name === b.name;
      pairs.push({ at: i, cost: Math.min(span(a), span(b)) + (alike ? 0 : 4) });
    }
    if (pairs.length === 0) return list;
    pairs.sort((a, b) => a.cost - b.cost || a.at - b.at);
    const wanted = Math.min(list.length - most, Math.max(1, pairs.length >> 2));
    const taken = new Set<number>();
    for (const { at } of pairs) {
      if (taken.size === wanted) break;
      if (!taken.has(at - 1) && !taken.has(at + 1)) taken.add(at);
    }
    const next: Block[] = [];
    list.forEach((block, i) => {
      if (taken.has(i)) next.push(join(next.pop() as Block, block));
      else next.push(block);
    });
    list = next;
  }
  return list;
}

/** pooled joins each few neighbours of a very long list first: which of 60,000 merge first cannot be seen. */
function pooled(blocks: Block[]): Block[] {
  const each = Math.ceil(blocks.length / POOL);
  if (each < 2) return blocks;
  const out: Block[] = [];
  let taken = 0;
  for (const block of blocks) {
    const before = out.at(-1);
    if (before === undefined || block.gap > 0 || taken === each) {
      out.push({ ...block, bytes: { ...block.bytes } });
      taken = 1;
      continue;
    }
    taken++;
    before.last = block.last;
    before.size += block.size;
    before.wx ||= block.wx;
    for (const kind in block.bytes) {
      const k = kind as Kind;
      before.bytes[k] = (before.bytes[k] ?? 0) + (block.bytes[k] ?? 0);
    }
    if (block.kind !== 'guard' && (before.kind === 'guard' || block.nameSize > before.nameSize)) {
      before.kind = block.kind;
      before.name = block.name;
      before.nameSize = block.nameSize;
    }
  }
  return out;
}

/** layoutStrip lays the regions of a process out on `width` pixels. */
export function layoutStrip(regions: readonly StripRegion[], width: number): Segment[] {
  if (regions.length === 0 || width <= 0) return [];
  const gaps = keptGaps(regions);
  const runs: Block[] = [];
  regions.forEach((region, i) => {
    const block: Block = {
      kind: region.kind,
      size: region.size,
      wx: region.wx,
      name: region.name,
      nameSize: region.size,
      first: i,
      last: i,
      bytes: { [region.kind]: region.size },
      gap: gaps.get(i) ?? 0,
    };
    const before = runs.at(-1);
    if (before !== undefined && block.gap === 0 && before.kind === block.kind && before.name === block.name) {
      runs[runs.length - 1] = join(before, block);
    } else {
      runs.push(block);
    }
  });
  const blocks = merge(pooled(runs), Math.max(8, Math.floor(width / BLOCK_MIN) - gaps.size));
  const gapWidth = Math.max(8, GAP_SHARE * width);
  const kept = blocks.filter((block) => block.gap > 0).length;
  const widths = spread(blocks.map(span), Math.max(0, width - kept * gapWidth));
  const out: Segment[] = [];
  let x = 0;
  blocks.forEach((block, i) => {
    if (block.gap > 0) {
      const { first } = block;
      out.push({ x, w: gapWidth, kind: 'gap', size: block.gap, wx: false, name: '', first, last: first - 1 });
      x += gapWidth;
    }
    const w = widths[i] as number;
    const { kind, size, wx, name, first, last } = block;
    out.push({ x, w, kind, size, wx, name, first, last });
    x += w;
  });
  return out;
}

/** regionAtX is the index of the region under a point, -1 in a gap or outside. */
export function regionAtX(segments: readonly Segment[], x: number): number {
  for (const segment of segments) {
    if (x < segment.x || x >= segment.x + segment.w) continue;
    if (segment.kind === 'gap') return -1;
    const count = segment.last - segment.first + 1;
    const at = Math.floor(((x - segment.x) / segment.w) * count);
    return segment.first + Math.min(count - 1, Math.max(0, at));
  }
  return -1;
}

/** segmentOf is the segment a region is drawn in, null when there is none. */
export function segmentOf(segments: readonly Segment[], region: number): Segment | null {
  return segments.find((s) => s.kind !== 'gap' && region >= s.first && region <= s.last) ?? null;
}

/** spanOf is where a region lies on the strip, for the mark on it. */
export function spanOf(segments: readonly Segment[], region: number): { x: number; w: number } | null {
  const segment = segmentOf(segments, region);
  if (segment === null) return null;
  const w = segment.w / (segment.last - segment.first + 1);
  return { x: segment.x + (region - segment.first) * w, w };
}

function hatch(ctx: CanvasRenderingContext2D, x: number, y: number, w: number, h: number, step: number): void {
  ctx.save();
  ctx.beginPath();
  ctx.rect(x, y, w, h);
  ctx.clip();
  ctx.beginPath();
  for (let i = Math.floor(x / step) * step - h; i < x + w; i += step) {
    ctx.moveTo(i, y + h);
    ctx.lineTo(i + h, y);
  }
  ctx.lineWidth = 1;
  ctx.stroke();
  ctx.restore();
}

const FONT = '600 10px ui-monospace, "Cascadia Mono", "JetBrains Mono", "DejaVu Sans Mono", Menlo, monospace';

/** labelFor is the longest label that `fits`: letter, name and size, then less, then nothing. */
export function labelFor(segment: Segment, size: (bytes: number) => string, fits: (text: string) => boolean): string {
  if (segment.kind === 'gap') {
    const text = size(segment.size);
    return fits(text) ? text : fits('–') ? '–' : '';
  }
  if (segment.kind === 'guard') return '';
  const letter = segment.wx ? 'W+X' : KIND_LETTER[segment.kind];
  const named = segment.name === '' ? letter : `${letter} ${segment.name}`;
  const tries = [`${named} ${size(segment.size)}`, named, letter];
  const whole = tries.find(fits) ?? '';
  if (whole !== letter) return whole;
  // Part of a name says more than its letter alone.
  for (let keep = segment.name.length - 1; keep >= SHORT_NAME; keep--) {
    const part = `${letter} ${segment.name.slice(0, keep)}…`;
    if (fits(part)) return part;
  }
  return letter;
}

/** What is marked on the strip: the walked region, and a dragged range of regions. */
export interface StripMarks {
  readonly region: number;
  readonly range: readonly [number, number] | null;
  readonly focused: boolean;
}

/** drawStrip draws the large strip from x = 0, y = 0. */
export function drawStrip(
  ctx: CanvasRenderingContext2D,
  segments: readonly Segment[],
  width: number,
  height: number,
  palette: StripPalette,
  marks: StripMarks,
  size: (bytes: number) => string,
): void {
  ctx.clearRect(0, 0, width, height);
  ctx.font = FONT;
  ctx.textBaseline = 'middle';
  for (const segment of segments) {
    const left = Math.round(segment.x);
    const w = Math.max(1, Math.round(segment.x + segment.w) - left - 1);
    const label = labelFor(segment, size, (text) => ctx.measureText(text).width <= w - 8);
    if (segment.kind === 'gap' || segment.kind === 'guard') {
      ctx.strokeStyle = palette.forced ? 'GrayText' : palette.quiet;
      if (segment.kind === 'gap') {
        ctx.globalAlpha = 0.6;
        hatch(ctx, left, 0, w, height, 5);
        ctx.globalAlpha = 1;
      } else {
        ctx.beginPath();
        for (let i = left + 1.5; i < left + w; i += 3) {
          ctx.moveTo(i, 0);
          ctx.lineTo(i, height);
        }
        ctx.stroke();
      }
      if (label !== '') {
        const t = ctx.measureText(label).width;
        const at = left + (w - t) / 2;
        ctx.fillStyle = palette.forced ? 'Canvas' : palette.ground;
        ctx.fillRect(at - 3, height / 2 - 7, t + 6, 14);
        ctx.fillStyle = palette.forced ? 'CanvasText' : palette.quiet;
        ctx.fillText(label, at, height / 2 + 0.5);
      }
      continue;
    }
    if (palette.forced) {
      ctx.strokeStyle = 'CanvasText';
      ctx.strokeRect(left + 0.5, 0.5, Math.max(1, w - 1), height - 1);
      ctx.fillStyle = 'CanvasText';
    } else {
      ctx.fillStyle = palette.kinds[segment.kind];
      ctx.fillRect(left, 0, w, height);
      if (segment.wx) {
        ctx.strokeStyle = palette.bad;
        ctx.lineWidth = 2;
        hatch(ctx, left, 0, w, height, 6);
      }
      ctx.fillStyle = palette.ink;
    }
    if (label !== '') ctx.fillText(label, left + 5, height / 2 + 0.5);
  }
  if (marks.range !== null) {
    const a = spanOf(segments, Math.min(...marks.range));
    const b = spanOf(segments, Math.max(...marks.range));
    if (a !== null && b !== null) {
      ctx.strokeStyle = palette.forced ? 'Highlight' : palette.focus;
      ctx.lineWidth = 2;
      ctx.strokeRect(a.x + 1, 1, Math.max(2, b.x + b.w - a.x - 2), height - 2);
    }
  } else if (marks.region >= 0) {
    const span = spanOf(segments, marks.region);
    if (span !== null) {
      const w = Math.max(3, Math.round(span.w) - 1);
      ctx.lineWidth = 1;
      ctx.strokeStyle = palette.forced ? 'Highlight' : palette.ink;
      ctx.strokeRect(Math.round(span.x) + 1.5, 1.5, Math.max(1, w - 3), height - 3);
      ctx.strokeStyle = palette.forced ? 'Highlight' : palette.focus;
      ctx.lineWidth = 2;
      ctx.strokeRect(Math.round(span.x), 0, w, height);
    }
  }
}

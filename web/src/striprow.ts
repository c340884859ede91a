// The address strip of a list row, and what it shares with the large one. Layout is
// pure; drawing takes a canvas context.
//
// x and w are CSS pixels from the left edge of the strip.

import { KINDS, type Kind, kindFrom, spread, weight } from './kinds';
import { palette } from './palette';
import type { MapSummary } from './wire.gen';

export * from './kinds';

/** A block or a folded gap on the strip. */
export interface Segment {
  readonly x: number;
  readonly w: number;
  readonly kind: Kind | 'gap';
  /** Mapped bytes of a block, unmapped bytes of a gap. */
  readonly size: number;
  readonly wx: boolean;
  readonly name: string;
  /** Indices of the first and last region in it; a gap has first = last + 1, the region after it. */
  readonly first: number;
  readonly last: number;
}

/** Blocks in a list row: more would be a pixel or two each and say nothing. */
const ROW_BLOCKS = 10;

interface RowBlock {
  kind: Kind;
  size: number;
  count: number;
}

/** fewer merges the smallest block into a neighbour, of its own kind where there is one, until few are left. */
function fewer(blocks: RowBlock[], most: number): RowBlock[] {
  const list = [...blocks];
  const join = (at: number) => {
    const a = list[at] as RowBlock;
    const b = list[at + 1] as RowBlock;
    const kind = a.size >= b.size ? a.kind : b.kind;
    list.splice(at, 2, { kind, size: a.size + b.size, count: a.count + b.count });
  };
  for (let i = 0; i + 1 < list.length; ) {
    if (list[i]?.kind === list[i + 1]?.kind) join(i);
    else i++;
  }
  // Heap and stack are small beside libraries, and what one looks for: they go last.
  const worth = (i: number) => {
    const { kind, size } = list[i] as RowBlock;
    return kind === 'heap' || kind === 'stack' ? size * 1024 : size;
  };
  while (list.length > most) {
    let least = 0;
    for (let i = 1; i < list.length; i++) if (worth(i) < worth(least)) least = i;
    const before = list[least - 1];
    const after = list[least + 1];
    // Into the smaller neighbour: the large blocks keep their places and widths.
    if (after === undefined || (before !== undefined && before.size <= after.size)) join(least - 1);
    else join(least);
    for (let i = Math.max(0, least - 2); i + 1 < Math.min(list.length, least + 3); ) {
      if (list[i]?.kind === list[i + 1]?.kind) join(i);
      else i++;
    }
  }
  return list;
}

/** layoutRow lays a summary out for a list row: no gaps, no labels, few blocks in address order. */
export function layoutRow(summary: MapSummary, width: number, most: number = ROW_BLOCKS): Segment[] {
  const boxes = fewer(
    summary.boxes
      .filter((box) => box.kind !== 'guard')
      .map((box) => ({ kind: kindFrom(box.kind), size: box.size, count: 1 })),
    most,
  );
  const widths = spread(
    boxes.map((box) => weight(box.size)),
    width,
  );
  let x = 0;
  let first = 0;
  return boxes.map((box, i) => {
    const w = widths[i] as number;
    const at = x;
    const last = first + box.count - 1;
    x += w;
    const segment = { x: at, w, kind: box.kind, size: box.size, wx: false, name: '', first, last };
    first = last + 1;
    return segment;
  });
}

/** The colours of a theme, read once per draw of a page. */
export interface StripPalette {
  readonly kinds: Readonly<Record<Kind, string>>;
  readonly ground: string;
  /** Text on a block. */
  readonly ink: string;
  /** Text and hatch of a gap. */
  readonly quiet: string;
  readonly bad: string;
  readonly focus: string;
  /** High contrast asked for by the system: blocks get borders and letters, no fills. */
  readonly forced: boolean;
}

/** stripPalette reads the colour roles of the theme on screen. */
export function stripPalette(): StripPalette {
  const { role } = palette();
  const kinds = {} as Record<Kind, string>;
  for (const kind of KINDS) kinds[kind] = role(`kind-${kind}`) || role('kind-other');
  return {
    kinds,
    ground: role('bg1'),
    ink: role('kind-ink'),
    quiet: role('fg2'),
    bad: role('bad'),
    focus: role('focus'),
    forced: matchMedia('(forced-colors: active)').matches,
  };
}

/** drawRow draws a list row's strip; the context's origin and scale are the caller's. */
export function drawRow(
  ctx: CanvasRenderingContext2D,
  segments: readonly Segment[],
  x: number,
  y: number,
  h: number,
  palette: StripPalette,
): void {
  for (const segment of segments) {
    const left = Math.round(x + segment.x);
    const w = Math.max(1, Math.round(x + segment.x + segment.w) - left - 1);
    if (palette.forced) {
      ctx.strokeStyle = 'CanvasText';
      ctx.strokeRect(left + 0.5, y + 0.5, Math.max(1, w - 1), h - 1);
      continue;
    }
    ctx.fillStyle = palette.kinds[segment.kind === 'gap' ? 'other' : segment.kind];
    ctx.fillRect(left, y, w, h);
  }
}

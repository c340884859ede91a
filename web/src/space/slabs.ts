// The address space of a process as slabs of a tower, in address order. Pure.
//
// Heights are shares of the tower, 0 at its foot and 1 at its roof.

import { KINDS, type Kind, kindFrom, spread, weight } from '../kinds';
import type { MapSummary } from '../wire.gen';

/** What a slab or another box is, as the scene knows it: the kinds of mappings first. */
export const UNKNOWN_MAPS = KINDS.length; // not read yet
export const DENIED_MAPS = KINDS.length + 1; // cannot be read
export const HOST = KINDS.length + 2;
export const CARD_READ = KINDS.length + 3;
export const CARD_WRITE = KINDS.length + 4;
export const KERNEL = KINDS.length + 5;

/** Slabs of a tower seen from some distance. */
export const MIDDLE_SLABS = 8;
/** Slabs of a tower seen from near: as many as a summary has boxes. */
export const NEAR_SLABS = 64;

export interface Slab {
  kind: number;
  from: number;
  to: number;
}

const kindIndex = (kind: Kind): number => KINDS.indexOf(kind);

interface Run {
  kind: Kind;
  size: number;
}

function runs(summary: MapSummary): Run[] {
  const out: Run[] = [];
  for (const box of summary.boxes) {
    const kind = kindFrom(box.kind);
    if (kind === 'guard') continue; // address space without memory
    const last = out.at(-1);
    if (last && last.kind === kind) last.size += box.size;
    else out.push({ kind, size: box.size });
  }
  return out;
}

/** fewer joins the smallest run with its smaller neighbour until at most `most` are left. */
function fewer(list: Run[], most: number): Run[] {
  const out = list.map((run) => ({ ...run }));
  while (out.length > most) {
    let least = 0;
    for (let i = 1; i < out.length; i++) if ((out[i] as Run).size < (out[least] as Run).size) least = i;
    const before = out[least - 1];
    const after = out[least + 1];
    const into = after === undefined || (before !== undefined && before.size <= after.size) ? least - 1 : least + 1;
    (out[into] as Run).size += (out[least] as Run).size;
    out.splice(least, 1);
    // What stood on both sides of it may be alike.
    for (let i = Math.max(1, least - 1); i < Math.min(out.length, least + 2); i++) {
      if ((out[i] as Run).kind === (out[i - 1] as Run).kind) {
        (out[i - 1] as Run).size += (out[i] as Run).size;
        out.splice(i, 1);
        i--;
      }
    }
  }
  return out;
}

/** slabs are the boxes of one tower, at most `most`. */
export function slabs(summary: MapSummary, most: number): Slab[] {
  const list = fewer(runs(summary), most);
  const heights = spread(
    list.map((run) => weight(run.size)),
    1,
  );
  let from = 0;
  return list.map((run, i) => {
    const to = i === list.length - 1 ? 1 : from + (heights[i] as number);
    const slab = { kind: kindIndex(run.kind), from, to };
    from = to;
    return slab;
  });
}

/** mainKind is the kind most of the memory has: the colour of a tower that is one box. */
export function mainKind(summary: MapSummary | null, error: string | null): number {
  if (summary === null) return error === null ? UNKNOWN_MAPS : DENIED_MAPS;
  let best: Kind | null = null;
  let most = 0;
  for (const kind of KINDS) {
    if (kind === 'guard') continue;
    // Reserved address space is often terabytes of nothing; its logarithm is what the slabs show too.
    const size = summary.totals[kind] ?? 0;
    if (size > most) {
      best = kind;
      most = size;
    }
  }
  return best === null ? UNKNOWN_MAPS : kindIndex(best);
}

const MiB = 1024 * 1024;

/** towerHeight is in cells: a step for every doubling of the resident memory. */
export function towerHeight(rss: number): number {
  return 0.3 + 0.25 * Math.log2(1 + Math.max(0, rss) / MiB);
}

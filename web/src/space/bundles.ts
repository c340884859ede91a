// All connections at once: what runs between two plates is one bundle with its number,
// never a line each. Pure.

import type { LinkKind, Links } from './links';

/** Bundles drawn at most, those of most connections first; the rest is counted. */
export const maxBundles = 60;
/** Strands of all bundles together, the thickest first; the rest have one each. */
export const maxStrands = 200;
/** With fewer than these the plates are not joined further, and only the largest bundles are drawn. */
const FEW = 8;

/** End is what one end of a bundle stands for. */
export const ALONE = 0; // a process or a host
export const ON_PLATE = 1; // a process and those on its plate that have no plate of their own
export const WHOLE_PLATE = 2; // a process and all below it
export type End = typeof ALONE | typeof ON_PLATE | typeof WHOLE_PLATE;

export interface Bundle {
  a: number;
  b: number;
  endA: End;
  endB: End;
  connections: number;
  /** kind is what all of them are; 'sure' when they differ. */
  kind: LinkKind;
  active: boolean;
}

export interface Bundled {
  bundles: Bundle[];
  /** within have both ends on one plate. */
  within: number;
  /** hidden are connections of the bundles that are not drawn. */
  hidden: number;
}

/** strands is how many lines a bundle of so many connections has. */
export function strands(connections: number): number {
  return Math.min(5, 1 + Math.floor(Math.log(Math.max(1, connections)) / Math.log(3.5)));
}

type Pair = Omit<Bundle, 'endA' | 'endB'>;

const SHIFT = 2 ** 24; // above every index

// merged puts in place of each end whoever `up` says stands for it, and joins pairs of
// the same ends into the first of them. What it is given is used up.
function merged(pairs: readonly Pair[], up: (index: number) => number): { pairs: Pair[]; within: number } {
  const byEnds = new Map<number, Pair>();
  const out: Pair[] = [];
  let within = 0;
  for (const pair of pairs) {
    const p = up(pair.a);
    const q = up(pair.b);
    if (p === q) {
      within += pair.connections;
      continue;
    }
    pair.a = Math.min(p, q);
    pair.b = Math.max(p, q);
    const key = pair.a * SHIFT + pair.b;
    const same = byEnds.get(key);
    if (!same) {
      byEnds.set(key, pair);
      out.push(pair);
      continue;
    }
    same.connections += pair.connections;
    same.active ||= pair.active;
    if (same.kind !== pair.kind) same.kind = 'sure';
  }
  return { pairs: out, within };
}

// wouldBeFew tells whether merging would leave fewer than FEW pairs.
function wouldBeFew(pairs: readonly Pair[], up: (index: number) => number): boolean {
  const seen = new Set<number>();
  for (const pair of pairs) {
    const p = up(pair.a);
    const q = up(pair.b);
    if (p !== q) seen.add(Math.min(p, q) * SHIFT + Math.max(p, q));
    if (seen.size >= FEW) return false;
  }
  return true;
}

// depthsOf counts from 1 on the ground; a circle of parents counts as one step.
function depthsOf(parents: Int32Array): Int32Array {
  const depths = new Int32Array(parents.length);
  for (let i = 0; i < parents.length; i++) {
    const path: number[] = [];
    let at = i;
    while (at >= 0 && depths[at] === 0) {
      depths[at] = 1; // seen: a circle ends here
      path.push(at);
      at = parents[at] as number;
    }
    let deep = at < 0 ? 0 : (depths[at] as number);
    for (let step = path.pop(); step !== undefined; step = path.pop()) depths[step] = ++deep;
  }
  return depths;
}

/**
 * bundle joins all connections that can be drawn. parents has for each index the
 * process on whose plate it stands, −1 for the ground. Ends are processes while that
 * gives no more than maxBundles; else those without a plate count as the plate they
 * stand on, then the deepest plates as the one below them, and so on.
 */
export function bundle(links: Links, parents: Int32Array, isActive: (at: number) => boolean): Bundled {
  const depths = depthsOf(parents);
  const isPlate = new Uint8Array(parents.length);
  for (const parent of parents) if (parent >= 0) isPlate[parent] = 1;
  const all: Pair[] = [];
  let level = 0;
  for (const { a, b, kind, active } of links.links.values()) {
    if (a < 0 || b < 0) continue;
    level = Math.max(level, depths[a] as number, depths[b] as number);
    all.push({ a, b, connections: 1, kind, active: isActive(active) });
  }
  let { pairs, within } = merged(all, (index) => index);
  let areJoined = false;
  while (pairs.length > maxBundles && level > 0) {
    const cut = areJoined ? level - 1 : level;
    const up = (index: number) => {
      const parent = parents[index] as number;
      return parent >= 0 && (isPlate[index] === 0 || (depths[index] as number) > cut) ? parent : index;
    };
    if (wouldBeFew(pairs, up)) break;
    const next = merged(pairs, up);
    pairs = next.pairs;
    within += next.within;
    areJoined = true;
    level = cut;
  }
  // A plate is whole when no plate on it has ends of its own.
  const isWhole = new Uint8Array(parents.length).fill(1);
  for (let i = 0; i < parents.length; i++) {
    const parent = parents[i] as number;
    if (parent >= 0 && isPlate[i] === 1 && (depths[i] as number) <= level) isWhole[parent] = 0;
  }
  const end = (index: number): End => {
    if (!areJoined || isPlate[index] === 0) return ALONE;
    return isWhole[index] === 1 ? WHOLE_PLATE : ON_PLATE;
  };
  pairs.sort((p, q) => q.connections - p.connections || p.a - q.a || p.b - q.b);
  return {
    bundles: pairs.slice(0, maxBundles).map((pair) => ({ ...pair, endA: end(pair.a), endB: end(pair.b) })),
    within,
    hidden: pairs.slice(maxBundles).reduce((sum, pair) => sum + pair.connections, 0),
  };
}

// What a mapping is, and which mapping an address lies in. Pure.
//
// Addresses are bigints; sizes are Numbers of bytes (an x86-64 user space is
// 2^47, far inside 2^53; only a broken answer could be larger).

import { KINDS, type Kind, type StripRegion } from '../strip';
import type { Mapping } from '../wire.gen';

/** A mapping with what the page works out once per reading. */
export interface Region extends StripRegion {
  readonly index: number;
  readonly map: Mapping;
}

/** kindOf sorts a mapping into a kind, by the rules the server's summary uses. */
export function kindOf(map: Mapping): Kind {
  const path = map.pathname ?? '';
  if (path === '[heap]') return 'heap';
  if (path.startsWith('[stack')) return 'stack';
  if (/^\[(vdso|vvar|vsyscall)/.test(path)) return 'vdso';
  // Memory without access is a guard whatever it is of.
  if (!map.readable && !map.writable && !map.executable) return 'guard';
  if (!map.private) return 'shared';
  if (map.executable) return 'code';
  if (path === '' || path.startsWith('[anon')) return 'anonymous';
  if (path.startsWith('[')) return 'other';
  return map.writable ? 'data' : 'readonly';
}

/** baseName is the last part of a path, without the kernel's " (deleted)". */
export function baseName(path: string): string {
  const plain = path.endsWith(' (deleted)') ? path.slice(0, -10) : path;
  return plain.slice(plain.lastIndexOf('/') + 1) || plain;
}

function nameOf(map: Mapping, kind: Kind): string {
  const path = map.pathname ?? '';
  if (path === '') return kind === 'guard' ? 'guard' : kind === 'shared' ? 'shared' : 'anon';
  if (path.startsWith('[')) return path.replace(/^\[|\]$/g, '');
  return baseName(path);
}

/** regionsOf works out address, kind and name of each mapping. */
export function regionsOf(maps: readonly Mapping[]): Region[] {
  return maps.map((map, index) => {
    const start = BigInt(map.start);
    const end = BigInt(map.end);
    const kind = kindOf(map);
    return {
      index,
      start,
      end,
      size: Number(end - start),
      kind,
      wx: map.writable && map.executable,
      name: nameOf(map, kind),
      map,
    };
  });
}

/** regionAt finds the region an address lies in, by bisection; null in a gap. */
export function regionAt(regions: readonly Region[], address: bigint): Region | null {
  let low = 0;
  let high = regions.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const region = regions[middle] as Region;
    if (address < region.start) high = middle - 1;
    else if (address >= region.end) low = middle + 1;
    else return region;
  }
  return null;
}

/** One row of the type table. Bytes are null when any mapping of the kind has none. */
export interface KindTotal {
  readonly kind: Kind;
  readonly count: number;
  readonly size: number;
  readonly rss: number | null;
  readonly pss: number | null;
}

/** totalsByKind sums the regions by kind, in the order of KINDS, kinds without a mapping left out. */
export function totalsByKind(regions: readonly Region[]): KindTotal[] {
  const sums = new Map<Kind, { count: number; size: number; rss: number | null; pss: number | null }>();
  for (const region of regions) {
    let sum = sums.get(region.kind);
    if (sum === undefined) {
      sum = { count: 0, size: 0, rss: 0, pss: 0 };
      sums.set(region.kind, sum);
    }
    sum.count++;
    sum.size += region.size;
    const { rss_bytes: rss, pss_bytes: pss } = region.map;
    sum.rss = sum.rss === null || rss === null ? null : sum.rss + rss;
    sum.pss = sum.pss === null || pss === null ? null : sum.pss + pss;
  }
  return KINDS.flatMap((kind) => {
    const sum = sums.get(kind);
    return sum === undefined ? [] : [{ kind, ...sum }];
  });
}

/** sumOf totals a run of regions, for a range dragged on the strip. */
export function sumOf(regions: readonly Region[]): Omit<KindTotal, 'kind'> {
  let size = 0;
  let rss: number | null = 0;
  let pss: number | null = 0;
  for (const region of regions) {
    size += region.size;
    rss = rss === null || region.map.rss_bytes === null ? null : rss + region.map.rss_bytes;
    pss = pss === null || region.map.pss_bytes === null ? null : pss + region.map.pss_bytes;
  }
  return { count: regions.length, size, rss, pss };
}

/** What the address box makes of a text. */
export type Place = { readonly address: bigint } | { readonly error: string };

const maxSuggestion = 40;

/**
 * findPlace reads what may be typed into the address box: a hex address with or
 * without 0x, "+0x40" or "-0x40" from `here`, or the name of a mapping
 * ("heap", "libc.so.6") with an optional "+0x10" after it.
 */
export function findPlace(text: string, regions: readonly Region[], here: bigint | null): Place {
  const typed = text.trim();
  if (typed === '') return { error: "Type an address, a mapping's name, or +0x40." };
  const relative = /^([+-])\s*(?:0x)?([0-9a-f]{1,16})$/i.exec(typed);
  if (relative !== null) {
    if (here === null) return { error: 'There is no address yet to count from.' };
    const by = BigInt(`0x${relative[2]}`);
    return bounded(relative[1] === '-' ? here - by : here + by);
  }
  // A name that is also hex ("dead", "cafe") means the mapping if there is one.
  const named = /^(.+?)(?:\s*\+\s*(?:0x)?([0-9a-f]{1,16}))?$/i.exec(typed);
  if (named !== null) {
    const name = (named[1] as string).replace(/^\[|\]$/g, '');
    const region = regions.find((r) => r.name === name || r.map.pathname === named[1]);
    if (region !== undefined) return bounded(region.start + BigInt(`0x${named[2] ?? '0'}`));
  }
  const digits = typed.replace(/[\s_`]/g, '').replace(/^0x/i, '');
  if (/^[0-9a-f]{1,16}$/i.test(digits)) return { address: BigInt(`0x${digits}`) };
  if (/^[0-9a-f]+$/i.test(digits)) return { error: 'An address has at most 16 hex digits.' };
  const near = regions.find((r) => r.name.toLowerCase().includes(typed.toLowerCase()));
  if (near !== undefined) return { error: `No mapping is called that. Nearest: ${near.name.slice(0, maxSuggestion)}` };
  return { error: 'Neither a hex address nor the name of a mapping.' };
}

function bounded(address: bigint): Place {
  if (address < 0n || address > 0xffff_ffff_ffff_ffffn) return { error: 'That lies outside of the address space.' };
  return { address };
}

// Where a crash was: an address, or a line of the kernel's log, of gdb or of a program's
// own backtrace, and what has it in this process. Pure.

import { fullAddress } from '../hex';
import { baseName, type Region, regionAt } from './maps';

/** Crash is what a line says. */
export interface Crash {
  readonly address: bigint;
  /** claim is the file and the byte of it that the line names itself: of a process whose addresses may be others. */
  readonly claim: { readonly name: string; readonly offset: bigint } | null;
}

// "app[71]: segfault at 0 ip 00007f… sp … error 4 in libc.so.6[d51a0,7f…+156000]": d51a0 is
// the byte of the file, which older kernels leave out (print_vma_addr, mm/memory.c).
const KERNEL =
  /\bip[: ]\s*(?:0x)?([0-9a-f]{1,16})\b(?:.*? in (.+?)\[(?:([0-9a-f]{1,16}),)?[0-9a-f]{1,16}\+[0-9a-f]{1,16}\])?/i;
// "/usr/lib/libfoo.so(work+0x1d) [0x7f…]": backtrace_symbols(3).
const BRACKETS = /\[0x([0-9a-f]{1,16})\]/i;
const PREFIXED = /\b0x([0-9a-f]{1,16})\b/i;
const BARE = /^\s*([0-9a-f]{4,16})\s*$/i;

/** crashIn reads a line; null when there is no address in it. */
export function crashIn(line: string): Crash | null {
  const kernel = KERNEL.exec(line);
  const digits = (kernel ?? BRACKETS.exec(line) ?? PREFIXED.exec(line) ?? BARE.exec(line))?.[1];
  if (digits === undefined) return null;
  const [, , name, offset] = kernel ?? [];
  const claim = name !== undefined && offset !== undefined ? { name, offset: BigInt(`0x${offset}`) } : null;
  return { address: BigInt(`0x${digits}`), claim };
}

/** fileOffset is the byte of the file that stands at an address; null where no file is mapped. */
export function fileOffset(region: Region, address: bigint): bigint | null {
  return region.map.inode === '0' ? null : address - region.start + BigInt(region.map.file_offset);
}

/** placeOf is where a byte of a file, by the last part of its path, stands here; null when it is not mapped. */
export function placeOf(claim: NonNullable<Crash['claim']>, regions: readonly Region[]): bigint | null {
  for (const region of regions) {
    if (region.map.pathname === null || baseName(region.map.pathname) !== claim.name) continue;
    const first = BigInt(region.map.file_offset);
    if (claim.offset >= first && claim.offset < first + BigInt(region.size)) {
      return region.start + claim.offset - first;
    }
  }
  return null;
}

/** around says what is nearest to an address in no mapping. */
export function around(regions: readonly Region[], address: bigint): string {
  const below = regions.findLast((r) => r.end <= address);
  const above = regions.find((r) => r.start > address);
  const parts: string[] = [];
  if (below !== undefined) parts.push(`${hex(address - below.end)} past the end of ${below.name}`);
  if (above !== undefined) parts.push(`${hex(above.start - address)} before ${above.name}`);
  return parts.join(', ');
}

const hex = (n: bigint) => `0x${n.toString(16)}`;

export interface Answer {
  readonly text: string;
  /** at is where it stands in this process, null where it does not. */
  readonly at: bigint | null;
}

/** answerTo says in words what has the address of a line. */
export function answerTo(line: string, regions: readonly Region[]): Answer {
  const crash = crashIn(line);
  if (crash === null) return { text: 'There is no address in that: 0x7f…, or a line of a log with one.', at: null };
  const { address, claim } = crash;
  const here = regionAt(regions, address);
  const offset = here === null ? null : fileOffset(here, address);
  // The claim is true wherever the line comes from; the address only of this process.
  if (
    claim !== null &&
    (here === null || baseName(here.map.pathname ?? '') !== claim.name || offset !== claim.offset)
  ) {
    const at = placeOf(claim, regions);
    const named = `The line names ${claim.name}, byte ${hex(claim.offset)} of the file`;
    return at === null
      ? { text: `${named}. This process has not mapped it.`, at: null }
      : { text: `${named}. In this process that is at ${fullAddress(at)}.`, at };
  }
  if (here === null) {
    const near = around(regions, address);
    return { text: `${fullAddress(address)} is not mapped here${near === '' ? '' : `: ${near}`}.`, at: null };
  }
  const what = `${fullAddress(address)} is in ${here.map.pathname ?? here.name} (${here.kind}, ${here.map.permissions})`;
  return {
    text:
      offset === null
        ? `${what}, ${hex(address - here.start)} from its start.`
        : `${what}, byte ${hex(offset)} of the file.`,
    at: address,
  };
}

// Telescope: what a value leads to, hop by hop. A hop is followed only through bytes
// that were read: the stacks a snapshot copied while the threads stood, and blocks
// read afterwards when somebody asked for it. Pure.

import { wordAt } from '../hex';
import type { SnapshotAnswer, SnapshotThread } from '../wire.gen';
import { branchOf } from './jumps';
import { type Region, regionAt } from './maps';

// maxHops of a chain are shown.
export const maxHops = 4;
// Text shorter than this is more likely chance.
const LEAST_TEXT = 4;
// maxText characters of a text are shown.
export const maxText = 48;

// Bytes are a run of memory that was read.
export interface Bytes {
  readonly address: bigint;
  readonly bytes: Uint8Array;
  readonly stood: boolean; // copied while the thread stood
}

export interface Hop {
  readonly value: bigint;
  readonly region: Region | null; // where the value points to, null for a plain number
  readonly name: string | null; // of the code there
  readonly text: string | null; // printable text there
  readonly stood: boolean; // this value was read while the thread stood
}

export function bytesOf(hex: string): Uint8Array {
  const out = new Uint8Array(hex.length >> 1);
  for (let i = 0; i < out.length; i++) out[i] = Number.parseInt(hex.slice(i * 2, i * 2 + 2), 16);
  return out;
}

// Source is all that a chain may be followed through.
export interface Source {
  readonly regions: readonly Region[];
  readonly names: ReadonlyMap<bigint, string>;
  readonly stood: readonly Bytes[]; // by address
  readonly later: readonly Bytes[]; // by address
}

// stacksOf are the stacks that a snapshot copied, by address.
export function stacksOf(answer: SnapshotAnswer): Bytes[] {
  return answer.threads
    .flatMap(({ stack_bytes: stack }) =>
      stack === null ? [] : [{ address: BigInt(stack.address), bytes: bytesOf(stack.bytes), stood: true }],
    )
    .sort((a, b) => (a.address < b.address ? -1 : a.address > b.address ? 1 : 0));
}

// namesOf are the names of code that a snapshot gave: its frames and its branches.
export function namesOf(answer: SnapshotAnswer): Map<bigint, string> {
  const out = new Map<bigint, string>();
  for (const thread of answer.threads) {
    for (const frame of thread.call_stack) {
      if (frame.symbol === null) continue;
      const by = frame.symbol_offset === null ? '' : `+${frame.symbol_offset}`;
      out.set(BigInt(frame.address), `${frame.symbol}${by}${frame.guess ? ' (guess)' : ''}`);
    }
    for (const one of thread.disassembly?.instructions ?? []) {
      const branch = branchOf(one.text);
      const name = branch === null ? null : /^ <(.+)>$/.exec(branch.after);
      if (branch !== null && name !== null) out.set(branch.target, name[1] as string);
    }
  }
  return out;
}

// maxRun is the longest run of bytes: runs may overlap, so those that begin up to
// this far before an address are looked at.
const maxRun = 512n;

// bytesAt finds the run that holds an address, by bisection.
function bytesAt(list: readonly Bytes[], address: bigint): { run: Bytes; offset: number } | null {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((list[middle] as Bytes).address <= address) low = middle + 1;
    else high = middle;
  }
  for (let i = low - 1; i >= 0; i--) {
    const run = list[i] as Bytes;
    if (address - run.address > maxRun) return null;
    const offset = Number(address - run.address);
    if (offset < run.bytes.length) return { run, offset };
  }
  return null;
}

// textAt is the printable text at an offset, up to its end or maxText characters.
export function textAt(bytes: Uint8Array, offset: number): string | null {
  let text = '';
  for (let i = offset; i < bytes.length; i++) {
    const byte = bytes[i] as number;
    if (byte < 0x20 || byte > 0x7e) return byte === 0 && text.length >= LEAST_TEXT ? text : null;
    text += String.fromCharCode(byte);
    if (text.length === maxText) return `${text}…`;
  }
  return text.length >= LEAST_TEXT ? `${text}…` : null;
}

function hopOf(value: bigint, stood: boolean, source: Source): Hop {
  const region = value < 4096n ? null : regionAt(source.regions, value);
  const at = region === null ? null : (bytesAt(source.stood, value) ?? bytesAt(source.later, value));
  return {
    value,
    region,
    name: source.names.get(value) ?? null,
    text: at === null ? null : textAt(at.run.bytes, at.offset),
    stood,
  };
}

// telescope is the chain from a value on: the value itself, what lies there, and so
// on, until it is no pointer, text, code, a place seen already, or nothing was read there.
export function telescope(value: bigint, source: Source): Hop[] {
  const out = [hopOf(value, true, source)];
  const seen = new Set([value]);
  while (out.length <= maxHops) {
    const last = out.at(-1) as Hop;
    if (last.region === null || last.text !== null || last.region.map.executable) break;
    const found = bytesAt(source.stood, last.value) ?? bytesAt(source.later, last.value);
    const next = found === null ? null : wordAt(found.run.bytes, found.offset, true);
    if (found === null || next === null) break;
    out.push(hopOf(next, found.run.stood, source));
    if (seen.has(next)) break;
    seen.add(next);
  }
  return out;
}

// FOLLOW_BYTES is one block that is read to follow a pointer.
export const FOLLOW_BYTES = 256;

// unread are the blocks, by address, that a further hop of these values needs; code
// and what is not readable are left out.
export function unread(values: readonly bigint[], source: Source): bigint[] {
  const blocks = new Set<bigint>();
  for (const value of values) {
    const { region, value: end } = telescope(value, source).at(-1) as Hop;
    if (region === null || region.map.executable || !region.map.readable) continue;
    if (bytesAt(source.stood, end) !== null || bytesAt(source.later, end) !== null) continue;
    blocks.add(end - (end % BigInt(FOLLOW_BYTES)));
  }
  return [...blocks].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
}

// pointersOf are the values of a thread that may lead somewhere.
export function pointersOf(thread: SnapshotThread): bigint[] {
  const words: bigint[] = [];
  if (thread.stack_bytes !== null) {
    const bytes = bytesOf(thread.stack_bytes.bytes);
    for (let offset = 0; ; offset += 8) {
      const word = wordAt(bytes, offset, true);
      if (word === null) break;
      words.push(word);
    }
  }
  return [...thread.registers.map((r) => BigInt(r.value)), ...words];
}

// Where the branches of a disassembly lead: read from its text, and laid out as
// arrows beside it. Pure.

import type { Instruction } from '../wire.gen';

export interface Branch {
  readonly kind: 'jump' | 'call' | 'data';
  readonly conditional: boolean;
  readonly target: bigint;
  // The text around the address, for the page to put a link between.
  readonly before: string;
  readonly address: string;
  readonly after: string;
}

const DIRECT =
  /^((?:(?:bnd|notrack|cs|ds) )*(?:j[a-z]+|loop(?:e|ne|z|nz)?|xbegin|call)\s+)(0x[0-9a-f]{1,16})(?![0-9a-f])(.*)$/;
const RELATIVE = /^(.*# )(0x[0-9a-f]{1,16})(?![0-9a-f])(.*)$/;

// branchOf is the address that an instruction names: a branch's target, or what a
// RIP-relative operand means. Null when it names none.
export function branchOf(text: string): Branch | null {
  const direct = DIRECT.exec(text);
  const found = direct ?? RELATIVE.exec(text);
  if (found === null) return null;
  const [, before = '', address = '', after = ''] = found;
  const name = before.trim().split(' ').at(-1) ?? '';
  return {
    kind: direct === null ? 'data' : name === 'call' ? 'call' : 'jump',
    conditional: direct !== null && name !== 'call' && name !== 'jmp',
    target: BigInt(address),
    before,
    address,
    after,
  };
}

// maxLanes arrows run beside one another; a jump that finds no lane keeps its words alone.
export const maxJumpLanes = 6;

export interface Arrow {
  readonly from: number; // row of the jump
  readonly to: number; // row it leads to
  readonly lane: number; // 0 is next to the code
  readonly conditional: boolean;
}

// arrowsOf lays out the jumps that lead to a row of the same listing, the shortest
// next to the code so that few lines cross.
export function arrowsOf(list: readonly Instruction[]): Arrow[] {
  const rows = new Map(list.map((one, i) => [BigInt(one.address), i]));
  const jumps = list.flatMap((one, from) => {
    const branch = branchOf(one.text);
    const to = branch === null || branch.kind !== 'jump' ? undefined : rows.get(branch.target);
    return to === undefined ? [] : [{ from, to, conditional: branch?.conditional === true }];
  });
  jumps.sort((a, b) => Math.abs(a.to - a.from) - Math.abs(b.to - b.from) || a.from - b.from);
  // lanes[n] holds the spans taken in lane n.
  const lanes: { low: number; high: number; to: number }[][] = [];
  const out: Arrow[] = [];
  for (const jump of jumps) {
    const low = Math.min(jump.from, jump.to);
    const high = Math.max(jump.from, jump.to);
    // Two jumps to one place from the same side may share a line.
    const free = (taken: { low: number; high: number; to: number }[]) =>
      taken.every((t) => t.high < low || t.low > high || (t.to === jump.to && (t.low === low) === (jump.to === low)));
    let lane = lanes.findIndex(free);
    if (lane < 0) lane = lanes.length;
    if (lane >= maxJumpLanes) continue;
    lanes[lane] ??= [];
    lanes[lane]?.push({ low, high, to: jump.to });
    out.push({ ...jump, lane });
  }
  return out;
}

// Piece is what the gutter of one row shows of one arrow.
export interface Piece {
  readonly lane: number;
  readonly up: boolean; // the line goes on to the row above
  readonly down: boolean; // and to the one below
  readonly end: '' | 'from' | 'to'; // a corner towards the code, with a head at 'to'
  readonly conditional: boolean;
}

// piecesOf is the gutter, row by row.
export function piecesOf(arrows: readonly Arrow[], rows: number): Piece[][] {
  const out: Piece[][] = Array.from({ length: rows }, () => []);
  for (const { from, to, lane, conditional } of arrows) {
    const low = Math.min(from, to);
    const high = Math.max(from, to);
    for (let row = low; row <= high; row++) {
      const end = row === to ? 'to' : row === from ? 'from' : '';
      out[row]?.push({ lane, up: row > low, down: row < high, end, conditional });
    }
  }
  return out;
}

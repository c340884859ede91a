// The kinds of memory, and how a width is divided among sizes that differ by millions.
// Pure.

/** The kinds of the contract, in the order of the legend. */
export const KINDS = [
  'code',
  'readonly',
  'data',
  'heap',
  'anonymous',
  'stack',
  'shared',
  'vdso',
  'guard',
  'other',
] as const;
export type Kind = (typeof KINDS)[number];

/** The letter printed on a block of that kind. */
export const KIND_LETTER: Readonly<Record<Kind, string>> = {
  code: 'X',
  readonly: 'R',
  data: 'D',
  heap: 'H',
  anonymous: 'A',
  stack: 'S',
  shared: 'M',
  vdso: 'V',
  guard: 'G',
  other: 'V',
};

/** What a kind is called in words. */
export const KIND_NAME: Readonly<Record<Kind, string>> = {
  code: 'code',
  readonly: 'read-only',
  data: 'data',
  heap: 'heap',
  anonymous: 'anonymous',
  stack: 'stack',
  shared: 'shared',
  vdso: 'vdso',
  guard: 'guard',
  other: 'other',
};

/** kindFrom narrows a kind from the wire; one this page does not know is drawn as "other". */
export function kindFrom(text: string): Kind {
  return (KINDS as readonly string[]).includes(text) ? (text as Kind) : 'other';
}

const FLOOR = 0.02;
export const PAGE = 4096;

/** weight is the width a size asks for, before the floor. */
export function weight(size: number): number {
  return Math.log2(1 + size / PAGE);
}

/**
 * spread divides `total` among weights so that none gets less than `floor` of it.
 * The floor shrinks where it cannot hold for all: half of the strip stays for sizes.
 */
export function spread(weights: readonly number[], total: number, floor: number = FLOOR): number[] {
  const n = weights.length;
  if (n === 0) return [];
  const low = Math.min(floor, 0.5 / n) * total;
  const widths = new Array<number>(n).fill(0);
  const small = new Array<boolean>(n).fill(false);
  let rest = total;
  let sum = weights.reduce((a, b) => a + b, 0);
  // Raising one to the floor takes from the others, which may push another under it.
  for (let again = true; again; ) {
    again = false;
    for (let i = 0; i < n; i++) {
      const w = weights[i] as number;
      if (small[i] || (sum > 0 && (w / sum) * rest >= low)) continue;
      small[i] = true;
      widths[i] = low;
      rest -= low;
      sum -= w;
      again = true;
    }
  }
  const left = small.filter((s) => !s).length;
  for (let i = 0; i < n; i++) {
    if (!small[i]) widths[i] = sum > 0 ? ((weights[i] as number) / sum) * rest : rest / left;
  }
  if (left === 0) {
    const scale = total / (low * n);
    for (let i = 0; i < n; i++) widths[i] = (widths[i] as number) * scale;
  }
  return widths;
}

// Bytes, words and addresses as text. Pure: no DOM, runs under node.
//
// An address is a bigint everywhere: a Number holds 53 bits, an address 64.

export const ADDRESS_MAX = 0xffff_ffff_ffff_ffffn;

/** One row of a hex view. `address` is that of its first column, also when the first bytes lie before the read. */
export interface HexRow {
  readonly address: bigint;
  /** Index into the bytes for each column, -1 where the row reaches outside of them. */
  readonly index: readonly number[];
}

/** A read of memory: what came back, and how much of what was asked for did not. */
export interface Block {
  readonly address: bigint;
  readonly bytes: Uint8Array;
  /** Bytes asked for; those past `bytes.length` are not readable. */
  readonly requested: number;
}

/** parseHexAddress reads a 64-bit address: "0x" is optional, blanks, "_" and "`" between digits are ignored. Null when it is none. */
export function parseHexAddress(text: string): bigint | null {
  const digits = text
    .trim()
    .replace(/[\s_`]/g, '')
    .replace(/^0x/i, '');
  if (!/^[0-9a-f]{1,16}$/i.test(digits)) return null;
  return BigInt(`0x${digits}`);
}

/** fullAddress is the contract's form: 0x and 16 digits. */
export function fullAddress(address: bigint): string {
  return `0x${address.toString(16).padStart(16, '0')}`;
}

/** shortAddress is for the screen: no prefix, 12 digits, 16 only where they are needed. */
export function shortAddress(address: bigint): string {
  return address.toString(16).padStart(12, '0');
}

/** clampAddress keeps a window of `length` bytes inside the 64-bit space. */
export function clampAddress(address: bigint, length: number): bigint {
  if (address < 0n) return 0n;
  const last = ADDRESS_MAX - BigInt(length) + 1n;
  return address > last ? last : address;
}

/** decodeHex reads the contract's bytes. It throws on anything else: that is a broken server, not a target. */
export function decodeHex(text: string): Uint8Array {
  if (text.length % 2 !== 0 || /[^0-9a-f]/i.test(text)) throw new Error('bytes are not hex');
  const out = new Uint8Array(text.length / 2);
  for (let i = 0; i < out.length; i++) out[i] = Number.parseInt(text.slice(i * 2, i * 2 + 2), 16);
  return out;
}

const HEX: readonly string[] = Array.from({ length: 256 }, (_, i) => i.toString(16).padStart(2, '0'));

/** hexByte is two lower-case digits. */
export function hexByte(value: number): string {
  return HEX[value & 0xff] as string;
}

/** asciiByte is the printable character or a dot. */
export function asciiByte(value: number): string {
  return value >= 0x20 && value < 0x7f ? String.fromCharCode(value) : '.';
}

/** hexRows lays `length` bytes at `address` out in rows that start on a multiple of `columns`. */
export function hexRows(address: bigint, length: number, columns: number): HexRow[] {
  const lead = Number(address % BigInt(columns));
  const rows: HexRow[] = [];
  const count = Math.ceil((lead + length) / columns);
  for (let r = 0; r < count; r++) {
    const index: number[] = [];
    for (let c = 0; c < columns; c++) {
      const i = r * columns + c - lead;
      index.push(i >= 0 && i < length ? i : -1);
    }
    rows.push({ address: address - BigInt(lead) + BigInt(r * columns), index });
  }
  return rows;
}

/** changedBytes marks the bytes of `now` that `before` had at the same address with another value. */
export function changedBytes(before: Block | null, now: Block): Uint8Array {
  const mask = new Uint8Array(now.bytes.length);
  if (before === null) return mask;
  const shift = now.address - before.address;
  if (shift > 0x7fff_ffffn || shift < -0x7fff_ffffn) return mask;
  const by = Number(shift);
  for (let i = 0; i < mask.length; i++) {
    const old = before.bytes[i + by];
    if (old !== undefined && old !== now.bytes[i]) mask[i] = 1;
  }
  return mask;
}

function view(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** wordAt reads a 64-bit word, null when fewer than 8 bytes are left. */
export function wordAt(bytes: Uint8Array, offset: number, little: boolean): bigint | null {
  if (offset < 0 || offset + 8 > bytes.length) return null;
  return view(bytes).getBigUint64(offset, little);
}

/** One word of the word view; `value` is null where the read ends inside it. */
export interface Word {
  readonly address: bigint;
  readonly offset: number;
  readonly value: bigint | null;
}

/** wordsOf are the aligned 8-byte words of a block. */
export function wordsOf(block: Block, little: boolean): Word[] {
  const lead = Number((8n - (block.address % 8n)) % 8n);
  const out: Word[] = [];
  for (let offset = lead; offset + 8 <= block.requested; offset += 8) {
    out.push({ address: block.address + BigInt(offset), offset, value: wordAt(block.bytes, offset, little) });
  }
  return out;
}

/** One reading of the bytes under the cursor. */
export interface Reading {
  readonly name: string;
  /** Null when the bytes that are left are too few. */
  readonly text: string | null;
}

/** half reads an IEEE 754 half: DataView has none before 2025. */
function half(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** floatText is the shortest text that reads back to the same value; -0 keeps its sign. */
export function floatText(value: number, single: boolean): string {
  if (Object.is(value, -0)) return '-0';
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Infinity' : '-Infinity';
  if (!single) return String(value);
  for (let digits = 1; digits < 10; digits++) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === value) return String(Number(text));
  }
  return String(value);
}

const SECOND_MIN = 946_684_800n; // 2000-01-01
const SECOND_MAX = 4_102_444_800n; // 2100-01-01

/** timeText reads a word as Unix seconds, ms, µs or ns when that gives a year from 2000 to 2099, else null. */
export function timeText(value: bigint): string | null {
  for (const [unit, per] of [
    ['s', 1n],
    ['ms', 1_000n],
    ['µs', 1_000_000n],
    ['ns', 1_000_000_000n],
  ] as const) {
    if (value >= SECOND_MIN * per && value < SECOND_MAX * per) {
      return `${new Date(Number((value * 1000n) / per)).toISOString().replace('.000Z', 'Z')} (${unit})`;
    }
  }
  return null;
}

const maxInspectedString = 64;

/** stringAt is the UTF-8 text up to a NUL, at most 64 bytes; null when it is empty or no UTF-8. */
export function stringAt(bytes: Uint8Array, offset: number): string | null {
  let end = offset;
  while (end < bytes.length && end - offset < maxInspectedString && bytes[end] !== 0) end++;
  if (end === offset) return null;
  for (let cut = 0; cut < 4 && end - cut > offset; cut++) {
    // A cut at the limit may fall inside a character: up to three bytes back is still that character.
    try {
      const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(offset, end - cut));
      return bytes[end] === 0 && cut === 0 ? text : `${text}…`;
    } catch {
      if (bytes[end] === 0) return null;
    }
  }
  return null;
}

/** inspect reads the bytes at `offset` in every way the value inspector shows. */
export function inspect(bytes: Uint8Array, offset: number, little: boolean): Reading[] {
  const left = bytes.length - offset;
  const data = view(bytes);
  const at = (size: number, read: () => string): string | null => (offset >= 0 && left >= size ? read() : null);
  const word = wordAt(bytes, offset, little);
  return [
    {
      name: 'bits',
      text: at(1, () =>
        data
          .getUint8(offset)
          .toString(2)
          .padStart(8, '0')
          .replace(/^(.{4})/, '$1 '),
      ),
    },
    { name: 'int8', text: at(1, () => String(data.getInt8(offset))) },
    { name: 'uint8', text: at(1, () => String(data.getUint8(offset))) },
    { name: 'int16', text: at(2, () => String(data.getInt16(offset, little))) },
    { name: 'uint16', text: at(2, () => String(data.getUint16(offset, little))) },
    { name: 'int32', text: at(4, () => String(data.getInt32(offset, little))) },
    { name: 'uint32', text: at(4, () => String(data.getUint32(offset, little))) },
    { name: 'int64', text: at(8, () => String(data.getBigInt64(offset, little))) },
    { name: 'uint64', text: at(8, () => String(data.getBigUint64(offset, little))) },
    { name: 'float16', text: at(2, () => floatText(half(data.getUint16(offset, little)), true)) },
    { name: 'float32', text: at(4, () => floatText(data.getFloat32(offset, little), true)) },
    { name: 'float64', text: at(8, () => floatText(data.getFloat64(offset, little), false)) },
    { name: 'pointer', text: word === null ? null : fullAddress(word) },
    { name: 'time', text: word === null ? null : timeText(word) },
    { name: 'string', text: stringAt(bytes, offset) },
  ];
}

/** The forms memory can be copied as. */
export const COPY_FORMS = ['hex', 'dump', 'C', 'Python', 'base64', 'gdb'] as const;
export type CopyForm = (typeof COPY_FORMS)[number];

function base64(bytes: Uint8Array): string {
  let text = '';
  for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(text);
}

function lines(bytes: Uint8Array, per: number, join: (piece: Uint8Array, at: number) => string): string {
  const out: string[] = [];
  for (let i = 0; i < bytes.length; i += per) out.push(join(bytes.subarray(i, i + per), i));
  return out.join('\n');
}

/** copyBytes is the text to copy for bytes that lie at `address`. */
export function copyBytes(form: CopyForm, bytes: Uint8Array, address: bigint): string {
  const all = (piece: Uint8Array) => Array.from(piece, hexByte);
  switch (form) {
    case 'hex':
      return all(bytes).join('');
    case 'dump':
      return lines(bytes, 16, (piece, at) => {
        const hex = all(piece).join(' ').padEnd(47);
        return `${fullAddress(address + BigInt(at))}  ${hex}  |${Array.from(piece, asciiByte).join('')}|`;
      });
    case 'C': {
      const body = lines(
        bytes,
        12,
        (piece) =>
          `  ${all(piece)
            .map((b) => `0x${b},`)
            .join(' ')}`,
      );
      return `/* ${fullAddress(address)} */\nstatic const unsigned char memory[${bytes.length}] = {\n${body}\n};`;
    }
    case 'Python': {
      const body = lines(
        bytes,
        16,
        (piece) =>
          `    b"${all(piece)
            .map((b) => `\\x${b}`)
            .join('')}"`,
      );
      return `# ${fullAddress(address)}\nmemory = (\n${body}\n)`;
    }
    case 'base64':
      return base64(bytes);
    case 'gdb':
      return `x/${Math.max(1, Math.ceil(bytes.length / 8))}gx ${fullAddress(address)}`;
  }
}

import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './bundle.mjs';

const hex = await load('hex.ts');
const bytes = (...list) => Uint8Array.from(list);

test('addresses: what is read as one', () => {
  const rows = [
    ['0x7ffe4b9fd3b8', 0x7ffe4b9fd3b8n],
    ['7FFE4B9FD3B8', 0x7ffe4b9fd3b8n],
    [' 7ffe`4b9f_d3b8 ', 0x7ffe4b9fd3b8n],
    ['ffffffffffffffff', 0xffff_ffff_ffff_ffffn],
    ['0', 0n],
    ['1ffffffffffffffff', null],
    ['0x', null],
    ['', null],
    ['0x12g', null],
    ['-1', null],
  ];
  for (const [text, want] of rows) assert.equal(hex.parseHexAddress(text), want, text);
});

test('addresses: full and short forms keep all 64 bits', () => {
  assert.equal(hex.fullAddress(0x55d0c1a00000n), '0x000055d0c1a00000');
  assert.equal(hex.fullAddress(hex.ADDRESS_MAX), '0xffffffffffffffff');
  assert.equal(hex.shortAddress(0x400000n), '000000400000');
  assert.equal(hex.shortAddress(0xffffffffff600000n), 'ffffffffff600000');
});

test('a window never leaves the address space', () => {
  assert.equal(hex.clampAddress(-4n, 16), 0n);
  assert.equal(hex.clampAddress(hex.ADDRESS_MAX, 256), hex.ADDRESS_MAX - 255n);
  assert.equal(hex.clampAddress(4096n, 256), 4096n);
});

test('bytes of the contract', () => {
  assert.deepEqual(hex.decodeHex('00ff7f'), bytes(0, 255, 127));
  assert.deepEqual(hex.decodeHex(''), bytes());
  assert.throws(() => hex.decodeHex('0'));
  assert.throws(() => hex.decodeHex('zz'));
});

test('rows start on a multiple of the columns and hold each byte once', () => {
  const rows = hex.hexRows(0x1004n, 40, 16);
  assert.equal(rows.length, 3);
  assert.equal(rows[0].address, 0x1000n);
  assert.deepEqual(rows[0].index.slice(0, 6), [-1, -1, -1, -1, 0, 1]);
  const seen = rows.flatMap((row) => row.index).filter((i) => i >= 0);
  assert.deepEqual(
    seen,
    Array.from({ length: 40 }, (_, i) => i),
  );
  assert.equal(hex.hexRows(0x1000n, 256, 8).length, 32);
});

test('changed bytes are those with another value at the same address', () => {
  const block = (address, ...list) => ({ address, bytes: bytes(...list), requested: list.length });
  assert.deepEqual(hex.changedBytes(null, block(0n, 1, 2)), bytes(0, 0));
  assert.deepEqual(hex.changedBytes(block(0n, 1, 2, 3), block(0n, 1, 9, 3)), bytes(0, 1, 0));
  // The window moved by one: only what both hold is compared.
  assert.deepEqual(hex.changedBytes(block(0x10n, 1, 2, 3), block(0x11n, 2, 4, 5)), bytes(0, 1, 0));
  assert.deepEqual(hex.changedBytes(block(0n, 1), block(1n << 62n, 2)), bytes(0));
});

test('words are aligned, and null where the read ended', () => {
  const data = new Uint8Array(20).fill(0);
  data[4] = 0x11;
  const words = hex.wordsOf({ address: 0x1004n, bytes: data, requested: 28 }, true);
  assert.deepEqual(
    words.map((w) => [w.address, w.value]),
    [
      [0x1008n, 0x11n],
      [0x1010n, 0n],
      [0x1018n, null],
    ],
  );
});

const readings = (data, offset, little) =>
  Object.fromEntries(hex.inspect(data, offset, little).map((r) => [r.name, r.text]));

test('value inspector: integers and floats in both orders', () => {
  const data = bytes(0xff, 0xfe, 0xfd, 0xfc, 0xfb, 0xfa, 0xf9, 0x7f);
  const le = readings(data, 0, true);
  assert.equal(le.bits, '1111 1111');
  assert.equal(le.int8, '-1');
  assert.equal(le.uint8, '255');
  assert.equal(le.int16, '-257');
  assert.equal(le.uint16, '65279');
  assert.equal(le.int32, '-50462977');
  assert.equal(le.uint32, '4244504319');
  assert.equal(le.uint64, String(0x7ff9fafbfcfdfeffn));
  assert.equal(le.float64, 'NaN');
  assert.equal(le.pointer, '0x7ff9fafbfcfdfeff');
  const be = readings(data, 0, false);
  assert.equal(be.int16, '-2');
  assert.equal(be.uint32, '4294901244');
  assert.equal(be.int64, String(BigInt.asIntN(64, 0xfffefdfcfbfaf97fn)));
});

test('value inspector: floats are the shortest text that reads back', () => {
  const data = new Uint8Array(8);
  const view = new DataView(data.buffer);
  view.setFloat32(0, 0.1, true);
  assert.equal(readings(data, 0, true).float32, '0.1');
  view.setFloat64(0, -0, true);
  assert.equal(readings(data, 0, true).float64, '-0');
  view.setUint16(0, 0x3c00, true);
  assert.equal(readings(data, 0, true).float16, '1');
  view.setUint16(0, 0x7c00, true);
  assert.equal(readings(data, 0, true).float16, '+Infinity');
  view.setUint16(0, 0x0001, true);
  assert.equal(readings(data, 0, true).float16, '5.9604645e-8');
});

test('value inspector: fewer bytes than a value needs are unknown, not zero', () => {
  const last = readings(bytes(1, 2, 3), 2, true);
  assert.equal(last.uint8, '3');
  for (const name of ['int16', 'uint32', 'int64', 'float32', 'float64', 'pointer', 'time'])
    assert.equal(last[name], null, name);
  assert.equal(readings(bytes(), 0, true).int8, null);
});

test('value inspector: times of this century in four units', () => {
  assert.equal(hex.timeText(1_790_000_000n), '2026-09-21T14:13:20Z (s)');
  assert.equal(hex.timeText(1_790_000_000_123n), '2026-09-21T14:13:20.123Z (ms)');
  assert.match(hex.timeText(1_790_000_000_000_000n), /\(µs\)$/);
  assert.match(hex.timeText(1_790_000_000_000_000_000n), /\(ns\)$/);
  assert.equal(hex.timeText(12n), null);
});

test('value inspector: text up to NUL, cut at a whole character, none for bytes that are no UTF-8', () => {
  const text = (t) => new TextEncoder().encode(t);
  assert.equal(hex.stringAt(text('hello\0x'), 0), 'hello');
  assert.equal(hex.stringAt(text('hello'), 0), 'hello…');
  assert.equal(hex.stringAt(bytes(0, 65), 0), null);
  assert.equal(hex.stringAt(bytes(0xff, 0xfe, 0), 0), null);
  const long = hex.stringAt(text('é'.repeat(80)), 0);
  assert.equal(long, `${'é'.repeat(32)}…`);
  assert.equal(hex.stringAt(text(`a${'é'.repeat(80)}`), 0), `a${'é'.repeat(31)}…`);
});

test('copies', () => {
  const data = Uint8Array.from({ length: 18 }, (_, i) => (i === 17 ? 0x41 : i));
  assert.equal(hex.copyBytes('hex', data, 0x1000n), '000102030405060708090a0b0c0d0e0f1041');
  assert.equal(
    hex.copyBytes('dump', data, 0x1000n),
    '0x0000000000001000  00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f  |................|\n' +
      `0x0000000000001010  10 41${' '.repeat(42)}  |.A|`,
  );
  assert.match(hex.copyBytes('C', data, 0x1000n), /unsigned char memory\[18\] = \{\n {2}0x00, 0x01/);
  assert.match(hex.copyBytes('Python', data, 0x1000n), /b"\\x00\\x01/);
  assert.equal(hex.copyBytes('base64', data, 0x1000n), Buffer.from(data).toString('base64'));
  assert.equal(hex.copyBytes('gdb', data, 0x1000n), 'x/3gx 0x0000000000001000');
});

test('the Python and C copies read back to the same bytes', () => {
  const data = Uint8Array.from({ length: 256 }, (_, i) => i);
  const python = [...hex.copyBytes('Python', data, 0n).matchAll(/\\x(..)/g)].map((m) => Number.parseInt(m[1], 16));
  const c = [...hex.copyBytes('C', data, 0n).matchAll(/0x(..),/g)].map((m) => Number.parseInt(m[1], 16));
  assert.deepEqual(Uint8Array.from(python), data);
  assert.deepEqual(Uint8Array.from(c), data);
});

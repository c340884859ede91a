import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './bundle.mjs';

const f = await load('format.ts');

test('sizes', () => {
  const rows = [
    [null, '–'],
    [undefined, '–'],
    [0, '0'],
    [1023, '1023'],
    [1024, '1.0K'],
    [101397299, '96.7M'],
    [1024 ** 3 - 1, '1.0G'],
    [391.8 * 1024 ** 2, '391.8M'],
    [28 * 1024 ** 4, '28.0T'],
    [2 ** 63, '8.0E'],
  ];
  for (const [value, want] of rows) assert.equal(f.bytes(value), want, String(value));
  assert.equal(f.bytesFull(101397299), '96.7 MiB (101,397,299 bytes)');
  assert.equal(f.bytesFull(12), '12 bytes');
  assert.equal(f.bytesFull(null), '–');
  assert.deepEqual(f.bytesUnit(38.2 * 1024 ** 2), ['38.2', 'MiB']);
  assert.deepEqual(f.bytesUnit(5), ['5', 'B']);
});

test('rates, shares and counts', () => {
  for (const [value, want] of [
    [null, '–'],
    [0, '0'],
    [0.2, '0'],
    [900, '900'],
    [786 * 1024, '786K'],
    [1023.4 * 1024, '1023K'],
    [1023.6 * 1024, '1.0M'],
    [1.5 * 1024 ** 2, '1.5M'],
  ]) {
    assert.equal(f.rate(value), want, String(value));
  }
  assert.equal(f.percent(212.44), '212.4');
  assert.equal(f.percent(0), '0.0');
  assert.equal(f.percent(null), '–');
  assert.equal(f.count(20104), '20,104');
  assert.equal(f.count(999), '999');
  assert.equal(f.count(-1234567), '−1,234,567');
  assert.equal(f.perSecond(0.42), '0.4');
  assert.equal(f.perSecond(1204.2), '1,204');
});

test('times', () => {
  assert.equal(f.duration(4200), '4.2 s');
  assert.equal(f.duration(125_000), '2 m 05 s');
  assert.equal(f.duration(3 * 3600_000 + 12 * 60_000), '3 h 12 m');
  assert.equal(f.duration(12 * 86400_000 + 4 * 3600_000), '12 d 4 h');
  assert.equal(f.duration(-5), '0.0 s');
  assert.equal(f.duration(null), '–');
  assert.equal(f.shortAge(59_999), '59s');
  assert.equal(f.shortAge(86400_000), '1d');
  assert.equal(f.ago(400), 'just now');
  assert.equal(f.ago(3400), '3 s ago');
  assert.equal(f.ago(125_000), '2 m ago');
  const local = new Date(2026, 10, 30, 12, 31, 7, 214).getTime();
  assert.equal(f.clock(local), '12:31:07');
  assert.equal(f.clockMs(local), '12:31:07.214');
  assert.equal(f.dateTime(local), '2026-11-30 12:31:07');
});

test('hostile text is shown, never obeyed', () => {
  for (const [text, want] of [
    ['plain', 'plain'],
    ['a\x1b[31mb', 'a␛[31mb'],
    ['a\nb\tc\0', 'a␊b␉c␀'],
    ['\x7f', '␡'],
    ['\u0085', '⟨U+0085⟩'],
    ['evil\u202egpj.exe', 'evil⟨U+202E⟩gpj.exe'],
    ['\u2066x\u2069', '⟨U+2066⟩x⟨U+2069⟩'],
    ['zero\u200bwidth', 'zero⟨U+200B⟩width'],
    ['\u{e0041}', '⟨U+E0041⟩'],
    ['<img src=x onerror=alert(1)>', '<img src=x onerror=alert(1)>'],
    ['日本語 naïve', '日本語 naïve'],
    ['\ufffd', '\ufffd'],
  ]) {
    assert.equal(f.visible(text), want);
    assert.equal(f.visible(text), want, 'the second time as well');
  }
  // Whatever comes in, nothing that acts comes out.
  for (let code = 0; code < 0x3000; code++) {
    const out = f.visible(String.fromCodePoint(code));
    assert.doesNotMatch(out, /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/, code.toString(16));
  }
});

test('command lines', () => {
  assert.equal(f.commandText(['a', '', 'b c'], 'a', false), "a '' b c");
  assert.equal(f.commandText([], 'kworker/0:1', true), '[kworker/0:1]');
  assert.equal(f.commandText(null, 'x', false), '–');
  assert.equal(f.commandText(['\u202e'], 'x', false), '⟨U+202E⟩');
});

test('text for a shell and for a table', () => {
  assert.equal(f.shellQuote('http://127.0.0.1:9090/x'), 'http://127.0.0.1:9090/x');
  assert.equal(f.shellQuote("it's & more"), "'it'\\''s & more'");
  assert.equal(f.shellQuote(''), "''");
  assert.equal(f.tsvField('a\tb\r\nc'), 'a b  c');
});

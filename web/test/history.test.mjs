import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './bundle.mjs';

const { History, TICKS } = await load('history.ts');

const summary = (cpu, rss = 1000, state = 'S') => ({
  cpu_percent: cpu,
  rss_bytes: rss,
  read_bytes_rate: null,
  write_bytes_rate: 5,
  state,
});

test('a figure that does not change is carried on', () => {
  const history = new History(4);
  const slot = history.take();
  history.tick(1000);
  history.set(slot, summary(7, 123, 'R'));
  for (let s = 2; s <= 5; s++) history.tick(s * 1000);
  assert.deepEqual(history.moment(slot, 0), { at: 5000, cpu: 7, rss: 123, read: null, write: 5, state: 'R' });
  assert.equal(history.moment(slot, 4).at, 1000);
  assert.equal(history.moment(slot, 5), null, 'before it was seen');
});

test('the line is oldest first, unknown where it was not', () => {
  const history = new History(4);
  const slot = history.take();
  history.tick(1000);
  history.tick(2000);
  history.set(slot, summary(1));
  history.tick(3000);
  history.set(slot, summary(null));
  history.tick(4000);
  history.set(slot, summary(3));
  const line = new Float32Array(TICKS);
  history.line(slot, line);
  assert.deepEqual([...line.slice(-4)], [Number.NaN, 1, Number.NaN, 3]);
  assert.ok(Number.isNaN(line[0]));
});

test('a minute is kept, no more', () => {
  const history = new History(2);
  const slot = history.take();
  for (let s = 1; s <= 200; s++) {
    history.tick(s * 1000);
    history.set(slot, summary(s));
  }
  assert.equal(history.moment(slot, 0).cpu, 200);
  assert.equal(history.moment(slot, TICKS - 1).cpu, 200 - TICKS + 1);
  assert.equal(history.time(TICKS), 0);
});

test('seconds nobody saw are a gap, not a line', () => {
  const history = new History(2);
  const slot = history.take();
  history.tick(1000);
  history.set(slot, summary(1));
  history.tick(11_000);
  history.set(slot, summary(2));
  assert.equal(history.moment(slot, 0).cpu, 2);
  for (let back = 1; back <= 9; back++) {
    assert.equal(history.time(back), 0);
    assert.equal(history.moment(slot, back), null);
  }
  assert.equal(history.moment(slot, 10).cpu, 1);
});

test('a slot that is used again knows nothing of its former process', () => {
  const history = new History(2);
  const slot = history.take();
  history.tick(1000);
  history.set(slot, summary(9));
  history.clear(slot);
  assert.equal(history.moment(slot, 0), null, 'ended in this second');
  history.tick(2000);
  history.release(slot);
  assert.equal(history.take(), slot);
  const line = new Float32Array(TICKS);
  history.line(slot, line);
  assert.ok(line.every(Number.isNaN));
});

test('it grows without losing what it has', () => {
  const history = new History(2);
  const first = history.take();
  history.tick(1000);
  history.set(first, summary(5));
  const others = Array.from({ length: 5000 }, () => history.take());
  assert.equal(new Set([first, ...others]).size, 5001);
  history.tick(2000);
  history.set(others.at(-1), summary(6));
  assert.equal(history.moment(first, 1).cpu, 5);
  assert.equal(history.moment(others.at(-1), 0).cpu, 6);
  assert.ok(history.bytes < 16e6, `${history.bytes} bytes for 5,000 processes`);
});

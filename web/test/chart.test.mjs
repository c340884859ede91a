import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './bundle.mjs';

const chart = await load('chart.tsx');

test('divisions: four of them hold the highest value, in steps a person can count', () => {
  for (const [top, want] of [
    [2, 0.5],
    [4, 1],
    [4.1, 2],
    [7, 2],
    [100, 50],
    [212.4, 100],
    [0.3, 0.1],
    [1e6, 5e5],
  ]) {
    const step = chart.perDivision(top, false);
    assert.ok(Math.abs(step - want) < 1e-9, `${top}: ${step}`);
    assert.ok(step * 4 >= top);
  }
  assert.equal(chart.perDivision(100 << 20, true), 32 << 20);
  assert.equal(chart.perDivision(128 << 20, true), 32 << 20);
  assert.ok(chart.perDivision(0, false) > 0);
});

test('summary: minimum, maximum, last known; unknown values count for nothing', () => {
  assert.deepEqual(chart.summarize([null, 3, 1, null, 2, null]), { least: 1, most: 3, last: 2 });
  assert.deepEqual(chart.summarize([null, null]), { least: null, most: null, last: null });
  assert.deepEqual(chart.summarize([]), { least: null, most: null, last: null });
});

test('a chart in one sentence', () => {
  const series = { label: 'CPU', role: 'cpu', scale: 'x', least: 1, format: (v) => (v === null ? '–' : `${v} %`) };
  assert.equal(
    chart.sentence('CPU and memory', 60_000, [
      { ...series, values: [1, null, 3] },
      { ...series, label: 'RSS', values: [null] },
    ]),
    'CPU and memory, last 60 s. CPU: minimum 1 %, maximum 3 %, last 3 %. RSS: no value yet.',
  );
});

test('the sample nearest to a point in time', () => {
  const times = [1000, 2000, 4000];
  assert.equal(chart.nearest(times, 0), 0);
  assert.equal(chart.nearest(times, 1400), 0);
  assert.equal(chart.nearest(times, 3100), 2);
  assert.equal(chart.nearest(times, 9000), 2);
  assert.equal(chart.nearest([], 5), -1);
});

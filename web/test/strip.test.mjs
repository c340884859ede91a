import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './bundle.mjs';

const strip = await load('strip.ts');
const sum = (list) => list.reduce((a, b) => a + b, 0);
const MiB = 1 << 20;

const region = (start, size, kind, name = kind, wx = false) => ({
  start,
  end: start + BigInt(size),
  size,
  kind,
  wx,
  name,
});

// space is an address space of n regions with a hole of 20 TiB in its middle.
function space(n) {
  const kinds = ['readonly', 'code', 'data', 'anonymous', 'guard'];
  let at = 0x55d0c1a00000n;
  return Array.from({ length: n }, (_, i) => {
    if (i === n >> 1) at += 20n << 40n;
    const made = region(at, 4096 * (1 + ((i * 7919) % 5000)), kinds[i % 5], `m${i % 37}`);
    at = made.end;
    return made;
  });
}

test('spread: widths add up and none is below the floor', () => {
  for (const weights of [[1], [1, 1, 1], [1, 1000, 1], Array.from({ length: 200 }, (_, i) => i), [0, 0, 0], [0, 5]]) {
    const widths = strip.spread(weights, 1000);
    assert.equal(widths.length, weights.length);
    assert.ok(Math.abs(sum(widths) - 1000) < 1e-6, `${weights.length} weights add up to ${sum(widths)}`);
    const low = Math.min(0.02, 0.5 / weights.length) * 1000;
    for (const w of widths) assert.ok(w >= low - 1e-9, `${w} is below ${low}`);
  }
  assert.deepEqual(strip.spread([], 1000), []);
});

test('spread: more weight is never narrower', () => {
  const widths = strip.spread([3, 9, 1, 27, 27], 800);
  assert.ok(widths[1] > widths[0] && widths[3] > widths[1]);
  assert.equal(widths[3], widths[4]);
});

for (const n of [1, 2, 9, 40, 214, 5000]) {
  test(`layout of ${n} regions: in order, without overlap, each region in one block`, () => {
    const regions = space(n);
    for (const width of [320, 1360]) {
      const segments = strip.layoutStrip(regions, width);
      let x = 0;
      let next = 0;
      for (const s of segments) {
        assert.ok(Math.abs(s.x - x) < 1e-6);
        assert.ok(s.w > 0);
        x = s.x + s.w;
        if (s.kind === 'gap') {
          assert.equal(s.first, next);
          assert.equal(s.last, next - 1);
          continue;
        }
        assert.equal(s.first, next);
        next = s.last + 1;
      }
      assert.ok(Math.abs(x - width) < 1e-6, `ends at ${x} of ${width}`);
      assert.equal(next, n);
      assert.ok(segments.length <= Math.max(16, width / 20), `${segments.length} segments`);
      if (n > 1) assert.equal(segments.filter((s) => s.kind === 'gap').length, 1);
    }
  });
}

test('layout: merging never crosses a folded gap', () => {
  const segments = strip.layoutStrip(space(400), 400);
  const gap = segments.findIndex((s) => s.kind === 'gap');
  assert.equal(segments[gap - 1].last, 199);
  assert.equal(segments[gap + 1].first, 200);
});

test('layout: 60,000 regions are merged in well under a second', () => {
  const regions = space(60_000);
  const from = process.cpuUsage();
  const segments = strip.layoutStrip(regions, 1360);
  const spent = process.cpuUsage(from);
  assert.ok(segments.length < 60);
  assert.ok((spent.user + spent.system) / 1000 < 1000, `${(spent.user + spent.system) / 1000} ms`);
});

test('layout: the vsyscall page is no end of a gap', () => {
  const regions = [region(0x400000n, MiB, 'code'), region(0xffffffffff600000n, 4096, 'vdso')];
  assert.deepEqual(
    strip.layoutStrip(regions, 1000).map((s) => s.kind),
    ['code', 'vdso'],
  );
});

test('layout: a merged block has the kind of most of its bytes, never guard beside memory, and keeps W+X', () => {
  let at = 0x7f0000000000n;
  const regions = [];
  for (let i = 0; i < 60; i++) {
    for (const [kind, size] of [
      ['guard', 64 * MiB],
      ['anonymous', 8 * MiB],
    ]) {
      regions.push(region(at, size, kind, kind, i === 30 && kind === 'anonymous'));
      at = regions.at(-1).end;
    }
  }
  const segments = strip.layoutStrip(regions, 300);
  assert.ok(segments.every((s) => s.kind === 'anonymous'));
  assert.equal(segments.filter((s) => s.wx).length, 1);
});

test('points: each region can be hit, and its span lies under the point', () => {
  const regions = space(300);
  const segments = strip.layoutStrip(regions, 1000);
  for (const i of [0, 1, 149, 150, 151, 299]) {
    const span = strip.spanOf(segments, i);
    assert.equal(strip.regionAtX(segments, span.x + span.w / 2), i);
  }
  const gap = segments.find((s) => s.kind === 'gap');
  assert.equal(strip.regionAtX(segments, gap.x + 1), -1);
  assert.equal(strip.regionAtX(segments, -1), -1);
  assert.equal(strip.regionAtX(segments, 1001), -1);
  assert.equal(strip.spanOf(segments, 300), null);
});

test('row: the boxes of a summary fill the cell, guards left out, unknown kinds drawn as other', () => {
  const box = (kind, size) => ({ kind, start: '0x0', end: '0x0', size, count: 1 });
  const segments = strip.layoutRow(
    { boxes: [box('code', MiB), box('guard', 4096), box('heap', 41 * MiB), box('novel', 4096)], totals: {} },
    112,
  );
  assert.deepEqual(
    segments.map((s) => s.kind),
    ['code', 'heap', 'other'],
  );
  assert.ok(Math.abs(sum(segments.map((s) => s.w)) - 112) < 1e-6);
  assert.deepEqual(strip.layoutRow({ boxes: [], totals: {} }, 112), []);
});

test('labels: the longest that fits, a cut name before a letter alone', () => {
  const segment = { x: 0, w: 0, kind: 'heap', size: 41 * MiB, wx: false, name: 'heapspace', first: 0, last: 0 };
  const size = () => '41 MiB';
  const at = (n) => strip.labelFor(segment, size, (text) => text.length <= n);
  assert.equal(at(40), 'H heapspace 41 MiB');
  assert.equal(at(12), 'H heapspace');
  assert.equal(at(8), 'H heaps…');
  assert.equal(at(5), 'H');
  assert.equal(at(0), '');
  assert.equal(
    strip.labelFor({ ...segment, wx: true }, size, () => true),
    'W+X heapspace 41 MiB',
  );
  assert.equal(
    strip.labelFor({ ...segment, kind: 'gap' }, size, (t) => t.length < 3),
    '–',
  );
});

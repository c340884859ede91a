// All connections as bundles: nothing is lost, never too many, whatever the tree is.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './bundle.mjs';

const { ALONE, ON_PLATE, WHOLE_PLATE, bundle, maxBundles, maxStrands, strands } = await load('space/bundles.ts');
const { bundleEnds, bundleFlags, isBundleActive } = await load('space/protocol.ts');

function random(seed) {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const linksOf = (list) => ({
  links: new Map(list.map(([a, b, kind = 'sure', active = 0], i) => [i, { a, b, kind, active }])),
});
const isActive = (at) => at > 0;
const parentsOf = (count, map) => {
  const parents = new Int32Array(count).fill(-1);
  for (const [child, parent] of Object.entries(map)) parents[child] = parent;
  return parents;
};

test('few connections: each pair of processes is a bundle of its own, both directions and all kinds together', () => {
  const links = linksOf([
    [64, 65],
    [65, 64],
    [64, 66, 'candidate', 5],
    [64, 66, 'candidate'],
    [66, 1, 'network'],
    [66, 66],
    [-1, 64],
  ]);
  const { bundles, within, hidden } = bundle(links, parentsOf(67, { 65: 64, 66: 64 }), isActive);
  assert.deepEqual(
    bundles.map(({ a, b, connections, kind, active }) => [a, b, connections, kind, active]),
    [
      [64, 65, 2, 'sure', false],
      [64, 66, 2, 'candidate', true],
      [1, 66, 1, 'network', false],
    ],
  );
  assert.ok(bundles.every((one) => one.endA === ALONE && one.endB === ALONE));
  assert.deepEqual([within, hidden], [1, 0]);
});

test('many connections: those without a plate count as the plate they stand on, then deep plates as the one below', () => {
  // 64 is the parent of ten plates 70…79 with ten leaves each; every leaf talks to each leaf of the next plate.
  const parents = parentsOf(300, {});
  const list = [];
  for (let p = 0; p < 10; p++) {
    parents[70 + p] = 64;
    for (let i = 0; i < 10; i++) {
      parents[100 + p * 10 + i] = 70 + p;
      for (let k = 0; k < 10; k++) if (p < 9) list.push([100 + p * 10 + i, 110 + p * 10 + k]);
    }
  }
  list.push([64, 70]);
  const { bundles, within, hidden } = bundle(linksOf(list), parents, isActive);
  assert.deepEqual([bundles.length, within, hidden], [10, 0, 0]);
  assert.deepEqual([bundles[0].connections, bundles[0].endA, bundles[0].endB], [100, WHOLE_PLATE, WHOLE_PLATE]);
  const last = bundles.at(-1);
  assert.deepEqual([last.a, last.b, last.connections], [64, 70, 1]);
  assert.equal(last.endA, ON_PLATE, 'the plates on its plate have ends of their own');
});

test('any tree, any connections: counts add up, the limits hold, the same is bundled the same way', () => {
  for (let seed = 1; seed <= 12; seed++) {
    const next = random(seed);
    const count = 64 + 20 + Math.floor(next() * 2000);
    const parents = parentsOf(count, {});
    for (let i = 65; i < count; i++) if (next() < 0.97) parents[i] = 64 + Math.floor(next() ** 2 * (i - 64));
    if (seed % 5 === 0) parents[64] = 65; // a circle cannot be, and must not hang
    const total = Math.floor(next() * 20_000);
    const kinds = ['sure', 'candidate', 'shared', 'network'];
    const any = () => (next() < 0.02 ? -1 : Math.floor(next() * count));
    const list = Array.from({ length: total }, () => [
      any(),
      any(),
      kinds[Math.floor(next() * 4)],
      next() < 0.1 ? 7 : 0,
    ]);
    const links = linksOf(list);
    const one = bundle(links, parents, isActive);
    const drawable = list.filter(([a, b]) => a >= 0 && b >= 0).length;
    const sum = one.bundles.reduce((n, b) => n + b.connections, 0);
    assert.equal(sum + one.within + one.hidden, drawable, `seed ${seed}`);
    assert.ok(one.bundles.length <= maxBundles);
    assert.ok(total < 1000 || one.bundles.length > 0, 'something is drawn');
    for (const b of one.bundles) {
      assert.ok(b.a < b.b && b.connections > 0);
      const flags = bundleFlags(b.active, b.endA, b.endB);
      assert.deepEqual([isBundleActive(flags), ...bundleEnds(flags)], [b.active, b.endA, b.endB]);
    }
    assert.deepEqual(bundle(links, parents, isActive), one);
  }
});

test('strands grow with the number, and never past five', () => {
  let last = 1;
  for (let n = 1; n < 100_000; n = Math.ceil(n * 1.4)) {
    assert.ok(strands(n) >= last && strands(n) <= 5);
    last = strands(n);
  }
  assert.deepEqual([1, 3, 4, 13, 43, 151].map(strands), [1, 1, 2, 3, 4, 5]);
  assert.ok(maxStrands >= maxBundles);
});

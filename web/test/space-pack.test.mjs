// Plates: nothing overlaps, nothing moves without need, whatever the tree is.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './bundle.mjs';

const { Packer, GROUND, maxDepth } = await load('space/pack.ts');

function random(seed) {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

// tree makes parents for n processes, numbered from 64 on.
function tree(n, seed, chain = 0.2) {
  const next = random(seed);
  const parents = new Map();
  for (let i = 0; i < n; i++) {
    const parent = i === 0 ? GROUND : next() < chain ? 63 + i : 64 + Math.floor(next() ** 3 * i);
    parents.set(64 + i, parent);
  }
  return parents;
}

function places(packer) {
  const towers = new Map();
  const plates = new Map();
  packer.each((index, x, z, depth, plate) => {
    assert.ok(!towers.has(index), `${index} stands twice`);
    towers.set(index, { x, z, depth });
    if (plate) plates.set(index, plate);
  });
  return { towers, plates };
}

// checkApart holds that every tower has a cell of its own inside its plate, and that
// plates are within each other or apart.
function checkApart(packer, parents) {
  const { towers, plates } = places(packer);
  assert.equal(towers.size, parents.size);
  for (const index of parents.keys()) assert.ok(towers.has(index), `${index} has no place`);
  // A tower fills a cell: those of two plates are half a cell off each other, so count halves.
  const cells = new Set();
  for (const [index, { x, z }] of towers) {
    for (const [dx, dz] of [
      [0, 0],
      [0.5, 0],
      [0, 0.5],
      [0.5, 0.5],
    ]) {
      const key = `${x + dx} ${z + dz}`;
      assert.ok(!cells.has(key), `${index} stands on another at ${key}`);
      cells.add(key);
    }
  }
  const { w, d } = packer.size;
  for (const [index, { x, z }] of towers) {
    assert.ok(x >= 0 && z >= 0 && x + 1 <= w && z + 1 <= d, `${index} is off the ground`);
  }
  const list = [...plates];
  for (let i = 0; i < list.length; i++) {
    const [owner, a] = list[i];
    const own = towers.get(owner);
    assert.ok(own.x >= a.x + 0.5 && own.x + 1 <= a.x + a.w - 0.5, `${owner} stands beside its plate`);
    if (list.length > 400 && i % 7 !== 0) continue;
    for (let k = i + 1; k < list.length; k++) {
      const b = list[k][1];
      const apart = a.x + a.w <= b.x || b.x + b.w <= a.x || a.z + a.d <= b.z || b.z + b.d <= a.z;
      const within = (p, q) => p.x >= q.x && p.z >= q.z && p.x + p.w <= q.x + q.w && p.z + p.d <= q.z + q.d;
      assert.ok(apart || within(a, b) || within(b, a), `plates of ${owner} and ${list[k][0]} cross`);
    }
  }
  return { towers, plates };
}

for (const n of [1, 2, 10, 100, 1000, 5000]) {
  test(`${n} processes: each has a place, no two the same`, () => {
    const packer = new Packer();
    const parents = tree(n, n);
    packer.update(parents);
    checkApart(packer, parents);
    const { w, d } = packer.size;
    assert.ok(w * d < 20 * n + 40, `${w} × ${d} cells for ${n}`);
  });
}

test('the same tree is packed the same way', () => {
  const a = new Packer();
  const b = new Packer();
  a.update(tree(700, 5));
  b.update(tree(700, 5));
  assert.deepEqual(places(a), places(b));
});

test('a child comes and goes: nobody else moves while there is room', () => {
  const packer = new Packer();
  const parents = new Map([[64, GROUND]]);
  for (let i = 65; i < 105; i++) parents.set(i, 64);
  packer.update(parents);
  const before = places(packer).towers;
  parents.set(200, 64);
  assert.equal(packer.update(parents).moved, false);
  const during = checkApart(packer, parents).towers;
  for (const [index, place] of before) assert.deepEqual(during.get(index), place, `${index} moved`);
  const slot = during.get(200);
  parents.delete(200);
  packer.update(parents);
  parents.set(201, 64);
  packer.update(parents);
  assert.deepEqual(places(packer).towers.get(201), slot, 'the first free place is taken');
});

test('a plate that is full is packed anew, and says so', () => {
  const packer = new Packer();
  const parents = new Map([
    [64, GROUND],
    [65, GROUND],
  ]);
  for (let i = 100; i < 110; i++) parents.set(i, 64);
  packer.update(parents);
  let moved = 0;
  for (let i = 110; i < 200; i++) {
    parents.set(i, 64);
    if (packer.update(parents).moved) moved++;
    checkApart(packer, parents);
  }
  assert.ok(moved > 0, 'it grew');
  assert.ok(moved < 30, `${moved} of 90 new children moved others`);
});

test('5,000 processes through 200 random changes never overlap', () => {
  const packer = new Packer();
  const parents = tree(1500, 9);
  packer.update(parents);
  const next = random(77);
  for (let round = 0; round < 200; round++) {
    for (let k = 0; k < 12; k++) {
      const all = [...parents.keys()];
      const index = all[Math.floor(next() * all.length)];
      const what = next();
      if (what < 0.4 && all.length > 10) {
        const up = parents.get(index);
        parents.delete(index);
        for (const [child, parent] of parents) if (parent === index) parents.set(child, next() < 0.5 ? GROUND : up);
      } else if (what < 0.9) {
        parents.set(10_000 + round * 20 + k, index);
      } else parents.set(index, GROUND);
    }
    packer.update(parents);
    if (round % 40 === 0) checkApart(packer, parents);
  }
  checkApart(packer, parents);
  assert.equal(packer.rearrange().moved, true);
  checkApart(packer, parents);
});

test('a chain of forks does not grow without end', () => {
  const packer = new Packer();
  const parents = new Map();
  for (let i = 0; i < 3000; i++) parents.set(64 + i, i === 0 ? GROUND : 63 + i);
  packer.update(parents);
  const { towers } = checkApart(packer, parents);
  const deepest = Math.max(...[...towers.values()].map((tower) => tower.depth));
  assert.ok(deepest <= maxDepth, `${deepest} plates deep`);
  const { w, d } = packer.size;
  assert.ok(w * d < 3000 * 4, `${w} × ${d}`);
});

test('a circle of parents hides nobody, and a parent that is not there is the ground', () => {
  const packer = new Packer();
  const parents = new Map([
    [64, 66],
    [65, 64],
    [66, 65],
    [70, 70],
    [71, 999],
    [72, 65],
  ]);
  packer.update(parents);
  checkApart(packer, parents);
});

test('a parent that loses its children is a tower again', () => {
  const packer = new Packer();
  packer.update(
    new Map([
      [64, GROUND],
      [65, 64],
      [66, 64],
    ]),
  );
  assert.equal(places(packer).plates.size, 1);
  const alone = new Map([[64, GROUND]]);
  packer.update(alone);
  assert.equal(checkApart(packer, alone).plates.size, 0);
});

import assert from 'node:assert/strict';
import test from 'node:test';
import { World } from '../../tests/browser/fixture/world.mjs';
import { load } from './bundle.mjs';

const { ProcessTable, keyOf } = await load('deltas.ts');

// state is what a table holds, in a form to compare with the world's own list.
const state = (table) =>
  [...table.live.values()]
    .map((row) => ({ ...row.summary, map_summary: row.maps }))
    .sort((a, b) => a.identity.pid - b.identity.pid);
const truth = (world) => world.list().sort((a, b) => a.identity.pid - b.identity.pid);

test('deltas applied one after another give exactly the whole list', () => {
  const world = new World({ count: 200, seed: 3 });
  const table = new ProcessTable();
  table.whole(world.whole());
  for (let i = 0; i < 30; i++) {
    if (i % 3 === 0) world.start({ pid: 50000 + i });
    if (i % 4 === 1) world.exit([...world.rows.keys()].at(-1));
    if (i === 10) world.reuse(3310);
    world.step();
    assert.notEqual(table.delta(structuredClone(world.delta())), null);
    assert.deepEqual(state(table), truth(world), `after ${i + 1} deltas`);
  }
});

test('a delta that does not follow is refused and changes nothing', () => {
  const world = new World({ count: 50 });
  const table = new ProcessTable();
  assert.equal(table.delta(world.delta()), null, 'before the first whole list');
  table.whole(world.whole());
  const before = state(table);
  world.step();
  const lost = world.delta();
  world.step();
  assert.equal(table.delta(world.delta()), null);
  assert.deepEqual(state(table), before);
  assert.notEqual(table.delta(lost), null, 'the one that does follow still applies');
});

test('map_summary null means unchanged', () => {
  const world = new World({ count: 30 });
  const table = new ProcessTable();
  table.whole(world.whole());
  const row = table.live.get(3310);
  const maps = row.maps;
  world.set(3310, { rss_bytes: 4096 });
  world.step(0);
  const delta = world.delta();
  assert.equal(delta.changed.find((p) => p.identity.pid === 3310).map_summary, null);
  table.delta(delta);
  assert.equal(row.maps, maps);
});

test('a row is the same object for a process, another one for another process with its pid', () => {
  const world = new World({ count: 30 });
  const table = new ProcessTable();
  table.whole(world.whole());
  const row = table.live.get(3310);
  const key = row.key;
  world.step(1);
  table.delta(world.delta());
  assert.equal(table.live.get(3310), row);
  world.reuse(3310, 'cron');
  world.step(0);
  const change = table.delta(world.delta());
  const other = table.live.get(3310);
  assert.notEqual(other, row);
  assert.notEqual(other.key, key);
  assert.equal(keyOf(other.summary.identity), other.key);
  assert.equal(row.gone, table.capturedAt);
  assert.deepEqual(change.exited, [row]);
  assert.deepEqual(change.started, [other]);
  assert.ok(other.born > 0);
});

test('reuse without a word of the old one’s end still ends it', () => {
  const world = new World({ count: 30 });
  const table = new ProcessTable();
  table.whole(world.whole());
  const row = table.live.get(3310);
  world.reuse(3310);
  world.step(0);
  const delta = world.delta();
  delta.removed = [];
  const change = table.delta(delta);
  assert.deepEqual(change.exited, [row]);
  assert.equal(table.live.get(3310).summary.name, 'cron');
});

test('what was there from the start, or is only new to us, is not called started', () => {
  const world = new World({ count: 30 });
  const table = new ProcessTable();
  table.whole(world.whole());
  for (const row of table.live.values()) assert.equal(row.born, 0);
  world.start({ pid: 60000 });
  world.step(0);
  world.now += 60_000; // a gap: the tab was hidden
  table.whole(world.whole());
  assert.equal(table.live.get(60000).born, 0);
});

test('a removal of another identity of the pid is not ours', () => {
  const world = new World({ count: 30 });
  const table = new ProcessTable();
  table.whole(world.whole());
  const delta = { ...world.delta(), removed: [{ pid: 3310, start_time_ticks: 1 }], changed: [] };
  const change = table.delta(delta);
  assert.deepEqual(change.exited, []);
  assert.ok(table.live.has(3310));
});

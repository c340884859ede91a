import assert from 'node:assert/strict';
import test from 'node:test';
import { World } from '../../tests/browser/fixture/world.mjs';
import { load } from './bundle.mjs';

const { ListStore } = await load('store.ts');
const { TICKS } = await load('history.ts');

function start(count = 60) {
  const world = new World({ count });
  const store = new ListStore();
  store.takeWhole(world.whole());
  store.takeTotals(world.totals());
  const tick = (share) => {
    world.step(share);
    store.takeDelta(world.delta());
    store.takeTotals(world.totals());
  };
  return { world, store, tick };
}

const pids = (store) =>
  store
    .rows()
    .map((row) => row.pid)
    .sort((a, b) => a - b);

test('rows are those of the world; ended ones stay five seconds', () => {
  const { world, store, tick } = start();
  tick();
  world.exit(1502);
  tick(0);
  assert.ok(pids(store).includes(1502));
  for (let i = 0; i < 4; i++) tick(0);
  assert.ok(pids(store).includes(1502));
  tick(0);
  assert.deepEqual(
    pids(store),
    [...world.rows.keys()].sort((a, b) => a - b),
  );
});

test('the selected row stays after its end until something else is selected', () => {
  const { world, store, tick } = start();
  store.kept = store.byPid(1502);
  const { key } = store.kept;
  world.exit(1502);
  for (let i = 0; i < 20; i++) tick(0);
  assert.equal(store.find(key)?.gone > 0, true);
  store.kept = null;
  tick(0);
  assert.equal(store.find(key), null);
});

test('held: rows, history, gauges stand however long; slots are not another’s', () => {
  const { world, store, tick } = start();
  for (let i = 0; i < 10; i++) tick(0);
  store.hold();
  const before = pids(store);
  const go = store.rows().find((row) => row.pid === 20990);
  const cpu = go.summary.cpu_percent;
  const line = new Float32Array(TICKS);
  store.shownHistory.line(go.slot, line);
  const points = store.shownPoints.length;
  world.exit(20990);
  // Far more than a minute, with newcomers that take every slot that comes free.
  for (let i = 0; i < 150; i++) {
    world.start({ pid: 80_000 + i, cpu: 77 });
    tick(0);
  }
  assert.deepEqual(pids(store), before);
  assert.equal(store.shownPoints.length, points);
  assert.equal(go.summary.cpu_percent, cpu);
  assert.ok(go.gone > 0, 'it is marked as ended');
  const later = new Float32Array(TICKS);
  store.shownHistory.line(go.slot, later);
  assert.deepEqual(later, line);
  const frame = store.frame.value;
  assert.deepEqual([frame.started, frame.exited], [150, 1]);
  store.release();
  assert.equal(pids(store).includes(20990), false);
  assert.ok(pids(store).includes(80_149));
});

test('rewind: who ran at that second, with the figures of that second', () => {
  const { world, store, tick } = start();
  for (let i = 0; i < 30; i++) {
    if (i === 10) world.set(1502, { cpu_percent: 500 });
    if (i === 11) world.set(1502, { cpu_percent: 2 });
    if (i === 15) world.exit(912);
    if (i === 20) world.start({ pid: 90_000 });
    tick(0);
  }
  const newest = store.capturedAt;
  assert.equal(store.rewind(newest - 19_000), true);
  const at = (pid) => store.rows().find((row) => row.pid === pid);
  assert.ok(at(1502).summary.cpu_percent > 300);
  assert.ok(at(912), 'it still ran');
  assert.equal(at(90_000), undefined, 'it did not yet run');
  // The clock goes on; the same second can be asked for again, and others too.
  for (let i = 0; i < 5; i++) tick(0);
  assert.equal(store.rewind(newest - 5000), true);
  assert.equal(at(912), undefined);
  assert.ok(at(90_000));
  assert.equal(store.rewind(newest - 500_000), false, 'nothing is known of then');
  store.release();
  assert.equal(store.frame.value.kind, 'live');
});

test('a delta that does not follow asks for a new stream and is not applied', () => {
  const { world, store } = start();
  let restarts = 0;
  store.live.restart = () => {
    restarts++;
  };
  const before = store.capturedAt;
  world.step();
  const delta = world.delta();
  store.takeDelta({ ...delta, base_sequence: 999 });
  assert.equal(restarts, 1);
  assert.equal(store.capturedAt, before);
});

test('totals: an older one is dropped, a minute is kept', () => {
  const { world, store, tick } = start(30);
  for (let i = 0; i < 100; i++) tick(0);
  assert.ok(store.points.length <= TICKS);
  const newest = store.totals.value;
  store.takeTotals({ ...world.totals(), captured_at: newest.captured_at - 5000 });
  assert.equal(store.totals.value, newest);
});

test('started and exited are counted for five seconds', () => {
  const { world, store, tick } = start(30);
  tick(0);
  world.start({ pid: 70_000 });
  world.exit(1502);
  tick(0);
  assert.deepEqual(store.turnover(), { started: 1, exited: 1 });
  for (let i = 0; i < 5; i++) tick(0);
  assert.deepEqual(store.turnover(), { started: 0, exited: 0 });
});

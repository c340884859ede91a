import assert from 'node:assert/strict';
import test from 'node:test';
import { World } from '../../tests/browser/fixture/world.mjs';
import { load } from './bundle.mjs';

const { ProcessTable, Row } = await load('deltas.ts');
const { Order, sumTree } = await load('tree.ts');
const { columnById } = await load('columns.ts');
const { parseFilter } = await load('filter.ts');

// host is a table over a few processes: [pid, ppid, cpu, name, more].
function host(list) {
  const rows = new Map();
  for (const [pid, ppid, cpu = 0, name = `p${pid}`, more = {}] of list) {
    rows.set(
      pid,
      new Row({
        identity: { pid, start_time_ticks: pid * 10 },
        parent_id: ppid ? { pid: ppid, start_time_ticks: ppid * 10 } : null,
        name,
        command_line: [name],
        kernel_thread: false,
        uid: 0,
        euid: 0,
        username: 'root',
        effective_username: 'root',
        state: 'S',
        cpu_percent: cpu,
        rss_bytes: 100,
        vms_bytes: 1000,
        thread_count: 1,
        started_at: 0,
        read_bytes_rate: 1,
        write_bytes_rate: null,
        map_summary: null,
        ...more,
      }),
    );
  }
  return rows;
}

const options = (more = {}) => ({
  sortKey: columnById(more.column ?? 'cpu').sortKey,
  descending: true,
  tree: false,
  kernel: false,
  filter: parseFilter(more.q ?? ''),
  descendants: false,
  collapsed: () => false,
  pinned: null,
  locked: false,
  now: 0,
  ...more,
});

const pids = (order) => order.rows.map((row) => row.pid);
const shape = (order) => order.rows.map((row) => `${'.'.repeat(row.depth)}${row.pid}`).join(' ');

const FAMILY = [
  [1, 0, 1],
  [10, 1, 5],
  [11, 10, 2],
  [12, 10, 9],
  [20, 1, 7],
  [21, 20, 0],
  [30, 0, 3],
];

test('flat: by the column, ties by pid, unknown last both ways', () => {
  const rows = host([
    [5, 0, 2],
    [3, 0, null],
    [4, 0, 2],
    [9, 0, 8],
  ]);
  const order = new Order();
  order.update(rows.values(), [], true, options());
  assert.deepEqual(pids(order), [9, 4, 5, 3]);
  order.update(rows.values(), [], true, options({ descending: false }));
  assert.deepEqual(pids(order), [4, 5, 9, 3]);
  order.update(rows.values(), [], true, options({ column: 'name', descending: false }));
  assert.deepEqual(pids(order), [3, 4, 5, 9]);
});

test('tree: siblings sorted within their parent, depths counted', () => {
  const order = new Order();
  order.update(host(FAMILY).values(), [], true, options({ tree: true }));
  assert.equal(shape(order), '30 1 .20 ..21 .10 ..12 ..11');
});

test('tree: a parent that is not shown, or another process with its pid, makes a root', () => {
  const rows = host([
    [2, 0, 0, 'kthreadd', { kernel_thread: true }],
    [5, 2, 1],
    [6, 77, 2],
    [7, 5, 3, 'p7', { parent_id: { pid: 5, start_time_ticks: 1 } }],
  ]);
  const order = new Order();
  order.update(rows.values(), [], true, options({ tree: true }));
  assert.equal(shape(order), '7 6 5');
  assert.equal(order.kernelHidden, 1);
  order.update([], [], false, options({ tree: true, kernel: true }));
  assert.equal(shape(order), '7 6 2 .5');
});

test('tree: a circle of parents hides nobody', () => {
  const order = new Order();
  order.update(
    host([
      [5, 6],
      [6, 5],
    ]).values(),
    [],
    true,
    options({ tree: true }),
  );
  assert.deepEqual(pids(order).sort(), [5, 6]);
});

test('tree: the filter keeps ancestors dimmed, and descendants when asked', () => {
  const rows = host(FAMILY);
  const order = new Order();
  order.update(rows.values(), [], true, options({ tree: true, q: 'name:p10' }));
  assert.equal(shape(order), '1 .10');
  assert.deepEqual(
    order.rows.map((row) => row.match),
    [false, true],
  );
  assert.equal(order.matches, 1);
  assert.equal(order.total, 7);
  order.update([], [], false, options({ tree: true, q: 'name:p10', descendants: true }));
  assert.equal(shape(order), '1 .10 ..12 ..11');
});

test('collapsed: the subtree goes, its sum stays and sorts', () => {
  const rows = host(FAMILY);
  const order = new Order();
  const collapsed = (row) => row.pid === 10;
  order.update(rows.values(), [], true, options({ tree: true, collapsed }));
  // 5 + 2 + 9 = 16 is more than 7.
  assert.equal(shape(order), '30 1 .10 .20 ..21');
  const sums = rows.get(10).sums;
  assert.deepEqual(
    {
      processes: sums.processes,
      cpu: sums.cpu,
      rss: sums.rss,
      threads: sums.threads,
      read: sums.read,
      write: sums.write,
    },
    { processes: 3, cpu: 16, rss: 300, threads: 3, read: 3, write: null },
  );
  order.update([], [], false, options({ tree: true }));
  assert.equal(rows.get(10).sums, null);
  assert.equal(shape(order), '30 1 .20 ..21 .10 ..12 ..11', 'expanded it sorts by its own figure again');
});

test('sums: unknown is not zero', () => {
  const rows = host([
    [1, 0, null],
    [2, 1, null],
    [3, 1, 4],
  ]);
  const order = new Order();
  order.update(rows.values(), [], true, options({ tree: true }));
  const sums = sumTree(rows.get(1));
  assert.equal(sums.cpu, 4);
  assert.equal(sums.cpuUnknown, 2);
  assert.equal(sumTree(rows.get(2)).cpu, null);
});

test('pinned: the selected row is never hidden by the filter', () => {
  const rows = host(FAMILY);
  const order = new Order();
  const pinned = rows.get(21);
  order.update(rows.values(), [], true, options({ q: 'name:p30', pinned }));
  assert.deepEqual(pids(order), [30, 21]);
  assert.equal(pinned.match, false);
  assert.equal(pinned.pinned, true);
  order.update([], [], false, options({ tree: true, q: 'name:p30', pinned }));
  assert.equal(shape(order), '30 1 .20 ..21');
});

test('locked: values change, places do not; what is new comes last', () => {
  const rows = host(FAMILY);
  const order = new Order();
  order.update(rows.values(), [], true, options());
  const before = pids(order);
  const row = rows.get(21);
  row.update({ ...row.summary, cpu_percent: 99 });
  row.moved = true;
  const late = host([[40, 1, 50]]).get(40);
  order.update([], [late], false, options({ locked: true }));
  assert.deepEqual(pids(order), [...before, 40]);
  order.update([], [], false, options());
  assert.deepEqual(pids(order).slice(0, 2), [21, 40], 'unlocked, all of it is caught up on');
});

test('refreshes give the same as sorting everything anew', () => {
  for (const tree of [false, true]) {
    for (const column of ['cpu', 'rss', 'name', 'age']) {
      const world = new World({ count: 300, seed: 11 });
      const table = new ProcessTable();
      table.whole(world.whole());
      const kept = new Order();
      const collapsed = (row) => row.pid % 7 === 0;
      const how = () =>
        options({ column, tree, collapsed, q: '-name:cron', now: world.now, descending: column !== 'name' });
      kept.update(table.live.values(), [], true, how());
      for (let i = 0; i < 12; i++) {
        if (i % 2) world.start({ pid: 70000 + i, ppid: 902 });
        else world.exit([...world.rows.keys()].at(-1 - i));
        world.step(0.3);
        const change = table.delta(world.delta());
        for (const row of change.changed) row.moved = true;
        for (const row of change.exited) {
          row.listed = false;
          row.dropped = true;
        }
        kept.update([], change.started, false, how());
        const anew = new Order();
        const shown = kept.rows.map((row) => `${row.depth} ${row.key}`);
        const state = [...table.live.values()];
        for (const row of state) row.up = null;
        anew.update(state, [], true, how());
        // A second pass: collapsed rows sort by sums that the first has just made.
        assert.deepEqual(
          shown,
          anew.rows.map((row) => `${row.depth} ${row.key}`),
          `${column} ${tree} ${i}`,
        );
        // The rows carry the order's marks: give them back to the order under test.
        kept.update(state, [], true, how());
      }
    }
  }
});

test('every row comes out once, whatever the tree', () => {
  let seed = 5;
  const next = (n) => {
    seed = (seed * 1103515245 + 12345) & 0x7fffffff;
    return seed % n;
  };
  for (let round = 0; round < 50; round++) {
    const list = [];
    for (let pid = 1; pid <= 60; pid++) list.push([pid, next(4) === 0 ? 0 : 1 + next(pid), next(100)]);
    const order = new Order();
    order.update(
      host(list.map(([pid, ppid, cpu]) => [pid, ppid === pid ? 0 : ppid, cpu])).values(),
      [],
      true,
      options({ tree: true }),
    );
    assert.equal(order.rows.length, 60);
    assert.equal(new Set(pids(order)).size, 60);
    for (const row of order.rows) if (row.parent) assert.equal(row.depth, row.parent.depth + 1);
  }
});

test('a row that came and went between two refreshes is not taken in', () => {
  const rows = host(FAMILY);
  const order = new Order();
  order.update(rows.values(), [], true, options());
  const brief = host([[99, 1, 50]]).get(99);
  brief.dropped = true;
  order.update([], [brief], false, options());
  assert.equal(pids(order).includes(99), false);
});

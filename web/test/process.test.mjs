import assert from 'node:assert/strict';
import test from 'node:test';
import { HOSTILE, mapsOf } from '../../tests/browser/fixture/process.mjs';
import { load } from './bundle.mjs';

const [maps, place, ring, signals, secrets, affinity, peers, match, order, figures, format] = await Promise.all(
  ['maps', 'place', 'ring', 'signals', 'secrets', 'affinity', 'peers', 'match', 'order', 'figures', '../format'].map(
    (name) => load(`process/${name}.ts`),
  ),
);

const mapping = (start, end, permissions, pathname = null, more = {}) => ({
  start,
  end,
  permissions,
  readable: permissions[0] === 'r',
  writable: permissions[1] === 'w',
  executable: permissions[2] === 'x',
  private: permissions[3] === 'p',
  file_offset: '0x0',
  device: '00:00',
  inode: '0',
  pathname,
  deleted: null,
  rss_bytes: 4096,
  pss_bytes: 2048,
  swap_bytes: 0,
  dirty_bytes: 0,
  ...more,
});

test('maps: kinds', () => {
  const rows = [
    ['r-xp', '/usr/bin/cat', 'code'],
    ['--xp', '[vsyscall]', 'vdso'],
    ['r--p', '/usr/bin/cat', 'readonly'],
    ['rw-p', '/usr/bin/cat', 'data'],
    ['rw-p', '[heap]', 'heap'],
    ['rw-p', '[stack]', 'stack'],
    ['rw-p', '[stack:77]', 'stack'],
    ['rw-p', null, 'anonymous'],
    ['rw-p', '[anon:malloc]', 'anonymous'],
    ['r--p', null, 'anonymous'],
    ['rwxp', null, 'code'],
    ['rw-s', '/dev/zero (deleted)', 'shared'],
    ['r--s', '/usr/share/locale/x', 'shared'],
    ['rwxs', '/dev/shm/code', 'shared'],
    ['r--p', '[vvar_vclock]', 'vdso'],
    ['---p', null, 'guard'],
    ['---p', '/usr/lib/libc.so.6', 'guard'],
    ['r--p', '[vvar]', 'vdso'],
    ['r-xp', '[vdso]', 'vdso'],
    ['r--p', '[uprobes]', 'other'],
  ];
  for (const [permissions, pathname, want] of rows) {
    assert.equal(maps.kindOf(mapping('0x0', '0x1000', permissions, pathname)), want, `${permissions} ${pathname}`);
  }
});

test('maps: a region at the top of the address space keeps its exact addresses', () => {
  const [region] = maps.regionsOf([mapping('0xffffffffff600000', '0xffffffffff601000', '--xp', '[vsyscall]')]);
  assert.equal(region.start, 0xffffffffff600000n);
  assert.equal(region.size, 4096);
  assert.equal(region.name, 'vsyscall');
});

test('maps: the region of an address, by bisection, half open', () => {
  const regions = maps.regionsOf(mapsOf(300));
  for (const i of [0, 1, 57, regions.length - 1]) {
    assert.equal(maps.regionAt(regions, regions[i].start).index, i);
    assert.equal(maps.regionAt(regions, regions[i].end - 1n).index, i);
  }
  assert.equal(maps.regionAt(regions, regions[0].start - 1n), null);
  assert.equal(maps.regionAt(regions, 0x600000000000n), null);
  assert.equal(maps.regionAt([], 0n), null);
});

test('maps: totals by kind add up, and are unknown when any part is', () => {
  const list = [
    mapping('0x1000', '0x3000', 'rw-p'),
    mapping('0x3000', '0x4000', 'rw-p', null, { rss_bytes: null }),
    mapping('0x4000', '0x5000', 'r-xp', '/bin/x'),
  ];
  assert.deepEqual(maps.totalsByKind(maps.regionsOf(list)), [
    { kind: 'code', count: 1, size: 4096, rss: 4096, pss: 2048 },
    { kind: 'anonymous', count: 2, size: 12288, rss: null, pss: 4096 },
  ]);
  assert.deepEqual(maps.sumOf(maps.regionsOf(list.slice(0, 1))), { count: 1, size: 8192, rss: 4096, pss: 2048 });
});

test('maps: what the address box understands', () => {
  const regions = maps.regionsOf([
    mapping('0x000055d0c1a00000', '0x000055d0c1b00000', 'r-xp', '/usr/bin/cafe'),
    mapping('0x00007f0000000000', '0x00007f0000001000', 'rw-p', '[heap]'),
    mapping('0x00007f1000000000', '0x00007f1000001000', 'r-xp', '/lib/libc.so.6'),
  ]);
  const at = (text, here = 0x1000n) => maps.findPlace(text, regions, here);
  assert.deepEqual(at('0x7f1000000010'), { address: 0x7f1000000010n });
  assert.deepEqual(at('7f1000000010'), { address: 0x7f1000000010n });
  assert.deepEqual(at('heap'), { address: 0x7f0000000000n });
  assert.deepEqual(at('[heap]'), { address: 0x7f0000000000n });
  assert.deepEqual(at('libc.so.6+0x20'), { address: 0x7f1000000020n });
  assert.deepEqual(at('/lib/libc.so.6 + 20'), { address: 0x7f1000000020n });
  assert.deepEqual(at('cafe'), { address: 0x55d0c1a00000n }); // the mapping of that name, not 0xcafe
  assert.deepEqual(at('0xcafe'), { address: 0xcafen });
  assert.deepEqual(at('+0x40'), { address: 0x1040n });
  assert.deepEqual(at('-40'), { address: 0xfc0n });
  for (const [text, why] of [
    ['', /Type an address/],
    ['-0x2000', /outside/],
    ['11111111111111111', /16 hex digits/],
    ['libq', /Neither/],
    ['libc', /Nearest: libc\.so\.6/],
  ]) {
    assert.match(at(text).error, why, text);
  }
  assert.match(maps.findPlace('+1', regions, null).error, /no address yet/);
});

test('place: the hash and back', () => {
  const parsed = place.parsePlace('memory?addr=0x7f00&len=256&q=a%20b');
  assert.equal(parsed.section, 'memory');
  assert.equal(parsed.params.get('q'), 'a b');
  assert.equal(place.parsePlace('').section, 'overview');
  assert.equal(place.parsePlace('nowhere').section, 'overview');
  const hash = place.placeHash('files', { q: '/tmp & "x" %', sort: '-fd', none: undefined, empty: '' });
  assert.equal(hash, '#files?q=/tmp%20%26%20%22x%22%20%25&sort=-fd');
  assert.equal(place.parsePlace(hash.slice(1)).params.get('q'), '/tmp & "x" %');
  assert.equal(place.placeHash('threads'), '#threads');
});

test('place: lengths stay inside the contract', () => {
  for (const [text, want] of [
    ['256', 256],
    ['65536', 65536],
    ['1', 1],
    ['0', 256],
    ['65537', 256],
    ['abc', 256],
    [null, 256],
    ['1e3', 256],
  ]) {
    assert.equal(place.lengthFrom(text), want, text);
  }
});

const observation = (timestamp, cpu, threads = []) => ({
  timestamp,
  cpu_percent: cpu,
  rss_bytes: 1000,
  rates: {
    minor_faults: 1,
    major_faults: null,
    voluntary_context_switches: 2,
    nonvoluntary_context_switches: 3,
    read_bytes: null,
    write_bytes: null,
  },
  threads,
});

test('ring: keeps 60 s and one point before them', () => {
  const r = new ring.Ring();
  for (let i = 0; i <= 100; i++) r.add(observation(i * 1000, i));
  const { points } = r.now();
  assert.equal(points.length, 62);
  assert.equal(points[0].time, 39_000);
  assert.equal(points.at(-1).figures.cpu, 100);
  assert.equal(points.at(-1).figures.major, null);
});

test('ring: a fast stream is bounded by its number of points', () => {
  const r = new ring.Ring();
  for (let i = 0; i < 2000; i++) r.add(observation(i * 10, i));
  assert.equal(r.now().points.length, 640);
});

test('ring: what came before or twice changes nothing', () => {
  const r = new ring.Ring();
  r.add(observation(5000, 1));
  r.add(observation(5000, 2));
  r.add(observation(4000, 3));
  assert.deepEqual(
    r.now().points.map((p) => p.figures.cpu),
    [1],
  );
});

test('ring: history fills in what was missed, but never the time of another connection', () => {
  const r = new ring.Ring();
  const past = (t) => ({ timestamp: t, cpu_percent: t / 1000, rss_bytes: 1, vms_bytes: 1 });
  r.add(observation(10_000, 10));
  r.add(observation(13_000, 13), [past(9000), past(11_000), past(12_000), past(13_000)]);
  assert.deepEqual(
    r.now().points.map((p) => p.figures.cpu),
    [10, 11, 12, 13],
  );
});

test('ring: a lost connection is one gap, from the last point to the next', () => {
  const r = new ring.Ring();
  r.gap();
  assert.equal(r.now().points.length, 0);
  r.add(observation(1000, 1));
  r.gap();
  r.gap();
  r.add(observation(9000, 2));
  assert.deepEqual(ring.gapsOf(r.now().points), [{ from: 1001, to: 9000 }]);
  assert.deepEqual(
    r.now().points.map((p) => p.figures.cpu),
    [1, null, 2],
  );
});

test('ring: what is held does not change any more', () => {
  const r = new ring.Ring();
  r.add(observation(1000, 1));
  const held = r.now();
  for (let i = 2; i < 200; i++) r.add(observation(i * 1000, i));
  assert.equal(held.points.length, 1);
  assert.equal(held.points[0].time, 1000);
});

const thread = (tid, state, cpu = 0) => ({ tid, name: `t${tid}`, state, cpu_percent: cpu });

test('lanes: states over time, equal neighbours joined, unknown where the thread was not seen', () => {
  const r = new ring.Ring();
  r.add(observation(1000, 1, [thread(1, 'S', 2), thread(2, 'R', 4)]));
  r.add(observation(2000, 1, [thread(1, 'S', 4)]));
  r.gap();
  r.add(observation(8000, 1, [thread(1, 'D', null)]));
  const { lanes } = r.now();
  const one = ring.laneOf(lanes, 1, 'one', 9000);
  assert.deepEqual(one.stretches, [
    { from: 1000, to: 2001, state: 'S' },
    { from: 2001, to: 8000, state: '' },
    { from: 8000, to: 9000, state: 'D' },
  ]);
  assert.equal(one.cpu, 3);
  assert.deepEqual(ring.laneOf(lanes, 2, 'two', 9000).stretches[1], { from: 2000, to: 9000, state: '' });
  assert.equal(ring.laneOf(lanes, 99, 'none', 9000).cpu, null);
});

test('lanes: the busiest threads are drawn, in TID order', () => {
  const r = new ring.Ring();
  const all = Array.from({ length: 50 }, (_, i) => thread(100 + i, i === 7 ? 'D' : 'S', i === 33 ? 90 : 0));
  r.add(observation(1000, 1, all));
  assert.deepEqual(ring.busiest(r.now().lanes, all, 3), [100, 107, 133]);
  assert.deepEqual(ring.busiest(r.now().lanes, all.slice(0, 2), 3), [100, 101]);
});

const mask = (list) => ({
  hex: `0x${list
    .reduce((all, n) => all | (1n << BigInt(n - 1)), 0n)
    .toString(16)
    .padStart(16, '0')}`,
  signals: list.map((n) => (n >= 32 ? `RT ${n} [${n}]` : `SIG${n} [${n}]`)),
});
const state = (tid, pending, blocked, caught) => ({
  tid,
  name: 'x',
  pending: mask(pending),
  shared_pending: mask([]),
  blocked: mask(blocked),
  ignored: mask([13]),
  caught: mask(caught),
  queued: '0/1',
});

test('signals: rows are those that are anything but default, counted over threads', () => {
  const rows = signals.signalRows([state(1, [10], [2, 64], [1]), state(2, [], [2], [1])]);
  assert.deepEqual(
    rows.map((r) => [r.number, r.name]),
    [
      [1, 'SIG1'],
      [2, 'SIG2'],
      [10, 'SIG10'],
      [13, 'SIG13'],
      [64, 'RT 64'],
    ],
  );
  assert.equal(rows[1].counts.blocked, 2);
  assert.equal(rows[2].counts.pending, 1);
  assert.deepEqual(
    rows[4].threads.map((t) => t.tid),
    [1],
  );
  assert.deepEqual(signals.signalRows([]), []);
});

test('signals: without threads the leader stands for all', () => {
  const leader = state(1, [], [], []);
  assert.deepEqual(signals.statesOf({ leader, threads: [] }), [leader]);
  assert.deepEqual(signals.statesOf({ leader: null, threads: [] }), []);
});

test('secrets: names and values that are blurred', () => {
  for (const [name, value] of [
    ['PGPASSWORD', 'x'],
    ['API_KEY', 'x'],
    ['GITHUB_TOKEN', 'x'],
    ['aws_secret_access_key', 'x'],
    ['DB_PASS', 'x'],
    ['MY_PWD', 'x'],
    ['SENTRY_DSN', 'x'],
    ['DATABASE_URL', 'postgres://app:hunter2@db/app'],
    ['proxy', 'http://u:p@proxy:3128'],
  ]) {
    assert.ok(secrets.looksSecret(name, value), name);
  }
  for (const [name, value] of [
    ['PATH', '/bin'],
    ['PWD', '/root'],
    ['OLDPWD', '/'],
    ['SSH_AUTH_SOCK', '/tmp/x'],
    ['XDG_SESSION_ID', '3'],
    ['COMPASS', 'north'],
    ['API_TOKEN', ''],
    ['API_TOKEN', null],
    ['URL', 'https://example.org/a:b@c'],
    ['HOMEPAGE', 'http://example.org'],
  ]) {
    assert.ok(!secrets.looksSecret(name, value), name);
  }
});

test('affinity: lists of CPUs', () => {
  assert.deepEqual([...affinity.parseCPUs('0-3,8')], [0, 1, 2, 3, 8]);
  for (const broken of ['', 'a', '3-1', '0-99999', '1-2-3', '-1'])
    assert.equal(affinity.parseCPUs(broken), null, broken);
  assert.equal(affinity.widest(['0-3', null, '7', 'x']), 8);
  assert.equal(affinity.affinityText('0,2', 4), '■□■□');
  assert.equal(affinity.affinityText('0-63', 64), 'all');
  assert.equal(affinity.affinityText('0-2', 64), '0-2');
  assert.equal(affinity.affinityText(null, 4), '–');
});

const fd = (n, kind, more = {}) => ({
  fd: n,
  kind,
  target: `${kind}:[${n}]`,
  inode: String(n),
  access: 'read',
  protocol: null,
  state: null,
  local: null,
  remote: null,
  local_kind: null,
  peers: [],
  holders: [],
  ...more,
});
const end = (pid, relation = 'pipe_end') => ({
  process_id: { pid, start_time_ticks: 1 },
  name: 'p',
  fd: 3,
  access: 'write',
  relation,
});

test('picture: pipes left, sockets right, files below, one link an object', () => {
  const picture = peers.pictureOf([
    fd(0, 'file'),
    fd(3, 'pipe', { inode: '9', access: 'read' }),
    fd(4, 'pipe', { inode: '9', access: 'write' }),
    fd(5, 'socket', {
      access: 'read/write',
      protocol: 'TCP',
      remote: '1.2.3.4:5',
      peers: [end(7, 'address_candidate')],
    }),
    fd(6, 'epoll'),
    fd(7, 'socket', { holders: [end(8, 'same_object')] }),
  ]);
  assert.deepEqual(
    picture.left.map((l) => [l.fds, l.direction]),
    [[[3, 4], 'both']],
  );
  assert.deepEqual(
    picture.right.map((l) => [l.fds[0], l.candidate, l.owners.length]),
    [
      [5, true, 0],
      [7, false, 1],
    ],
  );
  assert.equal(picture.right[0].text, 'TCP 1.2.3.4:5');
  assert.deepEqual(
    picture.below.map((l) => l.fds),
    [[0]],
  );
});

test('picture: at most eight a side, those with a known peer first, the rest counted', () => {
  const picture = peers.pictureOf(
    Array.from({ length: 20 }, (_, i) => fd(i, 'pipe', i === 19 ? { peers: [end(1)] } : {})),
  );
  assert.equal(picture.left.length, peers.maxPictureLinks);
  assert.equal(picture.left[0].fds[0], 19);
  assert.equal(picture.more.left, 12);
  assert.equal(peers.endsText([end(1), end(2), end(3)], 2), 'p 1, p 2 +1');
});

test('filter of a section: words, quotes, exclusion, regex', () => {
  const yes = (line, text) => match.matcher(line).test(text);
  assert.ok(yes('', 'anything'));
  assert.ok(yes('LIBC r-x', '/lib/libc.so r-xp'));
  assert.ok(!yes('libc -r-x', '/lib/libc.so r-xp'));
  assert.ok(yes('"two words"', 'has two words in it'));
  assert.ok(!yes('"two words"', 'two other words'));
  assert.ok(yes('/^a.c$/', 'abc'));
  assert.ok(!yes('-/b+/', 'abc'));
  const broken = match.matcher('/(/ lib');
  assert.match(broken.error, /not a regular expression/);
  assert.ok(broken.test('lib'), 'what cannot be understood hides nothing');
});

test('order: unknown comes last in either direction, equal rows keep their order', () => {
  const rows = [
    { k: 1, v: 2 },
    { k: 2, v: null },
    { k: 3, v: 9 },
    { k: 4, v: 2 },
  ];
  const keys = (down) => order.sorted(rows, (r) => r.v, down).map((r) => r.k);
  assert.deepEqual(keys(false), [1, 4, 3, 2]);
  assert.deepEqual(keys(true), [3, 1, 4, 2]);
  assert.equal(order.compare(1n << 63n, 1n, false), 1);
  assert.deepEqual(
    order.keepOrder(rows, (r) => r.k, [4, 99, 1]).map((r) => r.k),
    [4, 1, 2, 3],
  );
});

test('order: the form in the address', () => {
  const fallback = { column: 'cpu', down: true };
  assert.deepEqual(order.parseSort('-rss', ['rss'], fallback), { column: 'rss', down: true });
  assert.deepEqual(order.parseSort('nonsense', ['rss'], fallback), fallback);
  assert.deepEqual(order.parseSort(null, ['rss'], fallback), fallback);
  assert.equal(order.sortText({ column: 'rss', down: false }), 'rss');
});

test('figures: unknown is –, never 0', () => {
  for (const chart of figures.CHARTS) for (const line of chart.lines) assert.equal(line.format(null), '–', line.label);
  assert.equal(figures.chartKind('nonsense').id, 'cpu');
});

test('a hostile name is shown as pictures of what it holds', () => {
  const shown = format.visible(HOSTILE);
  assert.ok(!/[\u0000-\u001f\u202e]/.test(shown));
  assert.match(shown, /␛\[31m⟨U\+202E⟩/);
});

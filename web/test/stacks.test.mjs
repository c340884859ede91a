import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './bundle.mjs';

const [stacks, snapshot, place] = await Promise.all(
  ['stacks', 'snapshot', 'place'].map((name) => load(`process/${name}.ts`)),
);

const hex16 = (n) => `0x${BigInt(n).toString(16).padStart(16, '0')}`;

const frame = (address, symbol, more = {}) => ({
  address: hex16(address),
  symbol,
  symbol_offset: symbol === null ? null : '0x10',
  source_file: null,
  line: null,
  module: null,
  module_offset: null,
  unwound_by: 'cfi',
  guess: false,
  inline_frames: [],
  ...more,
});

const call = (name, ...list) => ({
  number: 202,
  name,
  arguments: Array.from({ length: 6 }, (_, i) => hex16(list[i] ?? 0)),
});

const thread = (tid, more = {}) => ({
  tid,
  name: `t${tid}`,
  state: 'S',
  syscall: call('futex', 0x7f00),
  wait_channel: 'futex_wait_queue',
  kernel_stack: null,
  call_stack: [frame(0x1000, 'wait'), frame(0x2000, 'main')],
  stable: true,
  unwind_stop: null,
  frames_may_be_missing: false,
  error: null,
  ...more,
});

test('equal stacks are one group, in the order of their lowest TID', () => {
  const other = { call_stack: [frame(0x3000, 'read')] };
  const groups = stacks.groupStacks([thread(9), thread(4, other), thread(3), thread(7), thread(5, other)]);
  assert.deepEqual(
    groups.map((g) => g.threads.map((t) => t.tid)),
    [
      [3, 7, 9],
      [4, 5],
    ],
  );
  assert.equal(new Set(groups.map((g) => g.key)).size, 2);
  assert.deepEqual(stacks.groupStacks([]), []);
});

test('every difference but name, TID and arguments parts two threads', () => {
  const base = thread(1);
  for (const [what, more] of Object.entries({
    state: { state: 'D' },
    call: { syscall: { ...call('read'), number: 0 } },
    'no call': { syscall: null },
    wait: { wait_channel: null },
    kernel: { kernel_stack: [] },
    stack: { call_stack: [frame(0x1001, 'wait'), frame(0x2000, 'main')] },
    depth: { call_stack: [frame(0x1000, 'wait')] },
    'no stack': { call_stack: null },
    'empty stack': { call_stack: [] },
    how: { call_stack: [frame(0x1000, 'wait'), frame(0x2000, 'main', { unwound_by: 'frame_pointer' })] },
    moved: { stable: false },
    stop: { unwind_stop: 'loop' },
    missing: { frames_may_be_missing: true },
    error: { error: 'gone' },
  })) {
    assert.equal(stacks.groupStacks([base, thread(2, more)]).length, 2, what);
  }
  const [same] = stacks.groupStacks([base, thread(2, { name: 'x' })]);
  assert.equal(same.sameArguments, true);
  const [differ, ...rest] = stacks.groupStacks([base, thread(2, { syscall: call('futex', 0x8f00) })]);
  assert.equal(rest.length, 0);
  assert.equal(differ.sameArguments, false);
});

test('system calls as written: zeros cut, unknown calls by number', () => {
  assert.equal(stacks.callText(call('futex', 0x7f00, 0, 1)), 'futex(0x7f00, 0x0, 0x1, 0x0, 0x0, 0x0)');
  assert.match(
    stacks.callText({ number: 999, name: null, arguments: ['0xffffffffffffffff'] }),
    /^call 999\(0xf{16}\)$/,
  );
});

test('inlined functions are rows before the function that was called', () => {
  const rows = stacks.frameRows([
    frame(0x1000, 'outer', {
      source_file: '/a/inner.h',
      line: 3,
      inline_frames: [
        { function: 'inner', file: '/a/inner.h', line: 3 },
        { function: null, file: '/a/middle.h', line: null },
        { function: 'outer', file: '/a/outer.c', line: 9 },
      ],
    }),
    frame(0x2000, null),
  ]);
  assert.deepEqual(
    rows.map((r) => [r.depth, r.inlined, r.name, stacks.sourceText(r.file, r.line)]),
    [
      [0, true, 'inner', 'inner.h:3'],
      [0, true, null, 'middle.h'],
      [0, false, 'outer', 'outer.c:9'],
      [1, false, null, ''],
    ],
  );
});

test('how a frame was found is said unless it is call frame information', () => {
  for (const [by, words] of [
    ['cfi', ''],
    ['registers', 'registers'],
    ['frame_pointer', 'frame pointer'],
    ['signal_frame', 'signal frame'],
    ['some_new_way', 'some new way'],
  ]) {
    assert.equal(stacks.howFound(frame(1, 'x', { unwound_by: by })), words);
  }
});

test('stacks as text: one paragraph a place, all that is on screen', () => {
  const text = stacks.stacksText({
    process_id: { pid: 1, start_time_ticks: 5 },
    captured_at: 0,
    warnings: ['no symbols of x'],
    threads: [
      thread(1),
      thread(2, { syscall: call('futex', 0x8f00) }),
      thread(3, {
        state: 'R',
        syscall: null,
        wait_channel: null,
        call_stack: null,
        stable: false,
        kernel_stack: ['do_x+0x1'],
        unwind_stop: 'no code there',
        frames_may_be_missing: true,
        error: 'bad',
      }),
    ],
  });
  const lines = text.split('\n');
  assert.match(lines[0], /^pid 1, 3 threads at .*, stopped nothing$/);
  assert.equal(lines[1], 'warning: no symbols of x');
  assert.ok(lines.includes('1 t1 futex(0x7f00, 0x0, 0x0, 0x0, 0x0, 0x0)'));
  assert.ok(lines.includes('2 t2 futex(0x8f00, 0x0, 0x0, 0x0, 0x0, 0x0)'));
  assert.ok(lines.includes('S sleeping, waits in futex_wait_queue'));
  assert.ok(lines.includes('#1  0x0000000000002000 main+0x10'));
  for (const want of [
    'R running, it moved',
    'no stack without a stop',
    'frames may be missing',
    'the walk ended: no code there',
    'error: bad',
    'kernel do_x+0x1',
  ]) {
    assert.ok(lines.includes(want), want);
  }
});

test('pauses in the unit that fits, unknown precision not made up', () => {
  for (const [ms, text] of [
    [0.0514, '51 µs'],
    [0.994, '994 µs'],
    [0.996, '1.0 ms'],
    [1.8, '1.8 ms'],
    [99.94, '99.9 ms'],
    [2000.4, '2,000 ms'],
  ]) {
    assert.equal(stacks.pauseText(ms), text);
  }
  const answer = { paused_ms: 1.8, cost: { stopped_threads: 1, passes: 1, priority: 'fifo' } };
  assert.equal(stacks.costText(answer), 'stopped 1 thread for 1.8 ms');
});

const register = (name, value) => ({
  name,
  value: hex16(value),
  decimal: String(value),
  kind: 'integer',
  mapping: null,
  offset: null,
});

test('changed registers: those with another value, with the one they had', () => {
  const before = [register('RIP', 1), register('RAX', 2), register('RBX', 3)];
  const now = [register('RIP', 1), register('RAX', 9), register('R8', 4)];
  assert.deepEqual([...snapshot.changedRegisters(before, now)], [['RAX', hex16(2)]]);
  assert.equal(snapshot.changedRegisters(undefined, now).size, 0);
  assert.equal(snapshot.changedRegisters([], now).size, 0);
  assert.equal(snapshot.changedRegisters(before, []).size, 0);
});

test('a thread is compared with itself: same TID and name, in the snapshot before', () => {
  const one = { tid: 7, name: 'a' };
  const taken = (list, at) => ({
    list: list.map((threads) => ({ threads })),
    at,
    running: false,
    since: 0,
    failure: null,
  });
  assert.equal(snapshot.threadBefore(taken([[one], [one]], 1), one), one);
  assert.equal(snapshot.threadBefore(taken([[one], [one]], 0), one), undefined);
  assert.equal(snapshot.threadBefore(taken([[{ tid: 7, name: 'b' }], [one]], 1), one), undefined);
  assert.equal(snapshot.threadBefore(taken([[], [one]], 1), one), undefined);
});

test('stack words: whole ones only, at their addresses, little endian', () => {
  const words = snapshot.stackWords({
    address: '0x00007ffe00000008',
    bytes: `0100000000000080${'ff'.repeat(8)}aabbcc`,
  });
  assert.deepEqual(words, [
    { address: 0x7ffe00000008n, offset: 0, value: 0x8000000000000001n, was: null },
    { address: 0x7ffe00000010n, offset: 8, value: 0xffffffffffffffffn, was: null },
  ]);
  assert.deepEqual(snapshot.stackWords({ address: '0x0', bytes: '' }), []);
});

test('sections have the keys 1 to 9 and 0', () => {
  assert.equal(place.SECTIONS.map(place.sectionKey).join(''), '1234567890');
  assert.equal(place.sectionKey('stacks'), '9');
  assert.equal(place.sectionKey('snapshot'), '0');
});

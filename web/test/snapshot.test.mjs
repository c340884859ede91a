// The pure parts of the Snapshot section: jumps and their arrows, what registers mean,
// the telescope, the flame graph, and what changed between two snapshots.

import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './bundle.mjs';

const jumps = await load('process/jumps.ts');
const registers = await load('process/registers.ts');
const telescope = await load('process/telescope.ts');
const flame = await load('process/flame.ts');
const maps = await load('process/maps.ts');
const snapshot = await load('process/snapshot.ts');

const hex16 = (n) => `0x${BigInt.asUintN(64, BigInt(n)).toString(16).padStart(16, '0')}`;

test('what an instruction leads to', () => {
  for (const [text, want] of [
    ['je 0x401000 <start>', ['jump', true, 0x401000n, ' <start>']],
    ['jmp 0x3', ['jump', false, 3n, '']],
    ['bnd jmp 0x401000', ['jump', false, 0x401000n, '']],
    ['loopne 0x10 <a+0x1>', ['jump', true, 0x10n, ' <a+0x1>']],
    ['jrcxz 0x10', ['jump', true, 0x10n, '']],
    ['call 0xffffffffffffffff <f(int, char const*)>', ['call', false, 0xffffffffffffffffn, ' <f(int, char const*)>']],
    ['jmp qword ptr [rip + 0x3012]  # 0x404018 <puts@got>', ['data', false, 0x404018n, ' <puts@got>']],
    ['mov rax, qword ptr [rip + 0x10]  # 0x404018', ['data', false, 0x404018n, '']],
    ['jmp rax', null],
    ['call qword ptr [rax + 0x10]', null],
    ['mov eax, 0x10', null],
    ['cmp rax, -0x1000', null],
    ['je 0x11112222333344445', null],
    ['(bad)', null],
    ['', null],
  ]) {
    const found = jumps.branchOf(text);
    assert.deepEqual(found === null ? null : [found.kind, found.conditional, found.target, found.after], want, text);
    if (found !== null) assert.equal(found.before + found.address + found.after, text);
  }
});

const listing = (...texts) =>
  texts.map((text, i) => ({ address: hex16(i * 2), bytes: '9090', text, current: i === 0 }));

test('arrows: the shortest next to the code, no two lines in one place, a lane limit', () => {
  const list = listing('jmp 0x8', 'je 0x4', 'nop', 'nop', 'jne 0x0', 'jmp 0x100', 'call 0x0', 'jmp 0xa');
  assert.deepEqual(jumps.arrowsOf(list), [
    { from: 1, to: 2, conditional: true, lane: 0 },
    { from: 7, to: 5, conditional: false, lane: 0 },
    { from: 0, to: 4, conditional: false, lane: 1 },
    { from: 4, to: 0, conditional: true, lane: 2 },
  ]);
  const pieces = jumps.piecesOf(jumps.arrowsOf(list), list.length);
  assert.deepEqual(pieces[2], [
    { lane: 0, up: true, down: false, end: 'to', conditional: true },
    { lane: 1, up: true, down: true, end: '', conditional: false },
    { lane: 2, up: true, down: true, end: '', conditional: true },
  ]);
  assert.deepEqual(jumps.piecesOf([{ from: 0, to: 0, lane: 0, conditional: false }], 1), [
    [{ lane: 0, up: false, down: false, end: 'to', conditional: false }],
  ]);
  // One inside the other, more than there are lanes: the longest are left out.
  const nested = listing(
    ...Array.from({ length: 20 }, (_, i) => (i < 10 ? `jmp 0x${((19 - i) * 2).toString(16)}` : 'nop')),
  );
  const drawn = jumps.arrowsOf(nested);
  assert.equal(drawn.length, jumps.maxJumpLanes);
  assert.deepEqual(
    drawn.map((a) => a.from),
    [9, 8, 7, 6, 5, 4],
  );
  assert.deepEqual(jumps.arrowsOf([]), []);
});

test('any listing gives arrows inside of it that do not lie over one another', () => {
  let seed = 7;
  const next = (n) => {
    seed = (seed * 1103515245 + 12345) & 0x7fffffff;
    return seed % n;
  };
  for (let round = 0; round < 200; round++) {
    const size = 1 + next(40);
    const list = listing(
      ...Array.from({ length: size }, () => (next(2) ? `jne 0x${(next(size + 4) * 2).toString(16)}` : 'nop')),
    );
    const arrows = jumps.arrowsOf(list);
    for (const [i, a] of arrows.entries()) {
      assert.ok(a.lane < jumps.maxJumpLanes && a.from < size && a.to < size);
      for (const b of arrows.slice(i + 1)) {
        if (a.lane !== b.lane || a.to === b.to) continue;
        const apart =
          Math.max(a.from, a.to) < Math.min(b.from, b.to) || Math.max(b.from, b.to) < Math.min(a.from, a.to);
        assert.ok(apart, JSON.stringify([a, b]));
      }
    }
  }
});

test('error numbers, flags, and the descriptor of a call', () => {
  for (const [value, name] of [
    [-4n, 'EINTR'],
    [-11n, 'EAGAIN'],
    [-111n, 'ECONNREFUSED'],
    [-133n, 'EHWPOISON'],
    [-41n, null],
    [-134n, null],
    [-4096n, null],
    [0n, null],
    [4n, null],
    [0x7fffffffffffffffn, null],
    [-(2n ** 63n), null],
  ]) {
    assert.equal(registers.errnoName(BigInt.asUintN(64, value)), name, String(value));
  }
  assert.equal(registers.flagsText(0x246n), 'PF ZF IF');
  assert.equal(registers.flagsText(0xfd7n), 'CF PF AF ZF SF TF IF DF OF');
  assert.equal(registers.flagsText(0n), '');
  const at = (syscall, rdi) => registers.fdOf({ syscall, registers: [{ name: 'RDI', value: hex16(rdi) }] });
  assert.equal(at('recvfrom', 7), 7);
  assert.equal(at('epoll_wait', 0x1_0000_0004n), 4, 'the kernel takes the low half');
  assert.equal(at('read', -1n), null);
  assert.equal(at('futex', 7), null);
  assert.equal(at(null, 7), null);
  assert.equal(registers.fdOf({ syscall: 'read', registers: [] }), null);
  assert.equal(registers.fdArgument('accept4', hex16(3)), 3);
  assert.equal(registers.fdArgument('accept4', undefined), null);
});

const mapping = (start, size, permissions, pathname = null) => ({
  start: hex16(start),
  end: hex16(start + size),
  readable: permissions[0] === 'r',
  writable: permissions[1] === 'w',
  executable: permissions[2] === 'x',
  private: true,
  permissions,
  pathname,
  rss_bytes: null,
  pss_bytes: null,
});

const regions = maps.regionsOf([
  mapping(0x1000, 0x1000, 'r-xp', '/bin/a'),
  mapping(0x10000, 0x4000, 'rw-p', '[heap]'),
  mapping(0x20000, 0x1000, '---p'),
  mapping(0x70000, 0x2000, 'rw-p', '[stack]'),
]);

const words = (...list) => {
  const bytes = Buffer.alloc(list.length * 8);
  list.forEach((word, i) => {
    if (typeof word === 'string') bytes.write(word, i * 8);
    else bytes.writeBigUInt64LE(BigInt(word), i * 8);
  });
  return new Uint8Array(bytes);
};
const run = (address, ...list) => ({ address: BigInt(address), bytes: words(...list), stood: address >= 0x70000 });

test('telescope: through the stack as it stood, then through what was read later', () => {
  const source = {
    regions,
    names: new Map([[0x1010n, 'main+0x10']]),
    stood: [run(0x70000, 0x70008, 0x10000, 0x1010, 5, 0x70020, 0x70020)],
    later: [],
  };
  const chain = (value, more = {}) =>
    telescope.telescope(BigInt(value), { ...source, ...more }).map((h) => [Number(h.value), h.text, h.name, h.stood]);
  assert.deepEqual(chain(0x70000), [
    [0x70000, null, null, true],
    [0x70008, null, null, true],
    [0x10000, null, null, true],
  ]);
  assert.deepEqual(chain(0x70010), [
    [0x70010, null, null, true],
    [0x1010, null, 'main+0x10', true],
  ]);
  assert.deepEqual(chain(0x70018).at(-1), [5, null, null, true], 'a number ends it');
  assert.deepEqual(chain(5), [[5, null, null, true]]);
  assert.equal(chain(0x70028).length, 3, 'a loop is shown once');
  const later = [run(0x10000, 'hello wo', 'rld\0\0\0\0\0')];
  assert.deepEqual(chain(0x70008, { later }), [
    [0x70008, null, null, true],
    [0x10000, 'hello world', null, true],
  ]);
  assert.deepEqual(chain(0x10000, { later: [run(0x10000, 0x10008, 0x10010, 7)] }), [
    [0x10000, null, null, true],
    [0x10008, null, null, false],
    [0x10010, null, null, false],
    [7, null, null, false],
  ]);
  const long = { stood: [run(0x70000, ...Array.from({ length: 20 }, (_, i) => 0x70008 + i * 8))] };
  assert.equal(chain(0x70000, long).length, telescope.maxHops + 1);
});

test('telescope: text is printable and ends, blocks to read are those of readable data not read yet', () => {
  for (const [bytes, want] of [
    ['abcd\0', 'abcd'],
    ['abc\0', null],
    ['ab\x01cd\0', null],
    ['abcdef', 'abcdef…'],
    ['ab', null],
    ['', null],
    ['x'.repeat(100), `${'x'.repeat(telescope.maxText)}…`],
    ['caf\xc3\xa9\0', null],
  ]) {
    assert.equal(telescope.textAt(new Uint8Array(Buffer.from(bytes, 'latin1')), 0), want, bytes);
  }
  const source = { regions, names: new Map(), stood: [run(0x70000, 0x10108)], later: [run(0x10200, 0x10308)] };
  assert.deepEqual(
    telescope.unread([0x70000n, 0x10100n, 0x10200n, 0x1010n, 0x20000n, 5n, 0x999999n], source),
    [0x10100n, 0x10300n],
    'code, guards, numbers and gaps are never read',
  );
});

const frame = (name, more = {}) => ({
  address: '0x0000000000001000',
  symbol: name,
  symbol_offset: '0x1',
  source_file: null,
  line: null,
  module: '/bin/a',
  module_offset: '0x1',
  unwound_by: 'cfi',
  guess: false,
  inline_frames: [],
  ...more,
});
// stack is written from the root on, as it is read in a flame graph.
const thread = (tid, stack, more = {}) => ({
  tid,
  name: `t${tid}`,
  registers: [],
  call_stack: stack
    .split(' ')
    .filter(Boolean)
    .reverse()
    .map((name) => frame(name)),
  syscall: null,
  error: null,
  ...more,
});
const sample = (at, ...threads) => ({ captured_at: at, paused_ms: 1.8, threads });
const LEFT = { order: 'left', tid: null, onlyRunning: false };
const boxes = (graph) =>
  graph.nodes.map((n) => `${n.depth} ${n.first}+${n.total} ${n.name}${n.self ? ` self ${n.self}` : ''}`);

test('flame graph: stacks merged, the widest first, self and total', () => {
  const list = [
    sample(0, thread(1, 'main run a'), thread(2, 'start wait')),
    sample(1000, thread(1, 'main run b'), thread(2, 'start wait')),
    sample(2000, thread(1, 'main run b c'), thread(2, 'start wait')),
    sample(3000, thread(1, 'main run')),
  ];
  const graph = flame.flameOf(list, LEFT);
  assert.deepEqual(boxes(graph), [
    '0 0+7 all',
    '1 0+4 main',
    '1 4+3 start',
    '2 0+4 run self 1',
    '2 4+3 wait self 3',
    '3 0+2 b self 1',
    '3 2+1 a self 1',
    '4 0+1 c self 1',
  ]);
  assert.deepEqual([graph.total, graph.depth, graph.left, graph.samples], [7, 5, 0, 4]);
  assert.deepEqual(
    flame.totalsOf(graph).map((t) => [t.name, t.self, t.total]),
    [
      ['wait', 3, 3],
      ['run', 1, 4],
      ['b', 1, 2],
      ['a', 1, 1],
      ['c', 1, 1],
      ['main', 0, 4],
      ['start', 0, 3],
    ],
  );
  assert.equal(flame.nodeAt(graph, 3, 1.5), 5);
  assert.equal(flame.nodeAt(graph, 3, 2), 6);
  assert.equal(flame.nodeAt(graph, 3, 3.5), -1);
  assert.equal(flame.nodeAt(graph, 9, 0), -1);
  const b = graph.nodes.findIndex((n) => n.name === 'b');
  assert.equal(flame.findPath(graph, flame.pathOf(graph, b)), b);
  const other = flame.flameOf(list.slice(2), LEFT);
  assert.equal(other.nodes[flame.findPath(other, flame.pathOf(graph, b))].name, 'b');
  assert.equal(flame.findPath(flame.flameOf(list.slice(3), LEFT), flame.pathOf(graph, b)), -1);
  assert.equal(flame.foundUnits(graph, new Set([3, 5, 4])), 7, 'a box inside of a found one is not counted again');
  assert.deepEqual(
    ['ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowRight', 'ArrowRight', 'ArrowUp', 'Home', 'x'].map(
      (
        (at) => (key) =>
          (at = flame.stepTo(graph, at, key))
      )(0),
    ),
    [1, 3, 5, 6, 6, 3, 0, 0],
  );
});

test('flame graph: time order has a column for each snapshot of one thread, and gaps stay', () => {
  const list = [
    sample(0, thread(1, 'main a'), thread(2, 'x')),
    sample(1000, thread(1, 'main a')),
    sample(2000, thread(1, 'main b')),
    sample(3000, thread(2, 'x')),
    sample(4000, thread(1, 'main b')),
  ];
  const time = { order: 'time', tid: 1, onlyRunning: false };
  assert.deepEqual(boxes(flame.flameOf(list, time)), [
    '0 0+5 all',
    '1 0+3 main',
    '1 3+1 not in this snapshot self 1',
    '1 4+1 main',
    '2 0+2 a self 2',
    '2 2+1 b self 1',
    '2 4+1 b self 1',
  ]);
  list[1] = sample(1000, thread(1, 'main a', { syscall: 'read' }));
  assert.deepEqual(boxes(flame.flameOf(list.slice(0, 3), { ...time, onlyRunning: true })), [
    '0 0+3 all',
    '1 0+1 main',
    '1 1+1 in a system call self 1',
    '1 2+1 main',
    '2 0+1 a self 1',
    '2 2+1 b self 1',
  ]);
});

test('flame graph: inlined functions, no symbols, empty stacks, waiting threads left out, recursion', () => {
  const inlined = thread(1, 'main', {
    call_stack: [
      frame('outer', {
        inline_frames: [
          { function: 'inner', file: '/a.h', line: 3 },
          { function: 'outer', file: '/a.c', line: 9 },
        ],
      }),
      frame(null),
      frame(null, { module: null }),
    ],
  });
  const graph = flame.flameOf([sample(0, inlined)], LEFT);
  assert.deepEqual(
    graph.nodes.map((n) => [n.name, n.inlined, n.source]),
    [
      ['all', false, null],
      ['no symbol', false, null],
      ['no symbol in a', false, null],
      ['outer', false, '/a.c:9'],
      ['inner', true, '/a.h:3'],
    ],
  );
  const list = [
    sample(
      0,
      thread(1, 'f g f', { syscall: null }),
      thread(2, 'w', { syscall: 'futex' }),
      thread(3, '', { error: 'gone' }),
    ),
  ];
  assert.deepEqual(boxes(flame.flameOf(list, { ...LEFT, onlyRunning: true })), [
    '0 0+2 all',
    '1 0+1 f',
    '1 1+1 not read self 1',
    '2 0+1 g',
    '3 0+1 f self 1',
  ]);
  assert.deepEqual(
    flame.totalsOf(flame.flameOf(list, LEFT)).find((t) => t.name === 'f'),
    { name: 'f', module: '/bin/a', self: 1, total: 1 },
    'recursion counts once',
  );
  const nothing = flame.flameOf([], LEFT);
  assert.deepEqual([nothing.total, nothing.nodes.length, nothing.depth], [0, 1, 1]);
});

test('flame graph: a deep stack and very many boxes are cut, and the cut is counted', () => {
  const deep = flame.flameOf([sample(0, thread(1, Array.from({ length: 600 }, (_, i) => `f${i}`).join(' ')))], LEFT);
  assert.equal(deep.depth, flame.maxFlameDepth + 2);
  assert.equal(deep.nodes[1].name, 'deeper frames left out');
  assert.equal(deep.nodes.at(-1).name, 'f599', 'the innermost stay');
  const many = sample(
    0,
    ...Array.from({ length: 400 }, (_, i) => thread(i, Array.from({ length: 200 }, (_, k) => `t${i}f${k}`).join(' '))),
  );
  const graph = flame.flameOf([many], LEFT);
  assert.equal(graph.nodes.length, flame.maxFlameNodes);
  assert.equal(graph.left, 400 * 200 + 1 - flame.maxFlameNodes);
});

test('what every flame graph says first, and folded stacks', () => {
  const at = (...times) => times.map((t) => sample(t, thread(1, 'main a;b')));
  assert.equal(flame.headText(at(0)), '1 sample, it stopped the target 1.8 ms');
  assert.equal(flame.headText(at(0, 1000, 2010)), '3 samples, 1/s, each stopped the target 1.8 ms, 5.4 ms in all');
  const uneven = at(0, 1000, 2000);
  uneven[1].paused_ms = 190;
  assert.match(flame.headText(uneven), /each stopped the target 1\.8 ms, at most 190 ms, 194 ms in all/);
  assert.equal(flame.headText([]), 'no samples');
  assert.equal(flame.paceText(at(0, 12000, 24100)), '1 every 12 s');
  assert.equal(flame.paceText(at(0, 1000, 9000)), 'at uneven times');
  assert.equal(flame.foldedText(at(0, 1), LEFT), 'main;a b 2\n');
  assert.equal(flame.foldedText([], LEFT), '');
});

test('what changed: words of the stack at the same address, threads that stand elsewhere', () => {
  const stack = (address, ...list) => ({ address: hex16(address), bytes: Buffer.from(words(...list)).toString('hex') });
  const now = snapshot.stackWords(stack(0x1008, 2, 3, 9), stack(0x1000, 1, 2, 4, 9));
  assert.deepEqual(
    now.map((w) => [w.offset, w.value, w.was]),
    [
      [0, 2n, null],
      [8, 3n, 4n],
      [16, 9n, null],
    ],
  );
  assert.deepEqual(
    snapshot.stackWords(stack(0x1000, 7)).map((w) => w.was),
    [null],
  );
  const stands = (tid, rip, rsp, name = 'a') => ({
    tid,
    name,
    registers: [
      { name: 'RIP', value: hex16(rip) },
      { name: 'RSP', value: hex16(rsp) },
      { name: 'R9', value: hex16(rip + rsp) },
    ],
  });
  const list = [
    { threads: [stands(1, 1, 1), stands(2, 1, 1), stands(3, 1, 1), stands(4, 1, 1, 'old')] },
    { threads: [stands(1, 1, 1), stands(2, 2, 1), stands(3, 1, 2), stands(4, 2, 2, 'new'), stands(5, 1, 1)] },
  ];
  assert.deepEqual([...snapshot.movedThreads({ list, at: 1 })], [2, 3]);
  assert.equal(snapshot.movedThreads({ list, at: 0 }), null);
});

test('the ring keeps 20, fewer of a process with very many threads, two at least', () => {
  const of = (n) => ({ threads: { length: n } });
  const fill = (n, times) =>
    Array.from({ length: times }, () => of(n)).reduce((list, one) => snapshot.ringWith(list, one), []);
  assert.equal(fill(6, 30).length, snapshot.maxSnapshots);
  assert.equal(fill(1000, 30).length, 20);
  assert.equal(fill(4096, 30).length, 4);
  assert.equal(fill(snapshot.maxRingThreads, 30).length, 2);
});

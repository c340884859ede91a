import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './bundle.mjs';

const { Lines, Search, byteLength, maxLines, maxLineLength } = await load('runs/lines.ts');
const model = await load('runs/model.ts');
const draft = await load('runs/draft.ts');
const { parseFilter } = await load('filter.ts');

const chunk = (text, from = 0, stream = 'stdout') => [{ stream, from, text }, from + Buffer.byteLength(text)];
const all = (lines) => Array.from({ length: lines.length }, (_, i) => lines.at(i));
const linesOf = (...texts) => {
  const lines = new Lines();
  let at = 0;
  for (const text of texts) {
    lines.add(...chunk(text, at));
    at += Buffer.byteLength(text);
  }
  return lines;
};

test('output becomes lines as the server’s log has them', () => {
  for (const [name, texts, want] of [
    ['plain', ['a\nb\n'], ['a', 'b']],
    ['a line that is not whole', ['a\nb'], ['a', 'b']],
    ['one line in two pieces', ['a', 'b\n'], ['ab']],
    ['empty lines', ['\n\n'], ['', '']],
    ['carriage return and line feed', ['a\r\nb\r\n'], ['a', 'b']],
    ['progress', ['10 %\r20 %\r100 %\ndone\n'], ['100 %', 'done']],
    ['a shorter text over a longer one', ['hello\rJ\n'], ['Jello']],
    ['erased to the end', ['hello\rJ\u001b[K\n'], ['J']],
    ['erased to the begin', ['hello\rhe\u001b[1Kx\n'], ['  xlo']],
    ['erased whole', ['hello\r\u001b[2Kx\n'], ['x']],
    ['colours', ['\u001b[1;31mred\u001b[0m\n'], ['red']],
    ['a sequence in two pieces', ['a\u001b[3', '1mb\n'], ['ab']],
    ['a title and a link', ['\u001b]0;title\u0007a\u001b]8;;http://x/\u001b\\b\n'], ['ab']],
    ['a charset', ['\u001b(Bx\n'], ['x']],
    ['control characters', ['a\u0000\u0007\u0008b\tc\u009f\n'], ['ab\tc']],
    ['a newline ends a broken sequence', ['\u001b\nx\n'], ['', 'x']],
  ]) {
    assert.deepEqual(
      all(linesOf(...texts)).map((line) => line.text),
      want,
      name,
    );
  }
});

test('lines know number, offset, stream and gap', () => {
  const lines = new Lines();
  lines.add(...chunk('é1\nab', 0));
  lines.add(...chunk('err\n', 6, 'stderr'));
  lines.lost(100);
  lines.add(...chunk('after\n', 110));
  assert.deepEqual(
    all(lines).map(({ number, offset, stream, text, gap, exact }) => [number, offset, stream, text, gap, exact]),
    [
      [1, 0, 'stdout', 'é1', 0, true],
      [2, 4, 'stdout', 'ab', 0, true],
      [3, 6, 'stderr', 'err', 0, true],
      [4, 110, 'stdout', 'after', 100, true],
    ],
  );
  assert.equal(lines.lostBytes, 100);
  // One byte that is no UTF-8 came as three: what stands behind it is not sure.
  const broken = new Lines();
  broken.add({ stream: 'stdout', from: 0, text: 'a\n\ufffd\nb\n' }, 6);
  assert.deepEqual(
    all(broken).map(({ exact }) => exact),
    [true, true, false],
  );
  assert.equal(byteLength('aé€😀'), 10);
});

test('what a page keeps is bounded', () => {
  const lines = new Lines();
  const many = maxLines * 2 + 10;
  lines.add({ stream: 'stdout', from: 0, text: 'x\n'.repeat(many) }, 2 * many);
  assert.equal(lines.length, maxLines);
  assert.equal(lines.dropped, many - maxLines);
  assert.equal(lines.at(0).number, many - maxLines + 1);
  assert.equal(lines.at(maxLines - 1).offset, 2 * (many - 1));
  assert.equal(lines.at(maxLines), undefined);
  const long = linesOf('y'.repeat(maxLineLength * 2 + 5), '\n');
  assert.deepEqual(
    all(long).map((line) => line.text.length),
    [maxLineLength, maxLineLength, 5],
  );
  assert.deepEqual(
    all(long).map((line) => line.offset),
    [0, maxLineLength, maxLineLength * 2],
  );
});

test('whatever a program prints: lines are in order, and no longer than allowed', () => {
  let seed = 7;
  const next = (n) => {
    seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
    return seed % n;
  };
  const parts = [
    'a',
    'é',
    '😀',
    '\n',
    '\r',
    '\u001b',
    '[',
    '2K',
    ']',
    '\u0007',
    '\\',
    '\u009b',
    '\u0000',
    '\t',
    'x'.repeat(3000),
  ];
  for (let round = 0; round < 300; round++) {
    const lines = new Lines();
    let at = 0;
    for (let i = 0; i < 30; i++) {
      let text = '';
      for (let k = next(12); k >= 0; k--) text += parts[next(parts.length)];
      const stream = ['stdout', 'stderr'][next(2)];
      if (next(9) === 0) {
        lines.lost(5);
        at += 5;
      }
      lines.add(...chunk(text, at, stream));
      at += Buffer.byteLength(text);
    }
    let before = -1;
    for (const [i, line] of all(lines).entries()) {
      assert.equal(line.number, i + 1);
      assert.ok(line.offset >= before && line.offset <= at);
      before = line.offset;
      assert.ok(line.text.length <= maxLineLength);
      assert.doesNotMatch(line.text, /[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/);
    }
  }
});

test('a search finds lines as they come, and forgets those that are gone', () => {
  const lines = linesOf('one\nTwo\nthree tw');
  const search = new Search(lines, 'two');
  search.look();
  assert.deepEqual(search.found, [2]);
  lines.add(...chunk('o\n', 16));
  search.look();
  assert.deepEqual(search.found, [2, 3]);
  search.look();
  assert.deepEqual(search.found, [2, 3]);
  lines.add({ stream: 'stdout', from: 18, text: 'x\n'.repeat(maxLines - 1) }, 18 + 2 * (maxLines - 1));
  search.look();
  assert.deepEqual(search.found, [3]);
});

const run = (more = {}) => ({
  id: 'web',
  state: 'running',
  argv: ['npm', 'run', 'it now'],
  command: null,
  cwd: '/srv',
  user: 'mika',
  scope: 'ci',
  pty: null,
  exit: null,
  created_at: 1000,
  started_at: 2000,
  ended_at: null,
  members: 2,
  limits: { timeout_ms: 30_000, no_output_timeout_ms: 5000, grace_ms: 3000 },
  ports: [{ protocol: 'tcp', address: '*', port: 8080, process: '1-2' }],
  adopted: false,
  waiting_for_input: false,
  ...more,
});

test('a run’s state and end in words', () => {
  const exit = (code, signal, reason) => ({ state: 'exited', exit: { code, signal, reason }, ended_at: 5000 });
  for (const [more, word, end] of [
    [{}, 'RUNNING', ''],
    [{ state: 'draining', exit: { code: 0, signal: null, reason: 'exit' } }, 'DRAINING', 'exit 0'],
    [{ state: 'stopping' }, 'STOPPING', ''],
    [{ adopted: true, state: 'draining' }, 'ADOPTED', ''],
    [exit(0, null, 'exit'), 'EXITED', 'exit 0'],
    [exit(null, 'SIGSEGV', 'signal'), 'EXITED', 'SIGSEGV'],
    [exit(null, 'SIGTERM', 'manual_cancel'), 'EXITED', 'stopped, SIGTERM'],
    [exit(null, 'SIGKILL', 'overall_timeout'), 'EXITED', 'timed out after 30.0 s, SIGKILL'],
    [exit(1, null, 'no_output_timeout'), 'EXITED', 'silent for 5.0 s, exit 1'],
    [{ state: 'failed' }, 'FAILED', 'could not be started'],
  ]) {
    assert.deepEqual([model.stateLook(run(more)).word, model.exitText(run(more))], [word, end]);
  }
  assert.equal(
    model.stateText(run({ state: 'draining', exit: { code: 0, signal: null, reason: 'exit' } }), null),
    'command ended (exit 0), 2 children still run',
  );
  assert.equal(model.spanOf(run(), 9000), 7000);
  assert.equal(model.spanOf(run({ ended_at: 5000 }), 9000), 3000);
  assert.equal(model.spanOf(run({ started_at: null }), 9000), null);
  assert.equal(model.nameOf(run()), "npm run 'it now'");
  assert.equal(model.nameOf(run({ argv: [] })), 'web');
  assert.equal(model.nameOf(run({ command: 'a\n  b\u202e' })), 'a b⟨U+202E⟩');
});

test('the filter asks for what a run is', () => {
  const finds = (text, more) => {
    const { test: matches } = parseFilter(text, model.RUN_KEYS);
    return matches === null || matches({ summary: model.soughtRun(run(more)), lower: '' }, 9000);
  };
  for (const [text, want] of [
    ['npm', true],
    ['WEB', true],
    ['"it now"', true],
    ['/^npm run/', true],
    ['scope:ci', true],
    ['scope:c', false],
    ['state:running|draining', true],
    ['-state:running', false],
    ['exit:0', false],
    ['port:8080', true],
    ['tty:no', true],
    ['took>5s', true],
    ['took>8s', false],
    ['cwd:/sr user:mika id:eb', true],
  ])
    assert.equal(finds(text), want, text);
  assert.equal(finds('exit>0', { exit: { code: 3, signal: null, reason: 'exit' } }), true);
  assert.match(parseFilter('sope:ci', model.RUN_KEYS).terms[0].error, /unknown key sope: known are id scope/);
});

test('members stand below their parents, each once', () => {
  const entry = (id, parent = null) => ({ process: { id, parent }, endedAt: null });
  const tree = (list) => model.treeOf(list).map((b) => `${'-'.repeat(b.last.length - 1)}${b.process.id}`);
  assert.deepEqual(tree([entry('a'), entry('b', 'a'), entry('c'), entry('d', 'b'), entry('e', 'a')]), [
    'a',
    '-b',
    '--d',
    '-e',
    'c',
  ]);
  assert.deepEqual(tree([entry('a', 'gone')]), ['a']);
  assert.deepEqual(tree([entry('a', 'b'), entry('b', 'a'), entry('c', 'c')]), ['a', '-b', 'c']);
});

test('a description becomes a request and the same command lines', () => {
  const of = (more) => draft.describe({ ...draft.EMPTY, ...more });
  assert.deepEqual(of({ argv: ['sh', '', 'x', '', ''], hasTerminal: false }).body, { argv: ['sh', '', 'x'] });
  assert.equal(of({}).problems.get('command'), 'Give a program.');
  assert.equal(of({ isShell: true, text: ' ' }).problems.get('command'), 'Give a command.');
  for (const [field, more] of [
    ['id', { id: 'a b' }],
    ['scope', { isReplacing: true }],
    ['env', { env: [{ name: 'A=B', value: '' }] }],
    [
      'env',
      {
        env: [
          { name: 'A', value: '1' },
          { name: 'A', value: '2' },
        ],
      },
    ],
    ['size', { columns: '0' }],
    ['timeout', { timeout: '30' }],
    ['silence', { silence: 'soon' }],
    ['grace', { grace: '3 s' }],
  ])
    assert.deepEqual([...of({ argv: ['true'], ...more }).problems.keys()], [field]);
  assert.deepEqual(['', '0', '30s', '1m30s', '1.5h', '500ms'].map(draft.parseTime), [
    null,
    0,
    30_000,
    90_000,
    5_400_000,
    500,
  ]);
  const { body, problems } = of({
    isShell: true,
    text: "echo 'a' $B",
    id: 'x',
    cwd: '/srv/my app',
    scope: 'ci',
    isReplacing: true,
    env: [{ name: 'B', value: 'c d' }],
    timeout: '90s',
    silence: '500ms',
    leftovers: 'kill',
    user: 'mika',
    columns: '80',
  });
  assert.equal(problems.size, 0);
  assert.deepEqual(body, {
    command: "echo 'a' $B",
    id: 'x',
    cwd: '/srv/my app',
    scope: 'ci',
    replace: true,
    env: { B: 'c d' },
    pty: { cols: 80, rows: 30 },
    timeout_ms: 90_000,
    no_output_timeout_ms: 500,
    leftovers: 'kill',
    user: 'mika',
  });
  const cli = draft.cliOf(body, 'http://127.0.0.1:9090');
  assert.equal(
    cli.text,
    "procinsh run --server http://127.0.0.1:9090 --detach --name x --cwd '/srv/my app' --env 'B=c d' --scope ci --replace --pty " +
      "--timeout 90s --silence 500ms --leftovers kill -c 'echo '\\''a'\\'' $B'",
  );
  assert.deepEqual(cli.lacking, ['another user', 'the size of the terminal']);
  assert.equal(
    draft.cliOf({ argv: ['cat', '-'], stdin: 'open' }, 'http://127.0.0.1:1').text,
    'procinsh run --server http://127.0.0.1:1 --stdin -- cat -',
  );
});

import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './bundle.mjs';

const { Reader } = await load('runs/reader.ts');
const { Typist, maxInput } = await load('runs/typist.ts');

const settle = async () => {
  for (let i = 0; i < 20; i++) await new Promise((done) => setImmediate(done));
};
const answer = (status, body) => ({ ok: status < 300, status, headers: new Headers(), json: async () => body });

// serve answers every request with what of gives; the list has what was asked.
function serve(t, of) {
  const asked = [];
  t.mock.method(globalThis, 'fetch', async (url, init) => {
    const request = { url: new URL(url, 'http://x'), init };
    asked.push(request);
    return of(request, asked.length);
  });
  return asked;
}

// ring answers for a run's output as the server does.
function ring(state) {
  return ({ url }) => {
    const since = Number(url.searchParams.get('since'));
    const from = Math.max(Math.min(since, state.next), state.first);
    const next = Math.min(state.next, from + Number(url.searchParams.get('max')));
    const chunks = next > from ? [{ stream: 'stdout', from, text: 'x'.repeat(next - from) }] : [];
    return answer(200, { from, next, dropped: from - since, eof: state.eof && next === state.next, chunks });
  };
}

function reader(state, more = {}) {
  const taken = [];
  const failed = [];
  const extent = { bytes: state.next, dropped: state.first, first: state.first, next: state.next };
  const taker = {
    max: 100,
    replay: Number.POSITIVE_INFINITY,
    take: (output) => {
      taken.push(output);
    },
    failed: (reason) => failed.push(reason),
    ...more,
  };
  return { reader: new Reader('r', extent, taker), taken, failed };
}

const waits = (asked) => asked.map(({ url }) => url.searchParams.get('wait_ms'));

test('output is read piece by piece to its end, and then no more', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const state = { first: 0, next: 250, eof: false };
  const asked = serve(t, ring(state));
  const { reader: r, taken } = reader(state);
  r.look();
  await settle();
  assert.equal(asked.length, 1);
  // Full pieces come ten times a second, and no faster.
  t.mock.timers.tick(99);
  await settle();
  assert.equal(asked.length, 1);
  for (let i = 0; i < 3; i++) {
    t.mock.timers.tick(100);
    await settle();
  }
  assert.deepEqual(
    taken.map(({ from, next }) => [from, next]),
    [
      [0, 100],
      [100, 200],
      [200, 250],
      [250, 250],
    ],
  );
  t.mock.timers.tick(5000);
  await settle();
  assert.equal(asked.length, 4, 'nothing is asked without a reason');
  r.wake(250);
  await settle();
  assert.equal(asked.length, 4, 'what is known is no news');
  state.next = 260;
  r.wake(260);
  await settle();
  assert.equal(taken.at(-1).next, 260);
  t.mock.timers.tick(1000);
  state.eof = true;
  r.look();
  await settle();
  assert.equal(taken.at(-1).eof, true);
  const before = asked.length;
  t.mock.timers.tick(1000);
  r.look();
  r.wake(999);
  r.nudge();
  await settle();
  assert.equal(asked.length, before, 'what has ended is not asked for again');
});

test('after a key the echo is waited for; what is slow to take holds the next piece back', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const state = { first: 0, next: 10, eof: false };
  const asked = serve(t, ring(state));
  let free = null;
  const { reader: r } = reader(state, { take: () => new Promise((done) => (free = done)) });
  r.look();
  await settle();
  state.next = 20;
  r.wake(20);
  t.mock.timers.tick(1000);
  await settle();
  assert.equal(asked.length, 1, 'the first piece is not taken yet');
  free();
  await settle();
  t.mock.timers.tick(33);
  await settle();
  assert.equal(asked.length, 2);
  free();
  await settle();
  r.nudge();
  await settle();
  free();
  await settle();
  assert.equal(waits(asked).at(-1), '400');
  r.close();
  t.mock.timers.tick(1000);
  await settle();
  const before = asked.length;
  r.wake(1000);
  await settle();
  assert.equal(asked.length, before);
});

test('a late view begins where it was told to, and says what it left out; a failure waits for news', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const state = { first: 500, next: 1000, eof: false };
  let broken = false;
  const give = ring(state);
  const asked = serve(t, (request) =>
    broken ? answer(503, { error: 'The helper is gone.', code: 'helper_gone' }) : give(request),
  );
  const late = reader(state, { replay: 80 });
  assert.equal(late.reader.skipped, 420);
  late.reader.look();
  await settle();
  assert.deepEqual([late.taken[0].from, late.taken[0].dropped], [920, 0]);
  late.reader.close();
  const whole = reader(state);
  assert.equal(whole.reader.skipped, 0);
  whole.reader.look();
  await settle();
  assert.deepEqual([whole.taken[0].from, whole.taken[0].dropped], [500, 500]);
  broken = true;
  t.mock.timers.tick(100);
  await settle();
  assert.deepEqual(whole.failed, ['The helper is gone.']);
  const before = asked.length;
  t.mock.timers.tick(10_000);
  await settle();
  assert.equal(asked.length, before);
  broken = false;
  whole.reader.wake(1001);
  await settle();
  assert.equal(asked.length, before + 1);
  whole.reader.close();
});

test('what is typed goes in order, together where it can, in pieces where it must', async (t) => {
  const gates = [];
  const bodies = [];
  serve(t, ({ init }) => {
    bodies.push(JSON.parse(init.body));
    return new Promise((done) => gates.push(() => done(answer(200, { written: 1, warnings: [] }))));
  });
  const failed = [];
  const typist = new Typist('r', (reason) => failed.push(reason));
  const open = async () => {
    gates.shift()();
    await settle();
  };
  typist.type('a');
  await settle();
  typist.type('b');
  typist.type('c');
  typist.press('up');
  typist.type('d');
  typist.end();
  for (let i = 0; i < 4; i++) await open();
  assert.deepEqual(bodies, [{ text: 'a' }, { text: 'bcd' }, { keys: ['up'] }, { eof: true }]);
  bodies.length = 0;
  typist.type(`${'x'.repeat(maxInput - 1)}😀y`);
  await settle();
  await open();
  await open();
  assert.deepEqual(
    bodies.map(({ text }) => text.length),
    [maxInput - 1, 3],
    'a character is not cut in two',
  );
  assert.deepEqual(failed, []);
});

test('what a run refuses is said, and the rest of it is not sent', async (t) => {
  const bodies = [];
  serve(t, ({ init }, n) => {
    bodies.push(JSON.parse(init.body));
    if (n === 1) return answer(200, { written: 0, warnings: ['the command did not read the rest in time'] });
    return answer(409, { error: 'Run "r" has ended.', code: 'run_ended' });
  });
  const failed = [];
  const typist = new Typist('r', (reason) => failed.push(reason));
  typist.type('a');
  await settle();
  typist.type('z'.repeat(maxInput + 1));
  await settle();
  assert.deepEqual(failed, ['the command did not read the rest in time', 'Run "r" has ended.']);
  assert.equal(bodies.length, 2);
  typist.close();
  typist.type('b');
  await settle();
  assert.equal(bodies.length, 2);
});

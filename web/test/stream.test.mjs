import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './bundle.mjs';

const { Live, RETRY_MS, POLL_MS } = await load('stream.ts');

// A browser made of plain objects: streams that are told what to do, a clock that is
// moved by hand.
class Env {
  sources = [];
  timers = [];
  time = 1000;
  seen = true;
  slots = 4;
  reason = null;
  connect = (url) => {
    const source = {
      url,
      readyState: 0,
      handlers: {},
      closed: false,
      addEventListener(type, handler) {
        this.handlers[type] = handler;
      },
      close() {
        this.closed = true;
        this.readyState = 2;
      },
      send(name, value) {
        this.readyState = 1;
        this.handlers[name]?.({ data: JSON.stringify(value) });
      },
      fail(final) {
        this.readyState = final ? 2 : 0;
        this.handlers.error?.({});
      },
    };
    this.sources.push(source);
    return source;
  };
  why = async () => this.reason;
  slot = async () => {
    if (this.slots === 0) return null;
    this.slots--;
    let given = false;
    return () => {
      assert.equal(given, false, 'a slot is given back once');
      given = true;
      this.slots++;
    };
  };
  visible = () => this.seen;
  watch = (show, hide) => {
    this.show = () => {
      this.seen = true;
      show();
    };
    this.hide = () => {
      this.seen = false;
      hide();
    };
    return () => {
      this.show = this.hide = () => {};
    };
  };
  after = (ms, run) => {
    const timer = { at: this.time + ms, run };
    this.timers.push(timer);
    return () => {
      this.timers = this.timers.filter((t) => t !== timer);
    };
  };
  now = () => this.time;

  get open() {
    return this.sources.filter((s) => !s.closed);
  }
  get last() {
    return this.sources.at(-1);
  }
  async pass(ms) {
    this.time += ms;
    for (const timer of this.timers.filter((t) => t.at <= this.time)) {
      this.timers = this.timers.filter((t) => t !== timer);
      timer.run();
    }
    await settle();
  }
}

const settle = () => new Promise((done) => setImmediate(done));

function make(more = {}) {
  const env = new Env();
  const got = [];
  const live = new Live(
    {
      url: () => '/stream',
      events: ['a', 'b'],
      event: (name, data) => got.push([name, data]),
      opened: () => got.push(['opened']),
      ...more,
    },
    env,
  );
  return { env, live, got };
}

test('events come through, parsed, after the word that it opened', async () => {
  const { env, live, got } = make();
  live.start();
  live.start();
  await settle();
  assert.equal(env.sources.length, 1);
  assert.equal(live.state.value.kind, 'connecting');
  env.last.send('a', { x: 1 });
  env.last.send('b', 2);
  assert.deepEqual(got, [['opened'], ['a', { x: 1 }], ['b', 2]]);
  assert.equal(live.state.value.kind, 'live');
  assert.equal(live.heard.value, env.time);
});

test('what an older connection still delivers is dropped', async () => {
  const { env, live, got } = make();
  live.start();
  await settle();
  const old = env.last;
  live.restart();
  await settle();
  assert.equal(old.closed, true);
  old.send('a', 'late');
  old.fail(false);
  assert.deepEqual(got, []);
  env.last.send('a', 'new');
  assert.deepEqual(got, [['opened'], ['a', 'new']]);
  assert.equal(env.open.length, 1);
});

test('lost: closed by the page itself, tried again after 3 s, one timer, cleared by success', async () => {
  const { env, live } = make();
  live.start();
  await settle();
  env.last.send('a', 1);
  env.last.fail(false);
  assert.equal(env.open.length, 0, 'the browser’s own retry cannot run');
  assert.equal(live.state.value.kind, 'lost');
  assert.equal(env.timers.length, 1);
  assert.equal(env.slots, 4, 'the slot is free meanwhile');
  await env.pass(RETRY_MS - 1);
  assert.equal(env.sources.length, 1);
  await env.pass(1);
  assert.equal(env.sources.length, 2);
  assert.equal(live.state.value.kind, 'lost', 'still lost until something comes');
  env.last.send('a', 2);
  assert.equal(live.state.value.kind, 'live');
  assert.equal(env.timers.length, 0);
});

test('refused: 403 and 410 are final, 429 waits as long as it was told', async () => {
  for (const [status, final] of [
    [403, true],
    [410, true],
    [404, true],
    [429, false],
    [503, false],
    [500, false],
  ]) {
    const { env, live } = make();
    env.reason = Object.assign(new Error('because'), {
      status,
      code: 'code',
      retryAfter: status === 429 ? 10 : null,
      final: status === 403 || status === 410,
    });
    live.start();
    await settle();
    env.last.fail(true);
    await settle();
    const state = live.state.value;
    assert.equal(state.kind, final ? 'refused' : 'lost', String(status));
    assert.equal(state.status, status);
    assert.equal(state.error, 'because');
    await env.pass(RETRY_MS);
    assert.equal(env.sources.length, final || status === 429 ? 1 : 2, `${status} after 3 s`);
    await env.pass(7000);
    assert.equal(env.sources.length, final ? 1 : 2, `${status} after 10 s`);
    if (final) {
      env.hide();
      env.show();
      await settle();
      assert.equal(env.sources.length, 1, 'coming back does not ask again');
      assert.equal(live.state.value.kind, 'refused');
    }
  }
});

test('hidden: stream, slot and timer are given back; shown: one new connection', async () => {
  const { env, live } = make();
  live.start();
  await settle();
  env.last.send('a', 1);
  env.hide();
  assert.equal(env.open.length, 0);
  assert.equal(env.slots, 4);
  assert.equal(live.state.value.kind, 'hidden');
  env.show();
  env.show();
  await settle();
  assert.equal(env.open.length, 1);
  env.last.fail(false);
  env.hide();
  assert.equal(env.timers.length, 0, 'no retry runs in a hidden tab');
  await env.pass(60_000);
  assert.equal(env.open.length, 0);
});

test('started in a hidden tab it waits', async () => {
  const { env, live } = make();
  env.seen = false;
  live.start();
  await settle();
  assert.equal(env.sources.length, 0);
  env.show();
  await settle();
  assert.equal(env.sources.length, 1);
});

test('hidden while it waits for a slot: nothing is opened and the slot is given back', async () => {
  const { env, live } = make();
  live.start();
  env.hide();
  await settle();
  assert.equal(env.sources.length, 0);
  assert.equal(env.slots, 4);
});

test('without a slot it polls every 2 s, and takes a slot that comes free', async () => {
  let polls = 0;
  const { env, live } = make({
    poll: async () => {
      polls++;
    },
  });
  env.slots = 0;
  live.start();
  await settle();
  assert.equal(polls, 1);
  assert.equal(live.state.value.kind, 'polling');
  await env.pass(POLL_MS);
  assert.equal(polls, 2);
  assert.equal(env.sources.length, 0);
  env.slots = 1;
  await env.pass(POLL_MS);
  assert.equal(env.sources.length, 1);
  assert.equal(polls, 2);
  env.last.send('a', 1);
  assert.equal(live.state.value.kind, 'live');
});

test('a poll that fails says so and goes on', async () => {
  let fail = true;
  const { env, live } = make({
    poll: async () => {
      if (fail) throw new Error('no answer');
    },
  });
  env.slots = 0;
  live.start();
  await settle();
  assert.deepEqual(live.state.value, { kind: 'polling', error: 'no answer' });
  fail = false;
  await env.pass(POLL_MS);
  assert.deepEqual(live.state.value, { kind: 'polling', error: null });
});

test('stop gives everything back and can be started again', async () => {
  const { env, live, got } = make();
  live.start();
  await settle();
  const old = env.last;
  live.stop();
  old.send('a', 1);
  assert.deepEqual(got, []);
  assert.equal(env.slots, 4);
  assert.equal(live.state.value.kind, 'off');
  env.show();
  await settle();
  assert.equal(env.open.length, 0, 'a stopped one does not come back by itself');
  live.start();
  await settle();
  assert.equal(env.open.length, 1);
});

test('a stream that is quiet by nature is live once it is open', async () => {
  const env = new Env();
  let opened = 0;
  const what = { url: () => '/quiet', events: ['news'], event: () => {}, opened: () => opened++ };
  for (const quiet of [true, false]) {
    opened = 0;
    const live = new Live({ ...what, quiet }, env);
    live.start();
    await new Promise((done) => setImmediate(done));
    env.last.handlers.open?.({});
    assert.equal(live.state.value.kind, quiet ? 'live' : 'connecting');
    env.last.send('news', 1);
    assert.equal(live.state.value.kind, 'live');
    assert.equal(opened, 1, 'once a connection');
    live.stop();
  }
});

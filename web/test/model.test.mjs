// The model of the process page with a browser made up: when the stream is open,
// what is held, and what a late or strange answer may do.

import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './bundle.mjs';

const { Model, withRates } = await load('process/model.ts');

class Browser {
  constructor() {
    this.sources = [];
    this.timers = [];
    this.hidden = false;
    this.why_ = null;
    this.time = 1_000_000;
  }
  env() {
    return {
      connect: (url) => {
        const listeners = new Map();
        const source = {
          url,
          readyState: 0,
          closed: false,
          addEventListener: (type, handler) => listeners.set(type, handler),
          close: () => {
            source.closed = true;
          },
          send: (data) => listeners.get('observation')?.({ data: JSON.stringify(data) }),
          fail: (readyState = 0) => {
            source.readyState = readyState;
            listeners.get('error')?.({});
          },
        };
        this.sources.push(source);
        return source;
      },
      why: async () => this.why_,
      slot: async () => () => {},
      visible: () => !this.hidden,
      watch: (show, hide) => {
        this.show = show;
        this.hide = hide;
        return () => {};
      },
      after: (ms, run) => {
        const timer = { ms, run };
        this.timers.push(timer);
        return () => {
          this.timers = this.timers.filter((t) => t !== timer);
        };
      },
      now: () => this.time,
    };
  }
  get open() {
    return this.sources.filter((s) => !s.closed);
  }
}

const identity = { pid: 7, start_time_ticks: 70 };
const settle = async () => {
  for (let i = 0; i < 8; i++) await Promise.resolve();
};
const thread = (tid) => ({ tid, name: 't', state: 'S', cpu_percent: 0 });
const event = (timestamp, more = {}) => ({
  summary: { identity, name: 'x', state: 'S' },
  observation: {
    timestamp,
    process_id: identity,
    state: 'S',
    cpu_percent: 1,
    rss_bytes: 1,
    rates: {},
    threads: [thread(7)],
    ...more.observation,
  },
  history: [],
  maps_captured_at: 1,
  maps_error: null,
  maps_truncated: false,
  rollup: null,
  exited: false,
  error: null,
  ...more.event,
});
const aMap = {
  start: '0x0000000000001000',
  end: '0x0000000000002000',
  permissions: 'rw-p',
  readable: true,
  writable: true,
  executable: false,
  private: true,
  pathname: null,
  rss_bytes: 1,
  pss_bytes: 1,
};

async function started() {
  const browser = new Browser();
  const model = new Model(identity, browser.env());
  model.start();
  await settle();
  return { browser, model, source: browser.sources[0] };
}

test('one stream, which names the process in full', async () => {
  const { browser, source } = await started();
  assert.equal(browser.sources.length, 1);
  assert.equal(source.url, '/api/processes/events?pid=7&start_time_ticks=70&maps=changed');
});

test('maps that are left out are those of before; a failed reading keeps them and says why', async () => {
  const { model, source } = await started();
  source.send(event(1000, { event: { maps: [aMap] } }));
  const { regions } = model.view.value.space;
  assert.equal(regions.length, 1);
  source.send(event(2000, { event: { maps_error: 'not permitted' } }));
  assert.equal(model.view.value.space.regions, regions);
  assert.equal(model.view.value.space.error, 'not permitted');
  source.send(event(3000, { event: { maps: [] } }));
  assert.deepEqual(model.view.value.space.regions, []);
  assert.equal(model.view.value.space.error, null);
});

test('an event that names another process is never shown', async () => {
  const { model, source } = await started();
  source.send(event(1000));
  source.send({ ...event(2000), summary: { identity: { pid: 7, start_time_ticks: 71 }, name: 'other', state: 'S' } });
  assert.equal(model.view.value.observation.timestamp, 1000);
  assert.equal(model.view.value.summary.name, 'x');
});

test('a silent stream: the charts go on by the time that passed, not before it is stale', async () => {
  const { browser, model, source } = await started();
  for (let i = 0; i < 8; i++) source.send(event(1000 * i));
  assert.equal(model.silence(browser.time + 1500), 0);
  assert.equal(model.silence(browser.time + 4000), 4000);
});

test('a failed observation keeps the last one', async () => {
  const { model, source } = await started();
  source.send(event(1000));
  source.send({ ...event(2000), observation: null, error: 'no' });
  assert.equal(model.view.value.observation.timestamp, 1000);
  assert.equal(model.view.value.error, 'no');
});

test('hold keeps what is on screen while the rest goes on, and counts threads', async () => {
  const { model, source } = await started();
  source.send(event(1000));
  model.hold();
  source.send(event(2000, { observation: { threads: [thread(8), thread(9)] } }));
  assert.equal(model.view.value.observation.timestamp, 1000);
  assert.deepEqual(model.since.value, { started: 2, exited: 1 });
  model.release();
  assert.equal(model.view.value.observation.timestamp, 2000);
  assert.equal(model.view.value.seen.points.length, 2);
});

test('a hidden tab gives its stream back; on return the hidden span is a gap', async () => {
  const { browser, model, source } = await started();
  source.send(event(1000));
  browser.hidden = true;
  browser.hide();
  assert.equal(browser.open.length, 0);
  source.send(event(1500)); // what the closed stream still delivers is dropped
  assert.equal(model.view.value.observation.timestamp, 1000);
  browser.hidden = false;
  browser.show();
  await settle();
  browser.sources[1].send(event(9000));
  assert.deepEqual(
    model.view.value.seen.points.map((p) => [p.time, p.gap]),
    [
      [1000, false],
      [1001, true],
      [9000, false],
    ],
  );
});

test('a process that ended while the tab was hidden is exited, with its last state', async () => {
  const { browser, model, source } = await started();
  source.send(event(1000));
  browser.hide();
  browser.why_ = Object.assign(new Error('gone'), { status: 410, code: 'gone', final: true, retryAfter: null });
  browser.show();
  await settle();
  browser.sources[1].fail(2);
  await settle();
  assert.equal(model.ended.value.words, 'Ended while this tab was hidden.');
  assert.equal(model.view.value.observation.timestamp, 1000);
  assert.equal(browser.open.length, 0);
  assert.equal(browser.timers.length, 0);
});

test('a refusal on return that is no end is final and not an end', async () => {
  const { browser, model, source } = await started();
  source.send(event(1000));
  browser.hide();
  browser.why_ = Object.assign(new Error('not you'), { status: 403, code: 'denied', final: true, retryAfter: null });
  browser.show();
  await settle();
  browser.sources[1].fail(2);
  await settle();
  assert.equal(model.ended.value, null);
  assert.deepEqual(model.live.state.value, { kind: 'refused', status: 403, code: 'denied', error: 'not you' });
  assert.equal(browser.timers.length, 0);
});

test('the last event ends the page: no new stream, no timer', async () => {
  const { browser, model, source } = await started();
  source.send(event(1000));
  source.send(event(2000, { event: { exited: true } }));
  assert.match(model.ended.value.words, /^Ended \d\d:\d\d:\d\d\.$/);
  assert.equal(browser.open.length, 0);
  assert.equal(browser.timers.length, 0);
  source.fail();
  await settle();
  assert.equal(browser.sources.length, 1);
});

test('a lost stream is closed by the page, and one new one comes 3 s later', async () => {
  const { browser, model, source } = await started();
  source.send(event(1000));
  source.fail();
  assert.equal(source.closed, true);
  assert.equal(model.live.state.value.kind, 'lost');
  assert.ok(model.stale(browser.time));
  assert.deepEqual(
    browser.timers.map((t) => t.ms),
    [3000],
  );
  browser.timers.pop().run();
  await settle();
  browser.sources[1].send(event(6000));
  assert.equal(model.live.state.value.kind, 'live');
  assert.equal(model.view.value.seen.points.filter((p) => p.gap).length, 1);
});

test('stale is more than two and a half intervals without an event', async () => {
  const { browser, model, source } = await started();
  for (let i = 0; i < 8; i++) source.send(event(1000 * i));
  assert.equal(model.interval.value, 1000);
  assert.equal(model.stale(browser.time + 2400), false);
  assert.equal(model.stale(browser.time + 2600), true);
});

test('close gives everything back', async () => {
  const { browser, model, source } = await started();
  source.send(event(1000));
  source.fail();
  model.close();
  assert.equal(browser.open.length, 0);
  assert.equal(browser.timers.length, 0);
});

test('rates of two one-shot answers: unknown where a counter went back or is missing', () => {
  const at = (timestamp, faults, io) => ({
    timestamp,
    minor_faults: faults,
    major_faults: 0,
    voluntary_context_switches: null,
    nonvoluntary_context_switches: 5,
    io,
    rates: {},
  });
  const { rates } = withRates(
    at(1000, 10, { read_bytes: 0, write_bytes: 100 }),
    at(3000, 20, { read_bytes: 4096, write_bytes: 50 }),
  );
  assert.deepEqual(rates, {
    minor_faults: 5,
    major_faults: 0,
    voluntary_context_switches: null,
    nonvoluntary_context_switches: 0,
    read_bytes: 2048,
    write_bytes: null,
  });
  assert.equal(withRates(at(1000, 10, null), at(1000, 20, null)).rates.minor_faults, null);
});

// Every state that a page can be in, and the test that opens a page in it. The first test
// keeps the table true; the rest are states that no other file opens.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import test, { after, before } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startFixture } from './fixture/server.mjs';
import { newPage, until } from './lib.mjs';
import { openSpace, useSpaceBrowser } from './space-lib.mjs';

const held = useSpaceBrowser({ before, after });
const here = dirname(fileURLToPath(import.meta.url));

// state → page → the file and a part of the test's title; null where the page cannot be in it.
const STATES = {
  loading: {
    list: ['list-states', 'loading: frame and headings at once'],
    process: ['process', 'loading: the frame at once'],
    space: ['states', 'space, loading'],
  },
  'first sample': {
    list: ['list-states', 'first sample'],
    process: ['process', 'identity: who it is; figures are unknown until the second sample'],
    space: null,
  },
  empty: {
    list: ['list', 'the filter line: nothing matches'],
    process: ['process', 'a kernel thread has no mappings, descriptors or environment'],
    space: ['space', 'search with the common grammar: count, next, dim, nothing'],
  },
  'not available here': {
    list: null,
    process: ['snapshot', 'not able to: the button is off and the reason stands beside it'],
    space: ['space', 'what happens: lamps, pulses on the right edge, file cards, sensors with their reasons'],
  },
  denied: {
    list: ['list-states', 'denied: the table gives way to the reason'],
    process: ['process', 'maps that cannot be read: strip and section say why'],
    space: ['space', 'maps that cannot be read are said so'],
  },
  'error on refresh': {
    list: ['list-states', 'lost: what was there stays readable'],
    process: ['process', 'a failed observation is one line; the last one stays'],
    space: ['space', 'hold stands still and counts; live catches up; loss, limit and refusal'],
  },
  stale: {
    list: ['list-states', 'stale: nothing for more than two and a half intervals'],
    process: ['process', 'stale: the lamp counts'],
    space: ['space', 'hold stands still and counts; live catches up; loss, limit and refusal'],
  },
  held: {
    list: ['list', 'hold: the picture stands'],
    process: ['process', 'hold keeps the page as it is'],
    space: ['space', 'hold stands still and counts'],
  },
  partial: {
    list: ['list-states', 'a delta that does not follow'],
    process: ['states', 'one process, partial'],
    space: ['space', 'sensors with their reasons, what was lost'],
  },
  gap: {
    list: ['list-states', 'hidden: the stream is given back; shown: one new one; the gap is no line'],
    process: ['process', 'a lost stream: said, tried again after 3 s, the hole drawn as a gap'],
    space: ['space', 'what happens: lamps'],
  },
  exited: {
    list: ['list', 'marks: started and exited for five seconds'],
    process: ['process', 'exited: last state kept'],
    space: ['space', 'processes come and go: the selected one that ends is said'],
  },
  'no such process': {
    list: ['list-states', 'a link to a process that is gone'],
    process: ['process', 'no such process'],
    space: ['states', 'space, a link to a process that is gone'],
  },
  'PID reused': {
    list: ['list-states', 'a link to a pid that another process has now'],
    process: ['process', 'the pid has another owner'],
    space: ['states', 'space, a link to a process that is gone'],
  },
  limit: {
    list: ['list-states', 'limit: 429 says so'],
    process: ['process', 'refused with ${status} before the first observation'],
    space: ['space', 'hold stands still and counts; live catches up; loss, limit and refusal'],
  },
  polling: {
    list: ['list-states', 'four views stream, the fifth polls'],
    process: ['process', 'four other views are open'],
    space: ['space', 'with four other views open it polls'],
  },
  '100 processes': {
    list: ['list-look', 'nothing is wider than the page'],
    process: null,
    space: ['space-budget', 'draw calls are few and the same at 100 and at 3,000'],
  },
  '1,000 processes': { list: ['list-budget', 'the heap does not grow'], process: null, space: ['states', 'space, 1,000 processes'] },
  '3,000 processes': { list: ['states', 'list, 3,000 processes'], process: null, space: ['space-budget', '3,000 processes'] },
  '5,000 processes': {
    list: ['list-budget', '5,000 processes, a tenth of them changed'],
    process: null,
    space: ['space-budget', '5,000 processes are shown'],
  },
};

test('every state has a test that opens a page in it', () => {
  const missing = [];
  for (const [state, pages] of Object.entries(STATES)) {
    assert.deepEqual(Object.keys(pages), ['list', 'process', 'space'], state);
    for (const [page, where] of Object.entries(pages)) {
      if (where === null) continue;
      const [file, name] = where;
      const titles = readFileSync(join(here, `${file}.test.mjs`), 'utf8').match(/^ *test\(.*$/gm);
      if (!titles.some((title) => title.includes(name))) missing.push(`${state}, ${page}: no test "${name}" in ${file}.test.mjs`);
    }
  }
  assert.deepEqual(missing, []);
});

test('one process, partial: each part that was cut says how much there is and that there is more', async (t) => {
  const fixture = await startFixture({ manual: true });
  t.after(() => fixture.close());
  fixture.process.cut = true;
  fixture.process.threads = 4096;
  fixture.world.set(3310, { thread_count: 5120 });
  const start = fixture.world.identity(3310).start_time_ticks;
  const page = await newPage(t, held, `${fixture.url}/process/3310?start=${start}#threads`);
  const says = (selector, words) => until(async () => words.test(await page.textContent(selector)));
  await says('.section .line-warn', /First 4,096 threads; there are more/);
  await says('.figure:has-text("Threads")', /5120|5,120/);
  await says('.stripbar', /cut at the limit/);
  await page.click('.section-link:has-text("Memory")');
  await says('.section-memory', /cut: the first \d+ mappings/);
  await page.click('.section-link:has-text("Environment")');
  await says('.section .line-warn', /Cut at 1 MiB: only the first entries are shown/);
  await page.click('.section-link:has-text("sockets")');
  await says('.section .line-warn', /peers and holders may be missing: 1 process was denied/);
  await page.click('.section-link:has-text("Signals")');
  await says('.section', /first 4,096 threads; stopped after 2 s/);
  assert.ok((await page.locator('.section .hatch').count()) > 0);
});

test('list, 3,000 processes; space, loading', async (t) => {
  const fixture = await startFixture({ manual: true, count: 3000 });
  t.after(() => fixture.close());
  const page = await newPage(t, held, fixture.url);
  await page.waitForSelector('.row');
  await until(async () => /2,9\d\d of 2,9\d\d shown/.test(await page.textContent('.list-foot')));
  assert.ok((await page.locator('.row').count()) < 80);

  fixture.system.silent = true;
  await page.goto(`${fixture.url}/space`);
  await page.waitForSelector('.space-wait:text-is("····")');
  await until(async () => /still waiting for \/proc/.test(await page.textContent('.space-wait')));
  assert.match(await page.textContent('.space-foot'), /0 processes.*lost –/s, 'what is unknown is not 0');
});

test('space, 1,000 processes; space, a link to a process that is gone, or whose pid is another’s', async (t) => {
  const { page, fixture } = await openSpace(t, held, { world: { count: 1000 }, path: '/space?sel=9999@5', width: 900, height: 600 });
  assert.match(await page.textContent('.space-foot'), /998 processes/);
  await until(async () => /9999 is not running now; it may have ended\./.test(await page.textContent('.note')));
  const now = fixture.world.identity(3310).start_time_ticks;
  await page.goto(`${fixture.url}/space?sel=3310@${now - 1}`);
  await until(async () => /3310 is not running now; it may have ended\./.test(await page.textContent('.note')));
  assert.doesNotMatch(await page.textContent('.space-panel'), /PID 3310/, 'the other one is not chosen');
});

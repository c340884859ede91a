// The states of the list: loading, first sample, denied, limit, lost, stale, polling,
// hidden and shown, back and forward, links to processes that are gone or another's.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startFixture } from './fixture/server.mjs';
import { names, newPage, openList, texts, until, useBrowser } from './lib.mjs';

const held = useBrowser({ before, after });

const note = (page) =>
  page
    .locator('.note')
    .allTextContents()
    .then((list) => list.join(' '));
const lamp = (page) => page.textContent('.bar-lamps');
const streams = (fixture) => fixture.requests.filter((path) => path.startsWith('/api/processes/stream')).length;

// hide makes the page believe that its tab is not seen, as another tab in front does.
async function setVisible(page, visible) {
  await page.evaluate(
    (state) => {
      Object.defineProperty(document, 'visibilityState', { value: state, configurable: true });
      Object.defineProperty(document, 'hidden', { value: state === 'hidden', configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    },
    visible ? 'visible' : 'hidden',
  );
}

test('loading: frame and headings at once, dots, and after 3 s why it takes long', async (t) => {
  const { page, fixture } = await openList(t, held, {
    wait: false,
    before: (f) => {
      f.silent = true;
    },
  });
  await page.waitForSelector('.waiting-row');
  assert.equal(await page.locator('[role=columnheader]').count(), 12);
  assert.match((await page.locator('.gauge').allTextContents())[0], /····/);
  assert.equal(await page.getAttribute('.list-table', 'aria-busy'), 'true');
  await until(async () => /still waiting for \/proc/.test(await page.textContent('.waiting')));
  fixture.silent = false;
  fixture.drop();
  await page.waitForSelector('.row');
  assert.equal(await page.locator('.waiting').count(), 0);
});

test('loaded means that the data is on screen, but in one tab at a time', async (t) => {
  const fixture = await startFixture({ manual: true, count: 24 });
  t.after(() => fixture.close());
  const page = await newPage(t, held, fixture.url); // returns at the load event
  assert.ok((await page.locator('.row').count()) > 10);
  await page.goto((await page.locator('.row .row-link').first().evaluate((link) => link.href)).toString());
  assert.doesNotMatch(await page.textContent('.identity'), /····/);

  // What waits for it takes one of six connections: one tab at a time, or some of them
  // would keep out what they wait for.
  await page.evaluate(() => new Promise((taken) => navigator.locks.request('loading', () => new Promise(taken))));
  fixture.silent = true;
  fixture.loadingMs = 3600_000;
  const other = await page.context().newPage();
  const dropped = other.waitForEvent('requestfailed', (request) => request.url().endsWith('/api/loading'));
  await other.goto(fixture.url); // returns though there is no data
  await dropped;
  assert.equal(await other.locator('.row').count(), 0);
});

test('first sample: unknown is a dash with its reason, and sorts last', async (t) => {
  const { page, fixture } = await openList(t, held, {
    world: { count: 24 },
    before: ({ world }) => {
      world.firstSample = true;
    },
  });
  assert.ok((await texts(page, 'cpu')).every((text) => text === '–'));
  assert.equal(await page.locator('.row .c-cpu').first().getAttribute('title'), 'needs two samples');
  assert.match(await page.locator('.row .c-read').first().getAttribute('title'), /needs two samples/);
  assert.match((await page.locator('.gauge').allTextContents())[0], /–/);
  fixture.world.firstSample = false;
  for (const pid of fixture.world.rows.keys()) fixture.world.changed.add(pid);
  fixture.tick(0);
  await until(async () => (await texts(page, 'cpu'))[0] === '212.4' || Number((await texts(page, 'cpu'))[0]) > 100);
});

test('denied: the table gives way to the reason, nothing is tried again', async (t) => {
  const reason = 'uid 1001 is not allowed here: run procinsh as that user or add --allow-user mika.';
  const { page, fixture } = await openList(t, held, {
    wait: false,
    before: (f) => f.refuse.set('/api/processes/stream', { status: 403, code: 'peer_not_allowed', error: reason }),
  });
  await page.waitForSelector('.denied');
  assert.match(await page.textContent('.denied'), new RegExp(reason.slice(0, 40)));
  assert.match(await lamp(page), /DENIED/);
  const asked = streams(fixture);
  await page.waitForTimeout(4000);
  assert.equal(streams(fixture), asked, 'a 403 is final');
  fixture.refuse.clear();
  await page.click('.denied button');
  await page.waitForSelector('.row');
});

test('limit: 429 says so, waits as long as it was told, and comes in when there is room', async (t) => {
  const { page, fixture } = await openList(t, held, {
    wait: false,
    before: (f) => {
      f.limit = 0;
    },
  });
  await page.waitForSelector('.note');
  assert.match(await note(page), /0 list views are open already; close one and try again/);
  const asked = streams(fixture);
  await page.waitForTimeout(3500);
  assert.equal(streams(fixture), asked, 'Retry-After was 5 s');
  fixture.limit = 32;
  await page.waitForSelector('.row');
  await until(async () => (await page.locator('.note').count()) === 0);
});

test('lost: what was there stays readable, one line says since when, it comes back', async (t) => {
  const { page, fixture } = await openList(t, held, { world: { count: 24 } });
  const before = await names(page);
  fixture.refuse.set('/api/processes/stream', { status: 503, code: 'stopping', error: 'The server is shutting down.' });
  fixture.drop();
  await page.waitForSelector('.note');
  assert.match(
    await note(page),
    /Could not refresh at \d\d:\d\d:\d\d: connection lost, retrying\. Showing \d\d:\d\d:\d\d\./,
  );
  assert.deepEqual((await names(page)).slice(0, 10), before.slice(0, 10));
  await until(async () => /shutting down/.test(await note(page)));
  fixture.refuse.clear();
  fixture.world.start({ pid: 60003, name: 'later' });
  await until(async () => (await page.locator('.note').count()) === 0);
  await until(async () => (await names(page)).includes('later'));
  assert.match(await lamp(page), /LIVE/);
  assert.equal(fixture.streams.size, 1, 'one stream, not one a retry');
});

test('lost: Retry connects at once', async (t) => {
  const { page, fixture } = await openList(t, held, { world: { count: 24 } });
  fixture.refuse.set('/api/processes/stream', { status: 429, code: 'x', error: 'Full.', retryAfter: 60 });
  fixture.drop();
  await until(async () => /Full\./.test(await note(page)));
  fixture.refuse.clear();
  await page.click('.note button:has-text("Retry")');
  await until(async () => (await page.locator('.note').count()) === 0);
});

test('stale: nothing for more than two and a half intervals', async (t) => {
  const { page, fixture } = await openList(t, held, { world: { count: 24 } });
  fixture.tick();
  await until(async () => /LIVE1\.0 s/.test(await lamp(page)));
  await until(async () => /STALE\d\.\d s/.test(await lamp(page)));
  fixture.tick();
  await until(async () => /LIVE/.test(await lamp(page)));
});

test('a delta that does not follow: the stream is opened anew, nothing is made up', async (t) => {
  const { page, fixture } = await openList(t, held, { world: { count: 24 } });
  const asked = streams(fixture);
  fixture.world.set(1502, { name: 'renamed' });
  fixture.jump = true;
  fixture.tick(0);
  await until(() => streams(fixture) === asked + 1);
  await until(async () => (await names(page)).includes('renamed'));
});

test('hidden: the stream is given back; shown: one new one; the gap is no line', async (t) => {
  const { page, fixture } = await openList(t, held, { world: { count: 24 } });
  fixture.tick();
  await setVisible(page, false);
  await until(() => fixture.streams.size === 0);
  const asked = streams(fixture);
  for (let i = 0; i < 20; i++) fixture.tick();
  fixture.world.exit(1502);
  fixture.world.start({ pid: 60004, name: 'meanwhile' });
  fixture.tick(0);
  await page.waitForTimeout(500);
  assert.equal(streams(fixture), asked, 'a hidden tab asks for nothing');
  await setVisible(page, true);
  await until(() => fixture.streams.size === 1);
  await until(async () => (await names(page)).includes('meanwhile'));
  assert.equal(streams(fixture), asked + 1);
  assert.equal((await names(page)).includes('redis-server'), false, 'what ended unseen is not called just exited');
});

test('four views stream, the fifth polls and says so, and streams when one closes', async (t) => {
  const fixture = await startFixture({ count: 24, interval: 1000 });
  t.after(() => fixture.close());
  const first = await newPage(t, held, fixture.url);
  await first.waitForSelector('.row');
  const pages = [first];
  for (let i = 0; i < 4; i++) {
    const page = await first.context().newPage();
    await page.goto(fixture.url);
    await page.waitForSelector('.row');
    pages.push(page);
  }
  await until(() => fixture.streams.size === 4);
  const fifth = pages[4];
  await until(async () => /polling: 4 other views are open/.test(await note(fifth)));
  assert.match(await lamp(fifth), /POLLING/);
  assert.ok(fixture.requests.some((path) => path === '/api/processes?maps=summary&io=1'));
  assert.ok(fixture.requests.includes('/api/system/totals'));
  fixture.world.start({ pid: 60005, name: 'polled' });
  await until(async () => (await names(fifth)).includes('polled'));
  await pages[1].close();
  await until(async () => /LIVE/.test(await lamp(fifth)));
  assert.equal(fixture.streams.size, 4);
});

test('leaving closes the stream; Back brings a live list as it was', async (t) => {
  const { page, fixture } = await openList(t, held, { world: { count: 24 }, path: '/?q=user:mika&sort=name' });
  await until(() => fixture.streams.size === 1);
  await page.goto(`${fixture.url}/assets/none.txt`);
  await until(() => fixture.streams.size === 0);
  await page.goBack();
  await page.waitForSelector('.row');
  await until(() => fixture.streams.size === 1);
  assert.deepEqual(await page.locator('.chip').allTextContents(), ['user:mika']);
  fixture.world.set(20151, { name: 'aaa' });
  fixture.tick(0);
  await until(async () => (await names(page))[0] === 'aaa');
});

test('a link to a process that is gone: the list, one line on top, the address stays', async (t) => {
  const { page, fixture } = await openList(t, held, { world: { count: 24 }, path: '/process/9999' });
  await until(async () => /No process 9999 runs now \(it may have ended\)\./.test(await note(page)));
  assert.equal(new URL(page.url()).pathname, '/process/9999');
  assert.equal(fixture.streams.size, 1, 'the list is live');
  await page.click('.note button:has-text("Dismiss")');
  await until(() => new URL(page.url()).pathname === '/');
  assert.equal(await page.locator('.note').count(), 0);
});

test('a link to a pid that another process has now: said, not followed', async (t) => {
  const { page, fixture } = await openList(t, held, {
    world: { count: 24 },
    wait: false,
    path: '/process/3310?start=17',
    before: (f) => {
      const gone = { status: 410, code: 'gone', error: 'Process 3310 has ended.' };
      f.refuse.set('/api/processes/events', gone);
    },
  });
  await page.waitForSelector('.row');
  await until(async () =>
    /This link was for a process started \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\. Pid 3310 now belongs to postgres\./.test(
      await note(page),
    ),
  );
  const link = page.locator('.note a');
  assert.equal(await link.textContent(), 'Open that one');
  assert.equal(await link.getAttribute('href'), `/process/3310?start=${fixture.world.identity(3310).start_time_ticks}`);
});

test('an address that is no page: the list, and one line', async (t) => {
  const fixture = await startFixture({ count: 24, manual: true });
  t.after(() => fixture.close());
  const page = await newPage(t, held, fixture.url);
  await page.waitForSelector('.row');
  await page.evaluate(() => {
    history.pushState(null, '', '/nowhere');
    dispatchEvent(new PopStateEvent('popstate'));
  });
  await until(async () => /There is no page \/nowhere\./.test(await note(page)));
});

for (const [status, code, error] of [
  [403, 'permission', 'Not permitted to read process 3310. Needs CAP_SYS_PTRACE or the same user.'],
  [429, 'too_many_streams', '32 detail views are open already.'],
]) {
  test(`opening a process that is refused with ${status}: the list stays, one line says why, it is live again`, async (t) => {
    const { page, fixture } = await openList(t, held, {
      world: { count: 24 },
      before: (f) => f.refuse.set('/api/processes/events', { status, code, error }),
    });
    await page
      .locator('.row', { has: page.locator('.c-pid:text-is("3310")') })
      .locator('a')
      .click();
    await until(async () => (await note(page)).includes(error));
    assert.match(page.url(), /\/process\/3310\?start=/, 'the address stays until the next action');
    assert.equal(await page.title(), 'procinsh / list');
    await until(() => fixture.streams.size === 1);
    fixture.world.set(1502, { name: 'after' });
    fixture.tick(0);
    await until(async () => (await names(page)).includes('after'));
    await page.goBack();
    await until(async () => (await page.locator('.note').count()) === 0);
  });
}

test('opening a process: the list stays until there is something to show, and gives its stream back', async (t) => {
  const { page, fixture } = await openList(t, held, { world: { count: 24 } });
  await page
    .locator('.row', { has: page.locator('.c-pid:text-is("3310")') })
    .locator('a')
    .click();
  await until(async () => (await page.title()) === 'procinsh / postgres');
  await until(() => fixture.streams.size === 0);
  assert.equal(
    (await page.locator('.grid-scroll').count()) > 0 && (await page.locator('h1:has-text("list")').count()) > 0,
    false,
  );
  await page.goBack();
  await until(async () => (await page.title()) === 'procinsh / list');
  await until(() => fixture.streams.size === 1);
  assert.equal(await page.locator('.row-selected .c-pid').textContent(), '3310');
});

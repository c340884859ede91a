// The page of one process: how it is reached, what each section shows, every state
// it can be in, and what it asks of the server.

import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { startFixture } from './fixture/server.mjs';
import { newPage, useBrowser } from './lib.mjs';

const held = useBrowser({ before, after });
const PID = 3310;

// hide and show stand in for another tab coming to the front.
const tabs = () => {
  let hidden = false;
  Object.defineProperty(document, 'visibilityState', { get: () => (hidden ? 'hidden' : 'visible') });
  Object.defineProperty(document, 'hidden', { get: () => hidden });
  window.setHidden = (now) => {
    hidden = now;
    document.dispatchEvent(new Event('visibilitychange'));
  };
};

async function open(t, { hash = '', path, pid = PID, wait = true, set, world, ...options } = {}) {
  const fixture = await startFixture({ manual: true, ...world });
  t.after(() => fixture.close());
  set?.(fixture, fixture.process);
  const identity = fixture.world.identity(pid);
  const page = await newPage(t, held, fixture.url + (path ?? `/process/${pid}?start=${identity.start_time_ticks}${hash}`), {
    init: tabs,
    ...options,
  });
  if (wait) await page.waitForSelector('.process .identity-name:not(:text("····"))');
  return { page, fixture, detail: fixture.process, identity };
}

const text = (page, selector) => page.textContent(selector);
const count = (fixture, path) => fixture.requests.filter((r) => r.startsWith(path)).length;
const figure = (page, name) => page.locator('.figure', { hasText: name }).locator('.figure-value').textContent();
const eventually = async (check, what, ms = 60_000) => {
  const end = Date.now() + ms;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > end) assert.fail(`never came: ${what}`);
    await new Promise((r) => setTimeout(r, 50));
  }
};
const rows = (page, grid) => page.locator(`[role="grid"][aria-label="${grid}"] .flat-row`);
const tick = async (page, fixture, times = 1) => {
  for (let i = 0; i < times; i++) {
    fixture.process.tick();
    await page.waitForTimeout(30);
  }
};

test('identity: who it is; figures are unknown until the second sample, and say why', async (t) => {
  const { page, fixture } = await open(t);
  assert.equal(await page.title(), 'procinsh / postgres');
  assert.match(await text(page, '.identity-caption'), /^pid 3310 · started \d\d:\d\d:\d\d$/);
  assert.equal(await figure(page, 'CPU'), '–');
  assert.equal(await page.locator('.figure', { hasText: 'CPU' }).getAttribute('title'), 'needs two samples');
  assert.match(await text(page, '[data-chart="chart-cpu"]'), /CPU –/);
  await tick(page, fixture, 2);
  await eventually(async () => /^\d+\.\d %$/.test(await figure(page, 'CPU')), 'a CPU figure');
  assert.match(await figure(page, 'RSS'), /^9\d\.\d MiB$/);
  assert.match(await figure(page, 'Read / write'), /^\d+K \/ \d\.\dM$/);
  assert.equal(await figure(page, 'Parent'), '902 postgres');
});

test('a link without a start time gets one', async (t) => {
  const { page, identity } = await open(t, { path: '/process/3310#threads' });
  assert.equal(new URL(page.url()).search, `?start=${identity.start_time_ticks}`);
  assert.equal(new URL(page.url()).hash, '#threads');
  assert.equal(await text(page, '.section-current'), 'Threads 6');
});

test('no such process: the list, one line, and the address stays', async (t) => {
  const { page } = await open(t, { path: '/process/77?start=5', wait: false });
  await page.waitForSelector('.note-bad');
  assert.match(await text(page, '.note-bad'), /No process 77 runs now \(it may have ended\)\./);
  assert.equal(new URL(page.url()).pathname, '/process/77');
  assert.equal(await page.title(), 'procinsh / list');
});

test('the pid has another owner: said, not switched', async (t) => {
  const { page, fixture } = await open(t, { path: '/process/3310?start=99', wait: false });
  await page.waitForSelector('.note-bad');
  assert.match(await text(page, '.note-bad'), /started \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\. Pid 3310 now belongs to postgres\./);
  assert.equal(new URL(page.url()).search, '?start=99');
  await page.click('text=Open that one');
  await page.waitForSelector('.identity');
  assert.equal(new URL(page.url()).search, `?start=${fixture.world.identity(3310).start_time_ticks}`);
});

for (const [status, code, words] of [
  [403, 'peer_not_allowed', 'This user may not ask.'],
  [429, 'too_many_streams', '32 detail views are open already'],
]) {
  test(`refused with ${status} before the first observation: the list stays and one line says why`, async (t) => {
    const { page } = await open(t, {
      wait: false,
      set: (fixture) => fixture.refuse.set('/api/processes/events', { status, code, error: words, retryAfter: 60 }),
    });
    await page.waitForSelector('.note-bad');
    assert.ok((await text(page, '.note-bad')).includes(words));
    assert.equal(await page.title(), 'procinsh / list');
    assert.equal(await page.locator('.identity').count(), 0);
  });
}

test('from the list and back: Back and Forward work, each with its own stream', async (t) => {
  const { page, fixture, detail } = await open(t, { path: '/', wait: false });
  await page.waitForSelector('.row');
  await page.click('.row-link:text-is("go")');
  await page.waitForSelector('.identity');
  assert.match(page.url(), /\/process\/20990\?start=\d+$/);
  await eventually(() => detail.streams.size === 1 && fixture.streams.size === 0, 'one process stream and no list stream');
  await page.goBack();
  await page.waitForSelector('.row');
  assert.equal(await page.title(), 'procinsh / list');
  await eventually(() => detail.streams.size === 0 && fixture.streams.size === 1, 'the list stream alone');
  await page.goForward();
  await page.waitForSelector('.identity');
  assert.equal(await page.title(), 'procinsh / go');
  await eventually(() => detail.streams.size === 1, 'the process stream again');
});

test('the list stays on screen until the first observation came', async (t) => {
  const { page, detail } = await open(t, { path: '/', wait: false, set: (_, d) => (d.silent = true) });
  await page.waitForSelector('.row');
  await page.click('.row-link:text-is("go")');
  await eventually(() => detail.streams.size === 1, 'the stream');
  await page.waitForTimeout(300);
  assert.equal(await page.locator('.row').count() > 0, true);
  assert.equal(await page.locator('.identity').count(), 0);
  detail.silent = false;
  detail.tick();
  await page.waitForSelector('.identity');
  assert.equal(await page.locator('.row').count(), 0);
});

test('loading: the frame at once, values as dots, after 3 s a word', async (t) => {
  const { page } = await open(t, { wait: false, set: (_, d) => (d.silent = true) });
  await page.waitForSelector('.identity');
  assert.equal(await text(page, '.identity-name'), '····');
  assert.equal(await page.locator('.section-link').count(), 10);
  await page.waitForSelector('text=still waiting for /proc');
});

test('stale: the lamp counts, the chart stays; one event makes it live again', async (t) => {
  const { page, fixture } = await open(t);
  await tick(page, fixture);
  await page.waitForSelector('.lamp:has-text("LIVE")');
  await page.waitForSelector('.lamp:has-text("STALE")');
  // The lanes go on with the chart: what is not known is hatched at their right end.
  const inked = () =>
    page.$eval('.lanes-canvas', (canvas) => {
      const { data } = canvas.getContext('2d').getImageData(canvas.width - 12, 0, 12, canvas.height);
      return data.some((value, i) => i % 4 === 3 && value > 0);
    });
  await eventually(inked, 'a hatched end of the lanes');
  await tick(page, fixture);
  await page.waitForSelector('.lamp:has-text("LIVE")');
});

test('a lost stream: said, tried again after 3 s, the hole drawn as a gap', async (t) => {
  const { page, fixture, detail } = await open(t);
  await tick(page, fixture, 3);
  detail.drop();
  await page.waitForSelector('.note-bad:has-text("Connection lost, retrying")');
  assert.match(await text(page, '.note-bad'), /Showing \d\d:\d\d:\d\d\./);
  await eventually(() => detail.streams.size === 1, 'a new stream');
  await page.waitForSelector('.note-bad', { state: 'detached' });
  await tick(page, fixture, 2);
  await page.click('[data-chart="chart-cpu"] >> text=as table');
  const cells = await page.locator('.chart-table td:nth-child(2)').allTextContents();
  assert.ok(cells.includes('–'), `no gap in ${cells}`);
});

test('hold keeps the page as it is; release goes on with the newest', async (t) => {
  const { page, fixture, detail } = await open(t, { hash: '#threads' });
  await tick(page, fixture, 2);
  await page.keyboard.press('Space');
  await page.waitForSelector('.lamp:has-text("HELD")');
  const before = await text(page, '.identity');
  detail.threads = 8;
  await tick(page, fixture, 5);
  assert.equal(await text(page, '.identity'), before);
  await page.waitForSelector('.held-line:has-text("+2 −0 threads since")');
  await page.keyboard.press('Space');
  await eventually(async () => (await figure(page, 'Threads')) === '8', 'the newest state');
  assert.equal(await page.locator('.held-line').count(), 0);
});

test('exited: last state kept, refresh off with its reason, no request any more', async (t) => {
  const { page, fixture, detail } = await open(t, { hash: '#environment' });
  await page.waitForSelector('text=PGDATA');
  await tick(page, fixture);
  detail.end(PID);
  await page.waitForSelector('.lamp:has-text("EXITED")');
  assert.match(await text(page, '.note-bad'), /Ended \d\d:\d\d:\d\d\. Last state kept\./);
  const asked = fixture.requests.length;
  const refresh = page.locator('button:text-is("Refresh")');
  assert.equal(await refresh.isDisabled(), true);
  assert.equal(await refresh.getAttribute('title'), 'The process has ended.');
  assert.ok(await page.isVisible('text=PGDATA'));
  await page.keyboard.press('r');
  await page.waitForTimeout(3500);
  assert.equal(fixture.requests.length, asked);
});

test('hidden: the stream is given back; shown: the same process again, the hole a gap', async (t) => {
  const { page, fixture, detail } = await open(t);
  await tick(page, fixture, 2);
  await page.evaluate(() => window.setHidden(true));
  await eventually(() => detail.streams.size === 0, 'no stream while hidden');
  const asked = fixture.requests.length;
  await page.waitForTimeout(1500);
  assert.equal(fixture.requests.length, asked, 'a hidden tab asks for nothing');
  await page.evaluate(() => window.setHidden(false));
  await eventually(() => detail.streams.size === 1, 'a stream again');
  await tick(page, fixture);
  await page.click('[data-chart="chart-cpu"] >> text=as table');
  const cells = await page.locator('.chart-table td:nth-child(3)').allTextContents();
  assert.ok(cells.includes('–') && cells.filter((c) => c !== '–').length >= 4, `${cells}`);
});

test('ended while hidden: exited, never an error page; a new owner of the pid is named', async (t) => {
  const { page, fixture, detail } = await open(t);
  await tick(page, fixture, 2);
  await page.evaluate(() => window.setHidden(true));
  await eventually(() => detail.streams.size === 0, 'no stream while hidden');
  fixture.world.reuse(PID, 'cron');
  await page.evaluate(() => window.setHidden(false));
  await page.waitForSelector('.lamp:has-text("EXITED")');
  assert.match(await text(page, '.note-bad'), /Ended while this tab was hidden\. Last state kept\./);
  await page.waitForSelector('.note-bad:has-text("Pid 3310 now belongs to cron")');
  assert.equal(await text(page, '.identity-name'), 'postgres');
  await page.click('text=Open that one');
  await eventually(async () => (await text(page, '.identity-name')) === 'cron', 'the other process');
});

test('denied on return is final and says so', async (t) => {
  const { page, fixture, detail } = await open(t);
  await tick(page, fixture, 2);
  await page.evaluate(() => window.setHidden(true));
  await eventually(() => detail.streams.size === 0, 'no stream while hidden');
  fixture.refuse.set('/api/processes/events', { status: 403, code: 'peer_not_allowed', error: 'This user may not ask.' });
  await page.evaluate(() => window.setHidden(false));
  await page.waitForSelector('.lamp:has-text("DENIED")');
  assert.match(await text(page, '.note-bad'), /Not permitted to go on watching: This user may not ask\./);
  const asked = count(fixture, '/api/processes/events');
  await page.waitForTimeout(3600);
  assert.equal(count(fixture, '/api/processes/events'), asked);
});

test('four other views are open: polled every 2 s, and said', async (t) => {
  const { page, fixture } = await open(t, {
    wait: false,
    init: () => {
      for (let n = 1; n <= 4; n++) navigator.locks?.request(`stream-${n}`, () => new Promise(() => {})); // not in about:blank
    },
  });
  await page.waitForSelector('.note-warn:has-text("polling: 4 other views are open")');
  await page.waitForSelector('.identity-name:text("postgres")');
  assert.equal(count(fixture, '/api/processes/events'), 0);
  await eventually(() => count(fixture, '/api/processes/observation') >= 3, 'three polls');
  await eventually(async () => /^\d/.test(await figure(page, 'Faults/s')), 'rates of two answers');
});

test('what is fetched is fetched once and on refresh, whatever the stream does', async (t) => {
  const { page, fixture } = await open(t);
  for (const key of ['2', '3', '4', '5', '6', '7', '8', '1', '4', '5', '6', '7', '8', '2', '1']) {
    await page.keyboard.press(key);
    await page.waitForTimeout(120);
    if (key === '3') await page.waitForSelector('[data-hex]');
    await tick(page, fixture);
  }
  await tick(page, fixture, 10);
  const paths = ['events', 'fds', 'environment', 'auxv', 'signals', 'context', 'memory', 'maps', 'observation'];
  const seen = Object.fromEntries(paths.map((p) => [p, count(fixture, `/api/processes/${p}`)]));
  assert.deepEqual(seen, { events: 1, fds: 1, environment: 1, auxv: 1, signals: 1, context: 1, memory: 1, maps: 0, observation: 0 });
  await page.keyboard.press('5');
  await page.waitForSelector('text=PGDATA');
  await page.keyboard.press('r');
  await eventually(() => count(fixture, '/api/processes/environment') === 2, 'a refresh');
  assert.equal(count(fixture, '/api/processes/events'), 1);
});

for (const [section, path, words] of [
  ['files', 'fds', 'file descriptors'],
  ['environment', 'environment', 'environment'],
  ['auxv', 'auxv', 'auxiliary vector'],
  ['signals', 'signals', 'signals'],
  ['context', 'context', 'context'],
]) {
  test(`${section}: denied keeps the panel and says what would allow it; a failed refresh keeps the content`, async (t) => {
    const error = `Not permitted to read ${words} of pid 3310 (EPERM). Needs CAP_SYS_PTRACE or the same user; yama ptrace_scope is 1.`;
    const denied = { status: 422, code: 'not_permitted', error };
    const { page, fixture } = await open(t, {
      hash: `#${section}`,
      set: (f) => f.refuse.set(`/api/processes/${path}`, denied),
    });
    await page.waitForSelector('.state-bad');
    assert.ok((await text(page, '.state-bad')).includes(error));
    const height = (await page.locator('.section .panel').first().boundingBox()).height;
    assert.ok(height > 100, `the panel is ${height} px high`);
    fixture.refuse.clear();
    await page.click('text=Try again');
    await page.waitForSelector('.state-bad', { state: 'detached' });
    const whole = await text(page, '.section');
    fixture.refuse.set(`/api/processes/${path}`, denied);
    await page.click('.section button:text-is("Refresh")');
    await page.waitForSelector('.line-bad');
    assert.match(await text(page, '.line-bad'), /Could not refresh at \d\d:\d\d:\d\d: .* Showing \d\d:\d\d:\d\d\./);
    const now = await text(page, '.section');
    assert.ok(now.length > whole.length * 0.9, 'the content is still there');
    fixture.refuse.clear();
    await page.click('text=Retry');
    await page.waitForSelector('.line-bad', { state: 'detached' });
  });
}

test('maps that cannot be read: strip and section say why, the rest goes on', async (t) => {
  const error = 'Not permitted to read maps of pid 3310 (EPERM). Needs CAP_SYS_PTRACE or the same user.';
  const { page, fixture, detail } = await open(t, { hash: '#memory', set: (_, d) => (d.mapsError = error) });
  await page.waitForSelector('.section .state-bad');
  assert.ok((await text(page, '.section .state-bad')).includes(error));
  assert.ok((await text(page, '.stripbar-text')).includes(error));
  detail.mapsError = null;
  await tick(page, fixture);
  await page.waitForSelector('.section .state-bad', { state: 'detached' });
  detail.mapsError = error;
  await tick(page, fixture);
  await page.waitForSelector('.section .line-bad:has-text("Could not read the maps again")');
  assert.ok((await rows(page, 'Mappings').count()) > 5);
});

test('a failed observation is one line; the last one stays', async (t) => {
  const { page, fixture, detail } = await open(t);
  await tick(page, fixture, 2);
  const rss = await figure(page, 'RSS');
  detail.error = 'read /proc/3310/stat: input/output error';
  await tick(page, fixture);
  await page.waitForSelector('.note-bad:has-text("input/output error")');
  assert.equal(await figure(page, 'RSS'), rss);
});

test('a kernel thread has no mappings, descriptors or environment, and that is said', async (t) => {
  const { page } = await open(t, {
    pid: 17,
    hash: '#memory',
    set: (_, d) => {
      d.maps = () => [];
      d.descriptors = (row) => ({ process_id: row.identity, captured_at: Date.now(), entries: [], warnings: [] });
      d.environment = (row) => ({ process_id: row.identity, captured_at: Date.now(), entries: [], lossy_utf8: false, truncated: false });
    },
  });
  await page.waitForSelector('text=No mappings: a kernel thread, or a zombie.');
  await page.keyboard.press('4');
  await page.waitForSelector('text=No file descriptors.');
  await page.keyboard.press('5');
  await page.waitForSelector('text=No environment.');
});

test('strip: arrow keys walk the mappings on a fixed line, Enter opens one in Memory', async (t) => {
  const { page } = await open(t);
  await page.focus('.stripbar-slider');
  const line = () => text(page, '.stripbar-text');
  assert.match(await line(), /^0x000055d0c1a00000–0x000055d0c1ac8000 {2}r--p {2}size 800\.0K {2}RSS 480\.0K {2}PSS 320\.0K .*\/postgres$/);
  for (let i = 0; i < 4; i++) await page.keyboard.press('ArrowRight');
  assert.match(await line(), /rw-p .*\[heap\]$/);
  const slider = page.locator('.stripbar-slider');
  assert.equal(await slider.getAttribute('aria-valuenow'), '4');
  assert.match(await slider.getAttribute('aria-valuetext'), /\[heap\]$/);
  await page.keyboard.press('End');
  assert.match(await line(), /\[vsyscall\]$/);
  await page.keyboard.press('Home');
  await page.keyboard.press('PageDown');
  assert.match(await line(), /r-xp/);
  for (let i = 0; i < 3; i++) await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Enter');
  await page.waitForSelector('[data-hex]');
  assert.match(page.url(), /#memory\?addr=0x[0-9a-f]{16}$/);
  await eventually(async () => (await page.inputValue('[data-address]')).startsWith('0x000055d0'), 'the address of the heap');
  await eventually(async () => /hello heap/.test(await text(page, '.hex')), 'the bytes of the heap');
});

test('strip: pointing names a mapping, a drag sums what it covers, Escape clears', async (t) => {
  const { page } = await open(t);
  const box = await page.locator('.stripbar-canvas').boundingBox();
  const y = box.y + box.height / 2;
  await page.mouse.move(box.x + 20, y);
  await page.waitForSelector('.stripbar-region:has-text("r--p")');
  await page.mouse.down();
  await page.mouse.move(box.x + 60, y);
  await page.mouse.move(box.x + 200, y);
  await page.mouse.up();
  const line = await text(page, '.stripbar-text');
  assert.match(line, /^0x000055d0c1a00000–0x[0-9a-f]{16} {2}\d+ maps {2}size \d+\.\dM {2}RSS \d+\.\dM/);
  assert.ok(!page.url().includes('#memory'), 'a drag opens nothing');
  await page.focus('.stripbar-slider');
  await page.keyboard.press('Escape');
  assert.ok(!(await text(page, '.stripbar-text')).includes('maps  size'));
});

test('overview: a figure of the bar chooses the large chart; charts have a sentence and a table', async (t) => {
  const { page, fixture } = await open(t);
  await tick(page, fixture, 4);
  const label = () => page.locator('.top-charts .chart').first().getAttribute('aria-label');
  assert.match(await label(), /^CPU and memory, last 60 s\. CPU: minimum \d+\.\d %, maximum \d+\.\d %, last \d+\.\d %\. RSS: minimum/);
  await page.click('.figure:has-text("Ctx sw/s")');
  await page.waitForSelector('.top-charts [data-chart="chart-switches"]');
  assert.match(page.url(), /#overview\?chart=switches$/);
  await page.click('.top-charts >> text=as table');
  assert.ok((await page.locator('.top-charts .chart-table tbody tr').count()) >= 4);
  await page.goBack();
  await page.waitForSelector('.top-charts [data-chart="chart-cpu"]');
  // Each lane stands beside its name, however many there are.
  const lanesHigh = await page.$eval('.lanes-canvas', (e) => e.clientHeight / e.closest('.lanes').querySelectorAll('.lanes-name').length);
  assert.equal(lanesHigh, await page.$eval('.lanes-name', (e) => e.clientHeight));
  const lanes = await page.locator('.lanes-canvas').getAttribute('aria-label');
  assert.match(lanes, /thread 3310 postgres: running \d+ %, disk wait \d+ % of samples/);
});

test('overview: pointing at one chart reads all of them at that time', async (t) => {
  const { page, fixture } = await open(t);
  for (let i = 0; i < 5; i++) {
    fixture.process.tick();
    await page.waitForTimeout(1000);
  }
  const legend = () => page.locator('.key-value').allTextContents();
  const now = await legend();
  const box = await page.locator('.top-charts .u-over').first().boundingBox();
  await page.mouse.move(box.x + box.width * (1 - 5.2 / 60), box.y + 30);
  await page.waitForSelector('.top-charts .panel-caption:has-text("at ")');
  assert.match(await text(page, '[data-chart="chart-io"] .panel-caption'), /^at \d\d:\d\d:\d\d/);
  assert.notDeepEqual(await legend(), now);
  await page.mouse.move(5, 5);
  await eventually(async () => (await legend()).join() === now.join(), 'the newest figures again');
});

test('overview: copies of what is on screen', async (t) => {
  const { page, fixture } = await open(t, { permissions: ['clipboard-read', 'clipboard-write'] });
  await tick(page, fixture, 3);
  await page.keyboard.press('Y');
  await page.click('[role="menuitem"]:text-is("TSV of 60 s")');
  await page.waitForTimeout(100);
  const lines = (await page.evaluate(() => navigator.clipboard.readText())).trim().split('\n');
  assert.equal(lines[0], 'time\tcpu\trss\tminor\tmajor\tvoluntary\tinvoluntary\tread\twrite\tthreads');
  assert.equal(lines.length, 5);
  assert.equal(lines[1].split('\t')[1], '', 'an unknown figure is empty, not 0');
});

test('threads: sorting, filtering, what each column says', async (t) => {
  const { page, fixture } = await open(t, { hash: '#threads' });
  await tick(page, fixture, 2);
  const tids = async () => (await rows(page, 'Threads').locator('.flat-td:first-child').allTextContents()).map(Number);
  await page.click('[aria-label="Threads"] button:text-is("TID")');
  await eventually(async () => (await tids()).join() === '3310,3318,3319,3320,3321,3322', 'order by TID');
  await page.click('[aria-label="Threads"] button:has-text("TID ▲")');
  await eventually(async () => (await tids())[0] === 3322, 'the other way');
  assert.match(page.url(), /sort=-tid/);
  const first = await rows(page, 'Threads').first().textContent();
  assert.ok(first.includes('FIFO 50') && first.includes('■■■■■■■■'), first);
  await page.keyboard.press('/');
  await page.keyboard.type('worker');
  await eventually(async () => (await rows(page, 'Threads').count()) === 3, 'three threads');
  assert.equal(await text(page, '.find-found'), '3 of 6');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  await eventually(async () => (await rows(page, 'Threads').count()) === 6, 'all again');
  assert.equal(await page.evaluate(() => document.activeElement?.tagName), 'BODY');
});

test('threads: 4,000 of them mount only what is in sight; keys walk, the focused row stays mounted', async (t) => {
  const { page, fixture } = await open(t, { hash: '#threads?sort=tid', set: (_, d) => (d.threads = 4000) });
  await tick(page, fixture);
  const grid = page.locator('[role="grid"][aria-label="Threads"]');
  assert.equal(await grid.getAttribute('aria-rowcount'), '4001');
  assert.ok((await rows(page, 'Threads').count()) < 60);
  await page.focus('.flat-row[tabindex="0"]');
  await page.keyboard.press('End');
  await eventually(async () => (await page.evaluate(() => document.activeElement?.getAttribute('aria-rowindex'))) === '4001', 'the last row');
  await grid.evaluate((element) => {
    element.scrollTop = 0;
  });
  await tick(page, fixture, 2);
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('aria-rowindex')), '4001');
  await page.keyboard.press('Home');
  await eventually(async () => (await page.evaluate(() => document.activeElement?.getAttribute('aria-rowindex'))) === '2', 'the first row');
});

test('threads: the order stands still while the pointer is in the table', async (t) => {
  const { page, fixture } = await open(t, { hash: '#threads', set: (_, d) => (d.threads = 30) });
  await tick(page, fixture, 2);
  const order = async () => (await rows(page, 'Threads').locator('.flat-td:first-child').allTextContents()).join();
  await page.hover('.flat-row >> nth=3');
  await tick(page, fixture);
  const before = await order();
  await tick(page, fixture, 4);
  assert.equal(await order(), before);
  await page.mouse.move(5, 5);
  await eventually(async () => {
    await tick(page, fixture);
    return (await order()) !== before;
  }, 'a new order once the pointer has left');
});

test('memory: kinds filter the mappings; the table of 60,000 mounts what is in sight', async (t) => {
  const { page } = await open(t, { hash: '#memory', set: (_, d) => (d.mapCount = 60_000) });
  await page.waitForSelector('.types');
  const grid = page.locator('[role="grid"][aria-label="Mappings"]');
  await eventually(async () => Number(await grid.getAttribute('aria-rowcount')) >= 60_000, 'all mappings');
  assert.ok((await rows(page, 'Mappings').count()) < 60);
  assert.ok((await page.locator('.process *').count()) < 3000, 'the page stays small');
  await page.click('.types-pick:has-text("heap")');
  await eventually(async () => (await rows(page, 'Mappings').count()) === 1, 'one heap');
  assert.match(page.url(), /kind=heap/);
  await page.click('.types-pick:has-text("heap")');
  await eventually(async () => (await rows(page, 'Mappings').count()) > 10, 'all again');
});

test('memory: W+X is warned of in words', async (t) => {
  const { page } = await open(t, { hash: '#memory?q=w%2Bx' });
  await eventually(async () => (await rows(page, 'Mappings').count()) === 1, 'the one W+X mapping');
  assert.match(await rows(page, 'Mappings').first().textContent(), /rwxp.*W\+X/);
  assert.match(await text(page, '[data-region="maps"] .panel-foot'), /1 W\+X/);
});

test('memory: the address box, history and length', async (t) => {
  const { page, fixture } = await open(t, { hash: '#memory' });
  await page.waitForSelector('[data-hex]');
  await eventually(async () => /ELF/.test(await text(page, '.hex')), 'the first mapping');
  const go = async (what) => {
    await page.fill('[data-address]', what);
    await page.keyboard.press('Enter');
  };
  const value = () => page.inputValue('[data-address]');
  await go('heap+0x10');
  await eventually(async () => /hello heap/.test(await text(page, '.hex')), 'the heap');
  const heap = await value();
  assert.match(heap, /^0x[0-9a-f]{16}$/);
  await go('+0x100');
  await eventually(async () => BigInt(await value()) === BigInt(heap) + 0x100n, 'a step on');
  await page.keyboard.press('Escape');
  await page.focus('.hex');
  await page.keyboard.press('Alt+ArrowLeft');
  await eventually(async () => (await value()) === heap, 'back');
  await page.keyboard.press('Alt+ArrowRight');
  await eventually(async () => BigInt(await value()) === BigInt(heap) + 0x100n, 'forward');
  assert.ok(page.url().includes(`addr=${await value()}`));
  await go('nowhere');
  await page.waitForSelector('#goto-problem:has-text("Neither a hex address nor the name of a mapping.")');
  await page.selectOption('select[aria-label="Length"]', '65536');
  await eventually(() => fixture.requests.some((r) => r.includes('length=65536')), 'a longer read');
  await eventually(async () => (await page.locator('.hex').getAttribute('aria-rowcount')) === '4097', '4096 rows');
  assert.ok((await page.locator('.hex-row').count()) < 60, 'only rows in sight are mounted');
  assert.match(page.url(), /len=65536/);
});

test('memory: keys in the bytes, the inspector in both orders, the pointer followed', async (t) => {
  const { page } = await open(t, { hash: '#memory' });
  await page.waitForSelector('[data-hex]');
  await page.fill('[data-address]', 'heap');
  await page.keyboard.press('Enter');
  await eventually(async () => /hello heap/.test(await text(page, '.hex')), 'the heap');
  await page.focus('.hex');
  for (let i = 0; i < 8; i++) await page.keyboard.press('ArrowRight');
  await page.waitForSelector('#byte-8.hex-cursor');
  const reading = (name) =>
    page.locator('.reading', { has: page.locator(`.reading-name:text-is("${name}")`) }).locator('.reading-value').textContent();
  assert.equal(await reading('pointer'), '0x000055d0c1a00010');
  assert.match(await reading('points to'), /^R postgres \+0x10/);
  await page.keyboard.press('e');
  await eventually(async () => (await reading('pointer')) === '0x1000a0c1d0550000', 'big-endian');
  await page.keyboard.press('e');
  await page.keyboard.press('Shift+ArrowDown');
  await page.waitForSelector('.inspector-at:has-text("17 bytes")');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await eventually(async () => (await page.inputValue('[data-address]')) === '0x000055d0c1a00010', 'the pointer’s end');
});

test('memory: words with what they point to', async (t) => {
  const { page } = await open(t, { hash: '#memory' });
  await page.waitForSelector('[data-hex]');
  await page.fill('[data-address]', 'heap');
  await page.keyboard.press('Enter');
  await eventually(async () => /hello heap/.test(await text(page, '.hex')), 'the heap');
  await page.focus('.hex');
  await page.keyboard.press('w');
  await page.waitForSelector('.hex-words');
  assert.match(page.url(), /view=words/);
  assert.match(await text(page, '#word-1'), /000055d0c1a00010R postgres \+0x10/);
  await page.focus('.hex');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await eventually(async () => (await page.inputValue('[data-address]')) === '0x000055d0c1a00010', 'the pointer’s end');
});

test('memory: refresh is off until asked for; changed bytes are marked and counted; it stops in another section', async (t) => {
  const { page, fixture } = await open(t, { hash: '#memory' });
  await page.waitForSelector('[data-hex]');
  await page.fill('[data-address]', 'heap');
  await page.keyboard.press('Enter');
  await eventually(async () => /hello heap/.test(await text(page, '.hex')), 'the heap');
  const asked = count(fixture, '/api/processes/memory');
  await tick(page, fixture, 3);
  await page.waitForTimeout(1300);
  assert.equal(count(fixture, '/api/processes/memory'), asked, 'no read by itself');
  await page.click('text=refresh 1 s');
  await page.waitForSelector('.hex-changed');
  assert.match(await text(page, '.panel-hex .panel-foot'), /1 bytes changed/);
  const style = await page.locator('.hex-changed').first().evaluate((e) => {
    const s = getComputedStyle(e);
    return [s.textDecorationLine, s.boxShadow !== 'none'];
  });
  assert.deepEqual(style, ['underline', true]);
  await eventually(() => count(fixture, '/api/processes/memory') >= asked + 3, 'reads by the timer');
  await page.keyboard.press('Escape');
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press('2');
  await page.waitForSelector('.section-threads');
  await page.waitForTimeout(1200);
  const left = count(fixture, '/api/processes/memory');
  await page.waitForTimeout(1500);
  assert.equal(count(fixture, '/api/processes/memory'), left);
});

test('memory: bytes past a mapping are hatched with the reason once; none at all is a refusal', async (t) => {
  const { page } = await open(t, { hash: '#memory?addr=0x00007ffe4b9feff0&len=1024' });
  await page.waitForSelector('.hex');
  await page.fill('[data-address]', 'stack+20f80');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.hex');
  await page.fill('[data-address]', 'vdso+1f80');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.hex-none');
  assert.match(await text(page, '.hexview .line-warn'), /896 bytes from 7ffe4ba05000 are not readable: nothing is mapped there/);
  assert.equal(await page.locator('.hexview .line-warn').count(), 1);
  await page.fill('[data-address]', '0x1000');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.panel-hex .state-bad:has-text("nothing is mapped there")');
  await page.fill('[data-address]', '0xffffffffff600000');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.panel-hex .state-bad:has-text("the mapping is --xp")');
});

test('files: peers are links, candidates say so, shared ones list their owners', async (t) => {
  const { page } = await open(t, { hash: '#files' });
  await page.waitForSelector('.peers-svg');
  const row = (fd) => rows(page, 'File descriptors').filter({ has: page.locator(`.flat-td:first-child:text-is("${fd}")`) });
  assert.match(await row(6).textContent(), /candidate 1210 nginx fd 12/);
  assert.match(await row(5).textContent(), /shared with 911 postgres fd 5, 912 postgres fd 5/);
  assert.match(await row(1).textContent(), /other end 20151 bash fd 4/);
  assert.equal(await page.locator('.peer-dashed').count(), 1);
  assert.equal(await page.locator('.peer-diamond').count(), 1);
  const label = await page.locator('.peers-svg').getAttribute('aria-label');
  assert.match(label, /fd 6 to and from nginx 1210 \(candidate\)/);
  assert.match(label, /shared with postgres 911, postgres 912 \+1/);
  assert.match(await text(page, '.section .line-warn'), /1 process was denied/);
  await row(1).locator('a').click();
  await eventually(async () => (await text(page, '.identity-name')) === 'bash', 'the peer');
  assert.match(page.url(), /\/process\/20151\?start=\d+#files$/);
  await page.goBack();
  await eventually(async () => (await text(page, '.identity-name')) === 'postgres', 'back');
  // In the picture too, without loading the page anew.
  await page.evaluate(() => (window.same = true));
  await page.click('.peer-link:has-text("nginx 1210 fd 12")');
  await eventually(async () => (await text(page, '.identity-name')) === 'nginx', 'the peer in the picture');
  assert.match(page.url(), /\/process\/1210\?start=\d+#files$/);
  assert.equal(await page.evaluate(() => window.same), true);
});

test('environment: secrets are blurred until pressed, and not searched while they are', async (t) => {
  const { page } = await open(t, { hash: '#environment' });
  await page.waitForSelector('text=PGDATA');
  assert.equal(await page.locator('.secret-blur').count(), 3);
  assert.ok(!(await text(page, '.section')).includes('correct horse'));
  assert.equal(await page.locator('[title*="correct horse"]').count(), 0);
  await page.keyboard.press('/');
  await page.keyboard.type('horse');
  await page.waitForSelector('text=Nothing matches horse.');
  await page.fill('[data-filter]', 'PGPASSWORD');
  await page.click('.secret');
  await page.waitForSelector('.secret:has-text("correct horse")');
  await page.fill('[data-filter]', 'horse');
  await eventually(async () => (await rows(page, 'Environment').count()) === 1, 'a shown value is searched');
  await page.fill('[data-filter]', 'NOEQUALS');
  await page.waitForSelector('text=no “=”');
});

test('auxv: addresses lead to memory, texts and their errors are shown', async (t) => {
  const { page } = await open(t, { hash: '#auxv' });
  await page.waitForSelector('text=AT_PHDR');
  assert.match(await text(page, '.section'), /“\/usr\/lib\/postgresql\/17\/bin\/postgres”/);
  assert.match(await text(page, '.section'), /the address is not readable/);
  await page.click('.address:text-is("0x000055d0c1a00040")');
  await page.waitForSelector('[data-hex]');
  assert.match(page.url(), /#memory\?addr=0x000055d0c1a00040$/);
});

test('signals: only what is not default; a row opens to its threads; masks can be copied', async (t) => {
  const { page } = await open(t, { hash: '#signals', permissions: ['clipboard-read', 'clipboard-write'] });
  await page.waitForSelector('.sigs');
  const names = await page.locator('.sig-open').allTextContents();
  assert.deepEqual(names.map((n) => n.slice(2)), ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGUSR1', 'SIGPIPE', 'SIGTERM', 'SIGCHLD', 'RT 34']);
  const usr1 = page.locator('tr', { has: page.locator('.sig-open:has-text("SIGUSR1")') });
  assert.match(await usr1.textContent(), /10P 1\/6···C/);
  await usr1.locator('.sig-open').click();
  assert.equal(await page.locator('.sig-thread').count(), 6);
  await page.locator('.masks .address').nth(3).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), '0x0000000000001000');
});

test('context: family as links, namespaces that are its own marked', async (t) => {
  const { page, fixture } = await open(t, { pid: 902, hash: '#context' });
  await page.waitForSelector('text=PID in namespaces');
  await page.waitForSelector('.links a:has-text("3310 postgres")');
  assert.match(await text(page, '[data-region="namespaces"]'), /mnt4026532800its own/);
  assert.match(await text(page, '[data-region="limits"]'), /Max stack size8,388,608unlimited/);
  await page.click('.links a:has-text("3310 postgres")');
  await eventually(async () => /^pid 3310/.test(await text(page, '.identity-caption')), 'the child');
  await eventually(() => fixture.process.streams.size === 1, 'one stream: that of the child');
});

test('another process: nothing of the one before is left', async (t) => {
  const { page } = await open(t, { hash: '#environment' });
  await page.waitForSelector('text=PGDATA');
  await page.click('.secret >> nth=0');
  await page.waitForSelector('text=correct horse');
  await page.click('.figure:has-text("Parent") a');
  await eventually(async () => /^pid 902/.test(await text(page, '.identity-caption')), 'the parent');
  assert.ok(!(await page.content()).includes('correct horse'));
});

test('copies: curl without secrets, JSON, TSV, memory in every form', async (t) => {
  const { page, fixture } = await open(t, { hash: '#environment', permissions: ['clipboard-read', 'clipboard-write'] });
  await page.waitForSelector('text=PGDATA');
  const copy = async (name) => {
    await page.evaluate(() => document.activeElement?.blur());
    await page.keyboard.press('Y');
    await page.click(`[role="menuitem"]:text-is("${name}")`);
    await page.waitForTimeout(80);
    return page.evaluate(() => navigator.clipboard.readText());
  };
  const port = new URL(fixture.url).port;
  assert.equal(
    await copy('curl'),
    `curl -s 'http://127.0.0.1:${port}/api/processes/environment?pid=3310&start_time_ticks=807'`,
  );
  const json = JSON.parse(await copy('JSON'));
  assert.deepEqual(json.find((e) => e.name === 'PGPASSWORD'), { name: 'PGPASSWORD', value: '(blurred)' });
  assert.match(await copy('TSV'), /^name\tvalue\nPATH\t/);
  await page.keyboard.press('3');
  await page.waitForSelector('[data-hex]');
  await page.evaluate(() => document.activeElement?.blur());
  await page.click('.panel-hex [data-copy]');
  const forms = await page.locator('[role="menuitem"]').allTextContents();
  assert.deepEqual(forms, ['curl', 'hex', 'dump', 'C', 'Python', 'base64', 'gdb x/gx']);
  await page.click('[role="menuitem"]:text-is("gdb x/gx")');
  await page.waitForTimeout(80);
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'x/32gx 0x000055d0c1a00000');
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press('y');
  await page.waitForTimeout(80);
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), page.url());
});

test('keyboard: sections by number, regions by F6, the sheet lists the keys, none in a field', async (t) => {
  const { page } = await open(t);
  const names = ['overview', 'threads', 'memory', 'files', 'environment', 'auxv', 'signals', 'context', 'stacks', 'snapshot'];
  for (const [i, name] of names.entries()) {
    await page.keyboard.press(String((i + 1) % 10));
    await page.waitForSelector(`.section-${name}`);
    assert.ok(page.url().includes(`#${name}`));
  }
  await page.keyboard.press('8');
  await page.waitForSelector('.section-context');
  const seen = [];
  for (let i = 0; i < 6; i++) {
    await page.keyboard.press('F6');
    seen.push(await page.evaluate(() => document.activeElement?.closest('[data-region]')?.dataset.region));
  }
  assert.deepEqual(seen.slice(0, 4), ['bar', 'identity', 'strip', 'sections']);
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press('5');
  await page.waitForSelector('text=PGDATA');
  await page.keyboard.press('/');
  await page.keyboard.type('8 r');
  assert.equal(await page.inputValue('[data-filter]'), '8 r');
  assert.ok(page.url().includes('#environment'));
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  await page.keyboard.press('?');
  await page.waitForSelector('dialog[open]');
  const sheet = await text(page, 'dialog[open]');
  for (const words of ['Threads', 'hold / live', 'follow the pointer', 'refresh the panel']) assert.ok(sheet.includes(words), words);
  await page.keyboard.press('Escape');
});

test('keyboard: everything can be reached by Tab, and each stop is seen', async (t) => {
  const { page } = await open(t, { hash: '#memory' });
  await page.waitForSelector('[data-hex]');
  const stops = [];
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press('Tab');
    const stop = await page.evaluate(() => {
      const e = document.activeElement;
      if (!e || e === document.body) return null;
      const box = e.getBoundingClientRect();
      return { label: e.getAttribute('aria-label') ?? e.textContent.trim().slice(0, 30), outline: getComputedStyle(e).outlineStyle, seen: box.width > 0 && box.height > 0 };
    });
    if (stop === null) break;
    stops.push(stop);
  }
  const labels = stops.map((s) => s.label);
  for (const want of ['Address space', 'Filter mappings', 'Address', 'Length', 'Bytes', 'Go', 'words']) assert.ok(labels.includes(want), `${want} in ${labels}`);
  assert.ok(labels.some((l) => l.startsWith('Go to pointer')) || labels.includes('little-endian'));
  for (const stop of stops) {
    assert.ok(stop.seen, `${stop.label} has no size`);
    assert.notEqual(stop.outline, 'none', `${stop.label} shows no focus`);
  }
});

test('an older answer never replaces a newer one', async (t) => {
  const { page } = await open(t, { hash: '#memory' });
  await page.waitForSelector('[data-hex]');
  await eventually(async () => /ELF/.test(await text(page, '.hex')), 'the first mapping');
  let held;
  await page.route('**/api/processes/memory?**', async (route) => {
    if (!held && route.request().url().includes('7f3c1a')) {
      held = route;
      return;
    }
    await route.continue();
  });
  await page.fill('[data-address]', '0x7f3c1a000000');
  await page.keyboard.press('Enter');
  await eventually(() => held, 'the slow request');
  await page.fill('[data-address]', 'heap');
  await page.keyboard.press('Enter');
  await eventually(async () => /hello heap/.test(await text(page, '.hex')), 'the newer answer');
  await held.continue().catch(() => {});
  await page.waitForTimeout(300);
  assert.match(await text(page, '.hex'), /hello heap/);
  assert.match(await text(page, '.hex .hex-space .hex-address'), /^55d0/);
});

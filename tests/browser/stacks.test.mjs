// The Stacks section: what it shows of each place, when it asks, its states, its
// layout, and what a hostile process can do to it.

import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { HOSTILE } from './fixture/process.mjs';
import { startFixture } from './fixture/server.mjs';
import { axe, newPage, until, useBrowser } from './lib.mjs';

const held = useBrowser({ before, after });
const PID = 3310;

async function open(t, { hash = '#stacks', set, ...options } = {}) {
  const fixture = await startFixture({ manual: true });
  t.after(() => fixture.close());
  set?.(fixture.process, fixture);
  const identity = fixture.world.identity(PID);
  const page = await newPage(t, held, `${fixture.url}/process/${PID}?start=${identity.start_time_ticks}${hash}`, options);
  await page.waitForSelector('.process .identity-name:not(:text("····"))');
  return { page, fixture, detail: fixture.process, identity };
}

const asked = (fixture) => fixture.requests.filter((r) => r.startsWith('/api/processes/stacks')).length;
const stack = (page, tid) => page.locator('.stack', { has: page.locator(`.stack-name .mono:text-is("${tid}")`) });

test('each place: threads, state, call with arguments, wait channel, frames and how the walk ended', async (t) => {
  const { page } = await open(t);
  await page.waitForSelector('.stack');
  assert.equal(await page.textContent('.section-current'), 'Stacks');
  assert.equal(await page.locator('.stack').count(), 5);
  assert.match(await page.textContent('.panel-hint'), /^6 threads in 5 places$/);

  const first = stack(page, 3310);
  assert.equal(await first.locator('.stack-title').textContent(), '1 threadS sleeping');
  assert.equal(await first.locator('.stack-call').textContent(), 'epoll_wait(0x4, 0x55d0c3100000, 0x40, 0xffffffffffffffff, 0x0, 0x0)');
  assert.equal(await first.locator('.stack-wait').textContent(), 'waits in ep_poll');
  const rows = await first.locator('tbody tr').evaluateAll((list) => list.map((row) => [...row.cells].map((c) => c.innerText.replace(/\s+/g, ' ').trim())));
  assert.deepEqual(rows[0], ['0', 'epoll_wait+0x1f registers', 'epoll_wait.c:30', 'libc.so.6', rows[0][4]]);
  assert.deepEqual(rows[1], ['', 'WaitEventSetWaitBlock inlined', 'latch.c:1584', '', '']);
  assert.deepEqual(rows[2], ['1', 'WaitEventSetWait+0x1f', 'latch.c:1046', 'postgres', rows[2][4]]);
  assert.equal(rows.at(-1)[1], '_start+0x1f frame pointer');
  assert.equal(await first.locator('tbody tr').first().locator('.frame-source').getAttribute('title'), '/build/sysdeps/unix/sysv/linux/epoll_wait.c:30');
  assert.equal(await first.locator('.kernel-line').first().isVisible(), false);
  await first.locator('.kernel-head').click();
  assert.equal(await first.locator('.kernel-line').first().innerText(), 'ep_poll+0x2f1/0x3c0');

  const second = stack(page, 3318);
  const marks = await second.locator('.tag').allTextContents();
  assert.deepEqual(marks, ['it moved', 'registers', 'signal frame', 'guess', 'frames may be missing']);
  assert.match(await second.locator('.walk-end').first().innerText(), /The walk ended: no unwind information at 0x7f3c22000040/);
  assert.match(await second.innerText(), /no symbol/);
  assert.match(await second.innerText(), /Kernel stack: not permitted to read it, or it has none\./);

  const workers = stack(page, 3319);
  assert.equal(await workers.locator('.stack-title').textContent(), '2 threadsS sleeping');
  assert.deepEqual(await workers.locator('.stack-name').allTextContents(), [
    '3319 io worker io_uring_enter(0xb, 0x0, 0x1, 0x1, 0x0, 0x0) fd 11 in Files',
    '3320 io worker io_uring_enter(0xc, 0x0, 0x1, 0x1, 0x0, 0x0) fd 12 in Files',
  ]);
  // From what a thread is blocked on to its descriptor.
  assert.equal(await stack(page, 3318).locator('.fd-link').count(), 0, 'futex has none');
  await first.locator('.fd-link').click();
  await page.waitForSelector('.section-files .flat-on');
  assert.match(await page.textContent('.section-files .flat-on'), /^4epoll/);
  await page.goBack();
  await page.waitForSelector('.stack');

  assert.match(await stack(page, 3321).innerText(), /It runs: no stack without a stop\. Snapshot stops it/);
  assert.match(await stack(page, 3322).innerText(), /its stack cannot be read: permission denied/);
  assert.match(await page.textContent('.section .panel-foot'), /read from \/proc\/3310\/task\/TID\/syscall.* · stopped nothing/);
});

test('asked for when first opened and on refresh, by nothing else', async (t) => {
  const { page, fixture } = await open(t, { hash: '' });
  fixture.process.tick();
  await page.waitForTimeout(300);
  assert.equal(asked(fixture), 0);
  await page.keyboard.press('9');
  await page.waitForSelector('.stack');
  assert.equal(new URL(page.url()).hash, '#stacks');
  await page.keyboard.press('1');
  await page.keyboard.press('9');
  await page.waitForSelector('.stack');
  for (let i = 0; i < 5; i++) {
    fixture.process.tick();
    await page.waitForTimeout(300);
  }
  assert.equal(asked(fixture), 1);
  await page.keyboard.press('r');
  await until(() => asked(fixture) === 2);
  await page.click('.section >> text=Refresh');
  await until(() => asked(fixture) === 3);
  assert.deepEqual(fixture.process.posts, [], 'nothing was stopped');
});

test('an address opens in Memory; a running thread leads to the snapshot of it', async (t) => {
  const { page, fixture } = await open(t);
  await page.waitForSelector('.stack');
  const address = (await stack(page, 3310).locator('.address').first().textContent()).trim();
  await stack(page, 3310).locator('.address').first().click();
  await page.waitForSelector('[data-hex]');
  assert.match(new URL(page.url()).hash, new RegExp(`^#memory\\?addr=0x0*${address}`));
  await page.goBack();
  await page.waitForSelector('.stack');
  await stack(page, 3321).locator('.link').click();
  await page.waitForSelector('.snap-take');
  assert.equal(new URL(page.url()).hash, '#snapshot?tid=3321');
  assert.deepEqual(fixture.process.posts, [], 'a link takes none');
});

test('the filter finds threads, functions and files; it is in the address', async (t) => {
  const { page } = await open(t, { hash: '#stacks?q=latch.c' });
  await page.waitForSelector('.stack');
  assert.equal(await page.locator('.stack').count(), 1);
  await page.keyboard.press('/');
  await page.keyboard.type('walreceiver');
  await until(async () => (await page.textContent('.find-found')) === '1 of 5');
  assert.equal(new URL(page.url()).hash, '#stacks?q=walreceiver');
  await page.fill('[data-filter]', 'nothing like it');
  await page.waitForSelector('text=Nothing matches nothing like it.');
});

test('copy as text, JSON and curl', async (t) => {
  const { page, identity } = await open(t, { permissions: ['clipboard-read', 'clipboard-write'] });
  await page.waitForSelector('.stack');
  const copy = async (name) => {
    await page.click('.section [data-copy]');
    await page.click(`.copy-item:text-is("${name}")`);
    await page.waitForSelector('[data-copy]:text("Copied")');
    return page.evaluate(() => navigator.clipboard.readText());
  };
  assert.match(await copy('text'), /^pid 3310, 6 threads at .*, stopped nothing\n\n3310 postgres\nS sleeping, epoll_wait\(0x4,/);
  assert.equal(JSON.parse(await copy('JSON')).threads.length, 6);
  assert.match(await copy('curl'), new RegExp(`^curl -s 'http://127\\.0\\.0\\.1:\\d+/api/processes/stacks\\?pid=3310&start_time_ticks=${identity.start_time_ticks}'$`));
});

test('refused: the reason and a way to try again; a refresh that fails keeps what was there', async (t) => {
  const { page, fixture } = await open(t, {
    set: (_, f) => f.refuse.set('/api/processes/stacks', { status: 422, code: 'ptrace_denied', error: 'Not permitted to read pid 3310 (EPERM).' }),
  });
  await page.waitForSelector('.state-bad');
  assert.match(await page.textContent('.state-bad'), /Not permitted to read pid 3310 \(EPERM\)\./);
  fixture.refuse.clear();
  await page.click('text=Try again');
  await page.waitForSelector('.stack');
  fixture.refuse.set('/api/processes/stacks', { status: 429, code: 'busy', error: 'Too many are at it.', retryAfter: 2 });
  await page.keyboard.press('r');
  await page.waitForSelector('.section .line-bad');
  assert.match(await page.textContent('.section .line-bad'), /Could not refresh at .*Too many are at it\..*Showing/);
  assert.equal(await page.locator('.stack').count(), 5);
});

test('exited: what was read stays, refresh is off with the reason', async (t) => {
  const { page, fixture } = await open(t);
  await page.waitForSelector('.stack');
  fixture.process.end(PID);
  await page.waitForSelector('.lamp:has-text("EXITED")');
  assert.equal(await page.locator('.stack').count(), 5);
  const refresh = page.locator('.section >> text=Refresh');
  assert.equal(await refresh.isDisabled(), true);
  assert.equal(await refresh.getAttribute('title'), 'The process has ended.');
  await page.keyboard.press('r');
  assert.equal(asked(fixture), 1);
});

test('many threads: equal ones are one group, and only part of many places is mounted', async (t) => {
  const { page, fixture } = await open(t, { set: (d) => (d.threads = 600) });
  await page.waitForSelector('.stack');
  assert.match(await page.textContent('.panel-hint'), /^600 threads in [56] places$/);
  const workers = stack(page, 3319);
  await workers.locator('text=/^and \\d+ more$/').click();
  assert.equal(await workers.locator('.stack-name').count(), 200);
  fixture.process.apart = true;
  await page.keyboard.press('r');
  await page.waitForSelector('.stacks-more');
  assert.equal(await page.locator('.stack').count(), 40);
  await page.click('text=Show more');
  assert.equal(await page.locator('.stack').count(), 80);
});

for (const theme of ['dark', 'light']) {
  for (const width of [1440, 390]) {
    test(`axe: stacks, ${theme}, ${width} px`, async (t) => {
      const { page } = await open(t, { theme, width, height: width === 390 ? 844 : 900 });
      await page.waitForSelector('.stack');
      await page.click('.kernel-head >> nth=0');
      assert.deepEqual(await axe(page), []);
    });
  }
}

for (const width of [1000, 390, 320]) {
  test(`${width} px: the page scrolls neither sideways nor below its foot`, async (t) => {
    const { page } = await open(t, { width, height: 800 });
    await page.waitForSelector('.stack');
    const size = await page.evaluate(() => {
      const root = document.documentElement;
      const main = document.querySelector('.process-main');
      const list = document.querySelector('.stacks');
      // The live region of a page is one pixel below it.
      return [root.scrollWidth - innerWidth, Math.max(0, root.scrollHeight - innerHeight - 1), main.scrollWidth - main.clientWidth, list.scrollWidth - list.clientWidth];
    });
    assert.deepEqual(size, [0, 0, 0, 0]);
  });
}

test('hostile names are text', async (t) => {
  const { page } = await open(t, { set: (d) => (d.hostile = true) });
  await page.waitForSelector('.stack');
  const found = await page.evaluate((raw) => {
    const all = document.documentElement;
    return {
      images: document.querySelectorAll('img').length,
      raw: all.outerHTML.includes(raw) || /[\u202e\u001b]/.test(all.textContent),
      attributes: [...document.querySelectorAll('*')].flatMap((e) =>
        [...e.attributes].filter((a) => a.name !== 'href' && /[\u0000-\u0008\u000b-\u001f\u202e]/.test(a.value)).map((a) => `${e.className} ${a.name}`),
      ),
    };
  }, HOSTILE);
  assert.deepEqual(found, { images: 0, raw: false, attributes: [] });
  assert.ok((await page.textContent('.stacks')).includes('<img src=x onerror=alert(1)>␛[31m⟨U+202E⟩gnp.exe'));
});

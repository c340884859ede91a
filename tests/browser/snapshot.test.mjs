// The Snapshot section: what asks for one and how, what it shows, the ring and its
// change marks, every refusal, its layout, and what a hostile process can do to it.

import assert from 'node:assert/strict';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import test, { after, before } from 'node:test';
import { HOSTILE } from './fixture/process.mjs';
import { DIST, startFixture } from './fixture/server.mjs';
import { axe, newPage, until, useBrowser } from './lib.mjs';

const held = useBrowser({ before, after });
const PID = 3310;
const BUTTON = '.snap-take';

async function open(t, { hash = '#snapshot', set, ...options } = {}) {
  const fixture = await startFixture({ manual: true });
  t.after(() => fixture.close());
  set?.(fixture.process, fixture);
  const identity = fixture.world.identity(PID);
  const page = await newPage(t, held, `${fixture.url}/process/${PID}?start=${identity.start_time_ticks}${hash}`, options);
  await page.waitForSelector('.process .identity-name:not(:text("····"))');
  if (hash.startsWith('#snapshot')) await page.waitForSelector(BUTTON);
  return { page, fixture, detail: fixture.process, identity };
}

async function take(page) {
  await page.click(BUTTON);
  await page.waitForSelector('.snap');
}

async function take2(page) {
  await page.click(BUTTON);
  await page.waitForSelector('.flame-scroll');
}

const at = (page) => page.textContent('.snap-at');

test('opening the section asks for nothing; one press takes one, with the right request', async (t) => {
  const { page, fixture, detail, identity } = await open(t);
  fixture.process.tick();
  await page.waitForTimeout(300);
  assert.deepEqual(detail.posts, []);
  assert.equal(await page.innerText(BUTTON), 'Take snapshot – stops all threads for some ms S');
  assert.match(await page.textContent('.section .panel-body'), /No snapshot yet\./);
  assert.equal(await page.textContent('.section .panel-foot'), 'nothing was stopped yet');
  await take(page);
  const [{ headers, body }] = detail.posts;
  assert.deepEqual(body, { pid: PID, start_time_ticks: identity.start_time_ticks });
  assert.equal(headers['content-type'], 'application/json');
  assert.equal(headers.origin, fixture.url);
  assert.equal(headers['sec-fetch-site'], 'same-origin');
  assert.match(await page.textContent('.snap-cost'), /^stopped 6 threads for 1\.8 ms · priority fifo · \d\d:\d\d:\d\d\.\d{3}$/);
  await until(async () => (await page.textContent('[aria-live="polite"]')).includes('Snapshot: stopped 6 threads for 1.8 ms'));
  assert.equal(detail.posts.length, 1);
  await page.waitForTimeout(1500);
  assert.equal(detail.posts.length, 1, 'no timer takes another');
});

test('the thread chosen: registers with kinds and mappings, stack, code, memory at rsp', async (t) => {
  const { page } = await open(t, { hash: '#snapshot?tid=3319' });
  await take(page);
  const rows = page.locator('[role="grid"][aria-label="Threads of the snapshot"] .flat-row');
  assert.equal(await rows.count(), 6);
  assert.match(await page.textContent('.flat-on'), /3319io worker/);
  const registers = await page.$$eval('.regs tbody tr', (list) => list.map((row) => [...row.cells].map((c) => c.textContent.trim())));
  assert.equal(registers.length, 18);
  assert.deepEqual(registers.map((r) => r[0]).join(' '), 'rip rsp rbp rax rbx rcx rdx rsi rdi r8 r9 r10 r11 r12 r13 r14 r15 rflags');
  assert.match(registers[0][2], /^X libc\.so\.6\+0x118809$/);
  // The telescope goes on through the stack that was copied.
  assert.match(registers[1][2], /^S stack\+0x1ef80 → [0-9a-f]+ S stack \+0x1ef80$/);
  assert.deepEqual(registers[3].slice(1), ['fffffffffffffdfc', 'restart code, no result']);
  assert.deepEqual(registers[8].slice(1), ['0000000000000004', '4 fd 4 in Files']);
  assert.equal(registers[17][2], 'PF ZF IF');
  assert.equal(await page.locator('.regs .kind-text-code').count(), 3);
  assert.equal(await page.locator('.regs .kind-text-heap').count(), 2);
  assert.match(await page.textContent('.snap-frames .snap-title'), /frames?: .*\d+ cfi/);
  assert.match(await page.textContent('.snap-frames'), /stands in io_uring_enter/);
  assert.match(await page.textContent('.snap-frames .frames'), /pgaio_worker_main<std::vector<long/);
  assert.equal(await page.locator('.code tbody tr').count(), 32);
  assert.equal(await page.locator('.code [aria-current="true"] .code-text').textContent(), 'cmp rax, -0x1000');
  assert.equal(await page.locator('.words tbody tr').count(), 64);
  assert.match(await page.textContent('.words tbody tr >> nth=0'), /S stack \+0x1ef80/);
  assert.match(await page.textContent('.section .panel-foot'), /read by ptrace.*stopped 6 threads for 1\.8 ms with real-time priority in 1 pass/);

  await rows.nth(0).click();
  assert.equal(new URL(page.url()).hash, '#snapshot?tid=3310');
  assert.match(await page.textContent('.snap-frames .frames'), /WaitEventSetWait/);
  await page.keyboard.press('ArrowDown');
  await until(() => new URL(page.url()).hash === '#snapshot?tid=3318');
  await page.click('.regs .address >> nth=1');
  await page.waitForSelector('[data-hex]');
  assert.match(new URL(page.url()).hash, /^#memory\?addr=0x00007ffe4/);
});

test('a thread that is not in it is said; the first is shown', async (t) => {
  const { page } = await open(t, { hash: '#snapshot?tid=99' });
  await take(page);
  assert.match(await page.textContent('.line-warn'), /Thread 99 is not in this snapshot\./);
  assert.match(await page.textContent('.flat-on'), /3310/);
});

test('S takes one from any section, once however long it is held, and not while one is on its way', async (t) => {
  const { page, detail } = await open(t, { hash: '#threads' });
  let free;
  detail.snapshotHold = new Promise((done) => (free = done));
  await page.keyboard.down('S');
  await page.keyboard.down('S');
  await page.keyboard.down('S');
  await page.keyboard.up('S');
  await page.waitForSelector(`${BUTTON}:has-text("Waiting for the snapshot")`);
  assert.equal(new URL(page.url()).hash, '#snapshot');
  assert.equal(await page.getAttribute(BUTTON, 'aria-disabled'), 'true');
  await page.keyboard.press('S');
  await page.click(BUTTON, { force: true });
  await page.waitForTimeout(200);
  assert.equal(detail.posts.length, 1);
  free();
  await page.waitForSelector('.snap');
  assert.equal(await at(page), '1 of 1');
  await page.evaluate(() => document.querySelector('.snap-take').focus());
  await page.keyboard.press('Enter');
  await until(async () => (await at(page)) === '2 of 2');
  assert.equal(await page.evaluate(() => document.activeElement.className.includes('snap-take')), true, 'the focus stays');
});

test('the ring: [ and ] walk it, changed registers are marked, the last 20 are kept', async (t) => {
  const { page, detail } = await open(t);
  await take(page);
  assert.equal(await page.locator('.reg-changed').count(), 0);
  await page.keyboard.press('S');
  await until(async () => (await at(page)) === '2 of 2');
  assert.equal(await page.locator('.reg-changed').count(), 1);
  assert.match(await page.textContent('.reg-changed'), /^r900000000000000022changed$/);
  assert.equal(await page.getAttribute('.reg-changed .reg-value', 'title'), 'changed, was 0x0000000000000001');
  assert.match(await page.textContent('.snap-registers .snap-title'), /1 changed since the one before/);
  await page.keyboard.press('[');
  assert.equal(await at(page), '1 of 2');
  assert.equal(await page.locator('.reg-changed').count(), 0);
  await page.keyboard.press('[');
  assert.equal(await at(page), '1 of 2');
  assert.equal(await page.locator('button[aria-keyshortcuts="["]').isDisabled(), true);
  await page.keyboard.press(']');
  assert.equal(await at(page), '2 of 2');
  for (let n = 3; n <= 22; n++) {
    await page.click(BUTTON);
    await until(() => detail.posts.length === n);
    await until(async () => (await page.textContent('.regs')).includes(n.toString(16).padStart(16, '0')));
  }
  assert.equal(await at(page), '20 of 20');
  for (let n = 0; n < 25; n++) await page.keyboard.press('[');
  assert.equal(await at(page), '1 of 20');
  assert.ok((await page.textContent('.regs')).includes('0000000000000003'), 'the two oldest went');
  await page.keyboard.press('1');
  await page.keyboard.press('0');
  await page.waitForSelector('.snap');
  assert.equal(await at(page), '1 of 20', 'they are kept while the page is');
});

for (const [status, code, words, retryAfter, want] of [
  [422, 'traced', 'Process 3310 is already traced by gdb (pid 77).', undefined, /already traced by gdb \(pid 77\)\./],
  [410, 'gone', 'Process 3310 has ended, or its pid now names another process.', undefined, /has ended/],
  [429, 'busy', '16 snapshots are waiting already.', 7, /16 snapshots are waiting already\. Try again in 7 s\./],
  [403, 'denied', 'Not permitted to stop pid 3310 (EPERM).', undefined, /Not permitted to stop/],
  [500, 'internal', 'Something broke.', undefined, /Something broke\./],
]) {
  test(`refused with ${status} ${code}: the reason; nothing is asked again by itself; the one before stays`, async (t) => {
    const refusal = { status, code, error: words, retryAfter };
    const { page, detail } = await open(t, { set: (d) => (d.snapshotRefusal = refusal) });
    await page.click(BUTTON);
    await page.waitForSelector('.section .state-bad');
    assert.match(await page.textContent('.section .state-bad'), want);
    await page.waitForTimeout(1200);
    assert.equal(detail.posts.length, 1);
    detail.snapshotRefusal = null;
    await take(page);
    assert.equal(await page.locator('.section .state-bad').count(), 0);
    detail.snapshotRefusal = refusal;
    await page.click(BUTTON);
    await page.waitForSelector('.section .line-bad');
    assert.match(await page.textContent('.section .line-bad'), /^No snapshot at \d\d:\d\d:\d\d: .* Showing \d\d:\d\d:\d\d\./);
    assert.equal(await at(page), '1 of 1');
  });
}

test('no answer at all is said', async (t) => {
  const { page } = await open(t);
  await page.context().route('**/api/processes/snapshot', (route) => route.abort());
  await page.click(BUTTON);
  await page.waitForSelector('.section .state-bad');
  assert.match(await page.textContent('.section .state-bad'), /The server cannot be reached\./);
});

test('not able to: the button is off and the reason stands beside it; S takes none', async (t) => {
  const { page, detail } = await open(t, { set: (d) => (d.ptrace = { available: false, reason: 'CAP_SYS_PTRACE is missing.' }) });
  await page.waitForSelector('.snap-reason');
  assert.equal(await page.textContent('.snap-reason'), 'CAP_SYS_PTRACE is missing.');
  assert.equal(await page.isDisabled(BUTTON), true);
  await page.keyboard.press('S');
  await page.waitForTimeout(300);
  assert.deepEqual(detail.posts, []);
});

test('exited: the snapshots stay, the button is off with the reason', async (t) => {
  const { page, detail } = await open(t);
  await take(page);
  detail.end(PID);
  await page.waitForSelector('.lamp:has-text("EXITED")');
  assert.equal(await page.textContent('.snap-reason'), 'The process has ended.');
  assert.equal(await page.isDisabled(BUTTON), true);
  assert.equal(await page.locator('.regs tbody tr').count(), 18);
  await page.keyboard.press('S');
  await page.waitForTimeout(300);
  assert.equal(detail.posts.length, 1);
});

test('leaving the page drops the answer that is on its way, and all that was held', async (t) => {
  const { page, detail } = await open(t, { hash: '' });
  let free;
  await page.keyboard.press('S');
  await page.waitForSelector('.snap');
  detail.snapshotHold = new Promise((done) => (free = done));
  const ended = page.waitForEvent('requestfailed', (request) => request.url().endsWith('/api/processes/snapshot'));
  await page.keyboard.press('S');
  await until(() => detail.posts.length === 2);
  await page.click('.bar >> text=List');
  await page.waitForSelector('.row');
  await ended;
  free();
  await page.goBack();
  await page.waitForSelector(BUTTON);
  assert.match(await page.textContent('.section .panel-body'), /No snapshot yet\./);
});

test('warnings, threads that were not stopped, a thread without registers, 32-bit code', async (t) => {
  const { page, detail } = await open(t, {
    set: (d) => {
      d.snapshotWarnings = ['epoll_wait returned EINTR in 1 thread.'];
      d.notStopped = [{ tid: 3340, reason: 'in uninterruptible sleep' }];
      const whole = d.snapshot.bind(d);
      d.snapshot = (row) => {
        const answer = whole(row);
        Object.assign(answer.threads[1], { registers: [], call_stack: [], disassembly: null, stack_bytes: null, syscall: null, error: 'the thread ended' });
        Object.assign(answer.threads[2], { call_stack: [], unwind_stop: '32-bit code' });
        answer.threads[2].disassembly = { ...answer.threads[2].disassembly, instructions: [], error: '32-bit code is not decoded' };
        return answer;
      };
    },
  });
  await take(page);
  const lines = await page.locator('.line-warn').allInnerTexts();
  assert.deepEqual(lines.map((l) => l.trim()), ['Thread 3340 was not stopped: in uninterruptible sleep', 'epoll_wait returned EINTR in 1 thread.']);
  await page.click('.flat-row >> nth=1');
  await page.waitForSelector('.snap-frames :text("the thread ended")');
  for (const words of ['No registers.', 'No code without registers.', 'The stack could not be read.']) {
    assert.ok((await page.textContent('.snap')).includes(words), words);
  }
  await page.click('.flat-row >> nth=2');
  await page.waitForSelector('.snap-code :text("32-bit code is not decoded")');
  assert.match(await page.textContent('.snap-code .code-raw'), /^ 483d00f0ffff/);
  assert.match(await page.textContent('.snap-frames'), /The walk ended: 32-bit code/);
  assert.equal(detail.posts.length, 1);
});

test('copy as text, one thread, JSON and curl', async (t) => {
  const { page, identity } = await open(t, { permissions: ['clipboard-read', 'clipboard-write'] });
  await take(page);
  const copy = async (name) => {
    await page.click('.section .panel-head [data-copy]');
    await page.click(`.copy-item:text-is("${name}")`);
    await page.waitForSelector('[data-copy]:text("Copied")');
    return page.evaluate(() => navigator.clipboard.readText());
  };
  assert.match(await copy('text'), /^pid 3310 at .*, stopped 6 threads for 1\.8 ms\n/);
  assert.match(await copy('this thread'), /^3310 postgres, stands in epoll_wait\nrip            0x[0-9a-f]{16} {2}\/usr\/lib/);
  assert.equal(JSON.parse(await copy('JSON')).threads[0].registers.length, 18);
  assert.match(
    await copy('curl'),
    new RegExp(`^curl -s -H 'Content-Type: application/json' -d '\\{"pid":3310,"start_time_ticks":${identity.start_time_ticks}\\}' http://127\\.0\\.0\\.1:\\d+/api/processes/snapshot$`),
  );
});

test('4,096 threads: rows in sight only', async (t) => {
  const { page } = await open(t, { set: (d) => (d.threads = 4096) });
  await take(page);
  assert.equal(await page.getAttribute('[aria-label="Threads of the snapshot"][role="grid"]', 'aria-rowcount'), '4097');
  assert.ok((await page.locator('.snap *').count()) < 1200);
});

// live opens the section and waits until the stream is heard.
const every = '.snap-every';
const stopped = (page) => page.waitForSelector(`${every}:not(:checked)`);

test('every 1 s: off at first, one at a time, the manual button off with the reason; it ends where it must and stays off', async (t) => {
  const { page, detail, fixture } = await open(t);
  assert.equal(await page.isChecked(every), false);
  await page.waitForSelector('.lamp:has-text("LIVE")');
  await page.check(every);
  await page.waitForSelector('.lamp:has-text("STOPPING"):has-text("1/s")');
  assert.equal(await page.isDisabled(BUTTON), true);
  assert.equal(await page.textContent('.snap-reason'), 'One is taken every second.');
  await until(() => detail.posts.length >= 3);
  await page.keyboard.press('S');
  // While one is on its way no other is asked for, however long it takes.
  let free;
  detail.snapshotHold = new Promise((done) => (free = done));
  let asked = -1;
  await until(async () => {
    const same = asked === detail.posts.length;
    asked = detail.posts.length;
    await page.waitForTimeout(1500);
    return same && asked === detail.posts.length;
  });
  detail.snapshotHold = null;
  free();
  await until(() => detail.posts.length > asked);
  // A walk in the ring is not pulled back by what comes.
  await page.keyboard.press('[');
  const [here, all] = (await at(page)).split(' of ').map(Number);
  assert.ok(here < all);
  await until(async () => Number((await at(page)).split(' of ')[1]) > all);
  assert.equal(Number((await at(page)).split(' of ')[0]), here);
  // Other sections keep it, with the lamp; unticking ends it and says nothing.
  await page.keyboard.press('2');
  await page.waitForSelector('.lamp:has-text("STOPPING"):has-text("1/s")');
  await page.keyboard.press('0');
  await page.uncheck(every);
  await page.waitForSelector('.lamp:has-text("NOT STOPPED")');
  assert.equal(await page.locator('.section .line-warn').count(), 0);
  await page.waitForFunction((button) => !document.querySelector(button).disabled, BUTTON);
  const quiet = async (words) => {
    await stopped(page);
    await page.waitForSelector(`.section .line-warn:has-text("${words}")`);
    await page.waitForSelector('.lamp:has-text("STOPPING")', { state: 'detached' });
    await page.waitForTimeout(300);
    const n = detail.posts.length;
    await page.waitForTimeout(1500);
    assert.equal(detail.posts.length, n, `asked again after: ${words}`);
  };

  // A failed one.
  await page.check(every);
  assert.equal(await page.locator('.section .line-warn').count(), 0);
  detail.snapshotRefusal = { status: 429, code: 'busy', error: '16 snapshots are waiting already.', retryAfter: 7 };
  await quiet('Every 1 s ended: no snapshot came.');
  assert.match(await page.textContent('.section .line-bad'), /16 snapshots are waiting already/);
  detail.snapshotRefusal = null;

  // Hold: the page stands still, and so does what it asks for.
  await page.check(every);
  await until(async () => (await page.locator('.section .line-bad').count()) === 0);
  await page.click('.bar-hold');
  await quiet('Every 1 s ended when the page was held.');
  assert.equal(await page.isDisabled(every), true);
  assert.equal(await page.getAttribute('label:has(.snap-every)', 'title'), 'The page is held.');
  await page.click('.bar-hold');

  // A hidden tab, and nothing begins again when it is seen.
  await page.check(every);
  const see = (state) =>
    page.evaluate((to) => {
      Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => to });
      document.dispatchEvent(new Event('visibilitychange'));
    }, state);
  await see('hidden');
  await see('visible');
  await quiet('Every 1 s ended when this tab was hidden.');

  // The stream breaks.
  await page.waitForSelector('.lamp:has-text("LIVE")');
  await page.check(every);
  detail.drop();
  await quiet('Every 1 s ended: the stream was lost.');

  // The process ends.
  await page.waitForSelector('.lamp:has-text("LIVE")');
  await page.check(every);
  await page.waitForSelector('.lamp:has-text("STOPPING"):has-text("1/s")');
  detail.end(PID);
  await quiet('Every 1 s ended with the process.');
  assert.equal(await page.isDisabled(every), true);
  assert.equal(fixture.requests.filter((r) => r.startsWith('/api/processes/memory')).length, 0);
});

test('every 1 s ends when the page is left, and is off when it is opened again', async (t) => {
  const { page, detail } = await open(t);
  await page.waitForSelector('.lamp:has-text("LIVE")');
  await page.check(every);
  await until(() => detail.posts.length >= 1);
  await page.click('.bar >> text=List');
  await page.waitForSelector('.row');
  await page.waitForTimeout(300);
  const n = detail.posts.length;
  await page.waitForTimeout(1500);
  assert.equal(detail.posts.length, n);
  await page.goBack();
  await page.waitForSelector(BUTTON);
  assert.equal(await page.isChecked(every), false);

  // Another target: the parent, by its link.
  await page.waitForSelector('.lamp:has-text("LIVE")');
  await page.check(every);
  const before = detail.posts.length;
  await until(() => detail.posts.length > before);
  await page.click('.identity a:text-matches("postgres")');
  await page.waitForFunction(() => location.pathname === '/process/902');
  await page.waitForSelector('.identity-caption:has-text("902")');
  await page.waitForTimeout(300);
  const left = detail.posts.length;
  await page.waitForTimeout(1500);
  assert.equal(detail.posts.length, left);
  assert.equal(await page.locator('.lamp:has-text("STOPPING")').count(), 0);
  await page.keyboard.press('0');
  await page.waitForSelector(BUTTON);
  assert.equal(await page.isChecked(every), false);
});

test('jumps: arrows inside of the listing, targets as links; the keyboard walks addresses and m opens them', async (t) => {
  const { page } = await open(t, { hash: '#snapshot?tid=3310' });
  await take(page);
  assert.match(await page.textContent('.snap-code .snap-title'), /32 instructions from rip · 2 jumps inside/);
  const row = (n) => page.locator('.code tbody tr').nth(n);
  assert.ok((await row(5).locator('.jumps line').count()) >= 2, 'both jumps run past row 5');
  assert.equal(await row(20).locator('.jumps').count(), 0);
  assert.match(await row(1).locator('.code-text').textContent(), /^ja ↓ 0x[0-9a-f]+ <epoll_wait\+0x24>$/);
  assert.match(await row(11).locator('.code-text').textContent(), /^jmp ↑ 0x/);
  await row(1).locator('.code-text .address').click();
  assert.equal(await row(10).getAttribute('class'), ' code-picked');
  assert.equal(await page.evaluate(() => document.activeElement.closest('tr').rowIndex), 11, 'the focus is there');
  assert.equal(new URL(page.url()).hash, '#snapshot?tid=3310');

  // The box is the tab stop; no address inside is one.
  assert.equal(await page.locator('.snap [data-to][tabindex="0"], .snap [data-to]:not([tabindex])').count(), 0);
  await page.focus('.snap-registers .snap-scroll');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  const to = await page.evaluate(() => document.activeElement.getAttribute('data-to'));
  assert.match(to, /^0x00007ffe/, 'rsp');
  await page.keyboard.press('End');
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowDown');
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute('data-to')), to);
  await page.keyboard.press('m');
  await page.waitForSelector('[data-hex]');
  assert.equal(new URL(page.url()).hash, `#memory?addr=${to}`);
  await page.goBack();
  await page.waitForSelector('.snap');
  await page.click('.regs >> text=fd 4 in Files');
  await page.waitForSelector('.section-files .flat-on');
  assert.match(await page.textContent('.section-files .flat-on'), /^4epoll/);
});

test('follow pointers: read once, after the stop and said so, text at the end of a chain, kept with the snapshot', async (t) => {
  const { page, detail } = await open(t);
  await take(page);
  assert.equal(detail.memoryReads, 0, 'a snapshot reads nothing by itself');
  await page.click('.snap-stack >> text=Follow pointers');
  await page.waitForSelector('.snap-line:has-text("after the stop")');
  assert.match(await page.textContent('.snap-line'), /\d+ blocks read \d\d:\d\d:\d\d\.\d{3}, after the stop/);
  const reads = detail.memoryReads;
  assert.ok(reads > 0 && reads <= 64, String(reads));
  assert.ok((await page.locator('.hop-later').count()) > 0);
  assert.equal(await page.getAttribute('.hop-later >> nth=0', 'title'), 'read after the stop');
  assert.equal(await page.isDisabled('.snap-stack >> text=Follow pointers'), true);
  await page.keyboard.press('S');
  await until(async () => (await at(page)) === '2 of 2');
  assert.equal(await page.locator('.hop-later').count(), 0);
  await page.keyboard.press('[');
  await page.waitForSelector('.hop-later');
  assert.equal(detail.memoryReads, reads);
});

test('flame graph: samples and cost, walk, search, zoom, time order, table, folded stacks, kept while new ones come', async (t) => {
  const { page } = await open(t, { permissions: ['clipboard-read', 'clipboard-write'] });
  await take(page);
  const loaded = () =>
    page.evaluate(() => performance.getEntriesByType('resource').map((r) => new URL(r.name).pathname).filter((p) => p.includes('/flameview-')));
  assert.deepEqual(await loaded(), [], 'it is loaded when it is wanted');
  await page.click('text=Flame graph');
  await page.waitForSelector('.flame-scroll');
  const [chunk, ...more] = await loaded();
  assert.deepEqual(more, []);
  const { size } = await stat(join(DIST, `${chunk}.gz`));
  assert.ok(size <= 8 * 1024, `the flame graph is ${size} bytes`);
  assert.match(await page.textContent('.flame-head'), /^1 sample, it stopped the target 1\.8 ms · 6 stacks of all threads · waiting counts as well as running$/);
  for (const n of [2, 3]) {
    await page.keyboard.press('S');
    await page.waitForSelector(`.flame-head:has-text("${n} samples")`);
  }
  assert.match(await page.textContent('.flame-head'), /each stopped the target 1\.8 ms, 5\.4 ms in all · 18 stacks/);
  assert.equal(new URL(page.url()).hash, '#snapshot?view=flame');
  const detailLine = () => page.textContent('.flame-detail');
  await page.focus('.flame-scroll');
  await page.keyboard.press('ArrowDown');
  assert.match(await detailLine(), /^all stacks · 18 of 18 stacks, 100\.0 %/);
  await page.keyboard.press('ArrowDown');
  assert.match(await detailLine(), /^_start · 12 of 18 stacks, 66\.7 % · postgres$/);
  await page.keyboard.press('ArrowRight');
  const beside = await detailLine();
  assert.match(beside, / · 3 of 18 stacks, 16\.7 %/);
  await page.keyboard.press('Enter');
  await page.waitForSelector('text=Whole width');
  // A new snapshot keeps what is walked and widened.
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('S');
  await page.waitForSelector('.flame-head:has-text("4 samples")');
  assert.equal((await detailLine()).split(' · ')[0], beside.split(' · ')[0]);
  assert.match(await detailLine(), / · 4 of 24 stacks, 16\.7 %/);
  await page.focus('.flame-scroll');
  await page.keyboard.press('Escape');
  await page.waitForSelector('text=Whole width', { state: 'detached' });
  // Something is drawn, and the pointer finds what is under it.
  const colours = await page.$eval('.flame-canvas', (canvas) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const seen = new Set();
    for (let i = 0; i < data.length; i += 4) seen.add(`${data[i]} ${data[i + 1]} ${data[i + 2]} ${data[i + 3]}`);
    return seen.size;
  });
  assert.ok(colours > 8, `${colours} colours`);
  const box = await page.locator('.flame-canvas').boundingBox();
  await page.mouse.move(box.x + 20, box.y + 30);
  await until(async () => (await detailLine()).startsWith('_start · '));
  await page.mouse.click(box.x + box.width - 20, box.y + 30);
  await page.waitForSelector('text=Whole width');
  await page.mouse.move(box.x + 20, box.y + 30);
  await until(async () => !(await detailLine()).startsWith('_start'));
  await page.click('text=Whole width');

  await page.keyboard.press('/');
  await page.keyboard.type('epoll_wait');
  await page.waitForSelector('.find-found:has-text("1 boxes, 16.7 % of stacks")');
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('n');
  assert.match(await detailLine(), /^epoll_wait · 4 of 24/);
  await page.click('.flame-tools >> text=as table');
  const rows = await page.$$eval('.flame-table tbody tr', (list) => list.map((r) => [...r.cells].map((c) => c.textContent)));
  assert.deepEqual(rows, [['16.7', '16.7', 'epoll_wait', 'libc.so.6']]);
  await page.click('.flame-tools >> text=as table');
  await page.click('text=Time order');
  await page.waitForSelector('.flame-head:has-text("4 stacks of thread 3310")');
  await page.selectOption('.flame-thread', '3319');
  await page.waitForSelector('.flame-head:has-text("4 stacks of thread 3319")');
  await page.click('text=Left-heavy');
  await page.check('text=without threads in a system call');
  await page.waitForSelector('.flame-head:has-text("4 stacks of all threads · threads in a system call left out")');
  await page.click('[data-copy]');
  await page.click('.copy-item:text-is("folded stacks")');
  await page.waitForSelector('[data-copy]:text("Copied")');
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^[^\n]+;[^\n]+ 4\n$/);
  await page.click('button:text-is("Flame graph")');
  await page.waitForSelector('.snap');
});

test('the keyboard alone: take, every 1 s, threads, the ring, an address, the flame graph and back', async (t) => {
  const { page, detail } = await open(t, { hash: '' });
  const tabTo = async (selector, key = 'Tab') => {
    for (let n = 0; n < 80; n++) {
      if (await page.evaluate((wanted) => document.activeElement?.matches(wanted), selector)) return;
      await page.keyboard.press(key);
    }
    assert.fail(`${selector} is not reached by ${key}`);
  };
  await page.keyboard.press('0');
  await page.waitForSelector(BUTTON);
  await tabTo(BUTTON);
  await page.keyboard.press('Enter');
  await page.waitForSelector('.snap');
  await tabTo(every);
  await page.keyboard.press('Space');
  await page.waitForSelector('.lamp:has-text("STOPPING")');
  assert.equal(await page.locator('.held-line').count(), 0, 'Space is the switch here');
  await until(() => detail.posts.length >= 3);
  await page.keyboard.press('Space');
  await page.waitForSelector('.lamp:has-text("NOT STOPPED")');
  await page.waitForFunction((button) => !document.querySelector(button).disabled, BUTTON);
  const ring = await at(page);
  await page.keyboard.press('[');
  assert.notEqual(await at(page), ring);
  await tabTo('.snap-threads [role="row"]');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await until(() => /tid=33/.test(page.url()));
  await tabTo('.snap-stack .button');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.snap-line:has-text("after the stop")');
  await tabTo('[aria-pressed].button-text', 'Shift+Tab');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.flame-scroll');
  await tabTo('.flame-scroll');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  assert.match(await page.textContent('.flame-detail'), /^_start · /);
  await tabTo('[aria-pressed].button-text', 'Shift+Tab');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.snap');
  await tabTo('.snap-registers .snap-scroll');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('m');
  await page.waitForSelector('[data-hex]');
});

test('flame graph: a step costs little script, nothing is drawn while nothing changes', async (t) => {
  const { page, detail } = await open(t, { hash: '#snapshot?view=flame', set: (d) => (d.threads = 60) });
  for (let n = 1; n <= 6; n++) {
    await page.click(BUTTON);
    await page.waitForSelector(`.flame-head:has-text("${n * 60} stacks")`);
  }
  await page.evaluate(() => {
    const clear = CanvasRenderingContext2D.prototype.clearRect;
    window.cleared = 0;
    CanvasRenderingContext2D.prototype.clearRect = function (...args) {
      if (this.canvas.className === 'flame-canvas') window.cleared++;
      return clear.apply(this, args);
    };
  });
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  const script = async () => (await session.send('Performance.getMetrics')).metrics.find((m) => m.name === 'ScriptDuration').value;
  await page.focus('.flame-scroll');
  const keys = ['ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'ArrowRight', 'ArrowUp', 'ArrowUp', 'Home'];
  for (const key of keys) await page.keyboard.press(key);
  const from = await script();
  for (let round = 0; round < 3; round++) for (const key of keys) await page.keyboard.press(key);
  const each = ((await script()) - from) * (1000 / (3 * keys.length));
  t.diagnostic(`${each.toFixed(2)} ms of script a step`);
  assert.ok(each < 10, `${each} ms of script a step`);
  await page.waitForTimeout(300);
  const drawn = await page.evaluate(() => window.cleared);
  assert.ok(drawn > 0);
  // An event of the stream is no reason to draw the ring again.
  detail.tick();
  detail.tick();
  await page.waitForTimeout(500);
  assert.equal(await page.evaluate(() => window.cleared), drawn);
});

test('reduced motion: nothing moves by itself while the flame graph and the registers stand', async (t) => {
  const { page, detail } = await open(t, { reducedMotion: 'reduce', hash: '#snapshot?view=flame' });
  await take2(page);
  const before = detail.posts.length;
  const still = await page.evaluate(async () => {
    await new Promise((done) => setTimeout(done, 300));
    return document.getAnimations().length;
  });
  assert.equal(still, 0);
  assert.equal(detail.posts.length, before);
});

for (const theme of ['dark', 'light']) {
  for (const width of [1440, 390]) {
    test(`axe: snapshot, ${theme}, ${width} px`, async (t) => {
      const { page, detail } = await open(t, { theme, width, height: width === 390 ? 844 : 900 });
      assert.deepEqual(await axe(page), [], 'none yet');
      detail.snapshotWarnings = ['epoll_wait returned EINTR in 1 thread.'];
      await take(page);
      await page.click(BUTTON);
      await page.waitForSelector('.reg-changed');
      await page.click('.snap-stack >> text=Follow pointers');
      await page.waitForSelector('.snap-line:has-text("after the stop")');
      await page.click('.code-text .address >> nth=0');
      assert.deepEqual(await axe(page), [], 'two taken, pointers followed, a jump');
      await page.click('text=Flame graph');
      await page.focus('.flame-scroll');
      await page.keyboard.press('ArrowDown');
      assert.deepEqual(await axe(page), [], 'flame graph');
      await page.click('text=Time order');
      await page.click('.flame-tools >> text=as table');
      await page.check(every);
      await page.waitForSelector('.lamp:has-text("STOPPING"):has-text("1/s")');
      assert.deepEqual(await axe(page), [], 'table, time order, every 1 s');
      await page.uncheck(every);
      await page.click('button:text-is("Flame graph")');
      await page.waitForFunction((button) => !document.querySelector(button).disabled, BUTTON);
      detail.snapshotRefusal = { status: 422, code: 'traced', error: 'Already traced by gdb (pid 77).' };
      await page.click(BUTTON);
      await page.waitForSelector('.section .line-bad');
      detail.end(PID);
      await page.waitForSelector('.snap-reason');
      assert.deepEqual(await axe(page), [], 'refused, exited');
    });
  }
}

for (const width of [1440, 1100, 1000, 390, 320]) {
  test(`${width} px: nothing scrolls sideways, no panel lies over another`, async (t) => {
    const { page } = await open(t, { width, height: 800 });
    await take(page);
    const wrong = await page.evaluate(() => {
      const out = [];
      const root = document.documentElement;
      const main = document.querySelector('.process-main');
      if (root.scrollWidth > innerWidth) out.push(`page ${root.scrollWidth} wide`);
      // The live region of a page is one pixel below it.
      if (root.scrollHeight > innerHeight + 1) out.push(`page ${root.scrollHeight} high`);
      if (main.scrollWidth > main.clientWidth + 1) out.push(`main ${main.scrollWidth}`);
      const boxes = [...document.querySelectorAll('.snap > .panel')].map((e) => ({ name: e.className, box: e.getBoundingClientRect() }));
      for (const [i, a] of boxes.entries()) {
        if (a.box.height < 100) out.push(`${a.name} is ${a.box.height} px high`);
        if (a.box.right > innerWidth + 1) out.push(`${a.name} ends at ${a.box.right}`);
        for (const b of boxes.slice(i + 1)) {
          const x = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
          const y = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
          if (x > 1 && y > 1) out.push(`${a.name} over ${b.name}`);
        }
      }
      return out;
    });
    assert.deepEqual(wrong, []);
    await page.setViewportSize({ width, height: 680 });
    const clear = await page.evaluate(() => {
      const body = document.querySelector('.section-snapshot > .panel > .panel-body');
      const foot = document.querySelector('.section-snapshot > .panel > .panel-foot').getBoundingClientRect();
      const low = document.querySelector('.snap').getBoundingClientRect().bottom;
      return low <= foot.top + 1 || (getComputedStyle(body).overflowY === 'auto' && body.getBoundingClientRect().bottom <= foot.top + 1);
    });
    assert.ok(clear, 'a low screen: nothing stands behind the foot');
    await page.setViewportSize({ width, height: 800 });
    await page.click('text=Flame graph');
    await page.waitForSelector('.flame-scroll');
    const wide = await page.evaluate(() =>
      [...document.querySelectorAll('.flame, .flame *')]
        .map((e) => ({ name: e.className, box: e.getBoundingClientRect() }))
        .filter(({ box }) => box.right > innerWidth + 1)
        .map(({ name, box }) => `${name} ends at ${box.right}`),
    );
    assert.deepEqual(wide, []);
    await page.check(every);
    await page.waitForSelector('.lamp:has-text("STOPPING")');
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width);
    const bar = await page.$$eval('.bar, .bar .lamp, .bar button', (list) => list.map((e) => e.getBoundingClientRect().right));
    assert.ok(Math.max(...bar) <= width + 1, `the bar ends at ${Math.max(...bar)}`);
    assert.ok((await page.locator('.flame-scroll').boundingBox()).height >= 100);
  });
}

test('hostile names are text', async (t) => {
  const { page } = await open(t, { set: (d) => (d.hostile = true) });
  await take(page);
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
  const text = '<img src=x onerror=alert(1)>␛[31m⟨U+202E⟩gnp.exe';
  await page.evaluate(() => {
    const fill = CanvasRenderingContext2D.prototype.fillText;
    window.drawn = [];
    CanvasRenderingContext2D.prototype.fillText = function (...args) {
      window.drawn.push(args[0]);
      return fill.apply(this, args);
    };
  });
  await page.click('text=Flame graph');
  await page.waitForSelector('.flame-scroll');
  await page.focus('.flame-scroll');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await until(() => page.evaluate(() => window.drawn.length > 3));
  assert.deepEqual(await page.evaluate(() => window.drawn.filter((words) => /[\u0000-\u001f\u202e]/.test(words))), []);
  assert.ok((await page.textContent('.flame-detail')).startsWith(text));
  await page.click('.flame-tools >> text=as table');
  assert.ok((await page.textContent('.flame-table')).includes(text));
  assert.equal(await page.locator('img').count(), 0);
  await page.click('button:text-is("Flame graph")');
  await page.waitForSelector('.snap-code');
  assert.ok((await page.textContent('.snap-code')).includes('<img src=x onerror=alert(1)>␛[31m⟨U+202E⟩gnp.exe'));
});

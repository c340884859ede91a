// The Snapshot section: what asks for one and how, what it shows, the ring and its
// change marks, every refusal, its layout, and what a hostile process can do to it.

import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { HOSTILE } from './fixture/process.mjs';
import { startFixture } from './fixture/server.mjs';
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
  assert.match(registers[1][2], /^S stack\+0x1ef80$/);
  assert.deepEqual(registers[3].slice(1), ['fffffffffffffdfc', 'restart code, no result']);
  assert.deepEqual(registers[8].slice(1), ['0000000000000004', '4']);
  assert.equal(await page.locator('.regs .kind-text-code').count(), 3);
  assert.equal(await page.locator('.regs .kind-text-heap').count(), 2);
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

for (const theme of ['dark', 'light']) {
  for (const width of [1440, 390]) {
    test(`axe: snapshot, ${theme}, ${width} px`, async (t) => {
      const { page, detail } = await open(t, { theme, width, height: width === 390 ? 844 : 900 });
      assert.deepEqual(await axe(page), [], 'none yet');
      detail.snapshotWarnings = ['epoll_wait returned EINTR in 1 thread.'];
      await take(page);
      await page.click(BUTTON);
      await page.waitForSelector('.reg-changed');
      assert.deepEqual(await axe(page), [], 'two taken');
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
  assert.ok((await page.textContent('.snap-code')).includes('<img src=x onerror=alert(1)>␛[31m⟨U+202E⟩gnp.exe'));
});

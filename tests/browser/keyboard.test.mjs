// One walk through everything by the keyboard alone: from the list to a process, through
// its sections, a snapshot, an address in memory, into the space, its list, and back.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startFixture } from './fixture/server.mjs';
import { newPage, until } from './lib.mjs';
import { useSpaceBrowser } from './space-lib.mjs';

const held = useSpaceBrowser({ before, after });
const SECTIONS = ['overview', 'threads', 'memory', 'files', 'environment', 'auxv', 'signals', 'context', 'stacks', 'snapshot'];

test('every job by the keyboard alone', async (t) => {
  const fixture = await startFixture({ manual: true, count: 60 });
  t.after(() => fixture.close());
  const page = await newPage(t, held, fixture.url);
  const { keyboard } = page;
  const says = (selector, words) => until(async () => words.test(await page.textContent(selector)));
  // reach goes on with Tab (or F6) until the focus is on what is wanted.
  const reach = async (selector, key = 'Tab') => {
    for (let n = 0; n < 120; n++) {
      if (await page.evaluate((wanted) => document.activeElement?.matches(wanted), selector)) return;
      await keyboard.press(key);
    }
    assert.fail(`${selector} is not reached by ${key}`);
  };

  // The list: find one, choose it, open it.
  await page.waitForSelector('.row');
  await keyboard.press('/');
  await page.waitForSelector('.filter-input:focus');
  await keyboard.type('pid:3310 ');
  await until(async () => (await page.locator('.row').count()) === 1);
  await keyboard.press('ArrowDown');
  await keyboard.press('Home');
  await page.waitForSelector('.row-selected');
  await keyboard.press('Enter');
  await page.waitForSelector('.identity-name:text("postgres")');
  fixture.process.tick();

  // Its sections by number; each can be scrolled or walked, which is a stop of Tab.
  for (const [i, section] of SECTIONS.entries()) {
    await keyboard.press(String((i + 1) % 10));
    await page.waitForSelector(`.section-${section}`);
  }
  // What it waits in leads to the stacks, and from there to the descriptor.
  await reach('.figure a[href$="#stacks"]');
  await keyboard.press('Enter');
  await page.waitForSelector('.stack-call');
  await reach('.fd-link');
  await keyboard.press('Enter');
  await page.waitForSelector('.section-files .flat-row[aria-selected="true"]');

  // A snapshot, and an address of it in memory.
  await keyboard.press('S');
  await page.waitForSelector('.snap-frames .address');
  await reach('.snap-frames .address, .snap-frames [data-scroll]');
  await keyboard.press('ArrowDown');
  await keyboard.press('m');
  await page.waitForSelector('.section-memory .hex');
  // Which library has an address: asked, and opened.
  await reach('.finder-field', 'Shift+Tab');
  await keyboard.type('heap 0x55d0c4350000');
  await keyboard.press('Enter');
  await says('.finder-answer', /is in \[heap\] \(heap, rw-p\)/);
  await reach('.finder-answer .button');
  await keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('[data-address]')?.value === '0x000055d0c4350000');

  // Into the space, to a process there, its list, and that process.
  await page.evaluate(() => document.activeElement?.blur());
  await keyboard.press('g');
  await keyboard.press('s');
  await page.waitForSelector('.space-canvas');
  await until(async () => !(await page.$('.space-wait')));
  await keyboard.press('/');
  await page.waitForSelector('.filter-input:focus');
  await keyboard.type('name:redis');
  await keyboard.press('Enter');
  await says('.space-panel', /PID 1502/);
  await reach('button[aria-pressed]:not(.bar-hold)', 'Shift+Tab');
  await reach('.space-tools button:first-child', 'Shift+Tab');
  await keyboard.press('Enter');
  await page.waitForSelector('.space-list .row');
  await reach('.space-list .row');
  await until(async () => (await page.getAttribute('.row:focus', 'aria-selected')) === 'true');
  await keyboard.press('Enter');
  await page.waitForSelector('.identity-name:text("redis-server")');

  // Hold and the sheet of keys work here as everywhere, and the list is two keys away.
  await keyboard.press('Space');
  await page.waitForSelector('.held-line');
  await keyboard.press('?');
  await page.waitForSelector('dialog[open]');
  await keyboard.press('Escape');
  await keyboard.press('g');
  await keyboard.press('l');
  await page.waitForSelector('.row');
  assert.equal(new URL(page.url()).pathname, '/');
});

// The list's filter by who holds a port, a file or a socket: asked of the server.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { axe, openList, texts, until, useBrowser } from './lib.mjs';

const held = useBrowser({ before, after });

const asked = (fixture) => fixture.requests.filter((path) => path.startsWith('/api/processes/holders'));

async function type(page, text) {
  await page.keyboard.press('/');
  await page.waitForSelector('.filter-input:focus');
  await page.keyboard.type(text);
}

// put gives the whole text at once: what is asked between two keys depends on the machine.
const put = (page, text) => page.fill('.filter-input', text);

// The list asks again after 10 s; here after half a second.
const sooner = () => {
  const real = window.setTimeout;
  window.setTimeout = (f, ms, ...rest) => real(f, ms === 10_000 ? 500 : ms, ...rest);
};

test('port: says that it looks, then who holds it; a chip, a link, the help', async (t) => {
  let answer;
  const later = new Promise((done) => {
    answer = done;
  });
  const { page, fixture } = await openList(t, held, {
    world: { count: 40 },
    before: (f) => f.holders.set('port=5432', async () => later),
  });
  await put(page, 'port:5432 ');
  assert.deepEqual(await page.locator('.chip').allTextContents(), ['port:5432']);
  await page.waitForSelector('text=Looking for who holds port:5432…');
  assert.equal(await page.locator('.grid-empty').count(), 0, 'nobody says yet that there is none');
  assert.deepEqual(await axe(page), [], 'while it looks');
  answer([912, 3310]);
  await until(async () => (await texts(page, 'pid')).length === 2);
  assert.deepEqual((await texts(page, 'pid')).sort(), ['3310', '912']);
  assert.equal(await page.locator('.note').count(), 0);
  await until(() => page.evaluate(() => document.body.textContent.includes('2 of 38 processes match')));
  assert.match(page.url(), /\?q=port:5432$/);
  assert.match(await page.textContent('.filter-keys'), /port:5432file:\/var\/log\/syslogsocket:81234/);
  // The same by its link; with another term, excluded, and together with one more.
  const link = page.url();
  await page.goto(link);
  await until(async () => (await texts(page, 'pid')).length === 2);
  await put(page, 'pid:912 ');
  await until(async () => (await texts(page, 'pid')).join() === '912');
  assert.deepEqual(asked(fixture), Array(2).fill('/api/processes/holders?port=5432'), 'once a page');
});

test('file: and socket: name their paths and numbers; nobody is nobody', async (t) => {
  const { page, fixture } = await openList(t, held, {
    world: { count: 40 },
    before: (f) => f.holders.set('path=/var/log/my app.log', [3310]).set('socket=81234', [912]),
  });
  await put(page, 'file:"/var/log/my app.log"|/nothing ');
  await until(async () => (await texts(page, 'pid')).join() === '3310');
    await page.click('.filter-clear');
  await put(page, 'socket:81234 ');
  await until(async () => (await texts(page, 'pid')).join() === '912');
    await page.click('.filter-clear');
  await put(page, 'port:7 ');
  await page.waitForSelector('.grid-empty');
  assert.match(await page.textContent('.grid-empty'), /No process matches port:7\./);
    await page.click('.filter-clear');
  await put(page, 'port:70000 file:x ');
  await page.waitForSelector('.filter-bad');
  assert.match(await page.textContent('.filter-wrong'), /port:70000 is not applied: port needs a number from 1 to 65535\./);
  assert.match(await page.textContent('.filter-wrong'), /file needs a path that begins with \//);
  assert.deepEqual(
    asked(fixture).map((path) => [...new URL(path, 'http://x').searchParams][0].join('=')).sort(),
    ['path=/nothing', 'path=/var/log/my app.log', 'port=7', 'socket=81234'],
    'nothing that is wrong',
  );
});

test('a refusal is said and can be tried again; warnings stand there', async (t) => {
  const refusal = { status: 422, code: 'permission_denied', error: 'The kernel does not let procinsh read this.' };
  const { page, fixture } = await openList(t, held, {
    world: { count: 40 },
    path: '/?q=port:5432',
    wait: false,
    before: (f) => {
      f.holders.set('port=5432', [912]);
      f.refuse.set('/api/processes/holders', refusal);
    },
  });
  await page.waitForSelector('.note-bad');
  assert.match(await page.textContent('.note-bad'), /port:5432: The kernel does not let procinsh read this\. Nobody is shown for it\./);
  assert.equal(await page.locator('.row').count(), 0);
  assert.equal(await page.locator('.grid-empty').count(), 0);
  assert.deepEqual(await axe(page), [], 'refused');
  const before = asked(fixture).length;
  assert.equal(before, 1, 'what cannot help is not asked again');
  fixture.refuse.clear();
  fixture.holderWarnings = ['2 processes were denied (needs the same owner, or CAP_SYS_PTRACE)'];
  await page.focus('.note-bad button');
  await page.keyboard.press('Enter');
  await until(async () => (await texts(page, 'pid')).join() === '912');
  assert.match(await page.textContent('.note-warn'), /port:5432: 2 processes were denied/);
  assert.deepEqual(await axe(page), [], 'with a warning');
});

test('it is asked again while it is looked at, and no more once it is gone', async (t) => {
  const { page, fixture } = await openList(t, held, {
    world: { count: 40 },
    init: sooner,
    before: (f) => f.holders.set('port=5432', [912]).set('path=/a b', [912]),
  });
  await type(page, 'file:"/a b" ');
  await until(async () => (await texts(page, 'pid')).join() === '912');
  assert.deepEqual(await page.locator('.chip').allTextContents(), ['file:"/a b"'], 'a blank between quotes ends no chip');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape'); // the second one leaves the line
  await type(page, 'port:5432 ');
  await until(async () => (await texts(page, 'pid')).join() === '912');
  fixture.holders.set('port=5432', [3310]);
  await until(async () => (await texts(page, 'pid')).join() === '3310');
  // What was known stays when the server cannot answer.
  fixture.refuse.set('/api/processes/holders', { status: 429, code: 'busy', error: 'Too many readings.', retryAfter: 1 });
  await page.waitForSelector('.note-bad');
  assert.match(await page.textContent('.note-bad'), /port:5432: Too many readings\. Showing who held it at \d\d:\d\d:\d\d\./);
  assert.deepEqual(await texts(page, 'pid'), ['3310']);
  fixture.refuse.clear();
  await page.waitForSelector('.note-bad', { state: 'detached' });
  await page.keyboard.press('Escape');
  await until(async () => (await page.textContent('.foot-count')) === '38 of 38 shown');
  const before = asked(fixture).length;
  await new Promise((done) => setTimeout(done, 1500));
  assert.ok(asked(fixture).length <= before + 1, 'one may have been under way');
});

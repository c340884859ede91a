// What the list looks like to those who see it small, large, light, dark, by keyboard
// or not at all.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { axe, names, openList, texts, until, useBrowser } from './lib.mjs';

const held = useBrowser({ before, after });

const SIZES = [
  [1440, 900],
  [390, 844],
];

for (const theme of ['dark', 'light']) {
  for (const [width, height] of SIZES) {
    test(`axe finds nothing: ${theme}, ${width} px`, async (t) => {
      const { page, fixture } = await openList(t, held, {
        world: { count: 100 },
        theme,
        width,
        height,
        path: '/?tree=1',
      });
      for (let i = 0; i < 3; i++) fixture.tick();
      assert.equal(
        await page.evaluate(() => document.documentElement.classList.contains('theme-dark')),
        theme === 'dark',
      );
      assert.deepEqual(await axe(page), [], 'the list');
      fixture.world.start({ pid: 60010, ppid: 733, name: 'fresh', cpu: 50 });
      fixture.world.exit(20151);
      fixture.tick(0);
      await page.locator('.row .c-cpu').nth(2).click();
      await page.waitForSelector('.preview');
      await page.mouse.move(0, 0);
      assert.deepEqual(await axe(page), [], 'marks and preview');
      await page.keyboard.press('Space');
      await page.waitForSelector('.held');
      assert.deepEqual(await axe(page), [], 'held');
      await page.keyboard.press('/');
      await page.waitForSelector('.filter-input:focus');
      await page.keyboard.type('usr:x bash ');
      await page.waitForSelector('.filter-wrong');
      assert.deepEqual(await axe(page), [], 'a filter with a mistake');
      await page.keyboard.press('Escape');
      await page.keyboard.press('Escape');
      for (const [key, name] of [
        ['?', 'keys'],
        ['Y', 'copies'],
      ]) {
        await page.keyboard.press(key);
        await page.waitForSelector('dialog[open] .sheet-body');
        assert.deepEqual(await axe(page), [], name);
        await page.keyboard.press('Escape');
        await page.waitForSelector('dialog[open]', { state: 'detached' });
      }
      for (const name of ['Columns', 'Settings']) {
        await page.locator(`button:visible:text-is("${name}")`).first().click();
        await page.waitForSelector('dialog[open] .sheet-body');
        assert.deepEqual(await axe(page), [], name);
        await page.keyboard.press('Escape');
        await page.waitForSelector('dialog[open]', { state: 'detached' });
      }
    });
  }
}

test('axe finds nothing on a page that is denied, waits, or has lost its server', async (t) => {
  const { page, fixture } = await openList(t, held, {
    wait: false,
    before: (f) => {
      f.silent = true;
    },
  });
  await page.waitForSelector('.waiting');
  assert.deepEqual(await axe(page), [], 'waiting');
  fixture.refuse.set('/api/processes/stream', { status: 403, code: 'peer_not_allowed', error: 'Not allowed.' });
  fixture.drop();
  await page.waitForSelector('.denied');
  assert.deepEqual(await axe(page), [], 'denied');
});

for (const width of [390, 320, 699, 700, 900, 1099, 1100, 1440]) {
  test(`nothing is wider than the page at ${width} px`, async (t) => {
    const { page } = await openList(t, held, { world: { count: 100 }, width, height: 800, path: '/?tree=1' });
    const check = async (what) => {
      const wide = await page.evaluate(() => ({
        page: document.documentElement.scrollWidth - innerWidth,
        table: document.querySelector('.grid-scroll').scrollWidth - document.querySelector('.grid-scroll').clientWidth,
        bar: document.querySelector('.bar').scrollWidth - document.querySelector('.bar').clientWidth,
        foot: document.querySelector('.foot').scrollWidth - document.querySelector('.foot').clientWidth,
      }));
      assert.deepEqual(wide, { page: 0, table: 0, bar: 0, foot: 0 }, what);
    };
    await check('the list');
    await page.locator('.row .c-cpu').nth(2).click();
    await page.waitForSelector('.preview');
    await page.keyboard.press('Space');
    await page.waitForSelector('.held');
    await check('preview and held');
    await page.keyboard.press('/');
    await page.waitForSelector('.filter-input:focus');
    await page.keyboard.type('user:root');
    await check('the filter open');
    // What can be pressed is inside the page and can be seen.
    const outside = await page.$$eval('button, input, select, a', (list) =>
      list
        .filter(
          (e) =>
            e.checkVisibility({ visibilityProperty: true }) &&
            !e.closest('.grid-space, .unseen') &&
            !e.classList.contains('unseen'),
        )
        .filter((e) => {
          const box = e.getBoundingClientRect();
          return box.left < -0.5 || box.right > innerWidth + 0.5;
        })
        .map((e) => e.textContent || e.className),
    );
    assert.deepEqual(outside, []);
  });
}

test('narrow: two lines a row of 44 px, four gauges, a select to sort by', async (t) => {
  const { page } = await openList(t, held, { world: { count: 40 }, width: 390, height: 844 });
  const row = await page.locator('.row').first().boundingBox();
  assert.equal(Math.round(row.height), 44);
  const place = async (column) => page.locator(`.row >> nth=0 >> .c-${column}`).boundingBox();
  const [name, cpu, pid, rss] = [await place('name'), await place('cpu'), await place('pid'), await place('rss')];
  assert.ok(name.y < pid.y && cpu.y < rss.y && Math.abs(name.y - cpu.y) < 4 && cpu.x > name.x);
  assert.equal(await page.locator('.gauge:visible').count(), 4);
  await page.click('.sorter button:text-is("Gauges")');
  assert.equal(await page.locator('.gauge').count(), 0, 'the gauges fold');
  await page.click('.sorter button:text-is("Gauges")');
  await page.selectOption('.sorter select', 'name');
  await until(async () => {
    const list = await names(page);
    return list.join() === [...list].sort().join() && list[0] === 'bash';
  });
  assert.match(await page.textContent('.sorter button'), /up/);
  await page.click('.bar-filter');
  await page.waitForSelector('.filter-input:focus');
  await page.keyboard.type('user:postgres');
  await until(async () => (await names(page)).every((n) => n === 'postgres'));
  const filter = await page.locator('.filter').boundingBox();
  assert.equal(Math.round(filter.width), 390, 'the filter has a row of its own');
});

test('middle: three gauges, no command column', async (t) => {
  const { page } = await openList(t, held, { world: { count: 40 }, width: 900, height: 800 });
  assert.equal(await page.locator('.gauge:visible').count(), 3);
  assert.equal(await page.locator('[role=columnheader].c-command').count(), 0);
});

test('touch: rows of 44 px, buttons of at least 40', async (t) => {
  const { page } = await openList(t, held, { world: { count: 40 }, width: 1200, height: 900, touch: true });
  assert.equal(Math.round((await page.locator('.row').first().boundingBox()).height), 44);
  for (const selector of ['.bar-hold', '.bar-columns']) {
    assert.ok((await page.locator(selector).boundingBox()).height >= 40, selector);
  }
});

test('a walk by keyboard alone: tab to everything, cursor in the table, open, come back', async (t) => {
  const { page, fixture } = await openList(t, held, { world: { count: 60 }, path: '/?tree=1&sort=pid' });
  const focus = () =>
    page.evaluate(() => {
      const e = document.activeElement;
      return e.closest('.row')
        ? `row ${e.querySelector('.c-pid').textContent}`
        : e.textContent || e.getAttribute('aria-label');
    });
  const reached = [];
  for (let i = 0; i < 25; i++) {
    await page.keyboard.press('Tab');
    const here = await focus();
    if (reached.includes(here) || here === null) break;
    reached.push(here);
  }
  for (const want of [
    'List',
    'Filter',
    'HoldSpace',
    'Columns',
    'PID ▲',
    'row 1',
    'Tree on',
    'Copy',
    'Settings',
    '? keys',
  ]) {
    assert.ok(reached.includes(want), `${want} is reached by Tab (reached: ${reached.join(' | ')})`);
  }
  assert.equal(reached.filter((text) => text?.startsWith('row')).length, 1, 'the table’s rows are one tab stop');
  await page.focus('.row[tabindex="0"]');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await until(async () => (await focus()) === 'row 733' || (await focus()) === 'row 412');
  await page.keyboard.press('End');
  await until(async () => (await page.locator('.row:focus').getAttribute('aria-rowindex')) === '59');
  await page.keyboard.press('Home');
  await until(async () => (await focus()) === 'row 1');
  await page.keyboard.press('PageDown');
  await until(async () => Number(await page.locator('.row:focus').getAttribute('aria-rowindex')) > 12);
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowLeft');
  await until(async () => (await page.locator('.row').count()) === 1);
  await page.keyboard.press('ArrowRight');
  await until(async () => (await page.locator('.row').count()) > 5);
  await page.keyboard.press('ArrowRight');
  assert.equal(await page.locator('.row:focus').getAttribute('aria-level'), '2');
  await page.keyboard.press('ArrowLeft');
  await until(
    async () =>
      (await focus()) === 'row 1' || (await page.locator('.row:focus').getAttribute('aria-expanded')) === 'false',
  );
  // Find one, go to its parent, open it.
  await page.keyboard.press('/');
  await page.waitForSelector('.filter-input:focus');
  await page.keyboard.type('compile');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('End');
  await until(async () => (await focus()) === 'row 21047');
  await page.keyboard.press('p');
  await until(async () => (await page.locator('.row-selected .c-pid').textContent()) === '20990');
  await page.keyboard.press('F6');
  assert.notEqual(await page.evaluate(() => document.activeElement.closest('[data-region]')?.dataset.region), 'table');
  await page.keyboard.press('Shift+F6');
  assert.equal(await page.evaluate(() => document.activeElement.closest('[data-region]')?.dataset.region), 'table');
  await page.keyboard.press('Enter');
  await until(() => new URL(page.url()).pathname === '/process/20990');
  assert.equal(new URL(page.url()).searchParams.get('start'), String(fixture.world.identity(20990).start_time_ticks));
  await page.goBack();
  await until(() => new URL(page.url()).pathname === '/');
  await page.waitForSelector('.row-selected');
  assert.equal(await page.locator('.row-selected .c-pid').textContent(), '20990', 'the selection is still there');
});

test('the focused row keeps the focus while others move around it and when it scrolls away', async (t) => {
  const { page, fixture } = await openList(t, held, { world: { count: 300 } });
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await until(() => page.evaluate(() => document.activeElement.matches('.row')));
  const pid = await page.locator('.row:focus .c-pid').textContent();
  for (let i = 0; i < 6; i++) {
    fixture.tick(1);
    await page.waitForTimeout(60);
  }
  await page.waitForTimeout(3200); // the order moves again
  for (let i = 0; i < 6; i++) {
    fixture.tick(1);
    await page.waitForTimeout(60);
  }
  assert.equal(await page.locator('.row:focus .c-pid').textContent(), pid);
  await page.locator('.grid-scroll').evaluate((e) => e.scrollTo(0, 4000));
  await page.waitForTimeout(100);
  assert.equal(await page.locator('.row:focus .c-pid').textContent(), pid);
  // In the order of the document the rows stand as on the screen.
  const order = await page.$$eval('.row', (rows) =>
    rows.filter((row) => row !== document.activeElement).map((row) => Number(row.getAttribute('aria-rowindex'))),
  );
  assert.deepEqual(
    order,
    [...order].sort((a, b) => a - b),
  );
});

test('roles: a treegrid that counts all its rows', async (t) => {
  const { page } = await openList(t, held, { world: { count: 300 }, path: '/?tree=1' });
  const grid = page.locator('[role=treegrid]');
  assert.equal(await grid.getAttribute('aria-rowcount'), '299');
  assert.equal(await grid.getAttribute('aria-colcount'), '12');
  const first = page.locator('.row').first();
  assert.equal(await first.getAttribute('aria-rowindex'), '2');
  await page.locator('.grid-scroll').evaluate((e) => e.scrollTo(0, e.scrollHeight));
  await until(async () => (await page.locator('.row').last().getAttribute('aria-rowindex')) === '299');
  assert.equal(await page.getAttribute('[role=columnheader].c-cpu', 'aria-sort'), 'descending');
});

test('single-letter keys can be switched off, the others stay', async (t) => {
  const { page } = await openList(t, held, { world: { count: 40 } });
  await page.click('button:text-is("Settings")');
  await page.uncheck('label:has-text("Single-letter keys") input');
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog[open]', { state: 'detached' });
  await page.evaluate(() => document.activeElement.blur());
  for (const key of ['t', 'k', 'Space', '/', '?']) await page.keyboard.press(key);
  await page.waitForTimeout(200);
  assert.match(await page.textContent('.list-foot'), /Tree off/);
  assert.match(await page.textContent('.list-foot'), /hidden/);
  assert.equal(await page.locator('dialog[open]').count(), 0);
  assert.equal(await page.evaluate(() => document.activeElement.matches('input')), false);
  await page.keyboard.press('Control+f');
  await page.waitForSelector('.filter-input:focus');
});

test('theme: follows the system, the choice holds over a reload, before first paint', async (t) => {
  const { page } = await openList(t, held, { world: { count: 24 }, theme: 'light' });
  const dark = () => page.evaluate(() => document.documentElement.classList.contains('theme-dark'));
  assert.equal(await dark(), false);
  await page.emulateMedia({ colorScheme: 'dark' });
  await until(dark);
  await page.click('button:text-is("Settings")');
  await page.check('label:has-text("Light") input');
  await until(async () => !(await dark()));
  await page.reload();
  await page.waitForSelector('.row');
  assert.equal(await dark(), false);
  assert.equal(
    await page.evaluate(() => {
      const script = document.querySelector('head script');
      return script.src.includes('/theme-') && !script.async && !script.defer && script.type === '';
    }),
    true,
    'a plain script in the head sets it',
  );
});

test('the canvas draws: strips and sparklines are not empty', async (t) => {
  const { page, fixture } = await openList(t, held, { world: { count: 40 } });
  for (let i = 0; i < 5; i++) fixture.tick();
  await until(() =>
    page.evaluate(() => {
      const canvas = document.querySelector('.grid-canvas');
      const ctx = canvas.getContext('2d');
      const head = (name) => document.querySelector(`[role=columnheader].c-${name}`).getBoundingClientRect();
      const scale = canvas.width / canvas.clientWidth;
      return ['spark', 'maps', 'cpu', 'rss'].every((name) => {
        const { left, width } = head(name);
        const { data } = ctx.getImageData(left * scale, 0, width * scale, canvas.height);
        const colours = new Set();
        for (let i = 0; i < data.length; i += 4)
          if (data[i + 3] > 60) colours.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
        return colours.size >= (name === 'maps' ? 5 : 1);
      });
    }),
  );
  assert.ok((await texts(page, 'maps')).every((text) => text === ''));
});

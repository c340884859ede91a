// The space for those who see it small, large, light, dark, by keyboard, without
// movement, or not at all.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { axe, until } from './lib.mjs';
import { clickOn, drawEverything, figures, keyOf, openSpace, pulses, settle, spotOf, useSpaceBrowser } from './space-lib.mjs';

const held = useSpaceBrowser({ before, after });

const says = (page, where, pattern) => until(async () => pattern.test(await page.textContent(where)));

for (const theme of ['dark', 'light']) {
  for (const [width, height] of [
    [1440, 900],
    [390, 844],
  ]) {
    test(`axe finds nothing: ${theme}, ${width} px`, async (t) => {
      const { page, fixture } = await openSpace(t, held, { world: { count: 60 }, theme, width, height });
      fixture.system.sensor('files', 'unavailable', 'The kernel has no BTF.');
      fixture.system.activity({ files: [[4190, 'file:8:1:3:0', '/tmp/x', true, 1]] });
      await page.selectOption('.space-select', 'all');
      await says(page, '.space-panel', /All connections, in bundles.*FILES/s);
      assert.deepEqual(await axe(page), [], 'all');
      await page.goto(`${fixture.url}/space?sel=${keyOf(fixture, 4190)}`);
      await says(page, '.space-panel', /Connections/);
      await says(page, '.space-panel', /Address space/);
      assert.deepEqual(await axe(page), [], 'a process');
      await page.keyboard.press('Space');
      await says(page, '.space-left', /Held at/);
      await page.click('button:text-is("As list")');
      await page.waitForSelector('.space-list .row');
      assert.deepEqual(await axe(page), [], 'as list, held');
      await page.keyboard.press('/');
      await page.waitForSelector('.filter-input:focus');
      await page.keyboard.type('usr:x chrom ');
      await page.waitForSelector('.filter-wrong');
      assert.deepEqual(await axe(page), [], 'a search with a mistake');
    });
  }
}

test('no horizontal scroll at 390 and at 320, and the page does not scroll under the picture', async (t) => {
  const { page, fixture } = await openSpace(t, held, {
    world: { count: 60 },
    width: 390,
    height: 844,
    before(f) {
      f.system.names.set(4190, 'a'.repeat(4096));
    },
  });
  for (const width of [390, 320]) {
    await page.setViewportSize({ width, height: 700 });
    for (const path of [`/space?sel=${keyOf(fixture, 4190)}`, '/space', '/space?list=1']) {
      await page.goto(fixture.url + path);
      await page.waitForSelector('.space-panel');
      await until(async () => !(await page.$('.space-wait')));
      const sizes = await page.evaluate(() => ({
        wide: document.documentElement.scrollWidth - innerWidth,
        high: document.documentElement.scrollHeight - innerHeight,
        panel: document.querySelector('.space-panel').scrollWidth - document.querySelector('.space-panel').clientWidth,
        bar: document.querySelector('.bar').scrollWidth - document.querySelector('.bar').clientWidth,
      }));
      assert.deepEqual(sizes, { wide: 0, high: 0, panel: 0, bar: 0 }, `${path} at ${width}`);
    }
  }
  await page.goto(`${fixture.url}/space`);
  await until(async () => !(await page.$('.space-wait')));
  assert.equal(await page.getAttribute('button:text-is("Top-down")', 'aria-pressed'), 'true', 'small screens see a map');
});

test('by keyboard alone: search, next, turn, zoom, list, tree, open', async (t) => {
  const { page, fixture } = await openSpace(t, held, { world: { count: 60 } });
  await page.keyboard.press('/');
  await page.waitForSelector('.filter-input:focus');
  await page.keyboard.type('name:chromium');
  await page.keyboard.press('Enter');
  await says(page, '.space-panel', /PID 4100/);
  // Out of the field; then the keys are the picture's.
  while (!(await page.evaluate(() => document.activeElement?.classList.contains('space-canvas')))) {
    await page.keyboard.press('F6');
  }
  const view = () => new URL(page.url()).searchParams.get('view');
  const changed = async (key) => {
    await until(() => view() !== null);
    const was = view();
    await page.keyboard.press(key);
    await until(() => view() !== was);
  };
  for (const key of ['ArrowLeft', 'ArrowUp', 'Shift+ArrowRight', '+', '-', 'f', 'T', 'Home', 'n']) await changed(key);
  await says(page, '.space-panel', /PID 4133/);
  await page.keyboard.press('p');
  await says(page, '.space-panel', /PID 4100/);
  await page.keyboard.press('R');
  await page.keyboard.press('Escape');
  await says(page, '.space-panel', /Busiest/);
  // Into the list with Tab and Enter; its rows by arrows, the tree by left and right.
  await page.focus('button:text-is("As list")');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.space-list .row');
  await page.keyboard.press('F6');
  await until(() => page.evaluate(() => document.activeElement?.classList.contains('row')));
  await page.keyboard.press('Home');
  await says(page, '.space-panel', /PID \d+/);
  const level = () => page.getAttribute('.row:focus', 'aria-level');
  assert.equal(await level(), '1');
  await page.keyboard.press('End');
  await until(async () => (await level()) !== null);
  await says(page, '.space-panel', /PID 4190/);
  await page.keyboard.press('ArrowLeft'); // to the parent
  await says(page, '.space-panel', /PID 4100/);
  const expanded = () => page.getAttribute('.row:focus', 'aria-expanded');
  assert.equal(await expanded(), 'true');
  await page.keyboard.press('ArrowLeft'); // folded
  await until(async () => (await expanded()) === 'false');
  await page.keyboard.press('ArrowRight');
  await until(async () => (await expanded()) === 'true');
  await page.keyboard.press('ArrowRight');
  await says(page, '.space-panel', /PID 4133/);
  await page.keyboard.press('Enter');
  await page.waitForSelector('.bar-process');
  assert.match(page.url(), /\/process\/4133\?start=/);
  await page.keyboard.press('g');
  await page.keyboard.press('s');
  await page.waitForSelector('.space-canvas');
  await page.keyboard.press('?');
  await page.waitForSelector('dialog[open]');
  assert.match(await page.textContent('dialog[open]'), /rearrange: pack everything anew/);
});

test('with reduced motion nothing moves: no pulses, no flight, no frame after the step', async (t) => {
  const { page, fixture } = await openSpace(t, held, { world: { count: 60 }, reducedMotion: 'reduce' });
  await drawEverything(page);
  await clickOn(page, keyOf(fixture, 20990));
  await settle(page);
  for (let i = 0; i < 15; i++) {
    fixture.system.activity({ cpu: { 20990: 1 }, ipc: [[20990, 'pipe:13:7001', true, 4096]] });
    await page.waitForTimeout(60);
    assert.equal((await figures(page)).points, 0, 'no moving point');
  }
  assert.deepEqual(await pulses(page), []);
  await says(page, '.space-panel', /Connections 1 active/);
  // Instead the arc changes its colour and back, as long as bytes move.
  const busy = setInterval(
    () => fixture.system.activity({ cpu: { 20990: 1 }, ipc: [[20990, 'pipe:13:7001', true, 4096]] }),
    100,
  );
  const seen = [];
  await until(async () => {
    const shot = (await page.locator('.space-canvas').screenshot()).toString('base64');
    if (seen.at(-1) !== shot) seen.push(shot);
    return seen.length >= 3 && seen.indexOf(seen.at(-1)) < seen.length - 2;
  });
  clearInterval(busy);
  await settle(page);
  const { frames } = await figures(page);
  await page.keyboard.press('f');
  await until(async () => (await figures(page)).frames > frames);
  await settle(page);
  // A jump is a frame, and one more for the detail that fits.
  assert.ok((await figures(page)).frames - frames <= 4, 'the camera jumps');
});

test('touch: one finger moves the map, two come nearer, a tap selects', async (t) => {
  const { page, fixture } = await openSpace(t, held, { world: { count: 60 }, width: 390, height: 844, touch: true });
  const session = await page.context().newCDPSession(page);
  const touch = (type, points) => session.send('Input.dispatchTouchEvent', { type, touchPoints: points });
  const view = () => new URL(page.url()).searchParams.get('view')?.split(',').map(Number);
  await until(() => view() !== undefined);
  const before = view();
  await touch('touchStart', [{ x: 200, y: 300, id: 1 }]);
  for (let i = 1; i <= 5; i++) await touch('touchMove', [{ x: 200 + i * 12, y: 300, id: 1 }]);
  await touch('touchEnd', []);
  await until(() => view()[0] !== before[0]);
  const panned = view();
  assert.equal(panned[4], before[4], 'no nearer');
  await touch('touchStart', [
    { x: 150, y: 300, id: 1 },
    { x: 250, y: 300, id: 2 },
  ]);
  for (let i = 1; i <= 6; i++) {
    await touch('touchMove', [
      { x: 150 - i * 8, y: 300, id: 1 },
      { x: 250 + i * 8, y: 300, id: 2 },
    ]);
  }
  await touch('touchEnd', []);
  await until(() => view()[4] < before[4]);
  const key = keyOf(fixture, 902);
  await page.goto(`${fixture.url}/space`);
  await until(async () => !(await page.$('.space-wait')));
  await until(async () => (await figures(page)).boxes > 0);
  const at = await spotOf(page, key);
  await page.touchscreen.tap(at.x, at.y);
  await says(page, '.space-panel', /PID 902/);
});

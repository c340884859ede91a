// The space where there is no WebGL: a flat map of the same places, and the list.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until, useBrowser } from './lib.mjs';
import { clickOn, figures, keyOf, openSpace } from './space-lib.mjs';

const held = useBrowser({ before, after }, ['--disable-3d-apis']);

test('without WebGL the page says why, draws a flat map and does the same', async (t) => {
  const { page, fixture } = await openSpace(t, held, { world: { count: 120 }, flat: true });
  assert.equal((await figures(page)).renderer, 'flat map');
  assert.match(await page.textContent('.note'), /Flat map: this browser has no WebGL 2/);
  await clickOn(page, keyOf(fixture, 4190));
  await until(async () => /PID 4190/.test(await page.textContent('.space-panel')));
  const { frames } = await figures(page);
  fixture.system.activity({ cpu: { 4190: 0.5 } });
  await until(async () => {
    fixture.system.activity({ cpu: { 4190: 0.5 } });
    return (await figures(page)).frames > frames;
  });
  await page.keyboard.press('Home');
  await page.click('button:text-is("As list")');
  await page.waitForSelector('.space-list .row');
});

// What the tests of the space share: a browser that draws in software, and questions
// to the picture.

import assert from 'node:assert/strict';
import { startFixture } from './fixture/server.mjs';
import { newPage, until, useBrowser } from './lib.mjs';

// Upstream took the automatic fallback away: software drawing is asked for by name.
export const GL = ['--use-gl=angle', '--use-angle=swiftshader', '--enable-unsafe-swiftshader', '--ignore-gpu-blocklist'];

export const useSpaceBrowser = (hooks, flags = []) => useBrowser(hooks, [...GL, ...flags]);

export const figures = (page) => page.evaluate(() => document.querySelector('.space-canvas').space.figures());
export const onScreen = (page, key) =>
  page.evaluate((k) => document.querySelector('.space-canvas').space.screen(k), key);
export const pulses = (page) => page.evaluate(() => document.querySelector('.space-canvas').space.pulses());

// keyOf names a process of the fixture.
export const keyOf = (fixture, pid) => `${pid}@${fixture.world.identity(pid).start_time_ticks}`;

// openSpace opens the page over a made-up host and waits for its first picture.
export async function openSpace(t, held, { path = '/space', fixture: given, before, wait = true, ...options } = {}) {
  const fixture = given ?? (await startFixture({ manual: true, ...options.world }));
  if (!given) t.after(() => fixture.close());
  before?.(fixture);
  const page = await newPage(t, held, fixture.url + path, options);
  await page.waitForSelector('.space-canvas');
  if (wait) {
    await until(async () => !(await page.$('.space-wait')));
    await until(async () => (await figures(page)).boxes > 0);
    if (!options.flat) assert.match((await figures(page)).renderer, /SwiftShader|ANGLE|llvmpipe/i, 'WebGL draws');
  }
  return { page, fixture };
}

// drawEverything leaves the simplified drawing that software gets.
export async function drawEverything(page) {
  await page.click('button:text-is("Draw everything")');
  await until(async () => (await page.$('button:text-is("Draw everything")')) === null);
  await until(async () => (await figures(page)).boxes > 0);
}

// settle waits until the picture stands still.
export async function settle(page) {
  let last = -1;
  let since = Date.now();
  await until(async () => {
    const { frames } = await figures(page);
    if (frames !== last) {
      last = frames;
      since = Date.now();
    }
    return Date.now() - since > 900;
  });
}

// spotOf is a point of the screen where a process is what is picked: its roof, or what
// its neighbours leave of it.
export async function spotOf(page, key) {
  const at = await page.evaluate((wanted) => {
    const canvas = document.querySelector('.space-canvas');
    const roof = canvas.space.screen(wanted);
    if (!roof) return null;
    const box = canvas.getBoundingClientRect();
    for (let reach = 0; reach <= 40; reach += 2) {
      for (let turn = 0; turn < 12; turn++) {
        const x = roof.x + reach * Math.cos((turn * Math.PI) / 6);
        const y = roof.y + reach * Math.sin((turn * Math.PI) / 6);
        if (canvas.space.pick(x - box.left, y - box.top) === wanted) return { x, y };
        if (reach === 0) break;
      }
    }
    return null;
  }, key);
  assert.ok(at, `${key} can be seen`);
  return at;
}

// clickOn presses on a process.
export async function clickOn(page, key, options = {}) {
  const at = await spotOf(page, key);
  await page.mouse.click(at.x, at.y, options);
}

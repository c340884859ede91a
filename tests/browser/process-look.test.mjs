// The process page as it is laid out: no axe violation in any section, theme and
// width; no sideways scrolling on narrow screens; hostile text shown as text.

import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { HOSTILE } from './fixture/process.mjs';
import { startFixture } from './fixture/server.mjs';
import { axe, newPage, useBrowser } from './lib.mjs';

const held = useBrowser({ before, after });
const SECTIONS = ['overview', 'threads', 'memory', 'files', 'environment', 'auxv', 'signals', 'context'];

async function open(t, { pid = 3310, hash = '', set, ...options } = {}) {
  const fixture = await startFixture({ manual: true });
  t.after(() => fixture.close());
  set?.(fixture.process, fixture);
  const identity = fixture.world.identity(pid);
  const page = await newPage(t, held, `${fixture.url}/process/${pid}?start=${identity.start_time_ticks}${hash}`, options);
  await page.waitForSelector('.process .identity-name:not(:text("····"))');
  return { page, fixture };
}

// show opens a section and waits until what it fetches is there.
async function show(page, fixture, section) {
  await page.click(`.section-link[aria-keyshortcuts="${SECTIONS.indexOf(section) + 1}"]`);
  await page.waitForSelector(`.section-${section}`);
  if (section === 'memory') await page.waitForSelector('[data-hex]');
  if (section !== 'overview') await page.waitForSelector('.section .panel-foot');
  await page.waitForFunction(() => document.querySelector('.section .state-dots') === null);
  fixture.process.tick();
  await page.waitForTimeout(150);
}

for (const theme of ['dark', 'light']) {
  for (const width of [1440, 390]) {
    test(`axe: every section, ${theme}, ${width} px`, async (t) => {
      const { page, fixture } = await open(t, { theme, width, height: width === 390 ? 844 : 900 });
      for (const section of SECTIONS) {
        await show(page, fixture, section);
        assert.deepEqual(await axe(page), [], `${section} ${theme} ${width}`);
      }
    });
  }
}

test('axe: held, denied, exited, an open menu, the table of a chart, words, selected rows', async (t) => {
  const { page, fixture } = await open(t, { hash: '#memory?view=words', set: (_, f) => f.refuse.set('/api/processes/environment', { status: 422, code: 'x', error: 'Not permitted.' }) });
  await page.waitForSelector('.hex-words');
  await page.click('.panel-hex [data-copy]');
  assert.deepEqual(await axe(page), [], 'words and an open menu');
  await page.keyboard.press('Escape');
  await show(page, fixture, 'threads');
  await page.click('.flat-row >> nth=1');
  await page.click('.top-charts >> text=as table');
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press('Space');
  await page.waitForSelector('.held-line');
  assert.deepEqual(await axe(page), [], 'held, a selected row, the table of a chart');
  await page.keyboard.press('Space');
  await page.keyboard.press('5');
  await page.waitForSelector('.state-bad');
  assert.deepEqual(await axe(page), [], 'denied');
  fixture.process.end(3310);
  await page.waitForSelector('.lamp:has-text("EXITED")');
  await page.fill('.finder-field', '0x55d0c1a00010');
  await page.press('.finder-field', 'Enter');
  await page.waitForSelector('.finder-answer .button');
  assert.deepEqual(await axe(page), [], 'exited, an address looked up');
});

for (const width of [1440, 1100, 800]) {
  test(`${width} px: no panel lies over another, none is squeezed`, async (t) => {
    const { page, fixture } = await open(t, { width, height: 900 });
    for (const section of SECTIONS) {
      await show(page, fixture, section);
      const wrong = await page.evaluate(() => {
        const panels = [...document.querySelectorAll('.process-main .panel')];
        const boxes = panels.map((e) => ({ name: e.getAttribute('aria-labelledby'), box: e.getBoundingClientRect() }));
        const out = [];
        for (const [i, a] of boxes.entries()) {
          for (const b of boxes.slice(i + 1)) {
            const x = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
            const y = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
            if (x > 1 && y > 1) out.push(`${a.name} over ${b.name}`);
          }
          if (a.box.height < 60) out.push(`${a.name} is ${a.box.height} px high`);
        }
        for (const panel of panels) {
          const foot = panel.querySelector('.panel-foot')?.getBoundingClientRect();
          const body = panel.querySelector('.panel-body')?.getBoundingClientRect();
          if (foot && body && body.bottom > foot.top + 1) out.push(`the foot of ${panel.getAttribute('aria-labelledby')} lies over its body`);
        }
        return out;
      });
      assert.deepEqual(wrong, [], `${section} at ${width}`);
    }
  });
}

for (const width of [1000, 390, 320]) {
  test(`${width} px: no section scrolls the page sideways, and nothing is cut off`, async (t) => {
    const { page, fixture } = await open(t, { width, height: 800 });
    for (const section of SECTIONS) {
      await show(page, fixture, section);
      const wide = await page.evaluate(() => {
        const out = [];
        const inner = innerWidth;
        if (document.documentElement.scrollWidth > inner) out.push(`document ${document.documentElement.scrollWidth}`);
        const main = document.querySelector('.process-main');
        if (main.scrollWidth > main.clientWidth + 1) out.push(`main ${main.scrollWidth}`);
        for (const e of document.querySelectorAll('.process-main *')) {
          // Tables, bytes and the picture scroll inside of themselves.
          if (e.closest('[data-scroll], .sections, .signals-masks, .panel-body') || e.closest('svg')) continue;
          const box = e.getBoundingClientRect();
          if (box.width > 0 && (box.right > inner + 1 || box.left < -1) && getComputedStyle(e).position !== 'absolute') {
            out.push(`${e.className} ${Math.round(box.left)}–${Math.round(box.right)}`);
          }
        }
        return out;
      });
      assert.deepEqual(wide, [], `${section} at ${width}`);
      const small = await page.$$eval('.process-main button, .process-main a.section-link, .process-main input', (list) =>
        list
          .filter((e) => e.getClientRects().length > 0 && !e.closest('.flat-td, .hex'))
          .map((e) => [e.className, Math.round(e.getBoundingClientRect().height)])
          .filter(([name, h]) => h < 24 && !name.includes('check-box')),
      );
      assert.deepEqual(small, [], `targets below 24 px in ${section}`);
    }
  });
}

test('390 px: bytes in rows of eight, panels below one another', async (t) => {
  const { page, fixture } = await open(t, { width: 390, height: 844 });
  await show(page, fixture, 'memory');
  assert.equal(await page.locator('.hex').getAttribute('aria-colcount'), '10');
  assert.equal(await page.locator('.hex').getAttribute('aria-rowcount'), '33');
  const boxes = await page.locator('.memory > .panel').evaluateAll((list) => list.map((e) => e.getBoundingClientRect().toJSON()));
  for (const [i, box] of boxes.entries()) {
    if (i > 0) assert.ok(box.top >= boxes[i - 1].bottom - 1, `panel ${i} lies beside the one before`);
  }
});

test('coarse pointers get 44 px rows', async (t) => {
  const { page, fixture } = await open(t, { width: 390, height: 844, touch: true });
  await show(page, fixture, 'threads');
  assert.equal((await page.locator('.flat-row').first().boundingBox()).height, 44);
  const tab = await page.locator('.section-link').first().boundingBox();
  assert.ok(tab.height >= 44);
});

test('hostile names are text: in the title, the bar, every section, every copy of them', async (t) => {
  const { page, fixture } = await open(t, { set: (d) => (d.hostile = true) });
  let dialogs = 0;
  page.on('dialog', (dialog) => {
    dialogs++;
    return dialog.dismiss();
  });
  const shown = '<img src=x onerror=alert(1)>␛[31m⟨U+202E⟩gnp.exe';
  assert.equal(await page.title(), `procinsh / ${shown}`);
  assert.equal(await page.textContent('.identity-name'), shown);
  for (const section of SECTIONS) {
    await show(page, fixture, section);
    const found = await page.evaluate((raw) => {
      const all = document.documentElement;
      return {
        images: document.querySelectorAll('img').length,
        raw: all.outerHTML.includes(raw) || all.textContent.includes('\u202e') || all.textContent.includes('\u001b'),
        attributes: [...document.querySelectorAll('*')].flatMap((e) =>
          [...e.attributes].filter((a) => a.name !== 'href' && /[\u0000-\u0008\u000b-\u001f\u202e]/.test(a.value)).map((a) => `${e.className} ${a.name}`),
        ),
      };
    }, HOSTILE);
    assert.deepEqual(found, { images: 0, raw: false, attributes: [] }, section);
    assert.ok((await page.textContent('.process')).includes(shown), section);
  }
  assert.equal(dialogs, 0);
});

test('one event of the stream costs little: script time over 20 of them, 200 threads and 5,000 mappings', async (t) => {
  const { page, fixture } = await open(t, {
    hash: '#threads',
    set: (d) => {
      d.threads = 200;
      d.mapCount = 5000;
    },
  });
  await page.waitForSelector('.flat-row');
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  const script = async () => (await session.send('Performance.getMetrics')).metrics.find((m) => m.name === 'ScriptDuration').value;
  for (let i = 0; i < 5; i++) {
    fixture.process.tick();
    await page.waitForTimeout(60);
  }
  const from = await script();
  for (let i = 0; i < 20; i++) {
    fixture.process.tick();
    await page.waitForTimeout(60);
  }
  const each = ((await script()) - from) * 50;
  t.diagnostic(`${each.toFixed(1)} ms of script an event`);
  assert.ok(each < 40, `${each} ms of script an event`);
});

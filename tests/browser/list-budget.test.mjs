// What the list may cost: CPU time and counts, never wall time.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { openList, until, useBrowser } from './lib.mjs';

const held = useBrowser({ before, after });

const ROWS = 5000;
const REFRESHES = 20;
const SCRIPT_MS = 6;
const NODES = 900;

// metrics counts CPU time of the page's own thread, so that a busy machine changes little.
async function meter(page) {
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  return async () => {
    const { metrics } = await session.send('Performance.getMetrics');
    return Object.fromEntries(metrics.map((m) => [m.name, m.value]));
  };
}

for (const path of ['/', '/?tree=1&sort=-cpu']) {
  test(`5,000 processes, a tenth of them changed a second, ${path}`, async (t) => {
    const { page, fixture } = await openList(t, held, { world: { count: ROWS }, path });
    const nodes = await page.evaluate(() => document.querySelectorAll('.grid *').length);
    assert.ok(nodes <= NODES, `${nodes} nodes in the table, at most ${NODES}`);
    const now = await meter(page);
    const pace = async (count) => {
      for (let i = 0; i < count; i++) {
        fixture.tick(0.1);
        await page.waitForTimeout(120);
      }
    };
    await pace(10); // the engine has seen the code
    // Neighbours on the machine can only add to the time of a batch: the least of
    // a few is the nearest to what the page itself takes.
    const batches = [];
    for (let i = 0; i < 5; i++) {
      const from = await now();
      await pace(REFRESHES);
      const to = await now();
      batches.push({
        script: ((to.ScriptDuration - from.ScriptDuration) * 1000) / REFRESHES,
        layout: ((to.LayoutDuration - from.LayoutDuration) * 1000) / REFRESHES,
      });
      if (Math.min(...batches.map((b) => b.script)) <= SCRIPT_MS) break;
    }
    const least = batches.reduce((a, b) => (a.script < b.script ? a : b));
    t.diagnostic(
      `script ${least.script.toFixed(2)} ms, layout ${least.layout.toFixed(2)} ms a refresh, ${nodes} nodes`,
    );
    assert.ok(least.script <= SCRIPT_MS, `${least.script.toFixed(2)} ms of script a refresh, at most ${SCRIPT_MS}`);
    // The last delta is on the screen: what was measured did the work.
    fixture.world.set(20990, { cpu_percent: 7777.7 });
    fixture.tick(0);
    await until(() =>
      page.evaluate(() => [...document.querySelectorAll('.c-cpu')].some((c) => c.textContent.length >= 6)),
    );
  });
}

test('scrolling through 5,000 rows keeps the table small and every row in its place', async (t) => {
  const { page } = await openList(t, held, { world: { count: ROWS }, path: '/?sort=pid' });
  const total = await page.getAttribute('[role=treegrid]', 'aria-rowcount');
  assert.equal(total, String(ROWS - 2 + 1));
  for (const share of [0.3, 0.9, 0.5, 1, 0]) {
    await page.locator('.grid-scroll').evaluate((e, s) => e.scrollTo(0, e.scrollHeight * s), share);
    const look = () =>
      page.evaluate(() => {
        const scroller = document.querySelector('.grid-scroll').getBoundingClientRect();
        const boxes = [...document.querySelectorAll('.row')]
          .map((row) => row.getBoundingClientRect())
          .sort((a, b) => a.top - b.top);
        return {
          nodes: document.querySelectorAll('.grid *').length,
          gap: boxes.some((box, i) => i > 0 && Math.abs(box.top - boxes[i - 1].bottom) > 0.5),
          full: boxes[0].top <= scroller.top + 27 && boxes.at(-1).bottom >= scroller.bottom - 1,
        };
      });
    await until(async () => (await look()).full);
    const { nodes, gap } = await look();
    assert.ok(nodes <= NODES, `${nodes} nodes at ${share}`);
    assert.equal(gap, false, `no gap between rows at ${share}`);
  }
});

test('the heap does not grow with refreshes', async (t) => {
  const { page, fixture } = await openList(t, held, { world: { count: 1000 } });
  const session = await page.context().newCDPSession(page);
  const heap = async () => {
    await session.send('HeapProfiler.collectGarbage');
    return (await session.send('Runtime.getHeapUsage')).usedSize;
  };
  const churn = async (rounds) => {
    for (let i = 0; i < rounds; i++) {
      // Twenty processes come and go each second.
      for (let k = 0; k < 20; k++) fixture.world.start({ pid: 100_000 + ((i * 20 + k) % 400), name: `short${k}` });
      fixture.tick();
      for (let k = 0; k < 20; k++) fixture.world.exit(100_000 + ((i * 20 + k) % 400));
      fixture.tick();
      if (i % 10 === 0) await page.waitForTimeout(30);
    }
    await page.waitForTimeout(300);
  };
  await churn(60); // fills the minute that is kept
  const before = await heap();
  await churn(120);
  const after = await heap();
  t.diagnostic(
    `heap ${(before / 1e6).toFixed(1)} MB, ${(after / 1e6).toFixed(1)} MB after 240 refreshes with 2,400 short processes`,
  );
  assert.ok(after < before * 1.15 + 1e6, `${before} grew to ${after}`);
});

test('the list asks for its stream and nothing else', async (t) => {
  const { page, fixture } = await openList(t, held, { world: { count: 40 } });
  for (let i = 0; i < 5; i++) {
    fixture.tick();
    await page.waitForTimeout(100);
  }
  await page.locator('.row .c-cpu').nth(3).click();
  await page.waitForSelector('.preview');
  await page.waitForTimeout(1500);
  assert.deepEqual(fixture.requests, ['/api/processes/stream?maps=summary&io=1']);
});

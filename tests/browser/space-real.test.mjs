// The space over a real server and 200 real processes: they are shown, a press on a
// tower opens the right one, bytes travel on the right edge, the card names the file.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { newPage, until } from './lib.mjs';
import { run, server, startOf, target } from './real.mjs';
import { clickOn, drawEverything, figures, pulses, useSpaceBrowser } from './space-lib.mjs';

const CHANNELS = 50; // two processes each, ten kinds of pipe and socket between them
const SLEEPERS = 98;

const held = useSpaceBrowser({ before, after });

test('200 real processes: shown, opened, their bytes on the right edge, their file by its name', async (t) => {
  const activity = await target(t, 'activity');
  const channels = await Promise.all(Array.from({ length: CHANNELS }, () => target(t, 'channels', '--rate', '0')));
  const sleepers = Array.from({ length: SLEEPERS }, () => run(t, '/bin/sleep', ['600']));
  const reader = Number(activity.facts.get('READER_PID'));
  const started = [
    activity.pid,
    reader,
    ...channels.flatMap((c) => [c.pid, Number(c.facts.get('CHILD_PID'))]),
    ...sleepers.map((child) => child.pid),
  ];
  assert.equal(started.length, 200);
  const keyOf = (pid) => `${pid}@${startOf(pid)}`;
  const keys = started.map(keyOf);

  const url = await server(t);
  const page = await newPage(t, held, `${url}/space`, { width: 1100, height: 700 });
  await page.waitForSelector('.space-canvas');
  const places = () =>
    page.evaluate((list) => {
      const { space } = document.querySelector('.space-canvas');
      return list.map((key) => space.screen(key) !== null);
    }, keys);
  await until(async () => (await places()).every(Boolean));
  await drawEverything(page);
  assert.ok((await figures(page)).boxes >= 200);

  // A press on a tower, and the process behind it. Held, since the machine's other
  // processes come and go between look and press.
  const writer = keyOf(activity.pid);
  await page.click('button:has-text("Hold")');
  await until(async () => /HELD/.test(await page.textContent('.bar')));
  await clickOn(page, writer);
  await until(async () => new RegExp(`PID ${activity.pid}\\b`).test(await page.textContent('.space-panel')));
  await page.click('.bar button:has-text("Live")');
  await until(async () => /LIVE/.test(await page.textContent('.bar')));
  await until(async () => /activity-reader/.test(await page.textContent('.space-part[aria-label="Connections"]')));
  const connections = await page.textContent('.space-part[aria-label="Connections"]');
  assert.match(connections, /pipe/i);
  assert.match(connections, /UNIX/);
  assert.match(connections, /TCP.*candidate|candidate.*TCP/s, 'a TCP peer is never more than a candidate');

  let status = null;
  await until(async () => {
    status = await (await fetch(`${url}/api/system/status`)).json();
    return [status.ipc, status.files].every(({ state }) => state !== 'idle' && state !== 'starting');
  });
  await t.test('what moves', { skip: sensorsOff(status) }, async () => {
    const peer = keyOf(reader);
    // As long as it lasts: what is asked is what one window shows.
    await until(async () => {
      activity.child.stdin.write('pipe 200 512\n');
      return (await pulses(page)).some((p) => p.from === writer && p.to === peer && p.write);
    }).catch(async (cause) => {
      const bar = await page.textContent('.bar');
      const now = JSON.stringify([await figures(page), (await pulses(page)).length]);
      throw new Error(`no pulse from ${writer} to ${peer}: ${bar} ${now}`, { cause });
    });
    // It also answers this test, through the pipe that is its standard output.
    const own = keyOf(process.pid);
    const strange = (await pulses(page)).filter((p) => p.from === writer && p.to !== peer && p.to !== own);
    assert.deepEqual(strange, [], 'on no other edge');
    const file = activity.facts.get('FILE');
    await until(async () => {
      activity.child.stdin.write('file 200 4096\n');
      const text = await page.textContent('.space-part[aria-label="Files"]');
      return text.includes(file) && /wrote/.test(text);
    });
  });
  if (sensorsOff(status)) {
    await until(async () => /sensor is off: \S/.test(await page.textContent('.space-panel')));
  }

  await page.click('.space-panel a:text-is("Open detail")');
  await page.waitForSelector('.bar-process');
  assert.equal(new URL(page.url()).pathname, `/process/${activity.pid}`);
});

// sensorsOff is why nothing that moves can be seen here; false where it can.
function sensorsOff(status) {
  for (const name of ['ipc', 'files']) {
    const { state, reason } = status[name];
    if (state === 'unavailable' || state === 'error') return `${name}: ${reason}`;
  }
  return false;
}

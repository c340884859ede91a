// The space: what is drawn, picked, searched, told, and how it stands when something
// is missing.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { HOSTILE } from './fixture/process.mjs';
import { startFixture } from './fixture/server.mjs';
import { newPage, until } from './lib.mjs';
import {
  clickOn,
  drawEverything,
  figures,
  keyOf,
  onScreen,
  openSpace,
  pulses,
  settle,
  spotOf,
  useSpaceBrowser,
} from './space-lib.mjs';

const held = useSpaceBrowser({ before, after });

const says = (page, where, pattern) => until(async () => pattern.test(await page.textContent(where)));

// spread is how much the picture differs from itself: a blank one has next to nothing.
async function spread(page) {
  const image = (await page.locator('.space-canvas').screenshot()).toString('base64');
  return page.evaluate(async (data) => {
    const img = new Image();
    img.src = `data:image/png;base64,${data}`;
    await img.decode();
    const canvas = document.createElement('canvas');
    canvas.width = 32;
    canvas.height = 18;
    const context = canvas.getContext('2d');
    context.drawImage(img, 0, 0, 32, 18);
    const { data: pixels } = context.getImageData(0, 0, 32, 18);
    const grey = [];
    for (let i = 0; i < pixels.length; i += 4) grey.push(pixels[i] + pixels[i + 1] + pixels[i + 2]);
    const mean = grey.reduce((a, b) => a + b, 0) / grey.length;
    return Math.sqrt(grey.reduce((a, b) => a + (b - mean) ** 2, 0) / grey.length);
  }, image);
}

test('from the list into the space, to a tower, its facts, its process, and back to the same view', async (t) => {
  const fixture = await startFixture({ manual: true, count: 200 });
  t.after(() => fixture.close());
  const page = await newPage(t, held, `${fixture.url}/`);
  await page.waitForSelector('.row');
  await page.click('.place:text-is("Space")');
  await page.waitForSelector('.space-canvas');
  assert.equal(await page.title(), 'procinsh / space');
  await until(async () => (await figures(page)).boxes > 0);
  await settle(page);
  assert.ok((await spread(page)) > 12, 'the picture shows something');
  assert.match(await page.textContent('.space-foot'), /198 processes · 2 kernel threads folded/);
  assert.deepEqual(
    fixture.requests.filter((r) => r.startsWith('/api/system')),
    ['/api/system/events?delta=1&maps=summary'],
  );

  const chromium = keyOf(fixture, 4190);
  await clickOn(page, chromium);
  await says(page, '.space-panel', /PID 4190.*systemd 1.*chromium 4100.*CPU 22\.5 %.*RSS 401\.9M/s);
  await says(page, '.space-panel', /Connections 0 active of \d/);
  const connections = await page.textContent('.space-part[aria-label="Connections"]');
  assert.match(connections, /example\.org.*network/s, 'a remote host by its name');
  assert.match(connections, /2001:db8::7.*network/s, 'one without a name by its address');
  assert.match(connections, /shared/);
  assert.match(await page.textContent('.space-part[aria-label="Address space"]'), /H heap/);
  await until(() => new URL(page.url()).searchParams.get('sel') === chromium);

  // The database's peer is only a candidate, and the panel leads there.
  await page.keyboard.press('Escape');
  await clickOn(page, keyOf(fixture, 902));
  await says(page, '.space-panel', /postgres 912.*candidate/s);
  await page.click('.space-panel .space-who:has-text("912")');
  await says(page, '.space-panel', /PID 912/);
  assert.match(await page.textContent('.label-chosen'), /postgres/);

  await page.keyboard.press('f');
  await settle(page);
  await until(() => new URL(page.url()).searchParams.has('view'));
  const link = page.url();
  const at = await onScreen(page, keyOf(fixture, 912));
  const spot = await spotOf(page, keyOf(fixture, 912));
  await page.mouse.dblclick(spot.x, spot.y);
  await page.waitForSelector('.bar-process');
  assert.match(page.url(), /\/process\/912\?start=\d+/);
  await page.goBack();
  await page.waitForSelector('.space-canvas');
  await says(page, '.space-panel', /PID 912/);
  assert.equal(page.url(), link);
  await until(async () => (await figures(page)).boxes > 0);
  const again = await onScreen(page, keyOf(fixture, 912));
  assert.ok(Math.abs(again.x - at.x) < 3 && Math.abs(again.y - at.y) < 3, 'the camera stands where it stood');
});

test('search with the common grammar: count, next, dim, nothing, and what is no key', async (t) => {
  const { page, fixture } = await openSpace(t, held, { world: { count: 150 }, path: '/space?q=name:compile' });
  await says(page, '.space-found', /2 found/);
  await page.keyboard.press('n');
  await says(page, '.space-panel', /PID 21044/);
  await page.keyboard.press('n');
  await says(page, '.space-panel', /PID 21047/);
  await page.keyboard.press('N');
  await says(page, '.space-panel', /PID 21044/);
  await page.keyboard.press('/');
  await page.waitForSelector('.filter-input:focus');
  await page.keyboard.press('Escape');
  await page.keyboard.type('host:example');
  await says(page, '.space-found', /1 found/);
  await page.keyboard.press('Enter');
  await says(page, '.space-panel', /PID 4190/);
  await page.keyboard.press('Escape');
  await page.keyboard.type('state:R ');
  await says(page, '.filter-wrong', /of the states only D Z T t/);
  await page.keyboard.press('Escape');
  await page.keyboard.type('nosuchthing');
  await says(page, '.space-stage', /Nothing matches nosuchthing/);
  await until(() => new URL(page.url()).searchParams.get('q') === 'nosuchthing');
  // As list has the same search and the same selection.
  await page.keyboard.press('Escape');
  await page.keyboard.type('chromium');
  await page.click('button:text-is("As list")');
  await page.waitForSelector('.space-list .row');
  const rows = async () => page.$$eval('.space-list .row-link', (links) => links.map((link) => link.textContent));
  await until(async () => (await rows()).filter((name) => name === 'chromium').length === 3);
  await page.click('.space-list .row:has-text("4133") .c-cpu');
  await says(page, '.space-panel', /PID 4133/);
  await page.click('button:text-is("As list")');
  await until(() => new URL(page.url()).searchParams.get('sel') === keyOf(fixture, 4133));
});

test('what happens: lamps, pulses on the right edge, file cards, sensors with their reasons, what was lost', async (t) => {
  const { page, fixture } = await openSpace(t, held, { world: { count: 100 } });
  const { system } = fixture;
  await drawEverything(page);
  const go = keyOf(fixture, 20990);
  const compile = keyOf(fixture, 21044);
  await clickOn(page, go);
  await says(page, '.space-panel', /PID 20990/);
  const window = () =>
    system.activity({
      cpu: { 20990: 2.1, 21044: 0.9 },
      ipc: [
        [20990, 'pipe:13:7001', true, 4096],
        [4190, 'socket:8:7401', false, 70_000],
        [902, 'socket:8:424242', true, 5],
      ],
      files: [
        [20990, 'file:8:1:11:0', '/home/mika/src/main.go', false, 4096],
        [20990, 'file:8:1:4711:0', null, true, 512],
      ],
    });
  // As long as it lasts: what is asked is what one window shows.
  await until(async () => {
    window();
    return (await pulses(page)).length > 0 && (await figures(page)).points > 0;
  });
  assert.deepEqual(await pulses(page), [
    { from: go, to: compile, write: true },
    { from: 'host:93.184.216.34', to: keyOf(fixture, 4190), write: false },
  ]);
  await until(async () => {
    window();
    const text = await page.textContent('.space-panel');
    return /main\.go.*read/s.test(text) && /dev 8:1 inode 4711.*wrote/s.test(text) && /out [\d.]+K?M?\/s/.test(text);
  });
  await until(async () => {
    window();
    return (await page.$$eval('.label-file', (l) => l.map((e) => e.textContent))).includes('/home/mika/src/main.go');
  });

  system.sensor('files', 'unavailable', 'The kernel has no /sys/kernel/btf/vmlinux.');
  system.status = { ...system.status, lost: 7, files_lost: 5 };
  system.activity();
  await says(page, '.space-panel', /File sensor is off: The kernel has no \/sys\/kernel\/btf\/vmlinux/);
  await says(page, '.bar', /FILES off/);
  await says(page, '.space-foot', /lost 12 · gaps 0/);
  await page.keyboard.press('Escape');
  await says(page, '.space-panel', /FILES.*off: The kernel has no/s);
  await says(page, '.space-panel', /What the sensors cannot see.*splice/s);
  system.gap(37);
  await says(page, '.space-foot', /gaps 1/);
  await says(page, '.space-panel', /1 gaps \(37 frames\)/);
  // A gap empties what only a moment showed.
  await until(async () => (await figures(page)).points === 0);
  system.warnings = ['First 100,000 descriptors; stopped after 4 s.'];
  system.structure();
  await says(page, '.space-panel', /Not complete.*First 100,000 descriptors/s);
});

test('who is stuck is framed, named and found; all connections are bundles with their numbers', async (t) => {
  const { page, fixture } = await openSpace(t, held, { world: { count: 150 }, path: '/space?q=state:D' });
  await says(page, '.space-found', /1 found/);
  await says(page, '.space-panel', /Waiting, stopped or zombie.*postgres 912.*D disk wait.*tracker 5012.*T stopped/s);
  const red = () => framed(page, keyOf(fixture, 912));
  await page.keyboard.press('n');
  await says(page, '.space-panel', /PID 912.*D disk wait/s);
  await settle(page);
  assert.ok(await red(), 'its roof has a frame in the colour of trouble');
  await page.keyboard.press('Escape');
  const row = fixture.world.rows.get(912);
  fixture.world.rows.set(912, { ...row, state: 'S', run_id: 'web' });
  fixture.world.rows.set(911, { ...fixture.world.rows.get(911), state: 'Z', map_summary: null });
  fixture.system.structure();
  await says(page, '.space-found', /0 found/);
  await until(async () => !(await red()));
  // It belongs to a run, and its plate leads there.
  await page.goto(`${fixture.url}/space?q=run:web&sel=${keyOf(fixture, 912)}`);
  await says(page, '.space-found', /1 found/);
  await says(page, '.space-panel', /PID 912.*Run web/s);
  assert.equal(await page.getAttribute('.space-panel a:text-is("web")', 'href'), '/runs/web');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  // A zombie has no address space.
  await page.click('.space-panel .space-who:has-text("911")');
  await says(page, '.space-panel', /Z zombie.*None any more: the process has ended/s);
  await page.keyboard.press('Escape');

  // 149 pipes at random and the ones everybody looks for, in at most 60 bundles.
  assert.equal(await page.$('.space-part[aria-label="All connections"]'), null);
  const focused = () => page.evaluate(() => document.activeElement.className);
  await page.focus('.space-select');
  await page.selectOption('.space-select', 'selected');
  assert.match(await focused(), /space-select/, 'by keyboard the choice goes on');
  await page.dispatchEvent('.space-select', 'pointerdown');
  await page.selectOption('.space-select', 'all');
  assert.match(await focused(), /space-canvas/, 'by pointer the picture has the keys again');
  await says(page, '.space-foot', /\d+ of \d+ connections drawn in \d+ bundles/);
  const foot = await page.textContent('.space-foot');
  const [, drawn, total, bundles] = /(\d+) of (\d+) connections drawn in (\d+) bundles/.exec(foot).map(Number);
  assert.ok(bundles > 10 && bundles <= 60 && drawn > bundles && drawn <= total, foot);
  const told = await page.textContent('.space-part[aria-label="All connections"]');
  assert.match(told, /systemd 1 \(plate\)/);
  assert.match(told, /connections stay on one plate/);
  await until(async () => (await figures(page)).lines >= bundles * 12);
  await page.keyboard.press('Home');
  await settle(page);
  await clickOn(page, keyOf(fixture, 4190));
  await says(page, '.space-panel', /PID 4190/);
  await until(async () => (await figures(page)).lines >= bundles * 12 + 20);
});

// framed tells whether the picture has the colour of trouble at a roof.
async function framed(page, key) {
  const at = await onScreen(page, key);
  const image = (await page.screenshot({ clip: { x: at.x - 30, y: at.y - 30, width: 60, height: 60 } })).toString('base64');
  return page.evaluate(async (data) => {
    const img = new Image();
    img.src = `data:image/png;base64,${data}`;
    await img.decode();
    const canvas = document.createElement('canvas');
    canvas.width = 60;
    canvas.height = 60;
    const context = canvas.getContext('2d');
    context.drawImage(img, 0, 0);
    const { data: pixels } = context.getImageData(0, 0, 60, 60);
    let n = 0;
    for (let i = 0; i < pixels.length; i += 4) {
      const [r, g, b] = [pixels[i], pixels[i + 1], pixels[i + 2]];
      if (r > 140 && r > 1.7 * g && g > b * 0.9) n++;
    }
    return n > 25;
  }, image);
}

test('processes come and go: the selected one that ends is said, nobody else is lost', async (t) => {
  const { page, fixture } = await openSpace(t, held, { world: { count: 80 } });
  assert.equal((await figures(page)).lines, 0);
  await page.click('button:text-is("Parent lines")');
  await until(async () => (await figures(page)).lines > 60);
  fixture.world.start({ pid: 60010, ppid: 733, name: 'fresh', cpu: 5 });
  fixture.system.structure();
  await says(page, '.space-foot', /79 processes/);
  await until(async () => (await onScreen(page, keyOf(fixture, 60010))) !== null);
  // All stays in the picture as the ground grows, as long as nobody moves the camera.
  for (let i = 0; i < 200; i++) fixture.world.start({ pid: 61000 + i, ppid: 1, name: 'more' });
  fixture.system.structure();
  await says(page, '.space-foot', /279 processes/);
  const box = await page.locator('.space-canvas').boundingBox();
  for (const turn of [null, 'T', 'T']) {
    if (turn) await page.keyboard.press(turn);
    for (const pid of [61000, 61199, 1, 733]) {
      await until(async () => {
        const at = await onScreen(page, keyOf(fixture, pid));
        return at.x > box.x && at.x < box.x + box.width && at.y > box.y && at.y < box.y + box.height;
      });
    }
  }
  const fresh = keyOf(fixture, 60010);
  await clickOn(page, fresh);
  await says(page, '.space-panel', /PID 60010.*fresh/s);
  fixture.world.exit(60010);
  fixture.system.structure();
  await says(page, '.note', /60010 is not running now; it may have ended/);
  assert.equal(await onScreen(page, fresh), null);
  await says(page, '.space-panel', /Busiest now/);
  // A link to a process that is not there says so and shows the rest.
  await page.goto(`${fixture.url}/space?sel=4242@7`);
  await says(page, '.note', /4242 is not running now/);
});

test('hold stands still and counts; live catches up; loss, limit and refusal have their words', async (t) => {
  const { page, fixture } = await openSpace(t, held, { world: { count: 80 } });
  await page.keyboard.press('Space');
  await says(page, '.bar', /HELD/);
  fixture.world.start({ pid: 60011, name: 'later' });
  fixture.world.exit(5012);
  fixture.system.structure();
  await says(page, '.note', /\+1 started −1 exited since/);
  assert.match(await page.textContent('.space-foot'), /78 processes/);
  assert.equal(await onScreen(page, keyOf(fixture, 60011)), null);
  await page.keyboard.press('Space');
  await until(async () => (await onScreen(page, keyOf(fixture, 60011))) !== null);

  await until(async () => /STALE/.test(await page.textContent('.bar')));
  fixture.system.metrics();
  await says(page, '.bar', /LIVE/);
  fixture.refuse.set('/api/system/events', {
    status: 429,
    code: 'too_many_streams',
    error: '32 space views are open already; close one and try again.',
    retryAfter: 1,
  });
  fixture.system.drop();
  await says(page, '.note', /32 space views are open already.*Showing \d\d:/s);
  fixture.refuse.set('/api/system/events', { status: 403, code: 'peer_not_allowed', error: 'You may not ask.' });
  await page.click('.note button:text-is("Retry")');
  await says(page, '.note', /You may not ask/);
  await says(page, '.bar', /DENIED/);
  assert.ok((await figures(page)).boxes > 0, 'what was there stays');
  fixture.refuse.clear();
  await page.click('.note button:text-is("Try again")');
  await says(page, '.bar', /LIVE/);
});

test('maps that cannot be read are said so; names that look like markup stay text', async (t) => {
  const { page, fixture } = await openSpace(t, held, {
    world: { count: 60 },
    before(f) {
      f.system.names.set(4190, HOSTILE);
      f.system.names.set(902, `<b>${'x'.repeat(4096)}`);
      f.system.network(902, 7601, '198.51.100.9:80', HOSTILE);
    },
  });
  await clickOn(page, keyOf(fixture, 1));
  await says(page, '.space-panel', /maps: Not permitted to read maps of pid 1 \(EPERM\)/);
  await page.keyboard.press('Escape');
  await page.goto(`${fixture.url}/space?sel=${keyOf(fixture, 4190)}`);
  await says(page, '.space-name', /<img src=x onerror=alert\(1\)>␛\[31m⟨U\+202E⟩gnp\.exe/);
  await says(page, '.label-chosen', /<img src=x/);
  fixture.system.activity({ files: [[4190, 'file:8:1:3:0', `/tmp/${HOSTILE}`, true, 1]] });
  await says(page, '.space-path', /\/tmp\/<img/);
  await page.goto(`${fixture.url}/space?sel=${keyOf(fixture, 902)}`);
  await says(page, '.space-panel', /<img src=x onerror/);
  await page.click('button:text-is("As list")');
  await page.waitForSelector('.space-list .row');
  const text = await page.evaluate(() => document.body.innerText);
  assert.ok(!/[\u001b\u202e]/u.test(text), 'no control or direction mark is left');
  assert.equal(await page.$('img, b.x'), null);
});

test('the graphics driver takes the picture away and gives it back', async (t) => {
  const { page } = await openSpace(t, held, { world: { count: 60 } });
  await page.evaluate(() => {
    const canvas = document.querySelector('.space-canvas');
    window.taken = canvas.getContext('webgl2').getExtension('WEBGL_lose_context');
    window.taken.loseContext();
  });
  await says(page, '.note', /took the picture away/);
  await page.evaluate(() => window.taken.restoreContext());
  await until(async () => !/took the picture away/.test(await page.textContent('.space-left')));
  const { frames } = await figures(page);
  await page.keyboard.press('Home');
  await until(async () => (await figures(page)).frames > frames);
  await settle(page);
  assert.ok((await spread(page)) > 12, 'it is drawn again');
});

test('hidden, the stream is given back and what a moment showed goes; seen, it comes anew', async (t) => {
  const { page, fixture } = await openSpace(t, held, { world: { count: 60 } });
  const hide = (state) =>
    page.evaluate((value) => {
      Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => value });
      document.dispatchEvent(new Event('visibilitychange'));
    }, state);
  await hide('hidden');
  await until(() => fixture.system.streams.size === 0);
  await hide('visible');
  await until(() => fixture.system.streams.size === 1);
  await page.click('.place:text-is("List")');
  await page.waitForSelector('.row');
  await until(() => fixture.system.streams.size === 0);
});

test('with four other views open it polls, and shows the processes even when nobody watches the host', async (t) => {
  const fixture = await startFixture({ manual: true, count: 60 });
  t.after(() => fixture.close());
  const other = await newPage(t, held, `${fixture.url}/api/system/status`);
  await other.evaluate(async () => {
    for (let n = 1; n <= 4; n++) {
      await new Promise((taken) => {
        navigator.locks.request(`stream-${n}`, () => {
          taken();
          return new Promise((done) => {
            window.release = done;
          });
        });
      });
    }
  });
  fixture.system.isIdle = true;
  const page = await other.context().newPage();
  await page.goto(`${fixture.url}/space`);
  await says(page, '.note', /polling: 4 other views are open/);
  await says(page, '.bar', /POLLING/);
  await says(page, '.space-foot', /58 processes/);
  await says(page, '.space-panel', /Connections and activity are not known while this page polls/);
  assert.equal(fixture.system.streams.size, 0);
  // Another view watches the host: its structure is what is asked for.
  fixture.system.isIdle = false;
  fixture.system.sequence = 5;
  fixture.world.now = Date.now();
  await says(page, '.space-foot', /of [1-9]\d* connections/);
  // A place has come free: the stream is back.
  await other.evaluate(() => window.release());
  await says(page, '.bar', /LIVE/);
});

// The list: filter, sort, tree, hold, lock, marks, selection, rewind, columns, links.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { names, newPage, openList, texts, until, useBrowser } from './lib.mjs';

const held = useBrowser({ before, after });

const rowOf = (page, pid) => page.locator('.row', { has: page.locator(`.c-pid:text-is("${pid}")`) });
const cell = (page, pid, column) => rowOf(page, pid).locator(`.c-${column}`);
const shown = (page) => page.textContent('.foot-count');

async function type(page, text) {
  await page.keyboard.press('/');
  await page.waitForSelector('.filter-input:focus');
  await page.keyboard.type(text);
}

test('title, and what a row says', async (t) => {
  const { page } = await openList(t, held, { world: { count: 40 } });
  assert.equal(await page.title(), 'procinsh / list');
  assert.equal(await page.textContent('h1'), 'procinsh / list');
  assert.equal(await cell(page, 20990, 'name').locator('a').textContent(), 'go');
  assert.match(await cell(page, 20990, 'name').locator('a').getAttribute('href'), /^\/process\/20990\?start=\d+$/);
  assert.equal(await cell(page, 20990, 'user').textContent(), 'mika');
  assert.equal(await cell(page, 20990, 'state').textContent(), 'R');
  assert.equal(await cell(page, 20990, 'cpu').textContent(), '212.4');
  assert.equal(await cell(page, 20990, 'rss').textContent(), '391.8M');
  assert.equal(await cell(page, 20990, 'thr').textContent(), '18');
  assert.equal(await cell(page, 20990, 'read').textContent(), '786K');
  assert.equal(await cell(page, 20990, 'write').textContent(), '1.5M');
  assert.equal(await cell(page, 20990, 'command').textContent(), 'go build -trimpath ./...');
  assert.equal(await cell(page, 2311, 'user').textContent(), '10001', 'a uid without a name');
  assert.equal(await shown(page), '38 of 38 shown', 'two kernel threads are hidden');
});

test('the filter line: words, keys, chips, exclusion, address', async (t) => {
  const { page } = await openList(t, held, { world: { count: 40 } });
  await type(page, 'user:mika cpu>0.5 comp');
  await until(async () => (await shown(page)) === '2 of 38 shown');
  assert.deepEqual(await names(page), ['compile', 'compile']);
  assert.deepEqual(await page.locator('.chip').allTextContents(), ['user:mika', 'cpu>0.5']);
  assert.equal(await page.inputValue('.filter-input'), 'comp');
  assert.equal(new URL(page.url()).searchParams.get('q'), 'user:mika cpu>0.5 comp');
  // Backspace at the start of the words opens the last chip.
  await page.keyboard.press('Home');
  await page.keyboard.press('Backspace');
  assert.deepEqual(await page.locator('.chip').allTextContents(), ['user:mika']);
  assert.equal(await page.inputValue('.filter-input'), 'cpu>0.5 comp');
  // Escape clears, a second one leaves.
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('.chip').count(), 0);
  await until(async () => (await shown(page)) === '38 of 38 shown');
  assert.equal(new URL(page.url()).search, '');
  await page.keyboard.press('Escape');
  await until(() => page.evaluate(() => !document.activeElement.matches('input')));
  await type(page, '-user:root -user:mika -name:post');
  await until(async () => (await names(page)).every((n) => !['postgres', 'go', 'systemd'].includes(n)));
  assert.deepEqual((await names(page)).sort(), ['nginx', 'nginx', 'python3', 'python3', 'redis-server']);
});

test('the filter line: a link brings it back, a chip opens on a press', async (t) => {
  const { page } = await openList(t, held, { world: { count: 40 }, path: '/?q=user:postgres+-cpu<1&sort=name' });
  assert.deepEqual(await page.locator('.chip').allTextContents(), ['user:postgres', '-cpu<1']);
  assert.deepEqual(await texts(page, 'pid'), ['912', '3310']);
  assert.equal(await page.getAttribute('[role=columnheader].c-name', 'aria-sort'), 'ascending');
  await page.click('.chip >> nth=1');
  assert.equal(await page.inputValue('.filter-input'), '-cpu<1');
});

test('the filter line: what cannot be understood is underlined with a reason', async (t) => {
  const { page } = await openList(t, held, { world: { count: 40 } });
  await type(page, 'usr:root ');
  await page.waitForSelector('.filter-bad');
  assert.equal(await page.textContent('.filter-bad'), 'usr:root');
  assert.match(await page.textContent('.filter-wrong'), /unknown key usr: known are pid ppid name exe cmd user/);
  assert.equal(await shown(page), '38 of 38 shown', 'it hides nothing');
  assert.equal(await page.getAttribute('.filter-input', 'aria-invalid'), 'true');
});

test('the filter line: nothing matches, and what was meant', async (t) => {
  const { page } = await openList(t, held, { world: { count: 40 } });
  await type(page, 'user:mikaa ');
  await page.waitForSelector('.grid-empty');
  assert.match(await page.textContent('.grid-empty'), /No process matches user:mikaa\. Nearest: user:mika \(\d+\)\./);
  await page.click('.grid-empty .button-link');
  await until(async () => (await names(page)).includes('bash'));
  assert.deepEqual(await page.locator('.chip').allTextContents(), ['user:mika']);
});

test('Ctrl+F opens the filter, the second press is the browser’s', async (t) => {
  const { page } = await openList(t, held, { world: { count: 40 } });
  await page.evaluate(() => {
    window.left = [];
    addEventListener('keydown', (e) => setTimeout(() => window.left.push(e.defaultPrevented)), true);
  });
  await page.keyboard.press('Control+f');
  await page.waitForSelector('.filter-input:focus');
  await page.keyboard.press('Control+f');
  await until(async () => (await page.evaluate(() => window.left.filter((x) => x === false).length)) >= 1);
  assert.equal(await page.evaluate(() => window.left.at(-1)), false);
});

test('sort: header, second press, letters, shift-click', async (t) => {
  const { page } = await openList(t, held, { world: { count: 40 } });
  const sorted = (list, down) => [...list].sort((a, b) => (down ? b - a : a - b));
  let cpu = (await texts(page, 'cpu')).map(Number);
  assert.deepEqual(cpu, sorted(cpu, true));
  await page.click('[role=columnheader].c-rss button');
  await page.waitForSelector('[role=columnheader].c-rss[aria-sort=descending]');
  assert.equal((await names(page))[0], 'chromium');
  await page.click('[role=columnheader].c-rss button');
  await page.waitForSelector('[role=columnheader].c-rss[aria-sort=ascending]');
  assert.equal(await page.getAttribute('[role=columnheader].c-cpu', 'aria-sort'), null);
  assert.match(page.url(), /sort=rss/);
  await page.keyboard.press('s');
  await page.keyboard.press('p');
  await until(async () => (await texts(page, 'pid'))[0] === '1');
  const pids = (await texts(page, 'pid')).map(Number);
  assert.deepEqual(pids, sorted(pids, false));
  await page.click('.row:nth-child(2) .c-cpu', { modifiers: ['Shift'] });
  await until(async () => (await names(page))[0] === 'go');
  cpu = (await texts(page, 'cpu')).map(Number);
  assert.deepEqual(cpu, sorted(cpu, true));
});

test('tree: levels, collapse and sums, all at once, the filter’s ancestors', async (t) => {
  const { page } = await openList(t, held, { world: { count: 24 }, path: '/?tree=1&sort=pid' });
  const level = (pid) => rowOf(page, pid).getAttribute('aria-level');
  assert.equal(await level(1), '1');
  assert.equal(await level(733), '2');
  assert.equal(await level(21044), '6');
  assert.equal(await rowOf(page, 20990).getAttribute('aria-expanded'), 'true');
  assert.equal(await rowOf(page, 21044).getAttribute('aria-expanded'), null);
  await rowOf(page, 20990).locator('.twist').click();
  await until(async () => (await rowOf(page, 21044).count()) === 0);
  assert.equal(await rowOf(page, 20990).getAttribute('aria-expanded'), 'false');
  assert.equal(await cell(page, 20990, 'cpu').textContent(), 'Σ 408.2');
  assert.equal(await cell(page, 20990, 'thr').textContent(), 'Σ 36');
  assert.match(await cell(page, 20990, 'name').textContent(), /\+2/);
  await page.keyboard.press('-');
  await until(async () => (await page.locator('.row').count()) === 1);
  assert.equal(await page.getAttribute('[role=treegrid]', 'aria-rowcount'), '2');
  await page.keyboard.press('*');
  await until(async () => (await page.locator('.row').count()) === 23);
  await type(page, 'compile');
  await until(async () => (await shown(page)) === '2 of 23 shown');
  assert.deepEqual(await names(page), ['systemd', 'sshd', 'sshd', 'bash', 'go', 'compile', 'compile']);
  assert.equal(await page.locator('.row-dim').count(), 5);
  await page.keyboard.press('Escape');
  await page.keyboard.type('bash');
  await until(async () => (await names(page)).at(-1) === 'bash');
  await page.keyboard.press('ArrowDown'); // leave the field
  await page.keyboard.press('c');
  await until(async () => (await names(page)).join() === 'systemd,sshd,sshd,bash,go,compile,compile');
  await page.keyboard.press('t');
  await until(async () => (await names(page)).join() === 'bash');
});

test('kernel threads: hidden with their number, shown on demand or by the filter', async (t) => {
  const { page } = await openList(t, held, { world: { count: 40 } });
  assert.match(await page.textContent('.list-foot'), /hidden \(2\)/);
  await page.keyboard.press('k');
  await until(async () => (await shown(page)) === '40 of 40 shown');
  assert.match(page.url(), /kernel=1/);
  assert.equal(await cell(page, 2, 'maps').textContent(), 'kernel');
  assert.equal(await cell(page, 2, 'command').textContent(), '[kthreadd]');
  await page.keyboard.press('k');
  await type(page, 'kernel:yes ');
  await until(async () => (await shown(page)) === '2 of 40 shown');
});

test('figures follow the stream', async (t) => {
  const { page, fixture } = await openList(t, held, { world: { count: 40 } });
  fixture.world.set(1502, { cpu_percent: 640, rss_bytes: 5 * 1024 ** 3, state: 'R' });
  fixture.tick(0);
  await until(async () => (await names(page))[0] === 'redis-server');
  assert.match(await cell(page, 1502, 'rss').textContent(), /^5\.0G$/);
});

test('marks: started and exited for five seconds, counted in the gauge', async (t) => {
  const { page, fixture } = await openList(t, held, { world: { count: 24 } });
  fixture.tick(0);
  fixture.world.start({ pid: 60001, name: 'fresh' });
  fixture.world.exit(1502);
  fixture.tick(0);
  await rowOf(page, 60001).waitFor();
  assert.match(await rowOf(page, 60001).getAttribute('class'), /row-new/);
  assert.equal(await cell(page, 60001, 'name').locator('.mark').textContent(), 'started');
  assert.equal(await cell(page, 60001, 'cpu').textContent(), '–');
  assert.equal(await cell(page, 60001, 'cpu').getAttribute('title'), 'needs two samples');
  assert.match(await rowOf(page, 1502).getAttribute('class'), /row-gone/);
  assert.match(await cell(page, 1502, 'name').locator('.mark').textContent(), /^exited/);
  assert.equal(await cell(page, 1502, 'rss').textContent(), '–');
  assert.match(await page.textContent('.gauge-turn'), /\+1 started −1 exited/);
  for (let i = 0; i < 3; i++) fixture.tick(0);
  await until(async () => /exited 3 s ago/.test(await cell(page, 1502, 'name').textContent()));
  for (let i = 0; i < 3; i++) fixture.tick(0);
  await until(async () => (await rowOf(page, 1502).count()) === 0);
  assert.doesNotMatch(await rowOf(page, 60001).getAttribute('class'), /row-new/);
  assert.match(await page.textContent('.gauge-turn'), /\+0 started −0 exited/);
});

test('hold: the picture stands, stays usable, marks what ended; live again catches up', async (t) => {
  const { page, fixture } = await openList(t, held, { world: { count: 24 } });
  const before = await texts(page, 'cpu');
  await page.keyboard.press('Space');
  await page.waitForSelector('.lamp:has-text("HELD")');
  fixture.world.set(1502, { cpu_percent: 640 });
  fixture.world.start({ pid: 60002, name: 'fresh' });
  fixture.world.exit(20990);
  fixture.tick();
  await until(async () => /\+1 started −1 exited since/.test(await page.textContent('.held')));
  const after = await texts(page, 'cpu');
  assert.deepEqual(after, before.slice(0, after.length));
  assert.match(await rowOf(page, 20990).getAttribute('class'), /row-gone/);
  assert.equal(await rowOf(page, 60002).count(), 0);
  // Sort, tree and filter work on what is held.
  await page.click('[role=columnheader].c-pid button');
  await until(async () => (await texts(page, 'pid'))[0] === '1');
  await page.keyboard.press('t');
  await until(async () => (await rowOf(page, 21044).getAttribute('aria-level')) !== null);
  await page.keyboard.press('t');
  for (let i = 0; i < 7; i++) fixture.tick(0);
  await type(page, 'go ');
  await until(async () => (await names(page)).includes('go'));
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  await page.click('.held button:has-text("Live")');
  await page.waitForSelector('.held', { state: 'detached' });
  await rowOf(page, 60002).waitFor();
  assert.equal(await rowOf(page, 20990).count(), 0);
});

test('lock: values change, places do not', async (t) => {
  const { page, fixture } = await openList(t, held, { world: { count: 40 } });
  await page.keyboard.press('L');
  await until(async () => /Order locked/.test(await page.textContent('.list-foot')));
  const before = await texts(page, 'pid');
  fixture.world.set(1502, { cpu_percent: 640 });
  fixture.tick(0);
  await until(async () => Number(await cell(page, 1502, 'cpu').textContent()) > 400);
  assert.deepEqual(await texts(page, 'pid'), before);
  await page.keyboard.press('L');
  await until(async () => (await texts(page, 'pid'))[0] === '1502');
});

test('lock by itself: while the pointer is in the table, and for 3 s after a cursor key', async (t) => {
  const { page, fixture } = await openList(t, held, { world: { count: 40 } });
  await page.hover('.row:nth-child(4)');
  await until(async () => /Order held a moment/.test(await page.textContent('.list-foot')));
  const before = await texts(page, 'pid');
  fixture.world.set(1502, { cpu_percent: 640 });
  fixture.tick(0);
  await until(async () => Number(await cell(page, 1502, 'cpu').textContent()) > 400);
  assert.deepEqual(await texts(page, 'pid'), before);
  await page.hover('h1');
  await until(async () => (await texts(page, 'pid'))[0] === '1502');
  await page.keyboard.press('ArrowDown');
  fixture.world.set(733, { cpu_percent: 2000 });
  fixture.tick(0);
  await until(async () => Number(await cell(page, 733, 'cpu').textContent()) > 1000);
  assert.equal((await texts(page, 'pid'))[0], '1502');
  await until(async () => (await texts(page, 'pid'))[0] === '733');
});

test('selection: bound to the process through sort, tree, filter, refresh and exit', async (t) => {
  const { page, fixture } = await openList(t, held, { world: { count: 24 } });
  await cell(page, 3310, 'cpu').click();
  const selected = () => page.locator('.row-selected .c-pid').allTextContents();
  assert.deepEqual(await selected(), ['3310']);
  assert.equal(await page.getAttribute('.row-selected', 'aria-selected'), 'true');
  await page.waitForSelector('.preview');
  assert.match(await page.textContent('.preview'), /3310.*postgres.*under systemd › postgres/s);
  for (const key of ['s', 'n', 't', 't']) await page.keyboard.press(key);
  fixture.tick();
  assert.deepEqual(await selected(), ['3310']);
  await type(page, 'user:mika ');
  await until(async () => (await page.locator('.row-selected.row-dim').count()) === 1);
  assert.deepEqual(await selected(), ['3310'], 'the filter dims it, but does not hide it');
  await page.keyboard.press('Escape');
  fixture.world.exit(3310);
  for (let i = 0; i < 8; i++) fixture.tick(0);
  await until(async () => (await page.locator('.row-selected.row-gone').count()) === 1);
  // Its pid comes back for another process: the selection does not move over.
  fixture.world.start({ pid: 3310, name: 'other' });
  fixture.tick(0);
  await until(async () => (await names(page)).includes('other'));
  assert.match(await page.locator('.row-selected').getAttribute('class'), /row-gone/);
});

test('rewind: a drag on a gauge shows that second, Escape returns', async (t) => {
  const { page, fixture } = await openList(t, held, { world: { count: 40 } });
  for (let i = 0; i < 20; i++) {
    if (i === 5) fixture.world.set(1502, { cpu_percent: 700 });
    if (i === 9) fixture.world.set(1502, { cpu_percent: 1 });
    if (i === 12) fixture.world.exit(912);
    fixture.tick(0);
  }
  await until(async () => (await rowOf(page, 912).count()) === 0);
  const box = await page.locator('.gauge-chart').first().boundingBox();
  const y = box.y + box.height / 2;
  await page.mouse.move(box.x + box.width - 2, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * (1 - 12.5 / 60), y, { steps: 6 });
  await page.mouse.up();
  await page.waitForSelector('.lamp:has-text("HELD")');
  assert.match(await page.textContent('.bar-lamps'), /HELD.*−1[23] s/);
  await until(async () => (await names(page))[0] === 'redis-server');
  assert.ok(Number(await cell(page, 1502, 'cpu').textContent()) > 500, 'its CPU of then');
  assert.equal(await rowOf(page, 912).count(), 1, 'and who ran then');
  assert.equal(await cell(page, 1502, 'thr').textContent(), '–');
  await page.keyboard.press('Escape');
  await page.waitForSelector('.held', { state: 'detached' });
  await until(async () => (await rowOf(page, 912).count()) === 0);
  // The same by keyboard, from the slider of a held list.
  await page.keyboard.press('Space');
  await page.focus('.held-range');
  for (let i = 0; i < 12; i++) await page.keyboard.press('ArrowLeft');
  await until(async () => (await names(page))[0] === 'redis-server');
});

test('columns: chosen, moved, widened, kept, in the link', async (t) => {
  const { page, fixture } = await openList(t, held, { world: { count: 40 } });
  const heads = () =>
    page.$$eval('[role=columnheader]', (cells) => cells.map((c) => c.textContent.replace(/ [▼▲]/, '')));
  await page.click('.bar-columns');
  await page.click('.chooser-sets button:has-text("Memory")');
  assert.deepEqual(await heads(), [
    'PID',
    'Name',
    'User',
    'RSS',
    'Virtual',
    'Address space',
    'Thr',
    'Lifetime',
    'Command',
  ]);
  await page.uncheck('.chooser-row:has-text("Threads") input');
  await page.check('.chooser-row:has-text("Nice value") input');
  await page.click('.chooser-row:has-text("Nice value") button:has-text("earlier")');
  assert.deepEqual(await heads(), [
    'PID',
    'Name',
    'User',
    'RSS',
    'Virtual',
    'Address space',
    'Lifetime',
    'Nice',
    'Command',
  ]);
  await page.fill('.chooser-save input', 'mine');
  await page.click('.chooser-save button');
  assert.equal(await page.locator('.chooser-own').count(), 1);
  await page.keyboard.press('Escape');
  const grip = await page.locator('[role=columnheader].c-user .head-grip').boundingBox();
  await page.mouse.move(grip.x + 2, grip.y + 5);
  await page.mouse.down();
  await page.mouse.move(grip.x + 62, grip.y + 5, { steps: 3 });
  await page.mouse.up();
  const width = () =>
    page.locator('[role=columnheader].c-user').evaluate((e) => Math.round(e.getBoundingClientRect().width));
  assert.equal(await width(), 136);
  const link = page.url();
  assert.match(link, /cols=pid,name,user,rss,vms,maps,age,nice,command/);
  await page.reload();
  await page.waitForSelector('.row');
  assert.equal(await width(), 136);
  assert.deepEqual(await heads(), [
    'PID',
    'Name',
    'User',
    'RSS',
    'Virtual',
    'Address space',
    'Lifetime',
    'Nice',
    'Command',
  ]);
  const other = await newPage(t, held, link);
  await other.waitForSelector('.row');
  assert.equal(await other.locator('[role=columnheader].c-nice').count(), 1, 'a link shows the same to others');
  assert.ok(
    fixture.requests.every((path) => path.startsWith('/api/processes/stream')),
    'the list asks for its stream only',
  );
});

test('copies: row and table as TSV, JSON, curl; links', async (t) => {
  const { page, fixture } = await openList(t, held, {
    world: { count: 40 },
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  await cell(page, 3310, 'cpu').click();
  await page.keyboard.press('Y');
  const copy = async (label) => {
    await page.click(`.copies button:has-text("${label}")`);
    await until(async () => /copied/.test(await page.textContent('.sheet [role=status]')));
    return page.evaluate(() => navigator.clipboard.readText());
  };
  assert.equal((await copy('Row as TSV')).split('\n')[1].split('\t')[0], '3310');
  assert.equal(JSON.parse(await copy('Row as JSON')).identity.pid, 3310);
  const start = fixture.world.identity(3310).start_time_ticks;
  assert.equal(
    await copy('Row as curl'),
    `curl -s '${fixture.url}/api/processes/observation?pid=3310&start_time_ticks=${start}'`,
  );
  assert.equal((await copy('Table as TSV')).trim().split('\n').length, 39);
  assert.equal(JSON.parse(await copy('Table as JSON')).length, 38);
  assert.match(await copy('Table as curl'), /\/api\/processes\?maps=summary&io=1'$/);
  assert.equal(await copy('Link to process'), `${fixture.url}/process/3310?start=${start}`);
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog', { state: 'detached' });
  await page.keyboard.press('y');
  await until(async () => (await page.evaluate(() => navigator.clipboard.readText())) === `${fixture.url}/`);
});

test('save as JSON and open it again', async (t) => {
  const { page, fixture } = await openList(t, held, { world: { count: 40 } });
  await page.keyboard.press('Y');
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.click('.copies button:has-text("Save as JSON")'),
  ]);
  assert.match(file.suggestedFilename(), /^procinsh-list-.*\.json$/);
  const path = await file.path();
  fixture.world.exit(20990);
  fixture.tick(0);
  await page.setInputFiles('.copies-file input', path);
  await page.waitForSelector('.lamp:has-text("SAVED")');
  await until(async () => (await names(page))[0] === 'go');
  assert.equal(await shown(page), '38 of 38 shown');
  await page.keyboard.press('Escape');
  await page.waitForSelector('.held', { state: 'detached' });
});

test('names are text: markup, terminal codes and direction marks do nothing', async (t) => {
  const evil = '<img src=x onerror=reportProblem("ran")>';
  const { page } = await openList(t, held, {
    world: { count: 24 },
    before: ({ world }) => {
      world.set(1502, { run_id: 'web-1', name: '\u202egnp.exe', command_line: ['\x1b[31mred', evil] });
      world.set(1204, { name: '<b>bold</b>', username: '\u2066x' });
      world.set(2311, { name: '', container: '\x07bell' });
    },
  });
  assert.equal(await cell(page, 1502, 'name').locator('a').textContent(), '⟨U+202E⟩gnp.exe');
  assert.equal(await cell(page, 1502, 'command').textContent(), `␛[31mred ${evil}`);
  assert.equal(await cell(page, 1204, 'name').locator('a').textContent(), '<b>bold</b>');
  assert.equal(await cell(page, 1204, 'user').textContent(), '⟨U+2066⟩x');
  assert.equal(await cell(page, 2311, 'name').locator('a').textContent(), '(no name)');
  await cell(page, 1502, 'cpu').click();
  await page.waitForSelector('.preview');
  assert.equal(await page.locator('.preview a:has-text("web-1")').getAttribute('href'), '/runs/web-1');
  await cell(page, 1502, 'command').hover();
  assert.equal(await page.locator('main b, main img').count(), 0);
  const raw = await page.evaluate(() => document.body.textContent);
  assert.doesNotMatch(raw, /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/);
});

test('100 % is one core, or all of them', async (t) => {
  const { page } = await openList(t, held, { world: { count: 24 } });
  await page.keyboard.press('%');
  await until(async () => (await cell(page, 20990, 'cpu').textContent()) === '26.6');
  assert.match(await page.textContent('.list-foot'), /100 % = all 8 cores/);
});

test('gauges and the foot say what the host and this tool take', async (t) => {
  const { page } = await openList(t, held, { world: { count: 24 } });
  const gauges = await page.locator('.gauge').allTextContents();
  assert.match(gauges[0], /CPU 8 cores4\.52 cores busy/);
  assert.match(gauges[1], /Memory11\.3 \/ 31\.1 GiB/);
  assert.match(gauges[2], /Read38\.2 MiB\/s/);
  assert.match(gauges[3], /Write12\.7 MiB\/s/);
  assert.match(gauges[4], /Processes25 3 running · 1 in D/);
  assert.match(await page.textContent('.foot-self'), /this tool 0\.4 % 31\.0M/);
  assert.match(
    await page.getAttribute('.gauge-chart', 'aria-label'),
    /Cores busy, last 60 s: least 4\.52, most 4\.52, now 4\.52/,
  );
});

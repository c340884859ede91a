// The page of the runs over made-up runs: what it shows and asks for, by mouse and by
// keyboard, small and large, dark and light.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { HOSTILE } from './fixture/process.mjs';
import { crowd } from './fixture/runs.mjs';
import { startFixture } from './fixture/server.mjs';
import { axe, newPage, until, useBrowser } from './lib.mjs';

const held = useBrowser({ before, after });

// openRuns starts a server with a crowd of runs, and opens a page of theirs.
async function openRuns(t, path, { prepare, ...options } = {}) {
  const fixture = await startFixture({ manual: true, count: 5 });
  t.after(() => fixture.close());
  crowd(fixture.runs);
  prepare?.(fixture.runs);
  const page = await newPage(t, held, fixture.url + path, options);
  return { page, fixture, runs: fixture.runs };
}

const says = (page, where, pattern) =>
  until(async () => pattern.test(await page.textContent(where))).catch(async (cause) => {
    throw new Error(`${where} does not say ${pattern}: ${await page.textContent(where).catch(() => 'it is not there')}`, { cause });
  });

// settled waits for the end of a scroll, which the browser moves over several frames.
const settled = (page, where) =>
  page.$eval(
    where,
    (e) =>
      new Promise((done) => {
        let top = e.scrollTop;
        let frames = 0;
        const look = () => {
          frames = e.scrollTop === top ? frames + 1 : 0;
          top = e.scrollTop;
          if (frames < 10) requestAnimationFrame(look);
          else done();
        };
        requestAnimationFrame(look);
      }),
  );

const button = (page, name) => page.getByRole('button', { name });

for (const theme of ['dark', 'light']) {
  for (const [width, height] of [
    [1440, 900],
    [390, 844],
  ]) {
    test(`axe finds nothing: ${theme}, ${width} px`, async (t) => {
      const { page, runs } = await openRuns(t, '/runs/build', { theme, width, height });
      await page.waitForSelector('.xterm-rows');
      await says(page, '.xterm-rows', /compiling ok/);
      assert.deepEqual(await axe(page), [], 'a terminal');
      await page.click('#tab-processes');
      await page.getByRole('radio', { name: /^All/ }).check();
      runs.leave('build', 3311);
      await says(page, '.members-table', /ended/);
      assert.deepEqual(await axe(page), [], 'processes');
      await page.click('#tab-compare');
      await page.waitForSelector('.compare-table');
      assert.deepEqual(await axe(page), [], 'a comparison');
      await page.goto(page.url().replace('/runs/build', '/runs/hostile').replace(/#.*/, '#output'));
      runs.print('hostile', 'oops\n', 'stderr');
      await says(page, '.out-scroll', /oops/);
      await page.fill('.out-search', 'plain');
      await says(page, '.out-found', /1 lines/);
      assert.deepEqual(await axe(page), [], 'output');
      await page.click('#tab-details');
      await says(page, '.details', /The same again/);
      assert.deepEqual(await axe(page), [], 'details');
      await page.goto(new URL('/runs', page.url()).href);
      await says(page, '.runs-list', /ADOPTED/);
      runs.emit('helper', { reason: 'lost' });
      await says(page, '.runs-main', /The helper that holds the runs ended/);
      assert.deepEqual(await axe(page), [], 'all, without the helper');
      await button(page, /^New run/).click();
      await page.getByRole('radio', { name: 'Shell text' }).check();
      await button(page, 'Add variable').click();
      await button(page, /^Start/).click();
      await says(page, '.new', /Give a command/);
      assert.deepEqual(await axe(page), [], 'a new run');
      await page.keyboard.press('Escape');
      runs.isDisabled = true;
      await page.reload();
      await says(page, '.runs-off', /Runs are off/);
      assert.deepEqual(await axe(page), [], 'runs are off');
    });
  }
}

test('nothing is wider than the page at 390 and 320 px, whatever runs are called', async (t) => {
  const { page, fixture, runs } = await openRuns(t, '/runs', { width: 390, height: 700 });
  runs.add('long', { argv: ['x'.repeat(3000)], cwd: `/${'y'.repeat(3000)}`, out: `${'z'.repeat(5000)}\n`, scope: 's'.repeat(300) });
  runs.member('long', 3600, { label: 'l'.repeat(40), command: 'c'.repeat(4096) });
  for (const width of [390, 320]) {
    await page.setViewportSize({ width, height: 700 });
    for (const path of ['/runs', '/runs/build', '/runs/long#output', '/runs/long#processes', '/runs/long#details', '/runs/long#compare']) {
      await page.goto(fixture.url + path);
      await says(page, '.foot', /live of/);
      if (path !== '/runs') await page.waitForSelector('.run-panel > *');
      const wide = () =>
        page.evaluate(() => ({
          page: document.documentElement.scrollWidth - innerWidth,
          high: document.documentElement.scrollHeight - innerHeight,
          bar: document.querySelector('.bar').scrollWidth - document.querySelector('.bar').clientWidth,
          main: document.querySelector('.runs-main').scrollWidth - document.querySelector('.runs-main').clientWidth,
        }));
      assert.deepEqual(await wide(), { page: 0, high: 0, bar: 0, main: 0 }, `${path} at ${width}`);
    }
    await page.goto(`${fixture.url}/runs`);
    await button(page, /^New run/).click();
    await page.waitForSelector('.new');
    const sheet = await page.$eval('dialog[open]', (e) => [e.scrollWidth - e.clientWidth, e.getBoundingClientRect().left]);
    assert.equal(sheet[0], 0, 'the sheet');
    assert.ok(sheet[1] >= 0);
  }
});

test('what a run is called and prints stays text; pages of runs are loaded whole, with their own policy', async (t) => {
  const { page, runs } = await openRuns(t, '/runs/hostile#output');
  await says(page, '.out-scroll', /<img src=x/);
  assert.match(await page.textContent('.out-scroll'), /link ⟨U\+202E⟩gnp\.exe/);
  assert.equal(await page.$('.out-scroll a, .out-scroll img'), null);
  await page.click('#tab-processes');
  await says(page, '.members-table', /onerror=alert\(1\)>␛/);
  await page.click('#tab-details');
  await says(page, '.details', /onerror=alert\(1\)>␛/);
  assert.equal(await page.$('.runs img'), null);
  assert.equal(await page.title(), 'procinsh / runs');
  // On a terminal: a title is shown as text, links, clipboard and questions do nothing.
  const made = runs.add('tty', { pty: { cols: 80, rows: 24 }, created_at: Date.now() });
  runs.print('tty', `\u001b]0;${HOSTILE.replace(/\u001b/g, '')}\u0007\u001b]8;;http://evil.example/\u0007link\u001b]8;;\u0007\u001b]52;c;cHduZWQ=\u0007`, 'terminal');
  runs.print('tty', '\u001b[c\u001b[>c\u001b[6n\u001b[5n\u001b[?1$p\u001b]11;?\u0007\u001bP$qm\u001b\\\u001b[14t\u001b[>q done', 'terminal');
  await page.click('[data-run="tty"]');
  await page.click('#tab-terminal');
  await says(page, '.xterm-rows', /link.*done/);
  assert.match(await page.textContent('.term-title'), /Title: <img src=x onerror=alert\(1\)>/);
  assert.equal(await page.$('.term a, .term img'), null);
  assert.equal(await page.title(), 'procinsh / runs');
  assert.equal(made.input, '', 'no question is answered');
  // From the runs to the list and back: another document each time.
  await page.evaluate(() => {
    window.mark = true;
  });
  await page.click('.bar-places a:text-is("List")');
  await page.waitForSelector('.row');
  assert.equal(await page.evaluate(() => window.mark), undefined);
  const style = () =>
    page.evaluate(() => {
      const element = document.createElement('style');
      element.textContent = '.bar { outline: 1px solid }';
      document.head.append(element);
      return element.sheet === null;
    });
  assert.equal(await style(), true, 'no style elements on other pages');
  await until(() => page.problems.some((text) => /style-src-elem/.test(text)));
  page.problems.length = 0;
  await page.keyboard.press('g');
  await page.keyboard.press('r');
  await page.waitForSelector('.runs-row');
  assert.equal(await style(), false, 'a terminal’s are let through here');
  assert.equal(
    await page.evaluate(() => {
      try {
        document.createElement('div').innerHTML = '<b>x</b>';
        return 'taken';
      } catch {
        return 'refused';
      }
    }),
    'refused',
    'trusted types hold',
  );
  await until(() => page.problems.some((text) => /require-trusted-types-for/.test(text)));
  page.problems.length = 0;
});

test('the list lives: filter, lamps, events, what was missed while away', async (t) => {
  const { page, fixture, runs } = await openRuns(t, '/runs');
  await says(page, '.runs-list', /EXITED.*timed out after 14\.0 s, SIGKILL/s);
  await says(page, '.runs-list', /FAILED.*could not be started/s);
  await says(page, '.runs-list', /DRAINING/);
  await says(page, '.bar', /RUNS ON.*LIVE/s);
  const count = () => page.$$eval('.runs-row', (rows) => rows.length);
  assert.equal(await count(), 7);
  await page.keyboard.press('/');
  await page.waitForSelector('.filter-input:focus');
  await page.keyboard.type('scope:ci -state:draining ');
  await until(async () => (await count()) === 1);
  await until(() => new URL(page.url()).searchParams.get('q') === 'scope:ci -state:draining');
  await page.keyboard.press('Escape');
  await until(async () => (await count()) === 7);
  runs.add('fresh', { argv: ['sleep', '5'], created_at: Date.now() });
  await until(async () => (await count()) === 8);
  assert.match(await page.textContent('.runs-item:first-child'), /sleep 5/);
  runs.member('fresh', 3700);
  await says(page, '[data-run="fresh"]', /1 left over/);
  // The stream breaks; what happens meanwhile is told when it is back.
  runs.drop();
  runs.exit('fresh', { code: 3, signal: null, reason: 'exit' });
  await says(page, '[data-run="fresh"]', /EXITED.*exit 3/s);
  await until(() => fixture.requests.some((path) => /events\?last_event_id=\d+/.test(path)));
  for (const response of runs.streams) response.write('event: gap\ndata: {"lost": 12}\n\n');
  await says(page, '.runs-main', /12 events were lost/);
  runs.emit('helper', { reason: 'lost' });
  await says(page, '.bar', /HELPER DOWN/);
  runs.emit('helper', { reason: 'ready' });
  await says(page, '.bar', /RUNS ON/);
  await page.click('[data-run="old"]');
  await says(page, '.run-says', /left by a procinsh that is gone.*Not tracked by a cgroup: left by/s);
  await says(page, '.run-lamps', /ADOPTED.*BEST EFFORT/s);
  assert.deepEqual(await page.$$eval('.runs-tab', (tabs) => tabs.map((tab) => tab.textContent.replace(/\d+$/, ''))), ['Processes', 'Details', 'Compare']);
  await page.goto(`${fixture.url}/runs/nothing`);
  await says(page, '.run', /There is no run nothing/);
  // One list for each connection, and nothing by a timer while nobody looks at a run.
  await page.goto(`${fixture.url}/runs`);
  await says(page, '.bar', /LIVE/);
  await page.waitForSelector('.runs-row');
  await says(page, '.foot', /helper 4242/);
  const before = fixture.requests.length;
  await page.waitForTimeout(2500);
  assert.deepEqual(fixture.requests.slice(before), []);
});

test('stopping: two presses, a countdown, what is left; one member; deleting', async (t) => {
  const { page, runs } = await openRuns(t, '/runs/build#processes');
  await says(page, '.members-table', /a\.out/);
  assert.doesNotMatch(await page.textContent('.members-table'), /\bmake\b/, 'left over comes first');
  await page.getByRole('radio', { name: /^All/ }).check();
  await says(page, '.members-table', /make.*├ cc1.*└ a\.out/s);
  await says(page, '.members-table', /escaped/);
  assert.equal(await page.getAttribute('.members-table a:text-is("3312")', 'href'), '/process/3312?start=91143312');
  assert.equal(await page.locator('.member:has-text("a.out") a:text-is("in space")').getAttribute('href'), '/space?sel=3312@91143312');
  const member = page.locator('.member:has-text("cc1")').getByRole('button');
  await member.click();
  assert.deepEqual(runs.stopped, [], 'one press ends nothing');
  await member.click();
  await says(page, '.run', /cc1 \(3311\): Stopped 1 process/);
  await says(page, '.members-table', /ended \d\d:\d\d:\d\d/);
  assert.deepEqual(runs.stopped, ['build 3311-91143311']);

  runs.isHolding = true;
  const stop = page.locator('.stop');
  await stop.click();
  assert.equal(await stop.textContent(), 'Stop now: TERM, KILL in 3.0 s');
  assert.equal(runs.stopped.length, 1);
  await stop.click();
  await says(page, '.stop-note', /TERM sent\. KILL in/);
  await page.waitForSelector('[role=progressbar]');
  assert.equal(await page.$('dialog[open]'), null);
  runs.survivors = ['3312-91143312'];
  await until(() => runs.held.length === 1);
  runs.release();
  await says(page, '.run [role=alert]', /Stopped 2 processes.*Still there: 3312-91143312/s);
  runs.survivors = [];
  runs.silent = true;
  await stop.click();
  await stop.click();
  await says(page, '.run [role=alert]', /Not stopped: The process that holds the runs does not answer/);
  runs.silent = false;
  await stop.click();
  await stop.click();
  await until(() => runs.held.length === 1);
  runs.release();
  await says(page, '.run', /Stopped \d process(es)? in/);
  await says(page, '.run-lamps', /EXITED/);
  await says(page, '.members', /Nothing of it runs|ended/);
  assert.equal(await stop.count(), 0, 'what has ended is not stopped');

  await page.click('#tab-details');
  await button(page, 'Delete').click();
  await button(page, 'Delete the record now').click();
  await until(async () => (await page.$('[data-run="build"]')) === null);
  assert.equal(new URL(page.url()).pathname, '/runs');
  await page.click('[data-run="drain"]');
  await page.click('#tab-details');
  await button(page, 'Delete by force').click();
  await button(page, 'Delete now: record gone, all killed').click();
  await until(async () => (await page.$('[data-run="drain"]')) === null);
  assert.deepEqual(runs.stopped.slice(-2), ['delete build', 'delete drain?force=1']);
});

test('output: follows, stops to follow, searches, marks streams and gaps, draws what is seen', async (t) => {
  const { page, runs } = await openRuns(t, '/runs/lint#output', {
    prepare: (r) => {
      r.add('talk', { argv: ['talk'], stdin: 'open' });
      for (let i = 0; i < 60; i++) r.print('talk', `${Array.from({ length: 1000 }, (_, k) => `line ${i * 1000 + k} ${'·'.repeat(4)}`).join('\n')}\n`, 'stdout', false);
    },
  });
  await says(page, '.out', /It printed nothing/);
  await page.click('[data-run="talk"]');
  await says(page, '.out-scroll', /line 59999/);
  assert.ok((await page.$$('.out-row')).length < 120, 'only what is seen is drawn');
  await page.focus('.out-scroll');
  await page.keyboard.press('PageUp');
  await until(async () => !(await page.getByRole('checkbox', { name: 'Follow' }).isChecked()));
  await settled(page, '.out-scroll');
  runs.print('talk', 'warned\n', 'stderr');
  runs.print('talk', `${'more\n'.repeat(141)}`);
  await says(page, '.out-fresh', /^142 new lines ↓$/);
  const top = await page.$eval('.out-scroll', (e) => e.scrollTop);
  runs.print('talk', 'and more\n');
  await says(page, '.out-fresh', /^143 new/);
  assert.equal(await page.$eval('.out-scroll', (e) => e.scrollTop), top, 'what is read stands still');
  await page.click('.out-fresh');
  await says(page, '.out-scroll', /and more/);
  assert.equal(await page.getByRole('checkbox', { name: 'Follow' }).isChecked(), true);
  await page.fill('.out-search', 'WARNED');
  await says(page, '.out-found', /^1 lines$/);
  await page.keyboard.press('Enter');
  await says(page, '.out-found', /^1 of 1$/);
  await page.waitForSelector('.out-current.out-stderr .out-mark');
  assert.match(await page.textContent('.out-current'), /60,001.*stderr: warned/s);
  await page.getByLabel('A line for standard input').fill('hello');
  await page.keyboard.press('Enter');
  await button(page, 'End input').click();
  await until(() => runs.list.get('talk').input === 'hello\n<end>');
  // Bytes that fall out before they are read.
  await page.click('[data-run="lint"]');
  await says(page, '.out', /It printed nothing/);
  runs.print('talk', 'x'.repeat(50_000), 'stdout', false);
  runs.print('talk', '\nlast\n', 'stdout', false, 100);
  await page.click('[data-run="talk"]');
  await says(page, '.out-scroll', /▨ [\d,]+ bytes dropped here/);
  await page.getByRole('link', { name: 'Download' }).waitFor();
});

test('a new run: boxes, shell text, equal command lines, refusal, launch', async (t) => {
  const { page, runs } = await openRuns(t, '/runs');
  await page.waitForSelector('.runs-row');
  await page.keyboard.press('N');
  await page.waitForSelector('dialog[open] .new');
  await until(() => page.evaluate(() => document.activeElement?.getAttribute('aria-label') === 'Program'));
  await page.keyboard.type('printf');
  await page.keyboard.press('Enter');
  await page.keyboard.type("it's $HOME");
  await page.getByLabel('Working directory').fill('/srv/my app');
  await page.getByLabel('Time limit').fill('90');
  await says(page, '.new', /A time has a unit/);
  await button(page, /^Start/).click();
  assert.deepEqual(runs.launched, [], 'nothing is sent that is wrong');
  await page.getByLabel('Time limit').fill('90s');
  await page.getByLabel('Id', { exact: true }).fill('mine');
  const port = new URL(page.url()).port;
  const [cli, curl] = await page.$$eval('.new .equal-text', (list) => list.map((e) => e.textContent));
  assert.equal(
    cli,
    `procinsh run --server http://127.0.0.1:${port} --detach --name mine --cwd '/srv/my app' --pty --timeout 90s -- printf 'it'\\''s $HOME'`,
  );
  assert.match(curl, /^curl -s -H 'Content-Type: application\/json' -d '\{"argv":\["printf","it'\\''s \$HOME"\]/);
  runs.refusal = [422, 'spawn_failed', 'There is no such command: printf.'];
  await page.keyboard.press('Control+Enter');
  await says(page, '.new [role=alert]', /Not started: There is no such command/);
  runs.refusal = null;
  await page.keyboard.press('Control+Enter');
  await page.waitForSelector('.term-host .xterm');
  assert.equal(new URL(page.url()).pathname, '/runs/mine');
  assert.deepEqual(runs.launched.at(-1), {
    argv: ['printf', "it's $HOME"],
    id: 'mine',
    cwd: '/srv/my app',
    pty: { cols: 120, rows: 30 },
    timeout_ms: 90_000,
  });
  await page.locator('.bar').getByRole('button', { name: /^New run/ }).click();
  await button(page, 'Empty the form').click();
  await page.getByRole('radio', { name: 'Shell text' }).check();
  await says(page, '.new', /A shell reads this/);
  await page.locator('.new-text').fill('a | b; c');
  await page.getByRole('checkbox', { name: 'On a terminal' }).uncheck();
  await button(page, /^Start/).click();
  await until(() => runs.launched.at(-1).command === 'a | b; c');
  assert.deepEqual(runs.launched.at(-1), { command: 'a | b; c' });
});

test('by keyboard alone: a run, its parts, its terminal and out again; a screen that is small has keys', async (t) => {
  const { page, runs } = await openRuns(t, '/runs');
  await page.waitForSelector('.runs-row');
  const build = runs.list.get('build');
  build.echo = (text) => runs.print('build', text === '\r' ? '\r\n' : text, 'terminal');
  const isIn = (selector) => page.evaluate((s) => document.activeElement?.closest(s) !== null, selector);
  while (!(await isIn('.runs-row'))) await page.keyboard.press('F6');
  await page.keyboard.press('ArrowDown');
  await page.waitForSelector('.xterm-rows');
  assert.equal(new URL(page.url()).pathname, '/runs/build');
  await until(() => isIn('.runs-row'));
  while (!(await isIn('.term-host'))) await page.keyboard.press('F6');
  await page.keyboard.type('echo /?gl');
  await page.keyboard.press('Tab');
  await page.keyboard.press('F6');
  await page.keyboard.press('Escape');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Control+c');
  await until(() => build.input === 'echo /?gl\t\u001b[17~\u001b\u001b[A\u0003');
  assert.equal(await page.$('dialog[open]'), null, 'all keys are the program’s');
  await says(page, '.xterm-rows', /echo \/\?gl/);
  await page.keyboard.press('Shift+F6');
  await until(async () => !(await isIn('.term-host')));
  await until(() => build.sizes.length > 0);
  while (!(await isIn('.runs-tab'))) await page.keyboard.press('Tab');
  await page.keyboard.press('ArrowRight');
  await page.waitForSelector('.out-scroll');
  await page.keyboard.press('3');
  await page.waitForSelector('.members');
  await page.keyboard.press('4');
  await page.waitForSelector('.details');
  await page.keyboard.press('1');
  await page.waitForSelector('.xterm-rows');
  // A reader of the screen gets the rows as text.
  await page.getByRole('checkbox', { name: 'Screen reader' }).check();
  await page.waitForSelector('.xterm-accessibility');
  assert.equal(await page.$eval('.term-keys', (e) => getComputedStyle(e).display), 'none');
  await page.setViewportSize({ width: 390, height: 700 });
  build.input = '';
  await page.locator('.term-keys button:has-text("Ctrl")').click();
  await page.keyboard.type('d');
  await page.locator('.term-keys button:has-text("Esc")').click();
  await until(() => /^\u0004<escape>$/.test(build.input));
  runs.exit('build');
  await says(page, '.run-lamps', /EXITED/);
  await page.keyboard.type('x');
  await button(page, '← Runs').click();
  await page.waitForSelector('.runs-list');
  assert.match(build.input, /^\u0004<escape>$/, 'nothing is typed into what has ended');
});

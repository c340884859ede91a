// The page of the runs over a real server: a shell, a pager and an editor on the terminal
// in the page, a flood of output, and a stop that leaves nothing.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { newPage, until, useBrowser } from './lib.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '../..');
const BINARY = process.env.PROCINSH ?? join(root, 'procinsh');
const GIB = 1 << 30;

const held = useBrowser({ before, after });

async function server(t) {
  const args = ['serve', '--listen', '127.0.0.1:0', '--no-auth', '--runs', '--run-user', userInfo().username];
  const child = spawn(BINARY, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = new Promise((done) => child.once('close', done));
  t.after(async () => {
    child.kill('SIGTERM'); // its helper ends what still runs
    await ended;
  });
  let log = '';
  child.stderr.on('data', (data) => {
    log += data;
  });
  let url = null;
  await until(() => {
    url = /msg=started .*listen="?(http:\/\/[^/ ]+)\//.exec(log)?.[1] ?? null;
    if (child.exitCode !== null) throw new Error(`the server ended: ${log}`);
    return url !== null;
  });
  return url;
}

const get = async (url) => (await fetch(url)).json();
const has = (program) => process.env.PATH.split(':').some((folder) => existsSync(join(folder, program)));

const screen = (page) => page.$$eval('.xterm-rows > div', (rows) => rows.map((row) => row.textContent.trimEnd()));
const shows = (page, pattern) =>
  until(async () => pattern.test((await screen(page)).join('\n'))).catch(async (cause) => {
    throw new Error(`the screen never shows ${pattern}:\n${(await screen(page)).join('\n')}`, { cause });
  });

// alive tells whether a process (pid-start) still is.
function alive(id) {
  const [pid, start] = id.split('-');
  try {
    return readFileSync(`/proc/${pid}/stat`, 'latin1').replace(/^.*\) /s, '').split(' ')[19] === start;
  } catch {
    return false;
  }
}

test('a shell, a pager and an editor work on the terminal in the page; a stop leaves nothing', async (t) => {
  assert.ok(has('less'), 'this test needs less');
  const folder = mkdtempSync(join(tmpdir(), 'procinsh-runs-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const lines = Array.from({ length: 500 }, (_, i) => `line ${i + 1}.`);
  writeFileSync(join(folder, 'text'), `${lines.join('\n')}\n`);
  const url = await server(t);
  const page = await newPage(t, held, `${url}/runs`, { width: 1280, height: 800 });
  await until(async () => /RUNS ON/.test(await page.textContent('.bar')));

  // Launched with the keyboard: a box for each argument.
  await page.keyboard.press('N');
  await until(() => page.evaluate(() => document.activeElement?.getAttribute('aria-label') === 'Program'));
  for (const word of ['bash', '--norc', '--noprofile']) {
    await page.keyboard.type(word);
    if (word !== '--noprofile') await page.keyboard.press('Enter');
  }
  await page.getByLabel('Working directory').fill(folder);
  await page.getByLabel('Id', { exact: true }).fill('shell');
  await page.keyboard.press('Control+Enter');
  await shows(page, /\$ ?$|# ?$/m);
  await page.click('.term-host');
  const type = async (text) => {
    await page.keyboard.type(text);
    await page.keyboard.press('Enter');
  };
  await type('PS1="ready> "; clear; echo $((6*7))');
  await shows(page, /^42\nready>/m);

  // Ctrl-C ends what runs in the foreground; arrows go back to what was typed.
  await type('sleep 600; echo "not $((1+0))"');
  await page.keyboard.press('Control+c');
  await shows(page, /\^C\nready>/);
  await type('echo one-$((1+1))');
  await shows(page, /^one-2$/m);
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await until(async () => (await screen(page)).filter((row) => row === 'one-2').length === 2);

  // The program learns the size of its place in the page.
  const size = async (name) => {
    await type(`clear; echo ${name}; stty size`);
    const answer = new RegExp(`^${name}\\n(\\d+) (\\d+)\\nready>`, 'm');
    await shows(page, answer);
    return answer.exec((await screen(page)).join('\n')).slice(1).map(Number);
  };
  const [rows, columns] = await size('large');
  await page.setViewportSize({ width: 900, height: 600 });
  await until(async () => (await get(`${url}/api/runs/shell`)).pty.cols < columns);
  const [fewerRows, fewerColumns] = await size('small');
  assert.ok(fewerRows < rows && fewerColumns < columns, `${rows} × ${columns} became ${fewerRows} × ${fewerColumns}`);

  // What is pasted is one piece: the shell waits for Enter.
  await type('clear');
  await page.evaluate(() => {
    const data = new DataTransfer();
    data.setData('text/plain', 'echo "pasted\n $((3+4))"');
    const event = new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true });
    document.querySelector('.xterm-helper-textarea').dispatchEvent(event);
  });
  await shows(page, /echo "pasted\n.*\$\(\(3\+4\)\)"/);
  await page.keyboard.press('Enter');
  await shows(page, /^pasted\n 7$/m);

  // A pager: the whole screen, and keys with modes of their own.
  await type('less text');
  await shows(page, /^line 1\.\nline 2\./);
  await page.keyboard.press('ArrowDown');
  await shows(page, /^line 2\./);
  await page.keyboard.press('ArrowUp');
  await shows(page, /^line 1\./);
  await page.keyboard.type('G');
  await shows(page, /line 500\.\n/);
  await page.keyboard.type('q');
  await shows(page, /ready>/);
  await t.test('an editor', { skip: has('vim') ? false : 'no vim here' }, async () => {
    await type('vim -N -u NONE -n text');
    await shows(page, /^line 1\.\nline 2\./);
    await page.keyboard.type('Oabc');
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.type('-');
    await page.keyboard.press('Escape');
    await type(':wq');
    await until(() => readFileSync(join(folder, 'text'), 'utf8').startsWith('ab-c\nline 1.\n'));
    await shows(page, /ready>/);
  });

  // All that it leaves behind ends with it, daemons too.
  await type('clear; (setsid sleep 601 &); sleep 602 & echo $((50+5))');
  await shows(page, /^55$/m);
  await page.keyboard.press('Shift+F6');
  await until(() => page.evaluate(() => document.activeElement?.closest('.term-host') === null));
  await page.click('#tab-processes');
  await until(async () => /sleep.*sleep/s.test(await page.textContent('.members-table')));
  const { processes } = await get(`${url}/api/runs/shell/processes`);
  assert.ok(processes.length >= 3 && processes.every(({ id }) => alive(id)));
  await page.click('.stop');
  assert.match(await page.textContent('.stop'), /^Stop now: TERM, KILL in/);
  await page.click('.stop');
  await until(async () => /EXITED/.test(await page.textContent('.run-lamps')));
  assert.deepEqual(processes.filter(({ id }) => alive(id)), []);
  await until(async () => /Stopped \d+ processes in/.test(await page.textContent('.run')));
  assert.match(await page.textContent('.run-says'), /stopped, SIG/);
});

test('1 GiB of output: the page stays at hand, and small; Ctrl-C ends a flood on the terminal', async (t) => {
  const url = await server(t);
  const launch = (body) =>
    fetch(`${url}/api/runs`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    });
  const page = await newPage(t, held, `${url}/runs`, { width: 1100, height: 700 });
  await until(async () => /RUNS ON/.test(await page.textContent('.bar')));
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  const cost = async () => {
    const { metrics } = await session.send('Performance.getMetrics');
    const of = (name) => metrics.find((m) => m.name === name).value;
    return { script: of('ScriptDuration'), time: performance.now() / 1000 };
  };
  const heap = async () => {
    await session.send('HeapProfiler.collectGarbage');
    return (await session.send('Runtime.getHeapUsage')).usedSize / (1 << 20);
  };
  await launch({ id: 'flood', argv: ['yes', 'x'.repeat(63)] });
  await page.click('[data-run="flood"]');
  await until(async () => /bytes fell out/.test(await page.textContent('.out')));
  const small = await heap();
  const from = await cost();
  await until(async () => (await get(`${url}/api/runs/flood`)).output.bytes > GIB);
  // Meanwhile it does what it is asked.
  await page.click('#tab-details');
  await until(async () => /of which [\d,]+ fell out/.test(await page.textContent('.details')));
  await page.click('#tab-output');
  await until(async () => /x{63}/.test(await page.textContent('.out-scroll')));
  const to = await cost();
  const share = (to.script - from.script) / (to.time - from.time);
  assert.ok(share < 0.6, `the page computed for ${(100 * share).toFixed(0)} % of the time`);
  await page.click('.stop');
  await page.click('.stop');
  await until(async () => /EXITED/.test(await page.textContent('.run-lamps')));
  const whole = await heap();
  assert.ok(whole < small + 40, `the heap grew from ${small.toFixed(1)} to ${whole.toFixed(1)} MiB`);
  assert.ok((await page.$$('.out-row')).length < 100, 'only what is seen is drawn');
  const { output } = await get(`${url}/api/runs/flood`);
  assert.ok(output.next - output.first <= 1 << 20, 'the ring keeps 1 MiB');
  const { helper_pid: helper } = await get(`${url}/api/runs/capabilities`);
  const peak = Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${helper}/status`, 'utf8'))[1]) / 1024;
  assert.ok(peak < 256, `the helper took ${peak} MiB`);
  t.diagnostic(`${output.bytes} bytes; script ${(100 * share).toFixed(1)} %; heap ${small.toFixed(1)} to ${whole.toFixed(1)} MiB; helper ${peak.toFixed(0)} MiB`);

  await launch({ id: 'spill', argv: ['yes'], pty: { cols: 80, rows: 24 } });
  await page.click('[data-run="spill"]');
  await page.click('#tab-terminal');
  await shows(page, /^y\ny\n/);
  await page.click('.term-host');
  await page.keyboard.press('Control+c');
  await until(async () => /EXITED.*TRACKED|EXITED.*EFFORT/s.test(await page.textContent('.run-lamps')));
  assert.match(await page.textContent('.run-says'), /SIGINT|exit 130/);
  await shows(page, /\^C/);
});

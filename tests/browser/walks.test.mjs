// Four walks of somebody who has never seen these pages, on a real server and a host in
// trouble: what eats the CPU, what a process is blocked on, who is at the other end of its
// socket, which library a crash address belongs to. Each goes by what is on screen.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { newPage, until, useBrowser } from './lib.mjs';
import { run, server, target } from './real.mjs';

const held = useBrowser({ before, after });
const SLEEPERS = 300;

const children = (pid) => readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').split(' ').filter(Boolean).map(Number);
const comm = (pid) => readFileSync(`/proc/${pid}/comm`, 'latin1').trim();

test('four walks through a host in trouble', async (t) => {
  const crowd = run(t, '/bin/bash', ['-c', `for ((i = 0; i < ${SLEEPERS}; i++)); do sleep 600 & done; wait`]);
  const stuck = run(t, '/bin/bash', ['-c', 'sleep 601 | cat; true']);
  const channels = await target(t, 'channels', '--rate', '0');
  const sleep = await target(t, 'sleep');
  const url = await server(t);
  const page = await newPage(t, held, url);
  await page.waitForSelector('.row');

  const at = (pid) => page.waitForFunction((path) => location.pathname === path, `/process/${pid}`);
  const open = async (words, pid) => {
    await page.goto(url);
    await page.fill('.filter-input', words);
    await page.click(`.row-link[href^="/process/${pid}?"]`);
    await at(pid);
    await page.waitForSelector('.figure:has-text("Waits in")');
  };

  await t.test('what eats the CPU: the first row', async () => {
    const eater = await target(t, 'compute', '--threads', '2', '--percent', '100');
    // Of the processes of this test: whatever else runs on this machine may take more.
    await page.fill('.filter-input', `ppid:${crowd.pid}|${process.pid} -name:chrom`);
    await until(async () => Number((/^(\d+) of/.exec(await page.textContent('.list-foot')) ?? [])[1]) > SLEEPERS);
    await until(async () => {
      const first = page.locator('.row').first();
      return (await first.locator('.c-pid').textContent()).trim() === String(eater.pid);
    });
    await page.click(`.row-link[href^="/process/${eater.pid}?"]`);
    await at(eater.pid);
    await page.click('.section-link:has-text("Threads")');
    await page.waitForSelector('[role="grid"][aria-label="Threads"] .flat-row:has-text("R running")');
    eater.child.stdin.end();
  });

  await t.test('what it is blocked on: a pipe, and who does not write', async () => {
    let writer = 0;
    let reader = 0;
    await until(() => {
      writer = children(stuck.pid).find((pid) => comm(pid) === 'sleep');
      reader = children(stuck.pid).find((pid) => comm(pid) === 'cat');
      return writer && reader;
    });
    await open(`cat pid:${reader}`, reader);
    await page.click('.figure:has-text("Waits in") a:text-is("read")');
    await page.waitForSelector('.stack-call:has-text("read(0x")');
    const link = page.locator('.fd-link').first();
    const fd = /fd (\d+)/.exec(await link.textContent())[1];
    await link.click();
    const line = page.locator('.flat-row[aria-selected="true"]');
    await line.waitFor();
    assert.match(await line.textContent(), new RegExp(`^${fd}.*pipe.*other end ${writer} sleep`));
    await line.locator('a').first().click();
    await at(writer);
  });

  await t.test('and a lock: which file, and who took it', async (t) => {
    const file = join(mkdtempSync(join(tmpdir(), 'procinsh-lock-')), 'state');
    t.after(() => rmSync(dirname(file), { recursive: true }));
    const taker = run(t, 'flock', [file, 'sleep', '602']);
    await until(() => children(taker.pid).length === 1);
    const waiter = run(t, 'flock', [file, 'true']);
    await open(`flock pid:${waiter.pid}`, waiter.pid);
    await page.click('.figure:has-text("Waits in") a:text-is("flock")');
    await page.locator('.fd-link').first().click();
    const line = page.locator('.flat-row[aria-selected="true"]');
    await line.waitFor();
    const said = await line.textContent();
    assert.ok(said.includes(file) && said.includes(`waits for a lock of it (flock, write), taken by process ${taker.pid}`), said);
    await line.locator('a').first().click();
    await at(taker.pid);
  });

  await t.test('and a futex: the thread, where in its code, the kernel behind it', async () => {
    await open(`pid:${sleep.pid}`, sleep.pid);
    await page.click('.section-link:has-text("Threads")');
    await page.waitForSelector('[role="grid"][aria-label="Threads"] .flat-row:has-text("futex")');
    await page.click('.section-link:has-text("Stacks")');
    await page.fill('[data-filter]', 'futex');
    await page.waitForSelector('.stack-call:has-text("futex(0x")');
  });

  await t.test('who is at the other end of its socket', async () => {
    const child = Number(channels.facts.get('CHILD_PID'));
    await open(`pid:${channels.pid}`, channels.pid);
    await page.click('.section-link:has-text("sockets")');
    await page.fill('[data-filter]', '"TCP 127." ESTABLISHED');
    const line = page.locator('[role="grid"][aria-label="File descriptors"] .flat-row').first();
    await line.waitFor();
    assert.match(await line.textContent(), new RegExp(`TCP.*candidate ${child} `));
    assert.match(await line.locator('.ends-word').getAttribute('title'), /the kernel does not say/);
    await line.locator('a').first().click();
    await at(child);
  });

  await t.test('which library a crash address belongs to', async () => {
    const code = readFileSync(`/proc/${sleep.pid}/maps`, 'latin1').match(/^([0-9a-f]+)-\S+ r-xp ([0-9a-f]+) .*?(\/\S*libc\S*)$/m);
    assert.ok(code, 'the C library is mapped');
    const [, start, offset, path] = code;
    const address = BigInt(`0x${start}`) + 0x1f3an;
    const byte = (BigInt(`0x${offset}`) + 0x1f3an).toString(16);
    await open(`pid:${sleep.pid}`, sleep.pid);
    const ask = async (text) => {
      await page.fill('.finder-field', text);
      await page.press('.finder-field', 'Enter');
      await page.waitForSelector('.finder-answer');
      return page.textContent('.finder-answer .note-text');
    };
    assert.match(await ask('0x10'), /is not mapped here/);
    const answer = await ask(`at 0x${address.toString(16)}`);
    assert.ok(answer.includes(`is in ${path} (code, r-xp), byte 0x${byte} of the file.`), answer);
    // The kernel's line about a process that has ended: the same place of the same file.
    const name = path.slice(path.lastIndexOf('/') + 1);
    const gone = `app[71]: segfault at 0 ip 00007f00deadbeef sp 00007ffe65cdf0d0 error 4 in ${name}[${byte},7f00dea00000+156000]`;
    const hex = address.toString(16).padStart(16, '0');
    assert.ok((await ask(gone)).includes(`The line names ${name}, byte 0x${byte} of the file. In this process that is at 0x${hex}.`));
    await page.click('.finder-answer button:text-is("Open in Memory")');
    await page.waitForFunction((address) => document.querySelector('[data-address]')?.value === address, `0x${hex}`);
    await until(async () => (await page.textContent('.section-memory')).includes(`byte 0x${byte} of the file`));
  });
});

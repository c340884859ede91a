// What the tests on a real server share: the server, programs to look at, and their
// start times. All of it ends with the test.

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { until } from './lib.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '../..');
const BINARY = process.env.PROCINSH ?? join(root, 'procinsh');
const TARGETS = join(root, 'tests/targets/bin');

// run starts a program, in a process group of its own, and ends the group with the test.
export function run(t, command, args) {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'], detached: true });
  const ended = new Promise((done) => child.once('close', done));
  t.after(async () => {
    try {
      if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid, 'SIGKILL');
    } catch (cause) {
      if (cause.code !== 'ESRCH') throw cause; // it has ended by itself, a moment ago
    }
    await ended;
  });
  child.stdin.on('error', () => {}); // it may have ended
  return child;
}

// target starts one of tests/targets and gives what it says of itself.
export async function target(t, name, ...args) {
  const child = run(t, join(TARGETS, name), ['--stdin', '--allow-inspector', ...args]);
  const facts = new Map();
  child.stderr.resume();
  await new Promise((done, fail) => {
    child.once('error', fail);
    child.once('close', () => fail(new Error(`${name} ended early`)));
    createInterface({ input: child.stdout }).on('line', (line) => {
      const at = line.indexOf('=');
      if (at > 0) facts.set(line.slice(0, at), line.slice(at + 1));
      if (line === 'READY=1') done();
    });
  });
  return { child, facts, pid: Number(facts.get('PID')) };
}

// server starts procinsh and gives its address.
export async function server(t) {
  const child = run(t, BINARY, ['serve', '--listen', '127.0.0.1:0', '--no-auth']);
  let log = '';
  child.stdout.resume();
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

export const startOf = (pid) => readFileSync(`/proc/${pid}/stat`, 'latin1').replace(/^.*\) /s, '').split(' ')[19];

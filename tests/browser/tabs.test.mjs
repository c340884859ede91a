// Six tabs of one browser on a real server. It opens six connections to a host, so the
// streams of the pages must leave room for what is asked once, while they load as well.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { newPage, until } from './lib.mjs';
import { run, server, startOf } from './real.mjs';
import { useSpaceBrowser } from './space-lib.mjs';

const held = useSpaceBrowser({ before, after });

test('six pages seen at a time: each opens, shows what is new, and is answered', async (t) => {
  // A process that calls itself what the clock says.
  const clock = run(t, '/bin/bash', [
    '-c',
    'while :; do printf t%s "${EPOCHREALTIME%.*}" >/proc/$$/comm; read -rt 0.2 <> <(:); done',
  ]);
  const url = await server(t);
  const link = `/process/${clock.pid}?start=${startOf(clock.pid)}`;
  const space = `/space?sel=${clock.pid}@${startOf(clock.pid)}`;
  const paths = [`/?q=pid:${clock.pid}`, link, space, `${link}#threads`, `/?q=pid:${clock.pid}&tree=1`, space];

  const first = await newPage(t, held, url + paths[0]);
  const more = await Promise.all(paths.slice(1).map(() => first.context().newPage()));
  await Promise.all(more.map((tab, i) => tab.goto(url + paths[i + 1])));
  const tabs = [first, ...more];

  const lamps = () => Promise.all(tabs.map((tab) => tab.textContent('.bar-lamps')));
  await until(async () => {
    const now = await lamps();
    return now.filter((text) => /LIVE/.test(text)).length === 4 && now.filter((text) => /POLLING/.test(text)).length === 2;
  });

  // Twice over, every page comes to show a name that was given after it was asked for.
  const names = async (tab) => [...(await tab.textContent('#app')).matchAll(/t(\d{10})/g)].map((m) => Number(m[1]));
  for (let round = 0; round < 2; round++) {
    const since = Math.ceil(Date.now() / 1000);
    await Promise.all(tabs.map((tab) => until(async () => Math.max(...(await names(tab))) >= since)));
    const answers = await Promise.all(
      tabs.map((tab) => tab.evaluate(async () => (await fetch('/api/system/totals', { cache: 'no-store' })).json())),
    );
    assert.ok(answers.every((totals) => totals.processes > 1), 'each is answered');
  }
  for (const text of await lamps()) assert.match(text, /LIVE|POLLING/, 'none is stale');
});

// What every browser test shares: one browser a test file, a fixture server a test,
// and pages that fail on a breach of the content policy, on a request to another
// origin, and on an error nobody caught.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startFixture } from './fixture/server.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const require = createRequire(join(here, '../../web/package.json'));
const { chromium } = require('playwright-core');
export const AXE = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

// browserPath is $CHROME or Debian's chromium. Without one the tests fail: a suite
// that skips them would be green on nothing.
export function browserPath() {
  const path = process.env.CHROME || '/usr/bin/chromium';
  if (!existsSync(path)) throw new Error(`no browser at ${path}: install chromium or set CHROME`);
  return path;
}

// useBrowser starts one browser for a test file and gives a function that opens pages.
// after is node:test's, so that browser and profile go with the file.
export function useBrowser({ before, after }, flags = []) {
  const held = { browser: null, profile: '' };
  before(async () => {
    held.profile = await mkdtemp(join(tmpdir(), 'procinsh-browser-'));
    held.browser = await chromium.launchPersistentContext(held.profile, {
      executablePath: browserPath(),
      headless: true,
      args: [...FLAGS, ...flags],
      viewport: null,
    });
  });
  after(async () => {
    await held.browser?.close();
    await rm(held.profile, { recursive: true, force: true });
  });
  return held;
}

// newPage opens a page in a context of its own. What goes wrong in it, or in another tab
// of its context, is checked by the test's end.
export async function newPage(t, held, url, options = {}) {
  const { width = 1440, height = 900, theme = 'dark', reducedMotion = 'no-preference', init } = options;
  const context = await held.browser.browser().newContext({
    viewport: { width, height },
    colorScheme: theme,
    reducedMotion,
    hasTouch: options.touch ?? false,
    isMobile: options.touch ?? false,
    permissions: options.permissions ?? [],
  });
  const problems = [];
  t.after(async () => {
    await context.close();
    assert.deepEqual(problems, [], 'the page broke a rule');
  });
  const origin = new URL(url).origin;
  await context.route('**/*', (route) => {
    const wanted = route.request().url();
    if (new URL(wanted).origin === origin || wanted.startsWith('data:') || wanted.startsWith('blob:'))
      return route.continue();
    problems.push(`request to another origin: ${wanted}`);
    return route.abort();
  });
  await context.exposeBinding('reportProblem', (_source, text) => {
    problems.push(text);
  });
  await context.addInitScript(() => {
    addEventListener('securitypolicyviolation', (event) => {
      window.reportProblem(`content policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
    });
  });
  if (init) await context.addInitScript(init);
  // A loaded machine is slow, not wrong.
  context.setDefaultTimeout(90_000);
  context.on('page', (page) => {
    page.on('pageerror', (error) => problems.push(`uncaught: ${error.message}`));
    page.on('console', (entry) => {
      if (entry.type() === 'error' && !/Failed to load resource|net::ERR/.test(entry.text()))
        problems.push(`console: ${entry.text()}`);
    });
  });
  const page = await context.newPage();
  page.problems = problems; // a test that breaks a rule on purpose takes them out
  await page.goto(url);
  return page;
}

// openList starts a server over a made-up host and opens the list.
export async function openList(t, held, { path = '/', fixture: given, ...options } = {}) {
  const fixture = given ?? (await startFixture({ manual: true, ...options.world }));
  if (!given) t.after(() => fixture.close());
  options.before?.(fixture);
  const page = await newPage(t, held, fixture.url + path, options);
  if (options.wait !== false) await page.waitForSelector('.row');
  return { page, fixture };
}

// axe gives the violations on the page as short lines.
export async function axe(page) {
  // The content policy holds for the page; the checker comes in beside it.
  const session = await page.context().newCDPSession(page);
  await session.send('Runtime.evaluate', { expression: AXE });
  const { result, exceptionDetails } = await session.send('Runtime.evaluate', {
    expression: 'axe.run(document, { resultTypes: ["violations"] }).then((r) => JSON.stringify(r.violations))',
    awaitPromise: true,
    returnByValue: true,
  });
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  const violations = JSON.parse(result.value);
  await session.detach();
  return violations.flatMap((v) =>
    v.nodes.map(
      (n) => `${v.id}: ${n.target.join(' ')} ${n.any[0]?.message ?? n.all[0]?.message ?? n.none[0]?.message ?? ''}`,
    ),
  );
}

// texts gives the trimmed text of one column of the mounted rows, top to bottom.
export function texts(page, column) {
  return page.$$eval(`.row .c-${column}`, (cells) =>
    cells
      .map((cell) => ({ text: cell.textContent.trim(), y: cell.getBoundingClientRect().top }))
      .sort((a, b) => a.y - b.y)
      .map((cell) => cell.text),
  );
}

// names gives the link texts of the mounted rows, top to bottom.
export function names(page) {
  return page.$$eval('.row .row-link', (links) =>
    links
      .map((link) => ({ text: link.textContent, y: link.getBoundingClientRect().top }))
      .sort((a, b) => a.y - b.y)
      .map((link) => link.text),
  );
}

// until waits for a condition that a page comes to by itself; the time is generous,
// since the machine may be busy with other things.
export async function until(condition, ms = 60_000) {
  const end = Date.now() + ms;
  for (;;) {
    let problem = null;
    try {
      if (await condition()) return;
    } catch (cause) {
      problem = cause;
    }
    if (Date.now() > end) throw new Error(`it did not come to: ${condition}`, { cause: problem });
    await new Promise((done) => setTimeout(done, 30));
  }
}

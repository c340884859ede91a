// Entry: picks the page for the address. The list stays on screen until a process
// page has its first observation, and comes back with one line when it is refused.

import { effect, signal } from '@preact/signals';
import { type ComponentType, render } from 'preact';
import { useEffect } from 'preact/hooks';
import { announced } from './announce';
import { helpOpen, settingsOpen } from './bar';
import { dateTime, visible } from './format';
import { getJSON, HTTPError } from './http';
import { bindKeys, listenKeys, nextRegion } from './keys';
import { lazy } from './lazy';
import { ListPage } from './list/page';
import { holdLoad } from './loading';
import { notice } from './notice';
import type { ProcessPageProps } from './process/page';
import { followRoutes, navigate, processPath, rewrite, route } from './route';
import { applyTheme } from './settings';
import type { Identity, ProcessSummary } from './wire.gen';

const Sheets = lazy(async () => (await import('./sheets')).Sheets);

const Space = lazy(async () => {
  try {
    return (await import('./space/page')).SpacePage;
  } catch (cause) {
    rewrite('/');
    notice.value = { text: 'The space could not be loaded. Is the server still running?', tone: 'bad' };
    throw cause;
  }
});

const Runs = lazy(async () => {
  try {
    return (await import('./runs/page')).RunsPage;
  } catch (cause) {
    refuse('The page of the runs could not be loaded. Is the server still running?');
    throw cause;
  }
});

const Process = signal<ComponentType<ProcessPageProps> | null>(null);

// target is the process the address names, once its start time is known.
const target = signal<Identity | null>(null);
// ready says that the page of target has something to show.
const ready = signal(false);
// refused says that target cannot be shown; the list is there instead.
const refused = signal(false);
// direct says that no list was on screen before: the process page shows its own frame.
const direct = signal(route.value.page === 'process');

// NO_SUCH_PROCESS also says why a bookmark of yesterday may not work.
const noSuchProcess = (pid: number) => `No process ${pid} runs now (it may have ended).`;

function refuse(text: string, link?: { label: string; href: string }): void {
  refused.value = true;
  notice.value = link ? { text, tone: 'bad', link } : { text, tone: 'bad' };
}

async function loadPage(): Promise<void> {
  if (Process.peek()) return;
  try {
    const module = await import('./process/page');
    Process.value = module.ProcessPage;
  } catch {
    refuse('The page could not be loaded. Is the server still running?');
  }
}

// lookUp finds who has the pid now: to complete a link without a start time, and to
// say what became of one whose process is gone.
async function lookUp(pid: number): Promise<ProcessSummary[] | null> {
  try {
    return await getJSON<ProcessSummary[]>('/api/processes');
  } catch (cause) {
    refuse(cause instanceof HTTPError ? cause.message : `Process ${pid} could not be looked up.`);
    return null;
  }
}

async function resolve(pid: number, hash: string): Promise<void> {
  const list = await lookUp(pid);
  const now = route.value;
  if (list === null || now.page !== 'process' || now.pid !== pid || now.start !== null) return;
  const found = list.find((p) => p.identity.pid === pid);
  if (found) rewrite(processPath(found.identity) + (hash ? `#${hash}` : ''));
  else refuse(noSuchProcess(pid));
}

async function explainGone(gone: Identity): Promise<void> {
  const list = await lookUp(gone.pid);
  if (list === null || target.value !== gone) return;
  const other = list.find((p) => p.identity.pid === gone.pid);
  const sample = list[0];
  if (!other || other.identity.start_time_ticks === gone.start_time_ticks || !sample) {
    refuse(noSuchProcess(gone.pid));
    return;
  }
  // Ticks are 1/100 s since boot, so any row of the list gives the time of boot.
  const started = sample.started_at + (gone.start_time_ticks - sample.identity.start_time_ticks) * 10;
  refuse(
    `This link was for a process started ${dateTime(started)}. Pid ${gone.pid} now belongs to ${visible(other.name)}.`,
    { label: 'Open that one', href: processPath(other.identity) },
  );
}

function onRefused(identity: Identity, status: number, text: string): void {
  if (target.value !== identity) return;
  if (status === 410) void explainGone(identity);
  else refuse(text);
}

let shownPath = '';

function followTarget(): void {
  const now = route.value;
  if (now.page === 'process') {
    const path = `${now.pid}@${now.start}`;
    if (path === shownPath) return;
    shownPath = path;
    ready.value = false;
    refused.value = false;
    notice.value = null;
    target.value = now.start === null ? null : { pid: now.pid, start_time_ticks: now.start };
    if (now.start === null) void resolve(now.pid, now.hash);
    void loadPage();
    return;
  }
  shownPath = '';
  // From the space a process page opens in its own frame: no list was on screen.
  direct.value = now.page === 'space';
  target.value = null;
  ready.value = false;
  refused.value = false;
  if (now.page === 'unknown') notice.value = { text: `There is no page ${visible(now.path)}.`, tone: 'bad' };
  else notice.value = null;
}

function App() {
  useEffect(
    () =>
      bindKeys([
        {
          keys: '?',
          label: 'this sheet',
          group: 'Everywhere',
          run: () => {
            helpOpen.value = !helpOpen.value;
          },
        },
        {
          keys: 'g l',
          label: 'go to the list',
          group: 'Everywhere',
          run: () => {
            if (route.value.page !== 'list') navigate('/');
          },
        },
        {
          keys: 'g s',
          label: 'go to the space',
          group: 'Everywhere',
          run: () => {
            if (route.value.page !== 'space') navigate('/space');
          },
        },
        {
          keys: 'g r',
          label: 'go to the runs',
          group: 'Everywhere',
          run: () => {
            if (route.value.page !== 'runs') navigate('/runs');
          },
        },
        {
          keys: 'F6',
          label: 'next region',
          group: 'Everywhere',
          inFields: true,
          run: () => {
            nextRegion(1);
          },
        },
        {
          keys: 'Shift+F6',
          label: 'previous region',
          group: 'Everywhere',
          inFields: true,
          run: () => {
            nextRegion(-1);
          },
        },
      ]),
    [],
  );
  const wantsProcess = route.value.page === 'process' && !refused.value;
  const showProcess = wantsProcess && (ready.value || direct.value);
  const isSpace = route.value.page === 'space';
  const isRuns = route.value.page === 'runs' && !refused.value;
  const identity = target.value;
  const Page = Process.value;
  return (
    <>
      {isSpace && <Space />}
      {isRuns && <Runs />}
      {!showProcess && !isSpace && !isRuns && <ListPage active={!wantsProcess} />}
      {wantsProcess && identity && Page && (
        <Page
          key={`${identity.pid}@${identity.start_time_ticks}`}
          identity={identity}
          shown={showProcess}
          onReady={() => {
            if (target.value === identity) ready.value = true;
          }}
          onRefused={(status, text) => onRefused(identity, status, text)}
        />
      )}
      {(helpOpen.value || settingsOpen.value) && <Sheets />}
      <div class="unseen" role="status" aria-live="polite">
        {announced.value}
      </div>
    </>
  );
}

applyTheme();
holdLoad();
followRoutes();
listenKeys();
effect(followTarget);
const root = document.getElementById('app');
if (root) render(<App />, root);

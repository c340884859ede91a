// What the page of the runs shows and how: kept in the address, so that a link shows the
// same, and for what is a habit in this browser.

import { computed, signal } from '@preact/signals';
import { parseFilter } from '../filter';
import { navigate, rewrite, route, runPath } from '../route';
import { isBoolean, kept } from '../settings';
import type { Run } from '../wire.gen';
import { RUN_KEYS, type SoughtRun } from './model';

export const TABS = ['terminal', 'output', 'processes', 'details', 'compare'] as const;
export type Tab = (typeof TABS)[number];

export const query = signal('');
export const filterOpen = signal(false);
export const isNewOpen = signal(false);
export const screenReader = kept('runs.screenreader', false, isBoolean);
export const now = signal(Date.now());

export const filter = computed(() => parseFilter<SoughtRun>(query.value, RUN_KEYS));

export const runsTitle = 'procinsh / runs';

// selected is the run that the address names.
export const selected = computed(() => (route.value.page === 'runs' ? route.value.id : null));

const wanted = computed(() => (route.value.page === 'runs' ? route.value.hash : ''));

// tabsOf are the parts that a run has: a terminal if it was given one, output unless the
// server that read it is gone.
export const tabsOf = (run: Run): Tab[] =>
  TABS.filter((tab) => (tab !== 'terminal' || run.pty !== null) && (tab !== 'output' || !run.adopted));

// tabOf is the part of a run that is shown: what the address says, else the first.
export function tabOf(run: Run): Tab {
  const tabs = tabsOf(run);
  return tabs.find((tab) => tab === wanted.value) ?? (tabs[0] as Tab);
}

const search = () => {
  const text = query.value.trim();
  return text ? `?${new URLSearchParams({ q: text }).toString().replaceAll('%3A', ':').replaceAll('%2C', ',')}` : '';
};

export const linkOf = (id: string, tab?: Tab): string => `${runPath(id)}${search()}${tab ? `#${tab}` : ''}`;

// open shows a run, in the part that is shown now.
export function open(id: string): void {
  if (id !== selected.peek())
    navigate(
      linkOf(
        id,
        TABS.find((tab) => tab === wanted.peek()),
      ),
    );
}

export function openTab(id: string, tab: Tab): void {
  rewrite(linkOf(id, tab));
}

export function leave(): void {
  navigate(`/runs${search()}`);
}

export function readAddress(): void {
  query.value = new URLSearchParams(location.search).get('q') ?? '';
}

// writeAddress keeps the address in step, without a step in the history.
export function writeAddress(): void {
  const wish = search();
  if (route.peek().page !== 'runs' || location.search === wish) return;
  history.replaceState(history.state, '', location.pathname + wish + location.hash);
}

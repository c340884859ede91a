// What the page of the runs shows and how: kept in the address, so that a link shows the
// same, and for what is a habit in this browser.

import { computed, signal } from '@preact/signals';
import { parseFilter } from '../filter';
import { navigate, rewrite, route, runPath } from '../route';
import { isBoolean, kept } from '../settings';
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

// tabOf is the part of a run that is shown: what the address says, else its terminal or,
// where it has none, its output.
export function tabOf(hasTerminal: boolean): Tab {
  const asked = TABS.find((tab) => tab === wanted.value);
  if (asked && (asked !== 'terminal' || hasTerminal)) return asked;
  return hasTerminal ? 'terminal' : 'output';
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

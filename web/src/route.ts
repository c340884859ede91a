// The address bar as a signal. Pages navigate through here so that Back works.

import { signal } from '@preact/signals';
import type { Identity } from './wire.gen';

export type Route =
  | { page: 'list' }
  | { page: 'space' }
  // id is null for all runs; hash is the part that is shown.
  | { page: 'runs'; id: string | null; hash: string }
  // start is null when the link named a pid only; hash is the text after '#'.
  | { page: 'process'; pid: number; start: number | null; hash: string }
  | { page: 'unknown'; path: string };

export function parseRoute(path: string, search: string, hash: string): Route {
  if (path === '/') return { page: 'list' };
  if (path === '/space') return { page: 'space' };
  const run = /^\/runs(?:\/([A-Za-z0-9_-]{1,64}))?$/.exec(path);
  if (run) return { page: 'runs', id: run[1] ?? null, hash: hash.replace(/^#/, '') };
  const match = /^\/process\/([1-9]\d{0,9})$/.exec(path);
  if (match?.[1]) {
    const start = new URLSearchParams(search).get('start');
    const ticks = start !== null && /^\d{1,20}$/.test(start) ? Number(start) : null;
    return { page: 'process', pid: Number(match[1]), start: ticks, hash: hash.replace(/^#/, '') };
  }
  return { page: 'unknown', path };
}

// processPath is the link of one process, its start time included.
export function processPath(identity: Identity): string {
  return `/process/${identity.pid}?start=${identity.start_time_ticks}`;
}

// platePath is the link of a process's plate in the space.
export const platePath = (identity: Identity): string => `/space?sel=${identity.pid}@${identity.start_time_ticks}`;

// runPath is the link of one run.
export const runPath = (id: string): string => `/runs/${id}`;

const isRuns = (path: string): boolean => path === '/runs' || path.startsWith('/runs/');

const here = () => parseRoute(location.pathname, location.search, location.hash);

export const route = signal<Route>(here());

// navigate moves to a page of ours and adds a step to the history. The runs have a
// content policy of their own, which comes with the page: to them and from them the page
// is loaded anew.
export function navigate(href: string): void {
  if (isRuns(location.pathname) !== isRuns(new URL(href, location.href).pathname)) {
    location.assign(href);
    return;
  }
  history.pushState(null, '', href);
  route.value = here();
}

// rewrite corrects the address of the page that is shown, without a step.
export function rewrite(href: string): void {
  history.replaceState(history.state, '', href);
  route.value = here();
}

// followRoutes keeps the signal in step with Back, Forward and typed hashes.
export function followRoutes(): void {
  addEventListener('popstate', () => {
    route.value = here();
  });
}

// plainClick says that a click on a link is ours: no new tab or window was asked for.
export function plainClick(event: MouseEvent): boolean {
  return event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
}

// What the space page shows and how: kept in the address, so that a link shows the
// same, and for what is a habit in this browser.

import { computed, signal } from '@preact/signals';
import { parseFilter } from '../filter';
import { route } from '../route';
import { isBoolean, kept } from '../settings';
import type { LiveState } from '../stream';
import type { SystemStatus } from '../wire.gen';
import { SPACE_KEYS } from './grammar';
import type { Facts, Which } from './protocol';

/** Drawn is what of the connections is in the picture; bundles as in ArcsMessage. */
export interface Drawn {
  drawn: number;
  bundles: ArrayLike<number>;
  within: number;
  hidden: number;
}

export type Drawing = 'none' | 'gl' | 'simple' | 'flat';

export const query = signal('');
export const filterOpen = signal(false);
/** selected is pid@start of a process, "host:" and its address, or null. */
export const selected = signal<string | null>(null);
export const asList = signal(false);
export const collapsed = signal<ReadonlySet<string>>(new Set());
export const connections = kept<Which>(
  'space.connections',
  'active',
  (v): v is Which => v === 'selected' || v === 'active' || v === 'all',
);
export const withPlates = kept('space.plates', true, isBoolean);
export const withParents = kept('space.parents', false, isBoolean);
export const withFiles = kept('space.files', true, isBoolean);
export const isTop = signal(false);

export const live = signal<LiveState>({ kind: 'off' });
export const heard = signal(0);
export const held = signal<{ since: number; started: number; exited: number } | null>(null);
export const status = signal<SystemStatus | null>(null);
export const gaps = signal({ gaps: 0, frames: 0 });
export const facts = signal<Facts | null>(null);
export const matches = signal({ count: 0, total: 0 });
export const arcs = signal<Drawn>({ drawn: 0, bundles: [], within: 0, hidden: 0 });
/** tick counts layouts and metrics: what reads the data does so again. */
export const tick = signal(0);
export const loaded = signal(false);
export const drawing = signal<Drawing>('none');
export const why = signal(''); // why the picture is not what it could be
export const isLost = signal(false);
/** missing is a process a link asked for that is not there. */
export const missing = signal<string | null>(null);
export const now = signal(Date.now());
export const mountedAt = signal(0);
export const narrow = signal(false);

/** shownConnections: software draws those of the selected only, unless all are asked for. */
export const shownConnections = computed(
  (): Which => (drawing.value === 'simple' && connections.value === 'active' ? 'selected' : connections.value),
);

export const filter = computed(() => parseFilter(query.value, SPACE_KEYS));
export const isFiltering = computed(() => filter.value.test !== null);

export const spaceTitle = 'procinsh / space';

const STALE_MS = 2500;
const WAITING_MS = 3000;

export const staleFor = computed((): number | null => {
  const { kind } = live.value;
  if (heard.value === 0 || kind === 'off' || kind === 'hidden' || kind === 'polling') return null;
  const quiet = now.value - heard.value;
  return quiet > STALE_MS ? quiet : null;
});

export const isWaitingLong = computed(() => mountedAt.value > 0 && now.value - mountedAt.value > WAITING_MS);

/** spacePath is the link of the page as it is shown; view is the camera, '' for all. */
export function spacePath(view: string): string {
  const params = new URLSearchParams();
  if (selected.value) params.set('sel', selected.value);
  if (query.value.trim()) params.set('q', query.value.trim());
  if (asList.value) params.set('list', '1');
  if (view) params.set('view', view);
  const text = params.toString().replaceAll('%3A', ':').replaceAll('%2C', ',').replaceAll('%40', '@');
  return text ? `/space?${text}` : '/space';
}

/** readAddress takes what the link says; it gives the view. */
export function readAddress(): string {
  const params = new URLSearchParams(location.search);
  const sel = params.get('sel');
  query.value = params.get('q') ?? '';
  asList.value = params.get('list') === '1';
  selected.value = sel !== null && /^(\d+@\d+|host:.+)$/.test(sel) ? sel : null;
  missing.value = null;
  return params.get('view') ?? '';
}

export function writeAddress(view: string): void {
  if (route.peek().page !== 'space') return;
  const path = spacePath(view);
  if (location.pathname + location.search !== path) history.replaceState(history.state, '', path);
}

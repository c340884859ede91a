// What the page and its worker tell each other. Arrays are by process index (see
// structure.ts) and are handed over, not copied.

import type { LiveState } from '../stream';
import type { MapSummary, SystemStatus } from '../wire.gen';
import type { End } from './bundles';
import type { LinkKind } from './links';

export type ToWorker =
  | { kind: 'start'; visible: boolean }
  | { kind: 'visible'; visible: boolean }
  | { kind: 'stop' }
  | { kind: 'retry' }
  | { kind: 'hold'; held: boolean }
  | { kind: 'select'; index: number }
  | { kind: 'query'; text: string }
  | { kind: 'connections'; which: Which }
  | { kind: 'rearrange' };

/** Which connections are drawn: the selected's, with those of the last second, or all as bundles. */
export type Which = 'selected' | 'active' | 'all';

export const LIVE = 1;
export const KERNEL_THREAD = 2;
export const SHOWN = 4; // has a place
export const DENIED = 8; // its maps cannot be read
export const STUCK = 16; // waits uninterruptibly, or has ended and nobody took note

/** Names of processes that are new or call themselves otherwise now. */
export interface Names {
  index: Int32Array;
  pid: Int32Array;
  start: Float64Array;
  uid: Uint32Array;
  euid: Uint32Array;
  name: string[];
  user: (string | null)[];
  effectiveUser: (string | null)[];
  container: (string | null)[];
  run: (string | null)[];
}

export interface HostName {
  address: string;
  name: string | null;
  links: number;
}

export interface Layout {
  kind: 'layout';
  sequence: number;
  capturedAt: number;
  /** count is the length of all arrays by index. */
  count: number;
  processes: number;
  kernelThreads: number;
  names: Names;
  flags: Uint8Array;
  /** states has the letter of a state that is told (D Z T t), 0 of the others. */
  states: Uint8Array;
  parents: Int32Array;
  threads: Int32Array;
  children: Int32Array;
  cpu: Float32Array; // percent of one core, NaN unknown
  rss: Float64Array;
  /** place has x, z, foot and height of each tower, in cells; height 0 has no place. */
  place: Float32Array;
  /** main is the kind of a tower drawn as one box. */
  main: Uint8Array;
  /** middle and near are slabs (index, from, to, kind), in order of their index. */
  middle: Float32Array;
  near: Float32Array;
  /** plates are x, z, w, d, y, depth; owner is the process. */
  plates: Float32Array;
  plateOwner: Int32Array;
  ground: { w: number; d: number };
  /** moved: something stands elsewhere now. */
  moved: boolean;
  hosts: (HostName | null)[];
  hostsHidden: number;
  connections: number;
  warnings: readonly string[];
  inspectedProcesses: number;
  inspectedFDs: number;
}

export interface Metrics {
  kind: 'metrics';
  cpu: Float32Array;
  rss: Float64Array;
}

export interface ActivityMessage {
  kind: 'activity';
  capturedAt: number;
  /** cpu is share of one core in the window, by index; only those that ran. */
  cpuIndex: Int32Array;
  cpuShare: Float32Array;
  /** pulses are from, to, write (0 or 1), bytes. */
  pulses: Float32Array;
}

export interface ArcsMessage {
  kind: 'arcs';
  /** arcs are from, to, kind, selected + 2 × active. */
  arcs: Float32Array;
  /** hubs are groups of those who share one object: index, group. */
  hubs: Float32Array;
  /** bundles are from, to, connections, kind, flags; see bundleFlags. */
  bundles: Float32Array;
  drawn: number;
  total: number;
  /** within are connections of one plate, and hidden those of bundles left out: in no bundle. */
  within: number;
  hidden: number;
}

/** BUNDLE is how many numbers a bundle of ArcsMessage has. */
export const BUNDLE = 5;
export const bundleFlags = (active: boolean, a: End, b: End): number => (active ? 1 : 0) + a * 2 + b * 8;
export const isBundleActive = (flags: number): boolean => (flags & 1) !== 0;
export const bundleEnds = (flags: number): [End, End] => [((flags >> 1) & 3) as End, ((flags >> 3) & 3) as End];

/** The order of kinds in ArcsMessage. */
export const LINK_KINDS: readonly LinkKind[] = ['sure', 'candidate', 'shared', 'network', 'open'];

export interface Cards {
  kind: 'cards';
  /** cards are index, slot, write (0 or 1). */
  cards: Float32Array;
  total: number;
}

export interface ConnectionFact {
  id: string;
  label: string;
  kind: LinkKind;
  protocol: string;
  /** peer is a process index, that of a host, or −1. */
  peer: number;
  peerText: string;
  resource: string;
  read: number; // bytes a second, as the selected sees it
  write: number;
  active: boolean;
}

export interface FileFact {
  resource: string;
  path: string | null;
  read: number; // bytes since the card is there
  write: number;
}

export interface Facts {
  kind: 'facts';
  index: number;
  summary: MapSummary | null;
  mapsError: string | null;
  connections: ConnectionFact[];
  connectionsTotal: number;
  connectionsActive: number;
  files: FileFact[];
}

export interface Matches {
  kind: 'matches';
  text: string;
  /** match has a byte for each index. */
  match: Uint8Array;
  count: number;
  total: number;
}

export type FromWorker =
  | { kind: 'state'; state: LiveState }
  | { kind: 'heard'; at: number }
  | { kind: 'status'; status: SystemStatus }
  | { kind: 'gap'; gaps: number; frames: number }
  | { kind: 'held'; started: number; exited: number }
  | Layout
  | Metrics
  | ActivityMessage
  | ArcsMessage
  | Cards
  | Facts
  | Matches;

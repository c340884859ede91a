// The filter's keys on this page: those of the list that the structure of the host
// knows, and what only it knows.

import { type Grammar, KEYS, type Key } from '../filter';
import type { ProcessSummary } from '../wire.gen';

/** Sought is a process with the texts of what it is connected to. */
export interface Sought extends ProcessSummary {
  ports: () => readonly string[];
  socks: () => readonly string[];
  peers: () => readonly string[];
  files: () => readonly string[];
}

const own = (of: (p: Sought) => readonly string[], kind: Key['kind'], help: string): Key => ({
  kind,
  texts: (p) => of(p as Sought),
  help,
});

const FROM_LIST = ['pid', 'ppid', 'name', 'user', 'cpu', 'rss', 'thr', 'kernel', 'run'] as const;

export const SPACE_KEYS: Grammar = {
  ...Object.fromEntries(FROM_LIST.map((key) => [key, KEYS[key] as Key])),
  // The others change too often for the structure to tell them.
  state: { kind: 'state', states: 'DZTt', texts: (p) => [p.state], help: 'state:D' },
  port: own((p) => p.ports(), 'exact', 'port:5432'),
  sock: own((p) => p.socks(), 'text', 'sock:/run/docker.sock'),
  host: own((p) => p.peers(), 'text', 'host:example.org'),
  file: own((p) => p.files(), 'text', 'file:/var/log'),
};

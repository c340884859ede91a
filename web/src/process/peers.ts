// The picture of what a process is connected to: pipes left, sockets right, files
// below. Pure; the page draws what is laid out here.

import type { Descriptor, Endpoint } from '../wire.gen';

export type Side = 'left' | 'right' | 'below';
export type Direction = 'in' | 'out' | 'both' | 'none';

// maxPictureLinks a side: more do not fit in the picture, the table has them all.
export const maxPictureLinks = 8;

export interface PictureLink {
  readonly fds: readonly number[]; // descriptors of this process that name the same object
  readonly kind: string;
  readonly direction: Direction;
  readonly text: string; // what stands at the far end when there is no peer
  readonly peers: readonly Endpoint[];
  readonly candidate: boolean; // the peers are only possible ones
  readonly owners: readonly Endpoint[]; // others that hold the very same object
}

export interface Picture {
  readonly left: readonly PictureLink[];
  readonly right: readonly PictureLink[];
  readonly below: readonly PictureLink[];
  readonly more: Readonly<Record<Side, number>>;
}

const BELOW = new Set(['file', 'directory', 'device', 'memfd']);

// sideOf says where a descriptor is drawn; null for what has no other end to show.
export function sideOf(kind: string): Side | null {
  if (kind === 'pipe' || kind === 'fifo') return 'left';
  if (kind === 'socket') return 'right';
  return BELOW.has(kind) ? 'below' : null;
}

function directionOf(access: string | null): Direction {
  if (access === 'read') return 'in';
  if (access === 'write') return 'out';
  return access === 'read/write' ? 'both' : 'none';
}

function both(a: Direction, b: Direction): Direction {
  if (a === b || b === 'none') return a;
  return a === 'none' ? b : 'both';
}

// textOf is what a descriptor leads to, in words.
export function textOf(entry: Descriptor): string {
  if (entry.kind !== 'socket') return entry.target;
  const protocol = entry.protocol ?? 'socket';
  if (entry.remote !== null && entry.remote !== '') return `${protocol} ${entry.remote}`;
  if (entry.local !== null && entry.local !== '') return `${protocol} ${entry.local} ${entry.state ?? ''}`.trim();
  return `${protocol} ${entry.local_kind ?? ''}`.trim();
}

// Links with someone at the other end come first, then those held by others too.
const rank = (link: PictureLink) => (link.peers.length > 0 ? 0 : link.owners.length > 0 ? 1 : 2);

// pictureOf groups descriptors by the object they name and picks what to draw.
export function pictureOf(entries: readonly Descriptor[]): Picture {
  const sides: Record<Side, Map<string, PictureLink>> = { left: new Map(), right: new Map(), below: new Map() };
  for (const entry of entries) {
    const side = sideOf(entry.kind);
    if (side === null) continue;
    const object =
      side === 'below' ? `${entry.kind} ${entry.target}` : `${entry.kind} ${entry.inode ?? `fd ${entry.fd}`}`;
    const direction = directionOf(entry.access);
    const known = sides[side].get(object);
    if (known === undefined) {
      sides[side].set(object, {
        fds: [entry.fd],
        kind: entry.kind,
        direction,
        text: textOf(entry),
        peers: entry.peers,
        candidate: entry.peers.length > 0 && entry.peers.every((p) => p.relation === 'address_candidate'),
        owners: entry.holders,
      });
    } else {
      sides[side].set(object, {
        ...known,
        fds: [...known.fds, entry.fd],
        direction: both(known.direction, direction),
      });
    }
  }
  const pick = (side: Side) => {
    const all = [...sides[side].values()].sort(
      (a, b) => rank(a) - rank(b) || (a.fds[0] as number) - (b.fds[0] as number),
    );
    return { shown: all.slice(0, maxPictureLinks), more: Math.max(0, all.length - maxPictureLinks) };
  };
  const left = pick('left');
  const right = pick('right');
  const below = pick('below');
  return {
    left: left.shown,
    right: right.shown,
    below: below.shown,
    more: { left: left.more, right: right.more, below: below.more },
  };
}

// endsText names the endpoints of a list in few words: "bash 12, cat 13 +2".
export function endsText(ends: readonly Endpoint[], most: number): string {
  const names = ends.slice(0, most).map((end) => `${end.name} ${end.process_id.pid}`);
  return names.join(', ') + (ends.length > most ? ` +${ends.length - most}` : '');
}

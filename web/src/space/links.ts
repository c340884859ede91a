// Which connection a transfer belongs to, and which connections are drawn. Pure.

import { keyOf } from '../deltas';
import type { Identity, Port, TopologyEdge } from '../wire.gen';
import { HOSTS, type Structure } from './structure';

export type LinkKind = 'sure' | 'candidate' | 'shared' | 'network' | 'open';

/** linkKind tells apart what is known of the other end; open: there is none that is known. */
export function linkKind(edge: TopologyEdge): LinkKind {
  if (edge.b === null) return edge.socket?.network_peer && edge.socket.remote !== null ? 'network' : 'open';
  if (edge.candidate) return 'candidate';
  return edge.shared ? 'shared' : 'sure';
}

/** hostOf is the address of a remote end without its port: "10.0.0.7", "fe80::1". */
export function hostOf(remote: string): string {
  const bracket = /^\[(.*)\]:\d+$/.exec(remote);
  if (bracket) return bracket[1] as string;
  return remote.replace(/:\d+$/, '');
}

export interface Link {
  readonly edge: TopologyEdge;
  readonly kind: LinkKind;
  /** a and b are process indices or those of hosts; −1 where nothing is known. */
  a: number;
  b: number;
  /** active is when it last moved bytes, ms; 0 never. */
  active: number;
  /** Bytes a second, of the last second or so, seen from a. */
  read: number;
  write: number;
}

export interface Host {
  address: string;
  name: string | null;
  links: number;
}

/** portKey names one object as one process has it. */
export const portKey = (identity: Identity, resource: string): string => `${keyOf(identity)} ${resource}`;

/** Connections of one object that a transfer is shown on; a pipe with many readers has more. */
const maxPulsesPerTransfer = 4;

export class Links {
  readonly links = new Map<string, Link>();
  readonly hosts: (Host | null)[] = new Array(HOSTS).fill(null);
  /** hostsHidden have no place at the edge. */
  hostsHidden = 0;
  private byPort = new Map<string, Link[]>();
  private byIndex = new Map<number, Link[]>();
  private hostAt = new Map<string, number>();

  /** rebuild follows the structure; a link that is still there keeps its activity. */
  rebuild(structure: Structure): void {
    const before = new Map(this.links);
    this.links.clear();
    this.byPort = new Map();
    this.byIndex = new Map();
    const wanted = new Map<string, Host>();
    for (const edge of structure.edges.values()) {
      if (linkKind(edge) !== 'network') continue;
      const address = hostOf(edge.socket?.remote ?? '');
      const host = wanted.get(address) ?? { address, name: null, links: 0 };
      host.name ??= edge.socket?.remote_hostname ?? null;
      host.links++;
      wanted.set(address, host);
    }
    this.placeHosts(wanted);
    for (const edge of structure.edges.values()) {
      const kind = linkKind(edge);
      const old = before.get(edge.id);
      const link: Link = {
        edge,
        kind,
        a: structure.find(edge.a.process_id)?.index ?? -1,
        b: -1,
        active: old?.active ?? 0,
        read: old?.read ?? 0,
        write: old?.write ?? 0,
      };
      if (kind === 'network') link.b = this.hostAt.get(hostOf(edge.socket?.remote ?? '')) ?? -1;
      else if (edge.b !== null) link.b = structure.find(edge.b.process_id)?.index ?? -1;
      this.links.set(edge.id, link);
      this.note(edge.a, link);
      if (edge.b) this.note(edge.b, link);
      this.noteIndex(link.a, link);
      if (link.b !== link.a) this.noteIndex(link.b, link);
    }
  }

  private note(port: Port, link: Link): void {
    const key = portKey(port.process_id, port.resource);
    const list = this.byPort.get(key);
    if (!list) this.byPort.set(key, [link]);
    else if (list.at(-1) !== link) list.push(link);
  }

  private noteIndex(index: number, link: Link): void {
    if (index < 0) return;
    const list = this.byIndex.get(index);
    if (list) list.push(link);
    else this.byIndex.set(index, [link]);
  }

  // A host keeps its place while anybody talks to it.
  private placeHosts(wanted: ReadonlyMap<string, Host>): void {
    for (const [address, at] of [...this.hostAt]) {
      const host = wanted.get(address);
      this.hosts[at] = host ?? null;
      if (!host) this.hostAt.delete(address);
    }
    const waiting = [...wanted.values()].filter((host) => !this.hostAt.has(host.address));
    waiting.sort((a, b) => b.links - a.links || (a.address < b.address ? -1 : 1));
    this.hostsHidden = 0;
    for (const host of waiting) {
      const at = this.hosts.indexOf(null);
      if (at < 0) {
        this.hostsHidden++;
        continue;
      }
      this.hosts[at] = host;
      this.hostAt.set(host.address, at);
    }
  }

  /** of are the links of a process or a host. */
  of(index: number): readonly Link[] {
    return this.byIndex.get(index) ?? [];
  }

  /** at are the links of one object of one process. */
  at(identity: Identity, resource: string): readonly Link[] {
    const list = this.byPort.get(portKey(identity, resource)) ?? [];
    return list.length > maxPulsesPerTransfer ? list.slice(0, maxPulsesPerTransfer) : list;
  }

  get drawable(): number {
    let n = 0;
    for (const link of this.links.values()) if (link.a >= 0 && link.b >= 0) n++;
    return n;
  }
}

/** An arc on screen. */
export interface Arc {
  from: number;
  to: number;
  kind: LinkKind;
  selected: boolean;
  active: boolean;
}

/** Arcs drawn at most, those of the selected first, then the most recent. */
export const maxArcs = 200;
/** Arcs of the selected beside the bundles of all. */
export const maxArcsBeside = 80;
/** A link counts as active for this long after its last transfer. */
export const ACTIVE_MS = 1000;

/** chooseLinks picks what is drawn: the selected's, and with `active` what moved in the last second. */
export function chooseLinks(links: Links, selected: number, active: boolean, now: number, most = maxArcs): Link[] {
  const chosen = new Set<Link>();
  const isDrawn = (link: Link) => link.a >= 0 && link.b >= 0 && link.a !== link.b;
  if (selected >= 0) {
    const own = links.of(selected).filter(isDrawn);
    own.sort((a, b) => b.active - a.active);
    for (const link of own.slice(0, most)) chosen.add(link);
  }
  if (active && chosen.size < most) {
    const recent: Link[] = [];
    for (const link of links.links.values()) {
      if (link.active > 0 && now - link.active <= ACTIVE_MS && isDrawn(link) && !chosen.has(link)) recent.push(link);
    }
    recent.sort((a, b) => b.active - a.active);
    for (const link of recent.slice(0, most - chosen.size)) chosen.add(link);
  }
  return [...chosen];
}

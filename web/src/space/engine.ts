// What the worker does with the stream: keeps the structure, packs it, and tells the
// page in arrays what to draw. Pure but for the two functions it is given.

import { keyOf } from '../deltas';
import { type Filter, parseFilter } from '../filter';
import type { Activity, Gap, ProcessMetrics, ProcessSummary, Topology, TopologyDelta, TopologyEdge } from '../wire.gen';
import { type Bundled, bundle } from './bundles';
import { FileCards } from './files';
import { type Sought, SPACE_KEYS } from './grammar';
import { ACTIVE_MS, chooseLinks, type Link, Links, maxArcs, maxArcsBeside } from './links';
import { GROUND, Packer } from './pack';
import {
  bundleFlags,
  type ConnectionFact,
  DENIED,
  type Facts,
  type FromWorker,
  KERNEL_THREAD,
  type Layout,
  LINK_KINDS,
  LIVE,
  type Names,
  SHOWN,
  STUCK,
  type Which,
} from './protocol';
import { KERNEL, MIDDLE_SLABS, mainKind, NEAR_SLABS, type Slab, slabs, towerHeight } from './slabs';
import { type Changes, HOSTS, type Node, Structure } from './structure';

type Post = (message: FromWorker, transfer: ArrayBuffer[]) => void;

/** Pulses one window of activity makes at most, the largest first. */
export const maxWindowPulses = 500;
/** Connections the panel lists; all are counted. */
export const maxFacts = 200;
/** Differences kept while the page is held; with more the stream starts anew. */
const maxQueued = 500;
const NO_BUNDLES: Bundled = { bundles: [], within: 0, hidden: 0 };
const BUNDLED_MS = 2000;
const PLATE_STEP = 0.14;
const KTHREADD_HEIGHT = 0.9;

interface Flow {
  aw: number;
  ar: number;
  bw: number;
  br: number;
}

export class Engine {
  readonly structure = new Structure();
  readonly links = new Links();
  readonly cards = new FileCards();
  private packer = new Packer();
  private selected = -1;
  private which: Which = 'active';
  private filter: Filter = parseFilter('', SPACE_KEYS);
  private held = false;
  private queue: ({ whole: Topology } | { delta: TopologyDelta })[] = [];
  private heldStarted = new Set<string>();
  private heldExited = 0;
  private flows = new Map<Link, Flow>();
  private statusText = '';
  private gaps = 0;
  private lostFrames = 0;
  private lastArcs = '';
  private lastFacts = '';
  private lastBundled: Bundled | null = null;
  private bundledAt = 0;
  private lastTick = 0;
  private cardsChanged = false;
  private readonly towers = new Map<string, { of: unknown; middle: Slab[]; near: Slab[] }>();

  constructor(
    private readonly post: Post,
    private readonly now: () => number,
  ) {}

  /** opened starts a new connection: what it sends first is whole. */
  opened(): void {
    this.clearMoments();
  }

  /** clearMoments forgets what only a moment showed: activity and cards. */
  clearMoments(): void {
    this.flows.clear();
    for (const link of this.links.links.values()) {
      link.active = 0;
      link.read = 0;
      link.write = 0;
    }
    this.cards.clear();
    this.postCards();
    this.lastArcs = '';
  }

  /** event takes one message; false says that a new connection is needed. */
  event(name: string, data: unknown): boolean {
    switch (name) {
      case 'topology':
        return this.whole(data as Topology);
      case 'topology_delta':
        return this.delta(data as TopologyDelta);
      case 'metrics':
        if (!this.held) this.metrics(data as ProcessMetrics[]);
        return true;
      case 'activity':
        this.activity(data as Activity);
        return true;
      case 'gap':
        this.gaps++;
        this.lostFrames += (data as Gap).dropped_frames;
        this.post({ kind: 'gap', gaps: this.gaps, frames: this.lostFrames }, []);
        if (!this.held) this.clearMoments();
        return true;
      default:
        return true;
    }
  }

  private whole(t: Topology): boolean {
    if (this.held) {
      this.queue = [{ whole: t }];
      return true;
    }
    // The first of a server that has not looked yet says nothing.
    if (t.sequence === 0 && t.nodes.length === 0 && this.structure.sequence > 0) return true;
    this.changed(this.structure.whole(t));
    return true;
  }

  private delta(d: TopologyDelta): boolean {
    if (this.held) {
      if (this.queue.length >= maxQueued) this.queue = [];
      else this.queue.push({ delta: d });
      for (const wire of d.nodes_changed) {
        const key = keyOf(wire.identity);
        if (!this.structure.nodes.has(key)) this.heldStarted.add(key);
      }
      this.heldExited += d.nodes_removed.length;
      this.post({ kind: 'held', started: this.heldStarted.size, exited: this.heldExited }, []);
      return true;
    }
    const changes = this.structure.delta(d);
    if (!changes) return false;
    this.changed(changes);
    return true;
  }

  /** hold keeps everything as it is until it is let go; false: a new connection is needed. */
  hold(held: boolean): boolean {
    if (held === this.held) return true;
    this.held = held;
    this.heldStarted.clear();
    this.heldExited = 0;
    if (held) return true;
    const queue = this.queue;
    this.queue = [];
    this.clearMoments();
    for (const step of queue) {
      if (!('whole' in step ? this.whole(step.whole) : this.delta(step.delta))) return false;
    }
    return true;
  }

  private changed(changes: Changes): void {
    for (const card of this.cards.all()) if (!this.structure.at[card.index]) this.cards.forget(card.index);
    if (changes.edges || changes.started > 0 || changes.exited > 0) this.links.rebuild(this.structure);
    for (const [link] of this.flows) if (this.links.links.get(link.edge.id) !== link) this.flows.delete(link);
    if (this.selected >= HOSTS && !this.structure.at[this.selected]) this.selected = -1;
    this.postLayout(changes.named, this.pack());
    this.lastArcs = '';
    this.lastBundled = null;
    this.postArcs();
    this.postFacts();
    this.postCards();
    this.postMatches();
  }

  rearrange(): void {
    if (this.structure.sequence < 0) return;
    this.packer = new Packer();
    this.pack();
    this.postLayout([], true);
  }

  private pack(): boolean {
    const wanted = new Map<number, number>();
    for (const node of this.structure.nodes.values()) {
      if (!isPlaced(node)) continue;
      const parent = this.structure.parentOf(node);
      wanted.set(node.index, parent && isPlaced(parent) ? parent.index : GROUND);
    }
    return this.packer.update(wanted).moved;
  }

  private tower(node: Node): { middle: Slab[]; near: Slab[] } {
    const kept = this.towers.get(node.key);
    if (kept && kept.of === node.summary) return kept;
    let middle: Slab[] = [];
    let near: Slab[] = [];
    if (node.summary && node.summary.boxes.length > 0) {
      near = slabs(node.summary, NEAR_SLABS);
      middle = near.length <= MIDDLE_SLABS ? near : slabs(node.summary, MIDDLE_SLABS);
    }
    const made = { of: node.summary, middle, near };
    this.towers.set(node.key, made);
    return made;
  }

  private postLayout(named: readonly Node[], moved: boolean): void {
    const { structure, links } = this;
    const count = structure.at.length;
    for (const key of [...this.towers.keys()]) if (!structure.nodes.has(key)) this.towers.delete(key);
    const layout: Layout = {
      kind: 'layout',
      sequence: structure.sequence,
      capturedAt: structure.capturedAt,
      count,
      processes: 0,
      kernelThreads: 0,
      names: namesOf(named),
      flags: new Uint8Array(count),
      states: new Uint8Array(count),
      parents: new Int32Array(count).fill(-1),
      threads: new Int32Array(count),
      children: new Int32Array(count),
      cpu: new Float32Array(count).fill(Number.NaN),
      rss: new Float64Array(count),
      place: new Float32Array(count * 4),
      main: new Uint8Array(count),
      middle: new Float32Array(0),
      near: new Float32Array(0),
      plates: new Float32Array(0),
      plateOwner: new Int32Array(0),
      ground: this.packer.size,
      moved,
      hosts: links.hosts.map((host) => host && { address: host.address, name: host.name, links: host.links }),
      hostsHidden: links.hostsHidden,
      connections: links.links.size,
      warnings: structure.warnings,
      inspectedProcesses: structure.inspectedProcesses,
      inspectedFDs: structure.inspectedFDs,
    };
    const middle: number[] = [];
    const near: number[] = [];
    for (const node of structure.nodes.values()) {
      const i = node.index;
      const placed = isPlaced(node);
      layout.flags[i] =
        LIVE |
        (node.kernel ? KERNEL_THREAD : 0) |
        (placed ? SHOWN : 0) |
        (node.summary === null && node.mapsError !== null ? DENIED : 0) |
        (node.wire.state === 'D' || node.wire.state === 'Z' ? STUCK : 0);
      layout.states[i] = node.wire.state?.charCodeAt(0) ?? 0;
      layout.threads[i] = node.wire.thread_count;
      layout.cpu[i] = node.wire.cpu_percent ?? Number.NaN;
      layout.rss[i] = node.wire.rss_bytes;
      const parent = structure.parentOf(node);
      if (parent) {
        layout.parents[i] = parent.index;
        layout.children[parent.index] = (layout.children[parent.index] as number) + 1;
      }
      if (node.kernel) layout.kernelThreads++;
      else layout.processes++;
    }
    // In the order of the indices, so that a tower's slabs can be found by where they begin.
    for (let i = HOSTS; i < count; i++) {
      const node = structure.at[i];
      if (!node || !isPlaced(node)) continue;
      layout.main[i] = node.kernel ? KERNEL : mainKind(node.summary, node.mapsError);
      const tower = this.tower(node);
      for (const slab of tower.middle) middle.push(i, slab.from, slab.to, slab.kind);
      for (const slab of tower.near) near.push(i, slab.from, slab.to, slab.kind);
    }
    layout.middle = Float32Array.from(middle);
    layout.near = Float32Array.from(near);
    this.putPlaces(layout);
    this.putHosts(layout);
    this.post(layout, [
      layout.flags.buffer,
      layout.states.buffer,
      layout.parents.buffer,
      layout.threads.buffer,
      layout.children.buffer,
      layout.cpu.buffer,
      layout.rss.buffer,
      layout.place.buffer,
      layout.main.buffer,
      layout.middle.buffer,
      layout.near.buffer,
      layout.plates.buffer,
      layout.plateOwner.buffer,
    ] as ArrayBuffer[]);
  }

  private putPlaces(layout: Layout): void {
    const plates: number[] = [];
    const owners: number[] = [];
    this.packer.each((index, x, z, depth, plate) => {
      const node = this.structure.at[index];
      if (!node) return;
      const height = node.kernel ? KTHREADD_HEIGHT : towerHeight(node.wire.rss_bytes);
      layout.place.set([x + 0.5, z + 0.5, depth * PLATE_STEP, height], index * 4);
      if (plate) {
        plates.push(plate.x, plate.z, plate.w, plate.d, depth * PLATE_STEP, depth);
        owners.push(index);
      }
    });
    layout.plates = Float32Array.from(plates);
    layout.plateOwner = Int32Array.from(owners);
  }

  // Remote hosts stand along the far edge, where nothing else does.
  private putHosts(layout: Layout): void {
    const wide = Math.max(1, layout.ground.w);
    const known = layout.hosts.flatMap((host, i) => (host ? [i] : []));
    known.forEach((host, i) => {
      const x = ((i + 0.5) / known.length) * wide;
      layout.place.set([x, -2.5, 0, 0.5], host * 4);
      layout.flags[host] = LIVE | SHOWN;
    });
  }

  private metrics(list: readonly ProcessMetrics[]): void {
    const count = this.structure.at.length;
    const cpu = new Float32Array(count).fill(Number.NaN);
    const rss = new Float64Array(count);
    for (const node of this.structure.nodes.values()) rss[node.index] = node.wire.rss_bytes;
    for (const one of list) {
      const node = this.structure.find(one.identity);
      if (!node) continue;
      node.wire = { ...node.wire, cpu_percent: one.cpu_percent, rss_bytes: one.rss_bytes };
      cpu[node.index] = one.cpu_percent ?? Number.NaN;
      rss[node.index] = one.rss_bytes;
    }
    this.post({ kind: 'metrics', cpu, rss }, [cpu.buffer, rss.buffer]);
  }

  private activity(a: Activity): void {
    const text = JSON.stringify(a.status);
    if (text !== this.statusText) {
      this.statusText = text;
      this.post({ kind: 'status', status: a.status }, []);
    }
    if (this.held) return;
    const { structure } = this;
    const now = this.now();
    const indices: number[] = [];
    const shares: number[] = [];
    const window = Math.max(1, a.window_ms) * 1e6;
    for (const row of a.cpu) {
      const node = structure.find(row.process_id);
      if (!node || row.runtime_ns <= 0) continue;
      indices.push(node.index);
      shares.push(row.runtime_ns / window);
    }
    const pulses: { from: number; to: number; write: number; bytes: number }[] = [];
    for (const row of a.ipc) {
      for (const link of this.links.at(row.process_id, row.resource)) {
        const atA = keyOf(link.edge.a.process_id) === keyOf(row.process_id) && link.edge.a.resource === row.resource;
        link.active = now;
        const flow = this.flows.get(link) ?? { aw: 0, ar: 0, bw: 0, br: 0 };
        this.flows.set(link, flow);
        flow[`${atA ? 'a' : 'b'}${row.write ? 'w' : 'r'}` as keyof Flow] += row.bytes;
        if (link.a < 0 || link.b < 0 || link.a === link.b) continue;
        const here = atA ? link.a : link.b;
        const there = atA ? link.b : link.a;
        pulses.push({
          from: row.write ? here : there,
          to: row.write ? there : here,
          write: row.write ? 1 : 0,
          bytes: row.bytes,
        });
      }
    }
    if (pulses.length > maxWindowPulses) {
      pulses.sort((p, q) => q.bytes - p.bytes);
      pulses.length = maxWindowPulses;
    }
    for (const row of a.files) {
      const node = structure.find(row.process_id);
      if (!node) continue;
      this.cards.touch(node.index, row.resource, row.path, row.write, row.bytes, now);
      this.cardsChanged = true;
    }
    const cpuIndex = Int32Array.from(indices);
    const cpuShare = Float32Array.from(shares);
    const packed = Float32Array.from(pulses.flatMap((p) => [p.from, p.to, p.write, p.bytes]));
    this.post({ kind: 'activity', capturedAt: a.captured_at, cpuIndex, cpuShare, pulses: packed }, [
      cpuIndex.buffer,
      cpuShare.buffer,
      packed.buffer,
    ]);
  }

  /** tick is called about twice a second: rates, arcs that fell silent, cards that are over. */
  tick(): void {
    if (this.held) return;
    const now = this.now();
    const span = this.lastTick > 0 ? Math.max(1, now - this.lastTick) : 1000;
    this.lastTick = now;
    for (const [link, flow] of this.flows) {
      // Both ends tell of the same bytes: the larger figure is the transfer.
      const write = (Math.max(flow.aw, flow.br) * 1000) / span;
      const read = (Math.max(flow.ar, flow.bw) * 1000) / span;
      link.write = link.write === 0 ? write : (link.write + write) / 2;
      link.read = link.read === 0 ? read : (link.read + read) / 2;
      flow.aw = flow.ar = flow.bw = flow.br = 0;
      if (now - link.active > ACTIVE_MS) {
        link.write = 0;
        link.read = 0;
        this.flows.delete(link);
      }
    }
    if (this.cards.expire(now)) this.cardsChanged = true;
    if (this.cardsChanged) this.postCards();
    this.postArcs();
    this.postFacts();
  }

  select(index: number): void {
    this.selected = index;
    this.lastFacts = '';
    this.postArcs();
    this.postFacts();
  }

  show(which: Which): void {
    this.which = which;
    this.postArcs();
  }

  query(text: string): void {
    this.filter = parseFilter(text, SPACE_KEYS);
    this.postMatches();
  }

  private postCards(): void {
    this.cardsChanged = false;
    const list = this.cards.all();
    const cards = Float32Array.from(list.flatMap((card) => [card.index, card.slot, card.lastWrite ? 1 : 0]));
    this.post({ kind: 'cards', cards, total: list.length }, [cards.buffer]);
  }

  private postArcs(): void {
    if (this.structure.sequence < 0) return;
    const now = this.now();
    const isAll = this.which === 'all';
    const chosen = chooseLinks(
      this.links,
      this.selected,
      this.which === 'active',
      now,
      isAll ? maxArcsBeside : maxArcs,
    );
    const bundled = isAll ? this.bundled(now) : NO_BUNDLES;
    const bundles = bundled.bundles.flatMap((one) => [
      one.a,
      one.b,
      one.connections,
      LINK_KINDS.indexOf(one.kind),
      bundleFlags(one.active, one.endA, one.endB),
    ]);
    const arcs: number[] = [];
    const hubs: number[] = [];
    const groups = new Map<string, { at: number; members: Set<number> }>();
    for (const link of chosen) {
      const isActive = link.active > 0 && now - link.active <= ACTIVE_MS;
      const isOwn = link.a === this.selected || link.b === this.selected;
      if (link.kind === 'shared') {
        // Owners of one object meet at a hub: as many lines as owners.
        const resource = link.edge.a.resource;
        const group = groups.get(resource) ?? { at: groups.size, members: new Set() };
        groups.set(resource, group);
        for (const index of [link.a, link.b]) {
          if (group.members.has(index)) continue;
          group.members.add(index);
          hubs.push(index, group.at);
        }
        continue;
      }
      arcs.push(link.a, link.b, LINK_KINDS.indexOf(link.kind), (isOwn ? 1 : 0) + (isActive ? 2 : 0));
    }
    const text = `${arcs.join()} ${hubs.join()} ${bundles.join()} ${bundled.within}`;
    if (text === this.lastArcs) return;
    this.lastArcs = text;
    const packed = Float32Array.from(arcs);
    const packedHubs = Float32Array.from(hubs);
    const packedBundles = Float32Array.from(bundles);
    this.post(
      {
        kind: 'arcs',
        arcs: packed,
        hubs: packedHubs,
        bundles: packedBundles,
        drawn: isAll ? bundled.bundles.reduce((sum, one) => sum + one.connections, 0) : chosen.length,
        total: this.links.links.size,
        within: bundled.within,
        hidden: bundled.hidden,
      },
      [packed.buffer, packedHubs.buffer, packedBundles.buffer],
    );
  }

  // Made anew with every structure, and for what moves every other second.
  private bundled(now: number): Bundled {
    if (this.lastBundled && now - this.bundledAt < BUNDLED_MS) return this.lastBundled;
    const parents = new Int32Array(this.structure.at.length).fill(-1);
    for (const node of this.structure.nodes.values()) {
      const parent = this.structure.parentOf(node);
      if (parent && isPlaced(parent)) parents[node.index] = parent.index;
    }
    this.bundledAt = now;
    this.lastBundled = bundle(this.links, parents, (at) => at > 0 && now - at <= BUNDLED_MS);
    return this.lastBundled;
  }

  private postFacts(): void {
    const index = this.selected;
    if (index < 0) return;
    const now = this.now();
    const own = [...this.links.of(index)];
    own.sort((a, b) => b.active - a.active || (a.edge.id < b.edge.id ? -1 : 1));
    let activeCount = 0;
    for (const link of own) if (link.active > 0 && now - link.active <= ACTIVE_MS) activeCount++;
    const node = this.structure.at[index];
    const facts: Facts = {
      kind: 'facts',
      index,
      summary: node?.summary ?? null,
      mapsError: node?.mapsError ?? null,
      connections: own.slice(0, maxFacts).map((link) => this.fact(link, index, now)),
      connectionsTotal: own.length,
      connectionsActive: activeCount,
      files: this.cards
        .of(index)
        .sort((a, b) => b.last - a.last)
        .map((card) => ({
          resource: card.resource,
          path: card.path,
          read: card.read,
          write: card.write,
        })),
    };
    const text = JSON.stringify(facts);
    if (text === this.lastFacts) return;
    this.lastFacts = text;
    this.post(facts, []);
  }

  private fact(link: Link, index: number, now: number): ConnectionFact {
    const { edge } = link;
    const atA = link.a === index;
    const other = atA ? edge.b : edge.a;
    const peer = atA ? link.b : link.a;
    return {
      id: edge.id,
      label: edge.label,
      kind: link.kind,
      protocol: edge.socket?.protocol ?? edge.a.kind,
      peer,
      peerText: other ? '' : (edge.socket?.remote ?? ''),
      resource: atA ? edge.a.resource : (edge.b?.resource ?? edge.a.resource),
      read: atA ? link.read : link.write,
      write: atA ? link.write : link.read,
      active: link.active > 0 && now - link.active <= ACTIVE_MS,
    };
  }

  private postMatches(): void {
    const { test, text } = this.filter;
    const match = new Uint8Array(this.structure.at.length);
    let count = 0;
    let total = 0;
    for (const node of this.structure.nodes.values()) {
      if (!node.kernel) total++;
      if (test !== null && !test({ summary: this.sought(node), lower: '' }, 0)) continue;
      match[node.index] = 1;
      if (isPlaced(node)) count++;
    }
    this.post({ kind: 'matches', text, match, count, total }, [match.buffer]);
  }

  private sought(node: Node): ProcessSummary {
    const links = () => this.links.of(node.index);
    const sockets = (of: (edge: TopologyEdge) => (string | null | undefined)[]) =>
      links().flatMap((link) => of(link.edge).filter((text): text is string => !!text));
    const port = (text: string | null | undefined) => (text ? (/:(\d+)$/.exec(text)?.[1] ?? null) : null);
    const sought: Sought = {
      ...pseudoSummary(node),
      ports: () => sockets((edge) => [port(edge.socket?.local), port(edge.socket?.remote)]),
      socks: () =>
        sockets((edge) => [edge.label, edge.socket?.local, edge.socket?.remote, edge.a.resource, edge.b?.resource]),
      peers: () =>
        links().flatMap((link) =>
          link.kind === 'network'
            ? [link.edge.socket?.remote ?? '', link.edge.socket?.remote_hostname ?? ''].filter(Boolean)
            : [],
        ),
      files: () => this.cards.of(node.index).flatMap((card) => (card.path === null ? [] : [card.path])),
    };
    return sought;
  }
}

/** isPlaced: kernel threads have no address space to show; kthreadd stands for them all. */
function isPlaced(node: Node): boolean {
  return !node.kernel || node.wire.identity.pid === 2;
}

function namesOf(nodes: readonly Node[]): Names {
  return {
    index: Int32Array.from(nodes, (node) => node.index),
    pid: Int32Array.from(nodes, (node) => node.wire.identity.pid),
    start: Float64Array.from(nodes, (node) => node.wire.identity.start_time_ticks),
    uid: Uint32Array.from(nodes, (node) => node.wire.uid),
    euid: Uint32Array.from(nodes, (node) => node.wire.euid),
    name: nodes.map((node) => node.wire.name),
    user: nodes.map((node) => node.wire.username),
    effectiveUser: nodes.map((node) => node.wire.effective_username),
    container: nodes.map((node) => node.wire.container),
    run: nodes.map((node) => node.wire.run_id),
  };
}

/** pseudoSummary has what the structure knows of a process; the rest is unknown. */
function pseudoSummary(node: Node): ProcessSummary {
  const { wire } = node;
  return {
    identity: wire.identity,
    parent_id: wire.parent_id,
    name: wire.name,
    executable: null,
    command_line: null,
    command_line_truncated: false,
    kernel_thread: node.kernel,
    uid: wire.uid,
    euid: wire.euid,
    username: wire.username,
    effective_username: wire.effective_username,
    state: wire.state ?? '',
    cpu_percent: wire.cpu_percent,
    rss_bytes: wire.rss_bytes,
    thread_count: wire.thread_count,
    started_at: 0,
    cgroup: null,
    container: wire.container,
    vms_bytes: 0,
    nice: 0,
    tty: null,
    processor: 0,
    read_bytes_rate: null,
    write_bytes_rate: null,
    run_id: wire.run_id,
    map_summary: null,
  };
}

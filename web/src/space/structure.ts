// The structure of the host as the stream tells it: a whole one, then differences.
// Pure, so that a test can replay any sequence of events.
//
// Every process has an index, kept as long as it runs and used again after its end:
// what is drawn, picked and counted on names processes by it. The indices below HOSTS
// are those of remote hosts.

import { keyOf } from '../deltas';
import type { Identity, MapSummary, Topology, TopologyDelta, TopologyEdge, TopologyNode } from '../wire.gen';

/** Remote hosts that have a place at the far edge; the rest is counted. */
export const HOSTS = 64;

export interface Node {
  readonly index: number;
  readonly key: string;
  wire: TopologyNode;
  summary: MapSummary | null;
  mapsError: string | null;
  /** kernel is kthreadd and what it started. */
  kernel: boolean;
}

export interface Changes {
  started: number;
  exited: number;
  /** named are the nodes whose text may differ from what was told before. */
  named: Node[];
  edges: boolean;
}

const KTHREADD = 2;

const TOLD = 'DZTt';

/** toldState is a letter as the structure of the host tells it: null for who runs, sleeps or idles. */
export const toldState = (letter: string): string | null => (letter !== '' && TOLD.includes(letter) ? letter : null);

export class Structure {
  sequence = -1;
  capturedAt = 0;
  readonly nodes = new Map<string, Node>();
  /** at is the node of an index, null where there is none. */
  readonly at: (Node | null)[] = new Array(HOSTS).fill(null);
  readonly edges = new Map<string, TopologyEdge>();
  warnings: readonly string[] = [];
  inspectedProcesses = 0;
  inspectedFDs = 0;
  private free: number[] = [];

  /** whole takes a structure as it stands: what is not in it has ended. */
  whole(t: Topology): Changes {
    const changes: Changes = { started: 0, exited: 0, named: [], edges: true };
    const seen = new Set<string>();
    for (const wire of t.nodes) seen.add(keyOf(wire.identity));
    for (const node of [...this.nodes.values()]) if (!seen.has(node.key)) this.end(node, changes);
    for (const wire of t.nodes) {
      const node = this.put(wire, changes);
      node.summary = wire.map_summary ?? null;
      node.mapsError = wire.maps_error;
    }
    this.edges.clear();
    for (const edge of t.edges) this.edges.set(edge.id, edge);
    this.take(t);
    return changes;
  }

  /** delta takes a difference; null when it does not follow what is here. */
  delta(d: TopologyDelta): Changes | null {
    if (this.sequence < 0 || d.base_sequence !== this.sequence) return null;
    const changes: Changes = { started: 0, exited: 0, named: [], edges: false };
    for (const identity of d.nodes_removed) {
      const node = this.nodes.get(keyOf(identity));
      if (node) this.end(node, changes);
    }
    for (const wire of d.nodes_changed) this.put(wire, changes);
    for (const maps of d.maps_changed) {
      const node = this.nodes.get(keyOf(maps.identity));
      if (!node) continue;
      node.summary = maps.map_summary ?? null;
      node.mapsError = maps.maps_error;
    }
    for (const id of d.edges_removed) this.edges.delete(id);
    for (const edge of d.edges_changed) this.edges.set(edge.id, edge);
    changes.edges = d.edges_removed.length > 0 || d.edges_changed.length > 0;
    this.take(d);
    return changes;
  }

  find(identity: Identity): Node | null {
    return this.nodes.get(keyOf(identity)) ?? null;
  }

  parentOf(node: Node): Node | null {
    const id = node.wire.parent_id;
    const parent = id === null ? null : this.find(id);
    return parent === node ? null : parent;
  }

  private take(t: Topology | TopologyDelta): void {
    this.sequence = t.sequence;
    this.capturedAt = t.captured_at;
    this.warnings = t.warnings;
    this.inspectedProcesses = t.inspected_processes;
    this.inspectedFDs = t.inspected_fds;
  }

  private put(wire: TopologyNode, changes: Changes): Node {
    const key = keyOf(wire.identity);
    const known = this.nodes.get(key);
    const pid = wire.identity.pid;
    const kernel = (pid === KTHREADD && wire.name === 'kthreadd') || wire.parent_id?.pid === KTHREADD;
    if (known) {
      const old = known.wire;
      known.wire = wire;
      known.kernel = kernel;
      if (
        old.name !== wire.name ||
        old.uid !== wire.uid ||
        old.euid !== wire.euid ||
        old.username !== wire.username ||
        old.effective_username !== wire.effective_username ||
        old.container !== wire.container ||
        old.run_id !== wire.run_id
      ) {
        changes.named.push(known);
      }
      return known;
    }
    const index = this.free.pop() ?? this.at.length;
    const node: Node = { index, key, wire, summary: null, mapsError: null, kernel };
    this.at[index] = node;
    this.nodes.set(key, node);
    changes.started++;
    changes.named.push(node);
    return node;
  }

  private end(node: Node, changes: Changes): void {
    this.nodes.delete(node.key);
    this.at[node.index] = null;
    this.free.push(node.index);
    changes.exited++;
  }
}

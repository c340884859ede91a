// The list as the server tells it: a whole list, then differences. Pure, so that a
// test can replay any sequence of events.

import type { Identity, MapSummary, ProcessesDelta, ProcessesEvent, ProcessSummary } from './wire.gen';

// A process is called new, or kept after its end, for this long.
export const MARK_MS = 5000;

// keyOf names one process for good: pid and start time.
export function keyOf(identity: Identity): string {
  return `${identity.pid}@${identity.start_time_ticks}`;
}

// Row is one process of the list. It stays the same object from the first time the
// process is seen to the last, so that a selection or a table row can hold on to it.
export class Row {
  readonly pid: number;
  readonly start: number; // ticks
  readonly key: string;
  // summary is replaced whole by each change, never changed in place.
  summary: ProcessSummary;
  // maps outlives a summary: the server sends null when it is unchanged.
  maps: MapSummary | null;
  // born is when the list first had it, epoch ms, 0 when it was there from the start.
  born = 0;
  // gone is when the list lost it, 0 while it runs.
  gone = 0;
  // dropped says that it has left the screen for good.
  dropped = false;
  // slot is its place in the history, -1 for none.
  slot = -1;
  // lower is what words of the filter are looked for in; '' until it is asked for.
  lower = '';

  // What Order keeps on a row (tree.ts).
  sortKey: number | string = 0;
  listed = false; // in the sorted array
  moved = false; // its sort key may have changed
  late = false; // came while the order was locked: stands last until it is not
  match = true;
  pinned = false;
  keep = 0; // generation in which it is kept for a match below it
  shown = 0; // generation in which it is in the result
  under = false; // below a match whose descendants are shown
  depth = 0;
  parent: Row | null = null;
  up: Row | null = null; // its parent as found last, in the tree or not
  orphan = 0; // membership in which its parent was looked for in vain
  seen = 0; // generation in which it was arranged
  path = 0; // walk upwards in which it was met last
  firstChild: Row | null = null;
  lastChild: Row | null = null;
  next: Row | null = null;
  sums: Sums | null = null; // of its subtree, when it is collapsed

  // What the table keeps on a row: the strip it drew last.
  strip: unknown = null;
  stripOf: MapSummary | null = null;
  stripWidth = 0;

  constructor(summary: ProcessSummary) {
    this.pid = summary.identity.pid;
    this.start = summary.identity.start_time_ticks;
    this.key = keyOf(summary.identity);
    this.summary = summary;
    this.maps = summary.map_summary;
  }

  update(summary: ProcessSummary): void {
    this.summary = summary;
    if (summary.map_summary !== null) this.maps = summary.map_summary;
    this.lower = '';
  }

  // copy is the row as it stands, for a list that is held.
  copy(): Row {
    const row = new Row(this.summary);
    row.maps = this.maps;
    row.born = this.born;
    row.gone = this.gone;
    row.slot = this.slot;
    return row;
  }
}

// Sums of a collapsed subtree. unknown counts the processes whose figure is not known
// and therefore not in the sum.
export interface Sums {
  processes: number;
  cpu: number | null;
  cpuUnknown: number;
  rss: number;
  vms: number;
  threads: number;
  read: number | null;
  write: number | null;
}

export interface Change {
  started: Row[];
  exited: Row[];
  changed: Row[];
}

export class ProcessTable {
  sequence = -1;
  capturedAt = 0;
  // live is by pid: at one instant a pid names one process.
  readonly live = new Map<number, Row>();
  private first = true;

  // whole takes a `processes` event: what is not in it has ended.
  whole(event: ProcessesEvent): Change {
    const change: Change = { started: [], exited: [], changed: [] };
    const seen = new Set<number>();
    for (const summary of event.processes) {
      seen.add(summary.identity.pid);
      this.put(summary, event.captured_at, change);
    }
    for (const row of this.live.values()) if (!seen.has(row.pid)) this.end(row, event.captured_at, change);
    this.sequence = event.sequence;
    this.capturedAt = event.captured_at;
    this.first = false;
    return change;
  }

  // delta takes a `processes_delta` event. It gives null, and changes nothing, when
  // the event does not follow what is here: the stream must be opened anew.
  delta(event: ProcessesDelta): Change | null {
    if (this.first || event.base_sequence !== this.sequence) return null;
    const change: Change = { started: [], exited: [], changed: [] };
    for (const identity of event.removed) {
      const row = this.live.get(identity.pid);
      if (row && row.start === identity.start_time_ticks) this.end(row, event.captured_at, change);
    }
    for (const summary of event.changed) this.put(summary, event.captured_at, change);
    this.sequence = event.sequence;
    this.capturedAt = event.captured_at;
    return change;
  }

  private put(summary: ProcessSummary, at: number, change: Change): void {
    const { pid, start_time_ticks } = summary.identity;
    const known = this.live.get(pid);
    if (known && known.start === start_time_ticks) {
      known.update(summary);
      change.changed.push(known);
      return;
    }
    // The pid has another owner now, even if the end of the old one was not told.
    if (known) this.end(known, at, change);
    const row = new Row(summary);
    // Not everything that is new to us is new: after a gap only its start time tells.
    if (!this.first && at - summary.started_at < 2 * MARK_MS) row.born = at;
    this.live.set(pid, row);
    change.started.push(row);
  }

  private end(row: Row, at: number, change: Change): void {
    row.gone = at;
    this.live.delete(row.pid);
    change.exited.push(row);
  }
}

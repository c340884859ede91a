// What the list page knows: the processes as the stream tells them, the last minute
// of each, the host's totals, and which moment is on screen.

import { signal } from '@preact/signals';
import { type Change, MARK_MS, ProcessTable, Row } from './deltas';
import type { Saved } from './exports';
import { History, TICKS } from './history';
import { getJSON } from './http';
import { Live } from './stream';
import type { ProcessesDelta, ProcessesEvent, ProcessSummary, Totals } from './wire.gen';

const LIST = '/api/processes';
const QUERY = { maps: 'summary', io: 1 };

// Frame is the moment on screen. Only the live one changes by itself.
export type Frame =
  | { kind: 'live' }
  // at is the server's clock, since this page's.
  | { kind: 'held'; at: number; since: number; rows: Map<string, Row>; started: number; exited: number }
  // back: how many seconds before the newest it is; the columns move on below it.
  | { kind: 'past'; at: number; rows: Map<string, Row> }
  | { kind: 'file'; at: number; rows: Map<string, Row>; name: string };

// Point is one second of the gauges; null figures are unknown.
export interface Point {
  at: number;
  cores: number | null;
  memory: number;
  read: number | null;
  write: number | null;
}

// Frozen is what a list that is not live is looked at with: the minute up to the moment
// it was left, with copies of all rows in it.
interface Frozen {
  history: History;
  rows: Row[];
  points: readonly Point[];
  totals: Totals | null;
}

interface Turn {
  at: number;
  started: number;
  exited: number;
}

export class ListStore {
  readonly table = new ProcessTable();
  readonly history = new History();
  readonly totals = signal<Totals | null>(null);
  readonly points: Point[] = [];
  readonly frame = signal<Frame>({ kind: 'live' });
  // tick counts what came from the server; it changes once an event.
  readonly tick = signal(0);
  // loaded turns true with the first list.
  readonly loaded = signal(false);
  // interval is the distance of the last two lists, ms.
  readonly interval = signal(1000);
  readonly live: Live;

  // added are rows the order on screen does not have yet; fresh asks it to start anew.
  added: Row[] = [];
  fresh = true;
  // kept is the selected row: it stays after its end until something else is selected.
  kept: Row | null = null;

  private frozen: Frozen | null = null;
  private ended: Row[] = []; // still marked on screen
  private past: Row[] = []; // gone from the screen, still in the minute
  private turns: Turn[] = [];

  constructor() {
    this.live = new Live({
      url: () => `${LIST}/stream?maps=summary&io=1`,
      events: ['processes', 'processes_delta', 'totals'],
      event: (name, data) => this.event(name, data),
      poll: () => this.poll(),
    });
  }

  get capturedAt(): number {
    return this.table.capturedAt;
  }

  // What the screen shows of the host: the newest, or what was when the list was held.
  get shownHistory(): History {
    return this.frozen?.history ?? this.history;
  }

  get shownPoints(): readonly Point[] {
    return this.frozen?.points ?? this.points;
  }

  get shownTotals(): Totals | null {
    const newest = this.totals.value; // read in any case, so that readers follow it
    void this.frame.value;
    return this.frozen ? this.frozen.totals : newest;
  }

  // rows are those of the moment on screen.
  rows(): Row[] {
    const frame = this.frame.value;
    if (frame.kind !== 'live') return [...frame.rows.values()];
    return [...this.table.live.values(), ...this.ended];
  }

  find(key: string): Row | null {
    const frame = this.frame.value;
    if (frame.kind !== 'live') return frame.rows.get(key) ?? null;
    const row = this.table.live.get(Number(key.split('@')[0]));
    if (row?.key === key) return row;
    return this.ended.find((r) => r.key === key) ?? null;
  }

  byPid(pid: number): Row | null {
    const frame = this.frame.value;
    if (frame.kind === 'live') return this.table.live.get(pid) ?? null;
    for (const row of frame.rows.values()) if (row.pid === pid && row.gone === 0) return row;
    return null;
  }

  // turnover is what started and ended in the last five seconds.
  turnover(): { started: number; exited: number } {
    const sum = { started: 0, exited: 0 };
    for (const turn of this.turns) {
      if (turn.at <= this.capturedAt - MARK_MS) continue;
      sum.started += turn.started;
      sum.exited += turn.exited;
    }
    return sum;
  }

  private event(name: string, data: unknown): void {
    if (name === 'totals') this.takeTotals(data as Totals);
    else if (name === 'processes') this.takeWhole(data as ProcessesEvent);
    else if (name === 'processes_delta') this.takeDelta(data as ProcessesDelta);
  }

  takeDelta(event: ProcessesDelta): void {
    const before = this.table.capturedAt;
    const change = this.table.delta(event);
    if (change) this.apply(change, before);
    else this.live.restart();
  }

  takeWhole(event: ProcessesEvent): void {
    const before = this.table.capturedAt;
    this.apply(this.table.whole(event), before);
  }

  private async poll(): Promise<void> {
    const [processes, totals] = await Promise.all([
      getJSON<ProcessSummary[]>(LIST, { params: QUERY }),
      getJSON<Totals>('/api/system/totals'),
    ]);
    this.takeTotals(totals);
    this.takeWhole({ sequence: -1, captured_at: totals.captured_at, processes });
  }

  private apply(change: Change, before: number): void {
    const at = this.table.capturedAt;
    const first = !this.loaded.value;
    // After a gap nobody saw them end, so no mark says that they just did.
    const away = before > 0 && at - before > 2 * MARK_MS;
    if (before > 0 && at > before && !away) this.interval.value = at - before;
    this.history.tick(at);
    for (const row of change.started) {
      row.slot = this.history.take();
      this.history.set(row.slot, row.summary);
    }
    for (const row of change.changed) {
      row.moved = true;
      this.history.set(row.slot, row.summary);
    }
    for (const row of change.exited) {
      this.history.clear(row.slot);
      row.moved = true;
      if (away) this.drop(row);
      else this.ended.push(row);
    }
    const frame = this.frame.value;
    if (frame.kind === 'held') {
      for (const row of change.exited) {
        const held = frame.rows.get(row.key);
        if (held) held.gone = row.gone;
      }
      this.frame.value = {
        ...frame,
        started: frame.started + change.started.length,
        exited: frame.exited + change.exited.length,
      };
    } else if (frame.kind === 'live') {
      if (first) this.fresh = true;
      else this.added.push(...change.started);
    }
    if (!first) {
      this.turns.push({ at, started: change.started.length, exited: change.exited.length });
      while (this.turns.length > 0 && (this.turns[0] as Turn).at <= at - MARK_MS) this.turns.shift();
    }
    this.sweep(at);
    this.loaded.value = true;
    this.tick.value++;
  }

  // sweep takes rows off the screen when their mark is over, and out of the minute
  // when nothing of theirs is in it.
  private sweep(at: number): void {
    if (this.ended.some((row) => at - row.gone >= MARK_MS && row !== this.kept)) {
      this.ended = this.ended.filter((row) => {
        if (at - row.gone < MARK_MS || row === this.kept) return true;
        this.drop(row);
        return false;
      });
    }
    if (this.past.some((row) => at - row.gone > (TICKS + 1) * 1000)) {
      this.past = this.past.filter((row) => {
        if (at - row.gone <= (TICKS + 1) * 1000) return true;
        this.history.release(row.slot);
        row.slot = -1;
        return false;
      });
    }
  }

  private drop(row: Row): void {
    row.listed = false;
    row.dropped = true;
    this.past.push(row);
  }

  takeTotals(totals: Totals): void {
    const last = this.points.at(-1);
    if (last && totals.captured_at <= last.at) return;
    this.points.push({
      at: totals.captured_at,
      cores: totals.cores_busy,
      memory: totals.memory_used_bytes,
      read: totals.read_bytes_rate,
      write: totals.write_bytes_rate,
    });
    while (this.points.length > TICKS || (this.points[0] as Point).at < totals.captured_at - TICKS * 1000) {
      this.points.shift();
    }
    this.totals.value = totals;
  }

  private setFrame(frame: Frame): void {
    this.frame.value = frame;
    this.fresh = true;
    this.added = [];
    this.tick.value++;
  }

  private freeze(): Frozen {
    const rows: Row[] = [];
    for (const list of [this.table.live.values(), this.ended, this.past]) for (const row of list) rows.push(row.copy());
    this.frozen = { history: this.history.clone(), rows, points: [...this.points], totals: this.totals.value };
    return this.frozen;
  }

  hold(): void {
    const onScreen = new Set(this.rows().map((row) => row.key));
    const rows = new Map<string, Row>();
    for (const row of this.freeze().rows) if (onScreen.has(row.key)) rows.set(row.key, row);
    this.setFrame({ kind: 'held', at: this.capturedAt, since: Date.now(), rows, started: 0, exited: 0 });
  }

  release(): void {
    if (this.frame.value.kind === 'live') return;
    this.frozen = null;
    this.setFrame({ kind: 'live' });
  }

  // rewind shows the second that was captured nearest to a time; it gives false when
  // nothing was captured around it.
  rewind(time: number): boolean {
    if (this.frame.value.kind === 'file') return false;
    const { history, rows: all } = this.frozen ?? this.freeze();
    let best = -1;
    let least = 2500;
    for (let back = 0; back < TICKS; back++) {
      const at = history.time(back);
      if (at === 0 || Math.abs(at - time) >= least) continue;
      least = Math.abs(at - time);
      best = back;
    }
    if (best < 0) {
      if (this.frame.value.kind === 'live') this.frozen = null;
      return false;
    }
    const at = history.time(best);
    const frame = this.frame.value;
    if (frame.kind === 'past' && frame.at === at) return true;
    const rows = new Map<string, Row>();
    for (const row of all) {
      const moment = history.moment(row.slot, best);
      if (!moment) continue;
      const copy = new Row({
        ...row.summary,
        state: moment.state,
        cpu_percent: moment.cpu,
        rss_bytes: moment.rss,
        read_bytes_rate: moment.read,
        write_bytes_rate: moment.write,
      });
      copy.maps = row.maps;
      copy.slot = row.slot;
      copy.born = row.born;
      rows.set(copy.key, copy);
    }
    this.setFrame({ kind: 'past', at, rows });
    return true;
  }

  openSaved(saved: Saved, name: string): void {
    const rows = new Map<string, Row>();
    for (const summary of saved.processes) {
      const row = new Row(summary);
      rows.set(row.key, row);
    }
    this.frozen = null;
    this.setFrame({ kind: 'file', at: saved.captured_at, rows, name });
  }
}

export const store = new ListStore();

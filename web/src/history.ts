// The last minute of every process, one column of figures a second, in typed arrays:
// a sparkline reads along a row, a rewind reads down a column. Pure.

import type { ProcessSummary } from './wire.gen';

export const TICKS = 60;

const EXTRA = 64;

class Column {
  cpu: Float32Array; // percent of one core, NaN unknown
  rss: Float64Array; // bytes, NaN = the process was not there
  read: Float32Array;
  write: Float32Array;
  state: Uint8Array; // the letter's code

  constructor(size: number) {
    this.cpu = new Float32Array(size).fill(Number.NaN);
    this.rss = new Float64Array(size).fill(Number.NaN);
    this.read = new Float32Array(size).fill(Number.NaN);
    this.write = new Float32Array(size).fill(Number.NaN);
    this.state = new Uint8Array(size);
  }

  grow(size: number): void {
    const old = { ...this } as Column;
    Object.assign(this, new Column(size));
    this.cpu.set(old.cpu);
    this.rss.set(old.rss);
    this.read.set(old.read);
    this.write.set(old.write);
    this.state.set(old.state);
  }

  copy(from: Column): void {
    this.cpu.set(from.cpu);
    this.rss.set(from.rss);
    this.read.set(from.read);
    this.write.set(from.write);
    this.state.set(from.state);
  }

  clear(slot: number): void {
    this.cpu[slot] = Number.NaN;
    this.rss[slot] = Number.NaN;
    this.read[slot] = Number.NaN;
    this.write[slot] = Number.NaN;
    this.state[slot] = 0;
  }

  clearAll(): void {
    this.cpu.fill(Number.NaN);
    this.rss.fill(Number.NaN);
    this.read.fill(Number.NaN);
    this.write.fill(Number.NaN);
    this.state.fill(0);
  }
}

export interface Moment {
  at: number;
  cpu: number | null;
  rss: number;
  read: number | null;
  write: number | null;
  state: string;
}

const known = (value: number | undefined): number | null => (value === undefined || Number.isNaN(value) ? null : value);

export class History {
  private size: number;
  private columns: Column[];
  // at is the capture time of each column, 0 where nothing was captured (a gap).
  private at = new Float64Array(TICKS);
  private head = -1;
  private free: number[] = [];
  private used = 0;

  constructor(size = 1024) {
    this.size = size;
    this.columns = Array.from({ length: TICKS }, () => new Column(size));
  }

  // clone is the minute as it stands, for a list that is held.
  clone(): History {
    const other = new History(this.size);
    other.columns.forEach((column, i) => {
      column.copy(this.columns[i] as Column);
    });
    other.at = this.at.slice();
    other.head = this.head;
    return other;
  }

  get bytes(): number {
    return this.size * TICKS * (4 + 8 + 4 + 4 + 1);
  }

  // take gives a slot for a process that is new.
  take(): number {
    const slot = this.free.pop() ?? this.used++;
    if (slot >= this.size) {
      this.size = Math.max(this.size * 2, slot + EXTRA);
      for (const column of this.columns) column.grow(this.size);
    }
    return slot;
  }

  // release gives a slot back once nothing of its process is in the minute any more.
  release(slot: number): void {
    for (const column of this.columns) column.clear(slot);
    this.free.push(slot);
  }

  // tick opens the column of a new second, with every figure as it was. A second in
  // which nothing was captured is a gap of its own.
  tick(at: number): void {
    const before = this.head >= 0 ? (this.at[this.head] as number) : 0;
    const missed = before > 0 ? Math.min(TICKS, Math.round((at - before) / 1000) - 1) : 0;
    const from = this.head;
    if (missed > 1) for (let i = 0; i < missed; i++) this.open(0);
    const head = this.open(at);
    if (from >= 0 && from !== this.head) head.copy(this.columns[from] as Column);
    else if (from < 0) head.clearAll();
  }

  private open(at: number): Column {
    this.head = (this.head + 1) % TICKS;
    this.at[this.head] = at;
    const column = this.columns[this.head] as Column;
    if (at === 0) column.clearAll();
    return column;
  }

  set(slot: number, summary: ProcessSummary): void {
    const column = this.columns[this.head];
    if (!column) return;
    column.cpu[slot] = summary.cpu_percent ?? Number.NaN;
    column.rss[slot] = summary.rss_bytes;
    column.read[slot] = summary.read_bytes_rate ?? Number.NaN;
    column.write[slot] = summary.write_bytes_rate ?? Number.NaN;
    column.state[slot] = summary.state.charCodeAt(0);
  }

  // clear says that the process of a slot is not there in the newest second.
  clear(slot: number): void {
    this.columns[this.head]?.clear(slot);
  }

  // time is when the column `back` seconds before the newest was captured; 0 for a gap.
  time(back: number): number {
    if (this.head < 0 || back < 0 || back >= TICKS) return 0;
    return this.at[(this.head - back + TICKS) % TICKS] as number;
  }

  moment(slot: number, back: number): Moment | null {
    const at = this.time(back);
    const column = this.columns[(this.head - back + TICKS) % TICKS];
    if (at === 0 || !column || slot < 0) return null;
    const rss = column.rss[slot];
    if (rss === undefined || Number.isNaN(rss)) return null;
    return {
      at,
      cpu: known(column.cpu[slot]),
      rss,
      read: known(column.read[slot]),
      write: known(column.write[slot]),
      state: String.fromCharCode(column.state[slot] || 63),
    };
  }

  // line fills out, oldest first, with the CPU of one slot; NaN where unknown.
  line(slot: number, out: Float32Array): void {
    for (let i = 0; i < TICKS; i++) {
      const column = this.columns[(this.head + 1 + i) % TICKS] as Column;
      out[i] = slot < 0 ? Number.NaN : (column.cpu[slot] as number);
    }
  }

  // sizes fills out in the same way with RSS.
  sizes(slot: number, out: Float32Array): void {
    for (let i = 0; i < TICKS; i++) {
      const column = this.columns[(this.head + 1 + i) % TICKS] as Column;
      out[i] = slot < 0 ? Number.NaN : (column.rss[slot] as number);
    }
  }
}

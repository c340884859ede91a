// The page's own last 60 s: figures and thread states, kept over reconnects, so
// that a hidden tab loses nothing it has seen. Pure.
//
// The server's history starts at each connect; what it holds that this ring
// missed is merged in. Between two connections lies a point of nulls, which a
// chart draws as a gap.

import type { HistoryPoint, Observation, Thread } from '../wire.gen';

export const SPAN_MS = 60_000;

// maxPoints bounds the ring when the server's interval is far below 1 s: 60 s of
// 100 ms samples, and their gaps.
const maxPoints = 640;

// maxLaneThreads is how many threads of one sample are remembered for the lanes.
const maxLaneThreads = 4096;

export const FIGURES = [
  'cpu',
  'rss',
  'minor',
  'major',
  'voluntary',
  'involuntary',
  'read',
  'write',
  'threads',
] as const;
export type Figure = (typeof FIGURES)[number];

export interface Point {
  readonly time: number; // epoch ms
  readonly gap: boolean; // nothing is known here
  readonly figures: Readonly<Record<Figure, number | null>>;
}

const nothing: Readonly<Record<Figure, number | null>> = {
  cpu: null,
  rss: null,
  minor: null,
  major: null,
  voluntary: null,
  involuntary: null,
  read: null,
  write: null,
  threads: null,
};

function figuresOf(seen: Observation): Record<Figure, number | null> {
  const { rates } = seen;
  return {
    cpu: seen.cpu_percent,
    rss: seen.rss_bytes,
    minor: rates.minor_faults,
    major: rates.major_faults,
    voluntary: rates.voluntary_context_switches,
    involuntary: rates.nonvoluntary_context_switches,
    read: rates.read_bytes,
    write: rates.write_bytes,
    threads: seen.threads.length,
  };
}

export interface LaneSample {
  readonly time: number;
  readonly gap: boolean;
  readonly tids: Int32Array; // ascending
  readonly states: Uint8Array; // character codes
  readonly cpu: Float32Array; // NaN unknown
}

// One stretch of a lane in one state; '' where nothing is known.
export interface Stretch {
  readonly from: number; // epoch ms
  readonly to: number;
  readonly state: string;
}

export interface Lane {
  readonly tid: number;
  readonly name: string;
  readonly stretches: readonly Stretch[];
  readonly cpu: number | null; // mean of the samples seen
}

// Seen is the ring at one moment: what a held page goes on showing.
export interface Seen {
  readonly points: readonly Point[];
  readonly lanes: readonly LaneSample[];
}

export const EMPTY: Seen = { points: [], lanes: [] };

const noThreads: Omit<LaneSample, 'time'> = {
  gap: true,
  tids: new Int32Array(0),
  states: new Uint8Array(0),
  cpu: new Float32Array(0),
};

export class Ring {
  private points: Point[] = [];
  private lanes: LaneSample[] = [];

  // add takes one observation and what the server remembers before it. An
  // observation that is not newer than the last one changes nothing.
  add(seen: Observation, history: readonly HistoryPoint[] = []): void {
    const newest = this.points.at(-1)?.time ?? Number.NEGATIVE_INFINITY;
    if (seen.timestamp <= newest) return;
    for (const past of history) {
      if (past.timestamp >= seen.timestamp || past.timestamp <= newest) continue;
      this.points.push({
        time: past.timestamp,
        gap: false,
        figures: { ...nothing, cpu: past.cpu_percent, rss: past.rss_bytes },
      });
    }
    this.points.push({ time: seen.timestamp, gap: false, figures: figuresOf(seen) });
    const threads = seen.threads.slice(0, maxLaneThreads);
    this.lanes.push({
      time: seen.timestamp,
      gap: false,
      tids: Int32Array.from(threads, (t) => t.tid),
      states: Uint8Array.from(threads, (t) => t.state.charCodeAt(0) & 0xff),
      cpu: Float32Array.from(threads, (t) => t.cpu_percent ?? Number.NaN),
    });
    const from = seen.timestamp - SPAN_MS;
    this.points = trimmed(this.points, from);
    this.lanes = trimmed(this.lanes, from);
  }

  // gap marks that nothing is known after the newest point: a lost stream, a hidden tab.
  gap(): void {
    const newest = this.points.at(-1);
    if (newest === undefined || newest.gap) return;
    this.points.push({ time: newest.time + 1, gap: true, figures: nothing });
    this.lanes.push({ time: newest.time + 1, ...noThreads });
  }

  // now is the ring as it stands; later additions do not change it.
  now(): Seen {
    return { points: this.points.slice(), lanes: this.lanes.slice() };
  }
}

// One point before the window stays, so that a line reaches its left edge.
function trimmed<T extends { readonly time: number }>(list: T[], from: number): T[] {
  const first = list.findIndex((entry) => entry.time >= from);
  const keep = Math.max(0, first - 1, list.length - maxPoints);
  return keep > 0 ? list.slice(keep) : list;
}

// gapsOf are the spans nothing is known of, each from its last point to the next one.
export function gapsOf(points: readonly Point[]): { from: number; to: number }[] {
  const out: { from: number; to: number }[] = [];
  points.forEach((point, i) => {
    const next = points[i + 1];
    if (point.gap && next !== undefined) out.push({ from: point.time, to: next.time });
  });
  return out;
}

// busiest are the threads to draw: at most `most`, those with the most CPU in the
// window, then those that waited for a disk or ran, then the lower TID; in TID order.
export function busiest(lanes: readonly LaneSample[], threads: readonly Thread[], most: number): number[] {
  if (threads.length <= most) return threads.map((t) => t.tid);
  const score = new Map<number, number>();
  for (const sample of lanes) {
    sample.tids.forEach((tid, i) => {
      const cpu = sample.cpu[i] ?? Number.NaN;
      const state = sample.states[i];
      const waits = state === 0x44 ? 0.5 : state === 0x52 ? 0.25 : 0; // D, R
      score.set(tid, (score.get(tid) ?? 0) + (Number.isNaN(cpu) ? 0 : cpu) + waits);
    });
  }
  return [...threads]
    .sort((a, b) => (score.get(b.tid) ?? 0) - (score.get(a.tid) ?? 0) || a.tid - b.tid)
    .slice(0, most)
    .map((t) => t.tid)
    .sort((a, b) => a - b);
}

// laneOf is the states of one thread over the window. A sample holds until the next one.
export function laneOf(lanes: readonly LaneSample[], tid: number, name: string, until: number): Lane {
  const stretches: Stretch[] = [];
  let sum = 0;
  let seen = 0;
  lanes.forEach((sample, i) => {
    const to = Math.min(until, lanes[i + 1]?.time ?? until);
    const at = find(sample.tids, tid);
    const state = at < 0 ? '' : String.fromCharCode(sample.states[at] ?? 0);
    const cpu = at < 0 ? Number.NaN : (sample.cpu[at] ?? Number.NaN);
    if (!Number.isNaN(cpu)) {
      sum += cpu;
      seen++;
    }
    const before = stretches.at(-1);
    if (before !== undefined && before.state === state) stretches[stretches.length - 1] = { ...before, to };
    else stretches.push({ from: sample.time, to, state });
  });
  return { tid, name, stretches, cpu: seen === 0 ? null : sum / seen };
}

function find(sorted: Int32Array, value: number): number {
  let low = 0;
  let high = sorted.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const at = sorted[middle] as number;
    if (at === value) return middle;
    if (at < value) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}

// One process as its page knows it: what the stream says, the ring of the last
// 60 s, and whether the page shows the newest of it (live) or one moment (held).

import { batch, computed, type ReadonlySignal, type Signal, signal } from '@preact/signals';
import { getJSON } from '../http';
import { Lifetime } from '../life';
import { type Environment, Live, type LiveState } from '../stream';
import type {
  HistoryPoint,
  Identity,
  MapsAnswer,
  Observation,
  ObservationEvent,
  ProcessSummary,
  Rollup,
} from '../wire.gen';
import { type Region, regionsOf } from './maps';
import { EMPTY, Ring, type Seen } from './ring';

// Space is one reading of the mappings, with what was worked out from it.
export interface Space {
  readonly regions: readonly Region[];
  readonly rollup: Rollup | null;
  readonly capturedAt: number | null; // epoch ms of the reading; null before the first
  readonly error: string | null; // why the newest reading failed
  readonly truncated: boolean;
}

// View is all that the live sections show: immutable, so that Hold is keeping one.
export interface View {
  readonly summary: ProcessSummary | null;
  readonly observation: Observation | null;
  readonly space: Space;
  readonly seen: Seen;
  readonly end: number; // right edge of the charts, epoch ms
  readonly error: string | null; // why the newest observation failed
}

export interface Ended {
  readonly at: number; // epoch ms
  readonly words: string;
}

// maps are polled this rarely without a stream; the stream itself reads them about every 5 s.
const POLL_MAPS_MS = 6000;

// A stream faster than this is not called stale sooner than one of this interval.
const STALE_LEAST_MS = 1000;

const NOTHING: Space = { regions: [], rollup: null, capturedAt: null, error: null, truncated: false };

export class Model {
  readonly live: Live;
  readonly ended: Signal<Ended | null> = signal<Ended | null>(null);
  // heldAt is when Hold was pressed, epoch ms; null while live.
  readonly heldAt: Signal<number | null> = signal<number | null>(null);
  // interval is the time between the newest two observations, ms.
  readonly interval: Signal<number> = signal(1000);
  // stopping says that the target is stopped again and again by this page.
  readonly stopping: Signal<boolean> = signal(false);
  // view is what is on screen: the newest state, or the held one.
  readonly view: ReadonlySignal<View>;
  // since counts threads that came and went since Hold.
  readonly since: ReadonlySignal<{ started: number; exited: number }>;

  // life ends when the page is left.
  readonly life = new Lifetime();

  private readonly newest: Signal<View>;
  private readonly kept: Signal<View | null> = signal<View | null>(null);
  private readonly ring = new Ring();
  private wasHidden = false;
  private unwatch: () => void;
  private previous: Observation | null = null; // of the one-shots, to make rates from
  private mapsPolledAt = 0;
  private distances: number[] = []; // between observations, ms

  constructor(
    readonly identity: Identity,
    env?: Environment,
  ) {
    this.newest = signal<View>({
      summary: null,
      observation: null,
      space: NOTHING,
      seen: EMPTY,
      end: Date.now(),
      error: null,
    });
    this.view = computed(() => this.kept.value ?? this.newest.value);
    this.since = computed(() => {
      const held = this.kept.value?.observation?.threads ?? [];
      const now = this.newest.value.observation?.threads ?? [];
      const before = new Set(held.map((t) => t.tid));
      const after = new Set(now.map((t) => t.tid));
      return {
        started: now.filter((t) => !before.has(t.tid)).length,
        exited: held.filter((t) => !after.has(t.tid)).length,
      };
    });
    const source = {
      url: () => `/api/processes/events?pid=${identity.pid}&start_time_ticks=${identity.start_time_ticks}&maps=changed`,
      events: ['observation'],
      opened: () => this.ring.gap(),
      event: (_name: string, data: unknown) => this.take(data as ObservationEvent),
      poll: () => this.poll(),
    };
    this.live = env === undefined ? new Live(source) : new Live(source, env);
    this.unwatch = this.live.state.subscribe((state) => this.follow(state));
  }

  start(): void {
    this.live.start();
  }

  // close gives the stream back and forgets the process.
  close(): void {
    this.unwatch();
    this.live.stop();
    this.life.close();
  }

  // hold keeps what is on screen; release goes on with the newest state.
  hold(): void {
    if (this.kept.value !== null) return;
    batch(() => {
      this.kept.value = this.newest.value;
      this.heldAt.value = Date.now();
    });
  }

  release(): void {
    batch(() => {
      this.kept.value = null;
      this.heldAt.value = null;
    });
  }

  // silence is how long nothing has come, ms: the charts go on by it.
  silence(now: number): number {
    const heard = this.live.heard.value;
    return heard > 0 && this.stale(now) ? Math.max(0, now - heard) : 0;
  }

  // stale says that nothing came for more than two and a half intervals though it should have.
  stale(now: number): boolean {
    const state = this.live.state.value.kind;
    if (this.ended.value !== null || state === 'hidden' || state === 'off' || state === 'polling') return false;
    const heard = this.live.heard.value;
    return state === 'lost' || (heard > 0 && now - heard > 2.5 * Math.max(STALE_LEAST_MS, this.interval.value));
  }

  private follow(state: LiveState): void {
    if (state.kind === 'hidden') this.wasHidden = true;
    if (state.kind === 'live') this.wasHidden = false;
    if (state.kind === 'refused' && state.status === 410 && this.newest.value.observation !== null) {
      this.end(this.wasHidden ? 'Ended while this tab was hidden.' : null);
    }
  }

  private end(words: string | null): void {
    if (this.ended.value !== null) return;
    const at = Date.now();
    this.ended.value = { at, words: words ?? `Ended ${clockOf(at)}.` };
  }

  private take(event: ObservationEvent): void {
    const { pid, start_time_ticks: start } = event.summary.identity;
    // An event of any other process is a broken server: it must never be shown as this one.
    if (pid !== this.identity.pid || start !== this.identity.start_time_ticks) return;
    const before = this.newest.value;
    const same = before.space.error === event.maps_error && before.space.capturedAt === event.maps_captured_at;
    let space = before.space;
    if (event.maps !== undefined) {
      space = {
        regions: regionsOf(event.maps),
        rollup: event.rollup,
        capturedAt: event.maps_captured_at,
        error: event.maps_error,
        truncated: event.maps_truncated,
      };
    } else if (!same || space.rollup !== event.rollup) {
      space = { ...space, rollup: event.rollup, capturedAt: event.maps_captured_at, error: event.maps_error };
    }
    this.show(event.summary, event.observation, space, event.error, event.history);
    if (event.exited) {
      this.end(null);
      this.live.stop();
    }
  }

  // pace takes the median of the last distances, so that one late event changes nothing.
  private pace(between: number): void {
    this.distances = [...this.distances, between].slice(-7);
    const sorted = [...this.distances].sort((a, b) => a - b);
    const middle = sorted[sorted.length >> 1] ?? between;
    const whole = Math.round(middle / 1000) * 1000;
    this.interval.value = Math.abs(middle - whole) < 0.12 * middle ? whole : Math.round(middle / 100) * 100 || 100;
  }

  private show(
    summary: ProcessSummary | null,
    observation: Observation | null,
    space: Space,
    error: string | null,
    history: readonly HistoryPoint[],
  ): void {
    if (observation !== null) {
      const before = this.newest.value.observation?.timestamp ?? null;
      const between = before === null ? 0 : observation.timestamp - before;
      if (between > 0 && between < 120_000) this.pace(between);
      this.ring.add(observation, history);
    }
    this.newest.value = {
      summary: summary ?? this.newest.value.summary,
      observation: observation ?? this.newest.value.observation,
      space,
      seen: this.ring.now(),
      end: observation?.timestamp ?? this.newest.value.end,
      error,
    };
  }

  // poll asks the one-shots, for a tab without a stream: rates are made here from two answers.
  private async poll(): Promise<void> {
    const { identity } = this;
    const observation = await getJSON<Observation>('/api/processes/observation', { identity });
    let { space, summary } = this.newest.value;
    if (Date.now() - this.mapsPolledAt >= POLL_MAPS_MS) {
      const maps = await getJSON<MapsAnswer>('/api/processes/maps', { identity });
      this.mapsPolledAt = Date.now();
      space =
        maps.captured_at === null
          ? { ...space, error: maps.error }
          : {
              regions: regionsOf(maps.maps),
              rollup: maps.rollup,
              capturedAt: maps.captured_at,
              error: maps.error,
              truncated: maps.truncated,
            };
    }
    if (summary === null) {
      const list = await getJSON<ProcessSummary[]>('/api/processes');
      summary =
        list.find(
          (p) => p.identity.pid === identity.pid && p.identity.start_time_ticks === identity.start_time_ticks,
        ) ?? null;
    }
    const rated = this.previous === null ? observation : withRates(this.previous, observation);
    this.previous = observation;
    this.show(summary, rated, space, null, []);
  }
}

// withRates fills in the rates between two one-shot answers; a counter that went back is unknown.
export function withRates(before: Observation, now: Observation): Observation {
  const seconds = (now.timestamp - before.timestamp) / 1000;
  const rate = (a: number | null | undefined, b: number | null | undefined): number | null =>
    a === null || a === undefined || b === null || b === undefined || b < a || seconds <= 0 ? null : (b - a) / seconds;
  return {
    ...now,
    rates: {
      minor_faults: rate(before.minor_faults, now.minor_faults),
      major_faults: rate(before.major_faults, now.major_faults),
      voluntary_context_switches: rate(before.voluntary_context_switches, now.voluntary_context_switches),
      nonvoluntary_context_switches: rate(before.nonvoluntary_context_switches, now.nonvoluntary_context_switches),
      read_bytes: rate(before.io?.read_bytes, now.io?.read_bytes),
      write_bytes: rate(before.io?.write_bytes, now.io?.write_bytes),
    },
  };
}

function clockOf(ms: number): string {
  return new Date(ms).toTimeString().slice(0, 8);
}

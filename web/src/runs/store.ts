// What is known of the runs: the list, kept up to date by events, and more of the one
// that is looked at. Nothing is asked without a reason: the list once for each connection,
// a run when an event names it, the run on screen every two seconds while it lives.

import { batch, type Signal, signal } from '@preact/signals';
import { announce } from '../announce';
import { getJSON, HTTPError, reasonOf } from '../http';
import { answered, Live } from '../stream';
import type { Run, RunCapabilities, RunCounts, RunEvent, RunProcess, RunProcesses } from '../wire.gen';
import { exitText, isLeft, isOver, nameOf } from './model';

// maxEndedShown processes of one run that have ended are kept in the page.
export const maxEndedShown = 500;
// maxSingles runs that changed at a time are asked for one by one; more: the whole list.
const maxSingles = 8;

const LOOK_MS = 2000;
const MEMBERS_MS = 500; // after a process came or went
const GATHER_MS = 150;

export type View = 'left' | 'all';

export interface Ended {
  process: RunProcess;
  at: number; // epoch ms
}

/** Kept is what the page remembers of a run beside what the server says. */
export interface Kept {
  counts: RunCounts | null;
  peakBytes: number | null; // the largest memory this page saw
  ended: Ended[];
  endedLeftOut: number;
  since: number; // since when this page follows it
}

const EVENTS = [
  'run.started',
  'run.exited',
  'run.timeout',
  'process.added',
  'process.exited',
  'output',
  'helper',
  'gap',
] as const;

class RunsStore {
  readonly runs: Signal<ReadonlyMap<string, Run>> = signal(new Map());
  readonly loaded = signal(false);
  readonly problem: Signal<string | null> = signal(null); // of the newest request
  readonly helperLost: Signal<number | null> = signal(null); // since when
  readonly capabilities: Signal<RunCapabilities | null> = signal(null);
  readonly lostEvents = signal(0);
  // members are those of the run on screen, of the view that is shown.
  readonly members: Signal<{ id: string; view: View; answer: RunProcesses } | null> = signal(null);
  readonly membersProblem: Signal<string | null> = signal(null);
  readonly missing: Signal<string | null> = signal(null); // id of a run that is not there
  // changed moves with what is kept beside the runs.
  readonly changed = signal(0);
  // outputs hear of new output: run and offset of its end.
  readonly outputs = new Set<(id: string, next: number) => void>();

  readonly live: Live;
  private readonly kept = new Map<string, Kept>();
  private last: number | null = null; // number of the newest event
  private readonly dirty = new Set<string>();
  private timer: ReturnType<typeof setTimeout> | null = null;
  private looking: string | null = null;
  private view: View | null = null;
  private lookTimer: ReturnType<typeof setTimeout> | null = null;
  private lookDue = 0;
  private generation = 0;

  constructor() {
    this.live = new Live({
      url: () => `/api/runs/events${this.last === null ? '' : `?last_event_id=${this.last}`}`,
      events: EVENTS,
      quiet: true,
      opened: () => void this.refresh(),
      event: (name, data) => this.event(name, data as RunEvent & { lost?: number }),
      poll: () => this.load(),
    });
  }

  start(): void {
    this.generation++;
    this.live.start();
  }

  stop(): void {
    this.generation++;
    this.live.stop();
    for (const timer of [this.timer, this.lookTimer]) if (timer !== null) clearTimeout(timer);
    this.timer = null;
    this.lookTimer = null;
  }

  keptOf(id: string): Kept {
    let kept = this.kept.get(id);
    if (!kept) {
      kept = { counts: null, peakBytes: null, ended: [], endedLeftOut: 0, since: Date.now() };
      this.kept.set(id, kept);
    }
    return kept;
  }

  // look says which run is on screen, and which of its processes (null: none).
  look(id: string | null, view: View | null): void {
    if (id === this.looking && view === this.view) return;
    if (id !== this.looking) this.missing.value = null;
    this.looking = id;
    this.view = view;
    this.membersProblem.value = null;
    this.lookSoon(0);
  }

  // refresh asks for the list; a failure is kept beside what was there.
  async refresh(): Promise<void> {
    try {
      await this.load();
    } catch (cause) {
      this.problem.value = reasonOf(cause);
      answered.value = true;
    }
  }

  private async load(): Promise<void> {
    const mine = this.generation;
    const list = await getJSON<Run[]>('/api/runs');
    if (mine !== this.generation) return;
    batch(() => {
      const before = this.runs.peek();
      this.runs.value = new Map(list.map((run) => [run.id, merged(before.get(run.id), run)]));
      for (const id of this.kept.keys()) if (!this.runs.peek().has(id)) this.kept.delete(id);
      this.problem.value = null;
      this.loaded.value = true;
    });
    answered.value = true;
    this.lookSoon(0);
    if (this.capabilities.peek() !== null) return;
    const found = await getJSON<RunCapabilities>('/api/runs/capabilities').catch(() => null);
    if (mine === this.generation) this.capabilities.value = found;
  }

  put(run: Run): void {
    const before = this.runs.peek().get(run.id);
    const next = new Map(this.runs.peek());
    next.set(run.id, merged(before, run));
    const kept = this.keptOf(run.id);
    if (run.memory_bytes !== null) kept.peakBytes = Math.max(kept.peakBytes ?? 0, run.memory_bytes);
    kept.counts = run.counts ?? kept.counts;
    batch(() => {
      // The newest first, as in the list.
      this.runs.value = before ? next : new Map([...next].sort(([, a], [, b]) => b.created_at - a.created_at));
      this.changed.value++;
    });
  }

  // forget takes a run out that is gone.
  forget(id: string): void {
    if (!this.runs.peek().has(id)) return;
    const next = new Map(this.runs.peek());
    next.delete(id);
    this.kept.delete(id);
    this.runs.value = next;
  }

  // ask gets one run; null when it is not there any more, or cannot be asked for.
  async ask(id: string): Promise<Run | null> {
    const mine = this.generation;
    try {
      const run = await getJSON<Run>(`/api/runs/${id}`);
      if (mine !== this.generation) return null;
      this.problem.value = null;
      this.put(run);
      return run;
    } catch (cause) {
      if (mine !== this.generation) return null;
      if (cause instanceof HTTPError && cause.status === 404) {
        this.forget(id);
        if (id === this.looking) this.missing.value = id;
      } else this.problem.value = reasonOf(cause);
      return null;
    }
  }

  private event(name: string, e: RunEvent & { lost?: number }): void {
    if (name === 'gap') {
      this.lostEvents.value += e.lost ?? 0;
      void this.refresh();
      return;
    }
    this.last = e.sequence;
    const run = this.runs.peek().get(e.run);
    switch (name) {
      case 'helper':
        this.helperLost.value = e.reason === 'lost' ? e.at : null;
        announce(e.reason === 'lost' ? 'The helper that holds the runs has ended.' : 'Another helper holds the runs.');
        if (e.reason !== 'lost') void this.refresh();
        return;
      case 'output':
        for (const hear of this.outputs) hear(e.run, e.next);
        return;
      case 'process.added':
      case 'process.exited':
        this.member(name, e);
        return;
      default:
        if (name === 'run.exited' && run) announce(`${nameOf(run)} ended: ${exitText({ ...run, exit: e.exit })}`);
        this.dirty.add(e.run);
        this.timer ??= setTimeout(() => {
          this.timer = null;
          this.sweep();
        }, GATHER_MS);
    }
  }

  private member(name: string, e: RunEvent): void {
    const kept = this.keptOf(e.run);
    kept.counts = e.counts;
    if (name === 'process.exited' && e.process) {
      const { id } = e.process;
      if (!kept.ended.some((entry) => entry.process.id === id)) kept.ended.push({ process: e.process, at: e.at });
      if (kept.ended.length > maxEndedShown) {
        kept.ended.shift();
        kept.endedLeftOut++;
      }
    }
    this.changed.value++;
    if (e.run === this.looking) this.lookSoon(MEMBERS_MS);
  }

  private sweep(): void {
    const ids = [...this.dirty];
    this.dirty.clear();
    if (ids.length > maxSingles) void this.refresh();
    else for (const id of ids) void this.ask(id);
  }

  // lookSoon looks at the run on screen; of two looks that wait the earlier one comes.
  private lookSoon(ms: number): void {
    const due = performance.now() + ms;
    if (this.lookTimer !== null) {
      if (due >= this.lookDue) return;
      clearTimeout(this.lookTimer);
    }
    this.lookDue = due;
    this.lookTimer = setTimeout(() => {
      this.lookTimer = null;
      void this.lookNow();
    }, ms);
  }

  private async lookNow(): Promise<void> {
    const { looking: id, view } = this;
    const { kind } = this.live.state.peek();
    if (id === null || kind === 'refused' || kind === 'off' || kind === 'hidden' || !this.loaded.peek()) return;
    const mine = this.generation;
    const run = await this.ask(id);
    if (run !== null && view !== null && mine === this.generation) await this.lookAtMembers(id, view);
    if (mine !== this.generation || id !== this.looking) return;
    // A run that could not be asked for is asked for again; one that is gone is not.
    if (run === null ? this.missing.peek() !== id : !isOver(run)) this.lookSoon(LOOK_MS);
  }

  private async lookAtMembers(id: string, view: View): Promise<void> {
    try {
      const answer = await getJSON<RunProcesses>(`/api/runs/${id}/processes`, {
        params: { ports: 1, view: view === 'left' ? 'left' : undefined },
      });
      if (id !== this.looking || view !== this.view) return;
      batch(() => {
        this.members.value = { id, view, answer };
        this.membersProblem.value = null;
        this.keptOf(id).counts = answer.counts;
        this.changed.value++;
      });
    } catch (cause) {
      if (id === this.looking) this.membersProblem.value = reasonOf(cause);
    }
  }

  // endedOf are the processes that have ended, of those the view shows.
  endedOf(id: string, view: View): readonly Ended[] {
    const list = this.keptOf(id).ended;
    return view === 'all' ? list : list.filter(({ process }) => isLeft(process));
  }
}

// merged keeps what only a closer look tells, as long as the run lives.
function merged(before: Run | undefined, now: Run): Run {
  if (!before || now.counts !== null || isOver(now) || before.counts === null) return now;
  const { counts, zombies, escaped, memory_bytes, ports } = before;
  return { ...now, counts, zombies, escaped, memory_bytes, ports };
}

export const store = new RunsStore();

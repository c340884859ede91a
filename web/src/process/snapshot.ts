// Snapshots of one process: taking one or one every second, the ring of the last
// ones, what changed between two, and where their pointers lead. A snapshot is taken
// only when somebody asks for it, and "every 1 s" ends at the first sign that nobody
// looks or that it does not work.

import { type Signal, signal } from '@preact/signals';
import { announce } from '../announce';
import { fullAddress, wordAt } from '../hex';
import { errorFrom, getJSON, HTTPError, Latest } from '../http';
import type { LiveState } from '../stream';
import type { Config, Identity, MemoryAnswer, Register, SnapshotAnswer, SnapshotThread, StackBytes } from '../wire.gen';
import { type Region, regionsOf } from './maps';
import type { Model } from './model';
import { type Failure, failureOf } from './panel';
import { costText } from './stacks';
import { type Bytes, bytesOf, FOLLOW_BYTES, namesOf, pointersOf, type Source, stacksOf, unread } from './telescope';

// maxSnapshots are kept; the oldest goes first.
export const maxSnapshots = 20;

// maxRingThreads are kept over all snapshots: of a process with very many threads
// fewer snapshots stay, but two at least, to compare them.
export const maxRingThreads = 20_000;

// maxFollowed blocks are read to follow the pointers of one thread.
export const maxFollowed = 64;
const FOLLOW_AT_ONCE = 3;

const PATH = '/api/processes/snapshot';

// One every second, counted from start to start; the target has at least REST_MS
// between an answer and the next stop, however slow the answer was.
export const EVERY_MS = 1000;
const REST_MS = 250;

export interface Taken {
  readonly list: readonly SnapshotAnswer[]; // oldest first
  readonly at: number; // index of the one shown, -1 before the first
  readonly running: boolean;
  readonly since: number; // when the running request began, epoch ms
  readonly failure: Failure | null; // of the newest request
}

// Auto is "every 1 s": on, or off with the reason why it ended by itself.
export interface Auto {
  readonly on: boolean;
  readonly ended: string | null;
}

// Followed is what was read after the stop to follow the pointers of a thread.
export interface Followed {
  readonly blocks: readonly Bytes[];
  readonly failed: number; // blocks that could not be read
  readonly left: number; // blocks over the limit
  readonly at: number | null; // when the last was read, epoch ms; null while reading
}

export class Snapshots {
  readonly state: Signal<Taken> = signal<Taken>({ list: [], at: -1, running: false, since: 0, failure: null });
  readonly auto: Signal<Auto> = signal<Auto>({ on: false, ended: null });
  readonly followed: Signal<ReadonlyMap<SnapshotThread, Followed>> = signal(new Map());
  private readonly latest = new Latest();
  private readonly over = new AbortController();
  private timer: ReturnType<typeof setTimeout> | null = null;

  constructor(readonly identity: Identity) {}

  // take asks for one snapshot and shows it; while one is on its way, or one is taken
  // every second, it does nothing.
  async take(): Promise<void> {
    if (!this.auto.value.on) await this.ask(true);
  }

  // start takes one every second until stop.
  start(): void {
    if (this.auto.value.on) return;
    this.auto.value = { on: true, ended: null };
    announce('A snapshot every second');
    if (!this.state.value.running) void this.next();
  }

  // stop ends "every 1 s"; the reason stays on screen, null when it was asked for.
  stop(ended: string | null): void {
    if (!this.auto.value.on) return;
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    this.auto.value = { on: false, ended };
    announce(ended ?? 'No more snapshots');
  }

  private async next(): Promise<void> {
    this.timer = null;
    await this.ask(false);
  }

  // again sets the time of the next one, after an answer.
  private again(): void {
    if (!this.auto.value.on) return;
    if (this.state.value.failure !== null) {
      this.stop('Every 1 s ended: no snapshot came.');
      return;
    }
    const wait = Math.max(REST_MS, this.state.value.since + EVERY_MS - Date.now());
    this.timer = setTimeout(() => void this.next(), wait);
  }

  private async ask(show: boolean): Promise<void> {
    if (this.state.value.running) return;
    this.state.value = { ...this.state.value, running: true, since: Date.now() };
    try {
      const answer = await this.latest.run((abort) => post(this.identity, abort));
      if (answer === undefined) return;
      const { pid, start_time_ticks: start } = answer.process_id;
      // An answer about any other process must never be shown as this one.
      if (pid !== this.identity.pid || start !== this.identity.start_time_ticks) {
        throw new HTTPError(0, 'other_process', 'The answer was for another process.');
      }
      const { list: before, at } = this.state.value;
      const list = ringWith(before, answer);
      // One that comes by itself moves the page on only where it stood at the newest.
      const newest = show || at === before.length - 1;
      const kept = Math.max(0, at - (before.length + 1 - list.length));
      const next = newest ? list.length - 1 : kept;
      this.state.value = { ...this.state.value, list, at: next, running: false, failure: null };
      this.forget(list);
      if (show) announce(`Snapshot: ${costText(answer)}`);
    } catch (cause) {
      const failure = withWait(failureOf(cause), cause);
      this.state.value = { ...this.state.value, running: false, failure };
      announce(`No snapshot: ${failure.text}`);
    }
    this.again();
  }

  // follow reads where the pointers of a thread lead, a few hops on: plain reads of a
  // later moment, that stop nothing.
  async follow(thread: SnapshotThread, source: Source): Promise<void> {
    if (this.followed.value.has(thread)) return;
    const blocks: Bytes[] = [];
    const tried = new Set<bigint>();
    const values = pointersOf(thread);
    let failed = 0;
    let left = 0;
    const put = (at: number | null) => {
      const next: Followed = { blocks: blocks.slice().sort(byAddress), failed, left, at };
      this.followed.value = new Map(this.followed.value).set(thread, next);
      return next;
    };
    put(null);
    for (let later: readonly Bytes[] = []; ; ) {
      const wanted = unread(values, { ...source, later }).filter((address) => !tried.has(address));
      const now = wanted.slice(0, maxFollowed - tried.size);
      left = wanted.length - now.length;
      if (now.length === 0) break;
      for (const address of now) tried.add(address);
      for (let i = 0; i < now.length; i += FOLLOW_AT_ONCE) {
        const read = await Promise.all(now.slice(i, i + FOLLOW_AT_ONCE).map((address) => this.block(address)));
        if (this.over.signal.aborted) return;
        for (const one of read) {
          if (one === null) failed++;
          else blocks.push(one);
        }
      }
      later = put(null).blocks;
    }
    put(Date.now());
  }

  private async block(address: bigint): Promise<Bytes | null> {
    try {
      const answer = await getJSON<MemoryAnswer>('/api/processes/memory', {
        identity: this.identity,
        params: { address: fullAddress(address), length: FOLLOW_BYTES },
        signal: this.over.signal,
      });
      return { address, bytes: bytesOf(answer.bytes), stood: false };
    } catch {
      return null;
    }
  }

  // forget drops what was read for snapshots that left the ring.
  private forget(list: readonly SnapshotAnswer[]): void {
    if (this.followed.value.size === 0) return;
    const kept = new Set(list.flatMap((answer) => answer.threads));
    this.followed.value = new Map([...this.followed.value].filter(([thread]) => kept.has(thread)));
  }

  // step shows the snapshot before (-1) or after (1) this one; false at either end.
  step(by: 1 | -1): boolean {
    const { list, at } = this.state.value;
    if (list[at + by] === undefined) return false;
    this.state.value = { ...this.state.value, at: at + by };
    return true;
  }

  close(): void {
    this.stop(null);
    this.over.abort();
    this.latest.cancel();
  }
}

// ringWith is the ring with one more; the oldest go.
export function ringWith(list: readonly SnapshotAnswer[], answer: SnapshotAnswer): SnapshotAnswer[] {
  const ring = [...list, answer].slice(-maxSnapshots);
  let threads = ring.reduce((sum, one) => sum + one.threads.length, 0);
  while (threads > maxRingThreads && ring.length > 2) threads -= ring.shift()?.threads.length ?? 0;
  return ring;
}

const byAddress = (a: Bytes, b: Bytes) => (a.address < b.address ? -1 : a.address > b.address ? 1 : 0);

// What a telescope needs of a snapshot, worked out once.
const sources = new WeakMap<SnapshotAnswer, Source & { readonly regions: readonly Region[] }>();

export function sourceOf(answer: SnapshotAnswer): Source {
  let source = sources.get(answer);
  if (source === undefined) {
    source = { regions: regionsOf(answer.maps), names: namesOf(answer), stood: stacksOf(answer), later: [] };
    sources.set(answer, source);
  }
  return source;
}

function withWait(failure: Failure, cause: unknown): Failure {
  if (!(cause instanceof HTTPError) || cause.retryAfter === null) return failure;
  return { ...failure, text: `${failure.text} Try again in ${cause.retryAfter} s.` };
}

async function post(identity: Identity, abort: AbortSignal): Promise<SnapshotAnswer> {
  let answer: Response;
  try {
    answer = await fetch(PATH, {
      method: 'POST',
      headers: { Accept: 'application/json', 'Content-Type': 'application/json' },
      body: requestBody(identity),
      credentials: 'same-origin',
      cache: 'no-store',
      signal: abort,
    });
  } catch (cause) {
    if (abort.aborted) throw cause;
    throw new HTTPError(0, 'unreachable', 'The server cannot be reached.');
  }
  if (!answer.ok) throw await errorFrom(answer);
  return (await answer.json()) as SnapshotAnswer;
}

export function requestBody(identity: Identity): string {
  return JSON.stringify({ pid: identity.pid, start_time_ticks: identity.start_time_ticks });
}

// The snapshots of a process live as long as its page.
const held = new WeakMap<Model, Snapshots>();

export function snapshotsOf(model: Model): Snapshots {
  let snapshots = held.get(model);
  if (snapshots === undefined) {
    const made = new Snapshots(model.identity);
    snapshots = made;
    held.set(model, made);
    endings(model, made);
  }
  return snapshots;
}

// endings are all that ends "every 1 s" by itself.
function endings(model: Model, snapshots: Snapshots): void {
  const { life } = model;
  life.add(
    snapshots.auto.subscribe(({ on }) => {
      model.stopping.value = on;
    }),
  );
  life.add(() => snapshots.close());
  life.listen(document, 'visibilitychange', () => {
    if (document.visibilityState === 'hidden') snapshots.stop('Every 1 s ended when this tab was hidden.');
  });
  life.listen(window, 'pagehide', () => snapshots.stop('Every 1 s ended when the page was left.'));
  life.add(
    model.ended.subscribe((ended) => {
      if (ended !== null) snapshots.stop('Every 1 s ended with the process.');
    }),
  );
  life.add(
    model.heldAt.subscribe((held) => {
      if (held !== null) snapshots.stop('Every 1 s ended when the page was held.');
    }),
  );
  life.add(
    model.live.state.subscribe((state) => {
      if (streamLost(state)) snapshots.stop('Every 1 s ended: the stream was lost.');
    }),
  );
}

// streamLost says that nothing tells the page any more how its target is.
export function streamLost(state: LiveState): boolean {
  return state.kind === 'lost' || state.kind === 'refused' || (state.kind === 'polling' && state.error !== null);
}

// unable is why this server takes no snapshots; null when it does or is not known to
// be unable, and then its answer says more.
export const unable: Signal<string | null> = signal<string | null>(null);
let asked: Promise<void> | null = null;

// askConfig asks once a page load; after a failure again.
export function askConfig(): Promise<void> {
  asked ??= getJSON<Config>('/api/config').then(
    ({ capabilities: { ptrace } }) => {
      unable.value = ptrace.available ? null : (ptrace.reason ?? 'This server takes no snapshots.');
    },
    () => {
      asked = null;
    },
  );
  return asked;
}

// changedRegisters are the registers with another value than before, with that value.
export function changedRegisters(
  before: readonly Register[] | undefined,
  now: readonly Register[],
): ReadonlyMap<string, string> {
  const old = new Map(before?.map((r) => [r.name, r.value]));
  const out = new Map<string, string>();
  for (const { name, value } of now) {
    const was = old.get(name);
    if (was !== undefined && was !== value) out.set(name, was);
  }
  return out;
}

// threadBefore is a thread in the snapshot before the one at `at`. A thread that
// took the TID of another in between cannot be told apart: its name is asked too.
export function threadBefore(taken: Taken, thread: SnapshotThread): SnapshotThread | undefined {
  return taken.list[taken.at - 1]?.threads.find((t) => t.tid === thread.tid && t.name === thread.name);
}

// movedThreads are those that stand elsewhere than in the snapshot before; null in
// the first one.
export function movedThreads(taken: Taken): ReadonlySet<number> | null {
  const before = taken.list[taken.at - 1];
  if (before === undefined) return null;
  const place = (t: SnapshotThread) =>
    t.registers
      .filter((r) => r.name === 'RIP' || r.name === 'RSP')
      .map((r) => r.value)
      .join();
  const old = new Map(before.threads.map((t) => [t.tid, t]));
  return new Set(
    (taken.list[taken.at]?.threads ?? [])
      .filter((t) => {
        const was = old.get(t.tid);
        return was !== undefined && was.name === t.name && place(was) !== place(t);
      })
      .map((t) => t.tid),
  );
}

export interface StackWord {
  readonly address: bigint;
  readonly offset: number; // from the stack pointer
  readonly value: bigint;
  readonly was: bigint | null; // another value at the same address in the snapshot before
}

// stackWords are the whole 8-byte words from the stack pointer on.
export function stackWords(stack: StackBytes, before: StackBytes | null = null): StackWord[] {
  const base = BigInt(stack.address);
  const bytes = bytesOf(stack.bytes);
  const old = before === null ? null : bytesOf(before.bytes);
  const shift = before === null ? 0 : Number(base - BigInt(before.address));
  const out: StackWord[] = [];
  for (let offset = 0; ; offset += 8) {
    const value = wordAt(bytes, offset, true);
    if (value === null) return out;
    const was = old === null ? null : wordAt(old, offset + shift, true);
    out.push({ address: base + BigInt(offset), offset, value, was: was === value ? null : was });
  }
}

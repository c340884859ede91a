// Snapshots of one process: taking one, the ring of the last ones, and what changed
// between two. A snapshot is taken only when somebody asks for it.

import { type Signal, signal } from '@preact/signals';
import { announce } from '../announce';
import { wordAt } from '../hex';
import { errorFrom, getJSON, HTTPError, Latest } from '../http';
import type { Config, Identity, Register, SnapshotAnswer, SnapshotThread, StackBytes } from '../wire.gen';
import type { Model } from './model';
import { type Failure, failureOf } from './panel';
import { costText } from './stacks';

// maxSnapshots are kept; the oldest goes first.
export const maxSnapshots = 20;

const PATH = '/api/processes/snapshot';

export interface Taken {
  readonly list: readonly SnapshotAnswer[]; // oldest first
  readonly at: number; // index of the one shown, -1 before the first
  readonly running: boolean;
  readonly since: number; // when the running request began, epoch ms
  readonly failure: Failure | null; // of the newest request
}

export class Snapshots {
  readonly state: Signal<Taken> = signal<Taken>({ list: [], at: -1, running: false, since: 0, failure: null });
  private readonly latest = new Latest();

  constructor(readonly identity: Identity) {}

  // take asks for one snapshot; while one is on its way it does nothing.
  async take(): Promise<void> {
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
      const list = [...this.state.value.list, answer].slice(-maxSnapshots);
      this.state.value = { ...this.state.value, list, at: list.length - 1, running: false, failure: null };
      announce(`Snapshot: ${costText(answer)}`);
    } catch (cause) {
      const failure = withWait(failureOf(cause), cause);
      this.state.value = { ...this.state.value, running: false, failure };
      announce(`No snapshot: ${failure.text}`);
    }
  }

  // step shows the snapshot before (-1) or after (1) this one; false at either end.
  step(by: 1 | -1): boolean {
    const { list, at } = this.state.value;
    if (list[at + by] === undefined) return false;
    this.state.value = { ...this.state.value, at: at + by };
    return true;
  }

  close(): void {
    this.latest.cancel();
  }
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
    model.life.add(() => made.close());
  }
  return snapshots;
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

export interface StackWord {
  readonly address: bigint;
  readonly offset: number; // from the stack pointer
  readonly value: bigint;
}

// stackWords are the whole 8-byte words from the stack pointer on.
export function stackWords(stack: StackBytes): StackWord[] {
  const base = BigInt(stack.address);
  const bytes = new Uint8Array(stack.bytes.length >> 1);
  for (let i = 0; i < bytes.length; i++) bytes[i] = Number.parseInt(stack.bytes.slice(i * 2, i * 2 + 2), 16);
  const out: StackWord[] = [];
  for (let offset = 0; ; offset += 8) {
    const value = wordAt(bytes, offset, true);
    if (value === null) return out;
    out.push({ address: base + BigInt(offset), offset, value });
  }
}

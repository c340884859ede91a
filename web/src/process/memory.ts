// What the memory section reads: one window of bytes, the window before it at the
// same place for the changes, and the places visited.

import { type Signal, signal } from '@preact/signals';
import { type Block, changedBytes, clampAddress, decodeHex, fullAddress } from '../hex';
import { getJSON, Latest } from '../http';
import type { Identity, MemoryAnswer } from '../wire.gen';
import { type Failure, failureOf } from './panel';

export const REFRESH_MS = 1000;

// maxHistory places are remembered; the oldest goes first.
export const maxHistory = 100;

export interface MemoryState {
  readonly address: bigint | null; // where the page is; null before the first read
  readonly length: number;
  readonly block: Block | null; // null while nothing was read here
  readonly changed: Uint8Array; // one a byte of the block: differs from the read before
  readonly changes: number;
  readonly capturedAt: number | null;
  readonly took: number | null;
  readonly loading: boolean;
  readonly failure: Failure | null;
}

const NONE = new Uint8Array(0);

export class Memory {
  readonly state: Signal<MemoryState>;
  readonly history: Signal<{ readonly places: readonly bigint[]; readonly at: number }> = signal({
    places: [],
    at: -1,
  });
  readonly auto: Signal<boolean> = signal(false);
  private readonly latest = new Latest();
  private timer: ReturnType<typeof setTimeout> | null = null;
  private generation = 0;
  private suspended = false;

  constructor(
    private readonly identity: Identity,
    length: number,
  ) {
    this.state = signal<MemoryState>({
      address: null,
      length,
      block: null,
      changed: NONE,
      changes: 0,
      capturedAt: null,
      took: null,
      loading: false,
      failure: null,
    });
  }

  // go reads at an address and remembers it as a place.
  go(address: bigint): void {
    const { places, at } = this.history.value;
    const at_ = clampAddress(address, this.state.value.length);
    if (places[at] !== at_) {
      const kept = [...places.slice(0, at + 1), at_].slice(-maxHistory);
      this.history.value = { places: kept, at: kept.length - 1 };
    }
    this.move(at_);
  }

  // step goes back (-1) or forward (1) in the places; false at either end.
  step(by: 1 | -1): boolean {
    const { places, at } = this.history.value;
    const next = places[at + by];
    if (next === undefined) return false;
    this.history.value = { places, at: at + by };
    this.move(next);
    return true;
  }

  setLength(length: number): void {
    if (length === this.state.value.length) return;
    this.state.value = { ...this.state.value, length };
    if (this.state.value.address !== null) void this.read();
  }

  setAuto(on: boolean): void {
    this.auto.value = on;
    this.stopTimer();
    if (on && this.state.value.address !== null) void this.read();
  }

  private move(address: bigint): void {
    const now = this.state.value;
    if (now.address !== address) {
      this.state.value = { ...now, address, block: null, changed: NONE, changes: 0, capturedAt: null, failure: null };
    }
    void this.read();
  }

  // read asks once for the window; a failed read keeps the bytes of the one before.
  async read(): Promise<void> {
    const { address, length } = this.state.value;
    if (address === null) return;
    this.stopTimer();
    const mine = ++this.generation;
    this.state.value = { ...this.state.value, loading: true };
    try {
      const { identity } = this;
      const params = { address: fullAddress(address), length };
      const began = performance.now();
      const answer = await this.latest.run((abort) =>
        getJSON<MemoryAnswer>('/api/processes/memory', { identity, params, signal: abort }),
      );
      if (answer === undefined) return;
      const block: Block = { address, bytes: decodeHex(answer.bytes), requested: length };
      const changed = changedBytes(this.state.value.block, block);
      this.state.value = {
        address,
        length,
        block,
        changed,
        changes: changed.reduce((sum, one) => sum + one, 0),
        capturedAt: answer.captured_at,
        took: performance.now() - began,
        loading: false,
        failure: null,
      };
    } catch (cause) {
      this.state.value = { ...this.state.value, loading: false, failure: failureOf(cause) };
      if (this.state.value.failure?.status === 410) this.auto.value = false;
    }
    // The next read is asked for only after this answer came.
    if (this.auto.value && !this.suspended && mine === this.generation) {
      this.timer = setTimeout(() => void this.read(), REFRESH_MS);
    }
  }

  // suspend stops the timer while nobody looks (a hidden tab, another section);
  // resume goes on where it was.
  suspend(): void {
    this.suspended = true;
    this.stopTimer();
  }

  resume(): void {
    this.suspended = false;
    if (this.auto.value && this.timer === null && this.state.value.address !== null) void this.read();
  }

  private stopTimer(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
  }

  close(): void {
    this.generation++;
    this.stopTimer();
    this.latest.cancel();
  }
}

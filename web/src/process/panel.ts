// One fetched answer of a section: asked for when the section is first opened and
// on refresh, never by a timer. A failed refresh keeps what was there; an answer
// for an older request, or after close, is dropped.

import { type Signal, signal } from '@preact/signals';
import { getJSON, HTTPError, Latest, type Params } from '../http';
import type { Identity } from '../wire.gen';

export interface Failure {
  readonly status: number;
  readonly text: string;
  readonly at: number; // epoch ms
}

export interface Fetched<T> {
  readonly data: T | null;
  readonly receivedAt: number | null; // epoch ms
  readonly took: number | null; // ms from asking to the whole answer
  readonly loading: boolean;
  readonly since: number; // when the running request began, epoch ms
  readonly failure: Failure | null; // of the newest request
}

export class Panel<T> {
  readonly state: Signal<Fetched<T>> = signal<Fetched<T>>({
    data: null,
    receivedAt: null,
    took: null,
    loading: false,
    since: 0,
    failure: null,
  });
  private readonly latest = new Latest();
  private asked = false;

  constructor(
    readonly path: string,
    readonly identity: Identity,
  ) {}

  // open asks once; later calls do nothing.
  open(): void {
    if (!this.asked) void this.refresh();
  }

  async refresh(params: Params = {}): Promise<void> {
    this.asked = true;
    const since = Date.now();
    this.state.value = { ...this.state.value, loading: true, since };
    try {
      const began = performance.now();
      const { identity } = this;
      const data = await this.latest.run((abort) => getJSON<T>(this.path, { identity, params, signal: abort }));
      if (data === undefined) return;
      this.state.value = {
        data,
        receivedAt: Date.now(),
        took: performance.now() - began,
        loading: false,
        since,
        failure: null,
      };
    } catch (cause) {
      this.state.value = { ...this.state.value, loading: false, failure: failureOf(cause) };
    }
  }

  close(): void {
    this.latest.cancel();
  }
}

export function failureOf(cause: unknown): Failure {
  const at = Date.now();
  if (cause instanceof HTTPError) return { status: cause.status, text: cause.message, at };
  return { status: 0, text: 'The answer could not be read.', at };
}

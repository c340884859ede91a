// Reads the output of one run piece by piece, for one view: when something is said to be
// there, and at once after something was typed. A view that cannot keep up is not asked
// to: the next piece is read when it has taken the last one.

import { getJSON, reasonOf } from '../http';
import type { RunExtent, RunOutput } from '../wire.gen';

const PAUSE_MS = 33; // between two readings
const BUSY_MS = 100; // when there is more than one piece of output
const ECHO_MS = 400; // how long what was typed may take to be echoed

export interface Taker {
  max: number; // bytes of one piece
  replay: number; // bytes of what was written before that are read
  // take gets the next piece; the promise is kept when it is taken.
  take(output: RunOutput): Promise<void> | void;
  failed(reason: string): void;
}

export class Reader {
  // skipped is how many bytes were written before and not asked for.
  readonly skipped: number;
  private since: number;
  private known: number;
  private isBusy = false;
  private isClosed = false;
  private isOver = false;
  private echo = 0; // readings that wait for an echo
  private timer: ReturnType<typeof setTimeout> | null = null;
  private readonly abort = new AbortController();

  constructor(
    private readonly id: string,
    extent: RunExtent,
    private readonly taker: Taker,
  ) {
    this.skipped = Math.max(0, extent.next - taker.replay - extent.first);
    this.since = this.skipped > 0 ? extent.next - taker.replay : 0;
    this.known = extent.next;
  }

  // look reads what is there, if there is more.
  look(): void {
    void this.pump();
  }

  // wake says how far the output is now.
  wake(next: number): void {
    this.known = Math.max(this.known, next);
    if (this.since < this.known) void this.pump();
  }

  // nudge looks at once, and waits a little for something to come.
  nudge(): void {
    this.echo = 2;
    void this.pump();
  }

  close(): void {
    this.isClosed = true;
    if (this.timer !== null) clearTimeout(this.timer);
    this.abort.abort();
  }

  private async pump(): Promise<void> {
    if (this.isBusy || this.isClosed || this.isOver || this.timer !== null) return;
    this.isBusy = true;
    let pause = PAUSE_MS;
    try {
      const waiting = this.echo > 0 && this.since >= this.known ? ECHO_MS : undefined;
      if (this.echo > 0) this.echo--;
      const output = await getJSON<RunOutput>(`/api/runs/${this.id}/output`, {
        params: { since: this.since, max: this.taker.max, wait_ms: waiting },
        signal: this.abort.signal,
      });
      if (this.isClosed) return;
      if (output.next - output.from >= this.taker.max / 2) {
        pause = BUSY_MS;
        this.known = Math.max(this.known, output.next + 1); // there is surely more
      }
      this.since = output.next;
      this.isOver = output.eof;
      await this.taker.take(output);
      if (output.next === output.from) this.known = output.next;
    } catch (cause) {
      if (this.isClosed) return;
      this.taker.failed(reasonOf(cause));
      this.known = this.since; // until something new is said to be there
      this.echo = 0;
    } finally {
      this.isBusy = false;
    }
    if (this.isClosed || this.isOver || (this.since >= this.known && this.echo === 0)) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      void this.pump();
    }, pause);
  }
}

// Sends what is typed to a run, in order: one request at a time, and what is typed
// meanwhile goes with the next.

import { errorFrom, reasonOf, sendJSON } from '../http';
import type { RunWritten } from '../wire.gen';

// maxInput characters go with one request; more go with the next.
export const maxInput = 65_536;

export class Typist {
  private waiting = '';
  private isClosed = false;
  private sending: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly id: string,
    private readonly failed: (reason: string) => void,
  ) {}

  type(text: string): void {
    this.waiting += text;
    this.next(() => this.drain());
  }

  // press names a key, as a keyboard on the screen does.
  press(key: string): void {
    this.next(() => this.post({ keys: [key] }));
  }

  // end closes the input.
  end(): void {
    this.next(() => this.post({ eof: true }));
  }

  close(): void {
    this.isClosed = true;
  }

  private next(send: () => Promise<unknown>): void {
    this.sending = this.sending.then(send);
  }

  private async drain(): Promise<void> {
    while (this.waiting !== '') {
      let end = Math.min(maxInput, this.waiting.length);
      if (end < this.waiting.length && /[\ud800-\udbff]/.test(this.waiting[end - 1] as string)) end--;
      const text = this.waiting.slice(0, end);
      this.waiting = this.waiting.slice(end);
      if (!(await this.post({ text }))) this.waiting = '';
    }
  }

  private async post(body: unknown): Promise<boolean> {
    if (this.isClosed) return false;
    try {
      const answer = await sendJSON('POST', `/api/runs/${this.id}/input`, body);
      if (!answer.ok) throw await errorFrom(answer);
      const { warnings } = (await answer.json()) as RunWritten;
      if (warnings.length > 0) this.failed(warnings.join('; '));
      return true;
    } catch (cause) {
      this.failed(reasonOf(cause));
      return false;
    }
  }
}

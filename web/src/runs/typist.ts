// Sends what is typed to a run, in order: one request at a time, and what is typed
// meanwhile goes with the next.

import { errorFrom, HTTPError, sendJSON } from '../http';
import type { RunWritten } from '../wire.gen';

// maxInput characters go with one request; more go with the next.
export const maxInput = 65_536;

export class Typist {
  private waiting = '';
  private isBusy = false;
  private isClosed = false;

  constructor(
    private readonly id: string,
    private readonly failed: (text: string) => void,
  ) {}

  type(text: string): void {
    this.waiting += text;
    void this.send();
  }

  // press names keys, as a keyboard on the screen does.
  async press(keys: readonly string[]): Promise<void> {
    await this.post({ keys });
  }

  close(): void {
    this.isClosed = true;
  }

  private async send(): Promise<void> {
    if (this.isBusy) return;
    this.isBusy = true;
    while (this.waiting !== '' && !this.isClosed) {
      let end = Math.min(maxInput, this.waiting.length);
      if (end < this.waiting.length && /[\ud800-\udbff]/.test(this.waiting[end - 1] as string)) end--;
      const text = this.waiting.slice(0, end);
      this.waiting = this.waiting.slice(end);
      if (!(await this.post({ text }))) this.waiting = '';
    }
    this.isBusy = false;
  }

  private async post(body: unknown): Promise<boolean> {
    try {
      const answer = await sendJSON('POST', `/api/runs/${this.id}/input`, body);
      if (!answer.ok) throw await errorFrom(answer);
      const { warnings } = (await answer.json()) as RunWritten;
      if (warnings.length > 0) this.failed(warnings.join('; '));
      return true;
    } catch (cause) {
      this.failed(cause instanceof HTTPError ? cause.message : 'It could not be sent.');
      return false;
    }
  }
}

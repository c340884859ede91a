// One polite live region a page: for events, never for ticking values, and at most
// one message in five seconds. The newest waiting message wins.

import { signal } from '@preact/signals';

export const ANNOUNCE_MS = 5000;

export const announced = signal('');

let last = -ANNOUNCE_MS;
let waiting: ReturnType<typeof setTimeout> | null = null;
let next = '';

export function announce(text: string): void {
  next = text;
  if (waiting !== null) return;
  const say = () => {
    waiting = null;
    last = performance.now();
    announced.value = next;
  };
  const wait = last + ANNOUNCE_MS - performance.now();
  if (wait <= 0) say();
  else waiting = setTimeout(say, wait);
}

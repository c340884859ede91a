// The time that ages are counted from: one timer a page, off while it is hidden.

import { signal } from '@preact/signals';
import type { Lifetime } from '../life';

export const now = signal(Date.now());

export function runClock(life: Lifetime): void {
  const tick = () => {
    if (document.visibilityState !== 'hidden') now.value = Date.now();
  };
  tick();
  life.interval(1000, tick);
  life.listen(document, 'visibilitychange', tick);
}

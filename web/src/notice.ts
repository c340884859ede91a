// The one line on top of the list that says why something asked for is not shown.

import { signal } from '@preact/signals';

export interface Notice {
  text: string;
  tone: 'info' | 'bad';
  link?: { label: string; href: string };
}

export const notice = signal<Notice | null>(null);

// Copying text, with one line that says what happened.

import { signal } from '@preact/signals';
import { announce } from './announce';

export const copied = signal('');

export async function copyText(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    copied.value = `${what} copied.`;
  } catch {
    copied.value = `The browser did not allow copying: ${what}.`;
  }
  announce(copied.value);
}

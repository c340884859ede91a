// What a viewer chose, kept in this browser only. Storage may be refused (private
// windows); then a choice lasts as long as the page.

import { effect, type Signal, signal } from '@preact/signals';

export type Theme = 'auto' | 'dark' | 'light';

function load(name: string): unknown {
  try {
    const text = localStorage.getItem(`procinsh.${name}`);
    return text === null ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

// kept is a signal whose value survives a reload; valid refuses what an older or
// a broken page left behind.
export function kept<T>(name: string, initial: T, valid: (value: unknown) => value is T): Signal<T> {
  const stored = load(name);
  const held = signal<T>(valid(stored) ? stored : initial);
  let first = true;
  effect(() => {
    const value = held.value;
    if (first) {
      first = false;
      return;
    }
    try {
      localStorage.setItem(`procinsh.${name}`, JSON.stringify(value));
    } catch {
      // Refused storage: the choice holds for this page.
    }
  });
  return held;
}

export const isBoolean = (value: unknown): value is boolean => typeof value === 'boolean';

export const theme = kept<Theme>('theme', 'auto', (v): v is Theme => v === 'auto' || v === 'dark' || v === 'light');
export const comfortable = kept('comfortable', false, isBoolean); // 28 px rows instead of 24
export const keysOn = kept('keys', true, isBoolean); // single-letter keys (WCAG 2.1.4)
export const batterySaver = kept('saver', false, isBoolean); // the space: 30 frames a second at most
export const allCores = kept('allcores', false, isBoolean); // CPU as a share of all cores

// dark says which theme is on screen now; canvases read their colours again when it changes.
export const dark = signal(true);

// applyTheme follows the choice and the system; theme.ts did the same before first paint.
export function applyTheme(): void {
  const system = matchMedia('(prefers-color-scheme: light)');
  const apply = () => {
    const light = theme.value === 'light' || (theme.value === 'auto' && system.matches);
    document.documentElement.classList.toggle('theme-light', light);
    document.documentElement.classList.toggle('theme-dark', !light);
    dark.value = !light;
  };
  system.addEventListener('change', apply);
  effect(apply);
}

// The colour roles as a canvas needs them, read from the style sheet once a theme.

import { dark } from './settings';

export interface Palette {
  role(name: string): string; // "cpu", "line", "kind-heap" …
}

let forDark: boolean | null = null;
let known = new Map<string, string>();

export function palette(): Palette {
  if (forDark !== dark.value) {
    forDark = dark.value;
    known = new Map();
  }
  return {
    role(name) {
      let value = known.get(name);
      if (value === undefined) {
        value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
        known.set(name, value);
      }
      return value;
    },
  };
}

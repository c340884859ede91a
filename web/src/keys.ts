// Keyboard: pages register bindings, one listener finds the one that is meant, and
// the "?" sheet lists what is registered. None is active while a field has focus,
// and all that are a plain character can be switched off (WCAG 2.1.4).

import { computed, signal } from '@preact/signals';
import { keysOn } from './settings';

export interface Binding {
  // keys is one chord or two in a row: "t", "Space", "Ctrl+f", "Shift+F6", "g l".
  keys: string;
  label: string;
  group: string;
  // inFields: also while a field has focus (Escape, F6, Ctrl+F).
  inFields?: boolean;
  // hidden: works, but the sheet has a better line for it.
  hidden?: boolean;
  // run returns false to let the browser have the key after all.
  run(event: KeyboardEvent): unknown;
}

const held = signal<readonly Binding[]>([]);

export const bindings = computed(() => held.value.filter((b) => !b.hidden));

// bindKeys adds bindings until the returned function is called. Later ones win.
export function bindKeys(list: readonly Binding[]): () => void {
  held.value = [...held.value, ...list];
  return () => {
    held.value = held.value.filter((b) => !list.includes(b));
  };
}

// chord names the keys of an event: modifiers only where the character does not
// already say them ("?" is Shift+/ on most keyboards).
export function chord(event: KeyboardEvent): string {
  const key = event.key === ' ' ? 'Space' : event.key;
  let text = '';
  if (event.ctrlKey || event.metaKey) text += 'Ctrl+';
  if (event.altKey) text += 'Alt+';
  if (event.shiftKey && key.length > 1) text += 'Shift+';
  return text + key;
}

// A check box takes Space alone.
const isField = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  target.closest('input:not([type="checkbox"]), textarea, select, [contenteditable="true"]') !== null;

const isPressable = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  target.closest('button, input[type="checkbox"], a[href], summary, [role="button"], [role="tab"]') !== null;

const plain = (keys: string): boolean => {
  const first = keys.split(' ')[0] ?? '';
  return first.length === 1 || first === 'Space';
};

const SEQUENCE_MS = 1500;
let prefix = '';
let prefixAt = 0;

function handle(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing) return;
  const pressed = chord(event);
  if (pressed === 'Shift' || pressed === 'Shift+Shift' || event.key === 'Control' || event.key === 'Alt') return;
  const field = isField(event.target);
  const dialog = document.querySelector('dialog[open]') !== null;
  // An open sheet has all keys, Escape too: the browser closes it.
  if (dialog && pressed !== '?') return;
  const whole = prefix && event.timeStamp - prefixAt < SEQUENCE_MS ? `${prefix} ${pressed}` : pressed;
  const usable = (b: Binding) => {
    if (field && !b.inFields) return false;
    if (!keysOn.value && plain(b.keys)) return false;
    if (b.keys === 'Space' && isPressable(event.target)) return false;
    if (b.keys === 'Enter' && isPressable(event.target)) return false;
    return true;
  };
  const list = held.value;
  for (const wanted of whole === pressed ? [pressed] : [whole, pressed]) {
    for (let i = list.length - 1; i >= 0; i--) {
      const binding = list[i];
      if (!binding || binding.keys !== wanted || !usable(binding)) continue;
      prefix = '';
      if (binding.run(event) === false) continue;
      event.preventDefault();
      return;
    }
    if (wanted === pressed && list.some((b) => b.keys.startsWith(`${pressed} `) && usable(b))) {
      prefix = pressed;
      prefixAt = event.timeStamp;
      return;
    }
  }
  prefix = '';
}

// listenKeys starts the one listener of the page.
export function listenKeys(): void {
  document.addEventListener('keydown', handle);
}

// nextRegion moves the focus to the next part of the page (F6) or the one before.
export function nextRegion(step: 1 | -1): void {
  const regions = [...document.querySelectorAll<HTMLElement>('[data-region]')].filter(
    (element) => element.offsetParent !== null || element.getClientRects().length > 0,
  );
  if (regions.length === 0) return;
  const at = regions.findIndex((element) => element.contains(document.activeElement));
  const next = regions[at < 0 ? (step > 0 ? 0 : regions.length - 1) : (at + step + regions.length) % regions.length];
  if (!next) return;
  // In a table its row, not the header before it.
  const inside =
    next.querySelector<HTMLElement>('[role="row"][tabindex="0"]') ??
    next.querySelector<HTMLElement>('[tabindex="0"], button:not([disabled]), a[href], input, select, textarea');
  if (next.tabIndex >= 0 || !inside) {
    if (!next.hasAttribute('tabindex')) next.tabIndex = -1;
    next.focus();
  } else {
    inside.focus();
  }
}

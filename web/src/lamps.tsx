// Lamps: a square of 8 px, always with its word. Filled = on, hollow = off,
// barred = trouble, so that colour is never the only sign.

import type { ComponentChildren } from 'preact';

export type Tone = 'ok' | 'warn' | 'bad' | 'quiet';
export type Fill = 'on' | 'off' | 'trouble';

export function Lamp(props: { word: string; tone: Tone; fill?: Fill; title?: string; children?: ComponentChildren }) {
  return (
    <span class={`lamp lamp-${props.tone}`} title={props.title}>
      <span class={`lamp-square lamp-${props.fill ?? 'on'}`} aria-hidden="true" />
      <span class="lamp-word">{props.word}</span>
      {props.children !== undefined && <span class="lamp-figure">{props.children}</span>}
    </span>
  );
}

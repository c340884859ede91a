// The top bar: title, places, what the page puts in, settings and keys. Its height
// never changes.

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { navigate, plainClick } from './route';

export const helpOpen = signal(false);
export const settingsOpen = signal(false);

export function PlaceLink(props: { href: string; current?: boolean; children: ComponentChildren }) {
  return (
    <a
      class={props.current ? 'place place-current' : 'place'}
      href={props.href}
      aria-current={props.current ? 'page' : undefined}
      onClick={(event) => {
        if (!plainClick(event)) return;
        event.preventDefault();
        if (!props.current) navigate(props.href);
      }}
    >
      {props.children}
    </a>
  );
}

// TopBar is the bar of every page. title is the text after "procinsh /"; children
// stand after the places (the list's filter), lamps and actions at the right end.
export function TopBar(props: {
  title: string;
  page: 'list' | 'process' | 'space' | 'runs';
  children?: ComponentChildren;
  lamps?: ComponentChildren;
  actions?: ComponentChildren;
}) {
  return (
    <header class={`bar bar-${props.page}`} data-region="bar">
      <h1 class="bar-title">
        <span class="bar-brand">procinsh</span>
        <span class="bar-slash"> / </span>
        <span class="bar-name">{props.title}</span>
      </h1>
      <nav class="bar-places" aria-label="Places">
        <PlaceLink href="/" current={props.page === 'list'}>
          List
        </PlaceLink>
        <PlaceLink href="/space" current={props.page === 'space'}>
          Space
        </PlaceLink>
        <PlaceLink href="/runs" current={props.page === 'runs'}>
          Runs
        </PlaceLink>
      </nav>
      {props.children}
      <div class="bar-lamps">{props.lamps}</div>
      <div class="bar-actions">{props.actions}</div>
    </header>
  );
}

// HoldButton stands at the end of the bar of each page; off is why it cannot be pressed.
export function HoldButton(props: { held: boolean; toggle(): void; off?: string | null }) {
  return (
    <button
      type="button"
      class={`button bar-hold${props.held ? ' button-armed' : ''}`}
      aria-keyshortcuts="Space"
      disabled={Boolean(props.off)}
      title={props.off ?? undefined}
      onClick={props.toggle}
    >
      {props.held ? 'Live' : 'Hold'}
      <kbd class="key bar-key">Space</kbd>
    </button>
  );
}

// KeysLink opens the settings and the sheet of keys; it stands in each page's footer.
export function KeysLink() {
  return (
    <span class="foot-tools">
      <button
        type="button"
        class="button button-text"
        aria-haspopup="dialog"
        onClick={() => {
          settingsOpen.value = true;
        }}
      >
        Settings
      </button>
      <button
        type="button"
        class="button button-text"
        aria-haspopup="dialog"
        aria-keyshortcuts="?"
        onClick={() => {
          helpOpen.value = true;
        }}
      >
        ? keys
      </button>
    </span>
  );
}

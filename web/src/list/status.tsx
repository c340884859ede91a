// How the list stands: lamps, the lines that say why, and what is there before it.

import { computed, signal } from '@preact/signals';
import { clock } from '../format';
import { Lamp } from '../lamps';
import { lazy } from '../lazy';
import { notice } from '../notice';
import { navigate, plainClick, route } from '../route';
import { store } from '../store';
import * as view from './state';

const HoldersNote = lazy(async () => (await import('./holders')).HoldersNote);
const HeldNote = lazy(async () => (await import('./rare')).HeldNote);

// now moves twice a second while the page is seen.
export const now = signal(Date.now());
export const mountedAt = signal(0);

const STALE_INTERVALS = 2.5;
const WAITING_MS = 3000;

// staleFor is how long nothing came, once that is longer than it should be.
const staleFor = computed((): number | null => {
  const heard = store.live.heard.value;
  const kind = store.live.state.value.kind;
  if (heard === 0 || kind === 'off' || kind === 'hidden' || kind === 'polling') return null;
  const quiet = now.value - heard;
  return quiet > STALE_INTERVALS * Math.max(1000, Math.min(store.interval.value, 10_000)) ? quiet : null;
});

export const isStale = computed(() => staleFor.value !== null);

export function Lamps() {
  const stale = staleFor.value;
  const frame = store.frame.value;
  const state = store.live.state.value;
  if (frame.kind === 'held') {
    return (
      <Lamp word="HELD" tone="warn" fill="off">
        {`${Math.max(0, Math.round((now.value - frame.since) / 1000))} s`}
      </Lamp>
    );
  }
  if (frame.kind === 'past') {
    return (
      <Lamp word="HELD" tone="warn" fill="off">
        {`−${Math.round(Math.max(0, store.capturedAt - frame.at) / 1000)} s`}
      </Lamp>
    );
  }
  if (frame.kind === 'file') {
    return (
      <Lamp word="SAVED" tone="warn" fill="off">
        {clock(frame.at)}
      </Lamp>
    );
  }
  if (state.kind === 'refused') return <Lamp word="DENIED" tone="bad" fill="trouble" />;
  if (state.kind === 'polling') {
    return (
      <Lamp word="POLLING" tone="warn">
        2.0 s
      </Lamp>
    );
  }
  if (stale !== null) {
    return (
      <Lamp word="STALE" tone="bad" fill="trouble">
        {`${(stale / 1000).toFixed(1)} s`}
      </Lamp>
    );
  }
  if (state.kind === 'live') {
    return (
      <Lamp word="LIVE" tone="ok" title="How far apart the last two lists were">
        {`${(store.interval.value / 1000).toFixed(1)} s`}
      </Lamp>
    );
  }
  if (state.kind === 'lost') return <Lamp word="OFF" tone="bad" fill="trouble" />;
  return <Lamp word="CONNECTING" tone="quiet" fill="off" />;
}

export function Notes() {
  const state = store.live.state.value;
  const frame = store.frame.value;
  const said = notice.value;
  return (
    <>
      {said && (
        <div class={`note note-${said.tone}`} role="alert">
          <span class="note-text">{said.text}</span>
          {said.link && (
            <a
              class="link"
              href={said.link.href}
              onClick={(event) => {
                if (!plainClick(event) || !said.link) return;
                event.preventDefault();
                navigate(said.link.href);
              }}
            >
              {said.link.label}
            </a>
          )}
          <button
            type="button"
            class="button button-text"
            onClick={() => {
              notice.value = null;
              if (route.value.page !== 'list') navigate(view.listPath());
            }}
          >
            Dismiss
          </button>
        </div>
      )}
      {state.kind === 'lost' && (
        <div class="note note-bad">
          <span class="note-text">
            {state.status === 0
              ? `Could not refresh at ${clock(state.at)}: connection lost, retrying.`
              : `Could not refresh at ${clock(state.at)}: ${state.error}`}
            {store.capturedAt > 0 && ` Showing ${clock(store.capturedAt)}.`}
          </span>
          <button type="button" class="button" onClick={() => store.live.restart()}>
            Retry
          </button>
        </div>
      )}
      {state.kind === 'refused' && store.loaded.value && (
        <div class="note note-bad">
          <span class="note-text">
            {state.error} Showing {clock(store.capturedAt)}.
          </span>
          <button type="button" class="button" onClick={() => store.live.restart()}>
            Retry
          </button>
        </div>
      )}
      {state.kind === 'polling' && (
        <div class="note note-warn">
          <span class="note-text">polling: 4 other views are open{state.error !== null && `. ${state.error}`}</span>
        </div>
      )}
      {view.asked.value.length > 0 && <HoldersNote />}
      {frame.kind !== 'live' && <HeldNote />}
    </>
  );
}

export function Waiting() {
  const state = store.live.state.value;
  if (state.kind === 'refused') {
    return (
      <div class="denied">
        <p class="denied-text">{state.error}</p>
        <p class="second">Nothing here can change that; the text above says what would.</p>
        <button type="button" class="button" onClick={() => store.live.restart()}>
          Try again
        </button>
      </div>
    );
  }
  const long = mountedAt.value > 0 && now.value - mountedAt.value > WAITING_MS;
  return (
    <div class="waiting">
      {Array.from({ length: 8 }, (_, i) => (
        <p class="waiting-row mono" key={String(i)} aria-hidden="true">
          ····
        </p>
      ))}
      <p class="waiting-text">{long ? 'still waiting for /proc' : ''}</p>
    </div>
  );
}

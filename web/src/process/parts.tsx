// What every panel of the page shares: its frame, its states, and the line at its
// foot that says where the facts came from.

import type { ComponentChildren } from 'preact';
import { ago, clock, visible } from '../format';
import { navigate, plainClick, processPath } from '../route';
import type { Identity } from '../wire.gen';
import { now } from './clock';
import type { Failure, Fetched, Panel } from './panel';

export const WAITING = '····';
const SLOW_MS = 3000;

// PanelBox is a panel: heading, actions at the right, content, provenance.
export function PanelBox(props: {
  id: string;
  title: string;
  class?: string;
  note?: ComponentChildren;
  actions?: ComponentChildren;
  foot?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <section class={`panel ${props.class ?? ''}`} aria-labelledby={props.id} data-region={props.id}>
      <div class="panel-head">
        <h2 class="panel-title" id={props.id}>
          {props.title}
        </h2>
        <span class="panel-note">{props.note}</span>
        <div class="panel-actions">{props.actions}</div>
      </div>
      <div class="panel-body">{props.children}</div>
      {props.foot !== undefined && <div class="panel-foot">{props.foot}</div>}
    </section>
  );
}

// Provenance says source, age, duration and cost.
export function Provenance(props: {
  source: string;
  at: number | null; // epoch ms of the reading
  took?: number | null; // ms
  cost?: string;
}) {
  const parts = [`read from ${props.source}`];
  if (props.at === null) parts.push('not read yet');
  else parts.push(ago(Math.max(0, now.value - props.at)));
  if (props.took !== undefined && props.took !== null) parts.push(`took ${took(props.took)}`);
  parts.push(props.cost ?? 'stopped nothing');
  return <span class="provenance">{parts.join(' · ')}</span>;
}

function took(ms: number): string {
  if (ms < 1) return '< 1 ms';
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

export function Waiting(props: { since: number; what: string }) {
  const slow = now.value - props.since >= SLOW_MS;
  return (
    <p class="state" aria-busy="true">
      <span class="state-dots">{WAITING}</span>{' '}
      {slow ? 'still waiting for /proc' : <span class="unseen">reading {props.what}</span>}
    </p>
  );
}

// Refused is a panel that cannot be shown: the reason, and what would allow it, as text.
export function Refused(props: { failure: Failure; what: string; retry?: (() => void) | undefined }) {
  const { failure } = props;
  const word = failure.status === 403 || failure.status === 422 ? 'Not permitted or not possible' : 'Could not read';
  return (
    <div class="state state-bad" role="note">
      <p class="state-text">
        <span class="state-word">
          {word}: {props.what}.
        </span>{' '}
        {visible(failure.text)}
      </p>
      {props.retry !== undefined && (
        <button type="button" class="button" onClick={props.retry}>
          Try again
        </button>
      )}
    </div>
  );
}

// Failed is the one line on top of content that stays.
export function Failed(props: {
  failure: Failure;
  shown: number | null;
  what?: string; // what could not be done
  retry?: (() => void) | undefined;
}) {
  const { failure, shown } = props;
  return (
    <div class="line line-bad">
      <span class="line-text">
        {props.what ?? 'Could not refresh'} at {clock(failure.at)}: {visible(failure.text)}
        {shown !== null && ` Showing ${clock(shown)}.`}
      </span>
      {props.retry !== undefined && (
        <button type="button" class="button button-text" onClick={props.retry}>
          Retry
        </button>
      )}
    </div>
  );
}

export function Warnings(props: { list: readonly string[] }) {
  return (
    <>
      {props.list.map((text) => (
        <div class="line line-warn" key={text}>
          <span class="line-text">
            <span class="hatch" aria-hidden="true" /> {visible(text)}
          </span>
        </div>
      ))}
    </>
  );
}

export function Refresh(props: { onPress: () => void; loading: boolean; disabled: string | null }) {
  return (
    <button
      type="button"
      class="button button-text"
      aria-keyshortcuts="r"
      disabled={props.disabled !== null}
      title={props.disabled ?? undefined}
      aria-busy={props.loading}
      onClick={props.onPress}
    >
      {props.loading ? 'Reading…' : 'Refresh'}
    </button>
  );
}

// FetchedBody shows a fetched answer in whichever state it is.
export function FetchedBody<T>(props: {
  panel: Panel<T>;
  what: string;
  ended: boolean;
  children: (data: T) => ComponentChildren;
}) {
  const state: Fetched<T> = props.panel.state.value;
  const retry = props.ended ? undefined : () => void props.panel.refresh();
  if (state.data === null) {
    if (state.failure !== null) return <Refused failure={state.failure} what={props.what} retry={retry} />;
    return <Waiting since={state.since} what={props.what} />;
  }
  return (
    <>
      {state.failure !== null && <Failed failure={state.failure} shown={state.receivedAt} retry={retry} />}
      {props.children(state.data)}
    </>
  );
}

// ProcessLink is a process by name and pid, as a link that keeps Back working.
export function ProcessLink(props: { identity: Identity; name?: string | null; hash?: string }) {
  const href = processPath(props.identity) + (props.hash ?? '');
  return (
    <a
      class="link"
      href={href}
      onClick={(event) => {
        if (!plainClick(event)) return;
        event.preventDefault();
        navigate(href);
      }}
    >
      {props.identity.pid}
      {props.name !== undefined && props.name !== null && ` ${visible(props.name)}`}
    </a>
  );
}

// Fact is one name and value of a list of facts; null is unknown.
export interface Fact {
  readonly name: string;
  readonly value: ComponentChildren;
  readonly title?: string | undefined;
}

export function Facts(props: { list: readonly Fact[]; label: string }) {
  return (
    <dl class="facts" aria-label={props.label}>
      {props.list.map((fact) => (
        <div class="fact" key={fact.name}>
          <dt class="fact-name">{fact.name}</dt>
          <dd class="fact-value" title={fact.title}>
            {fact.value === null || fact.value === '' ? '–' : fact.value}
          </dd>
        </div>
      ))}
    </dl>
  );
}

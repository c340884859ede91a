// The identity bar: who this is, and the figures of this second. A figure that has
// a chart is a button that shows it.

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import {
  bytesFull,
  bytesUnit,
  clock,
  commandText,
  dateTime,
  percent,
  perSecond,
  rate,
  stateName,
  UNKNOWN,
  visible,
} from '../format';
import { getJSON } from '../http';
import { plainClick, processPath } from '../route';
import { store } from '../store';
import type { Identity, ProcessSummary, Thread } from '../wire.gen';
import type { Shared } from './context';
import type { View } from './model';
import { ProcessLink, WAITING } from './parts';
import { placeHash } from './place';

function Figure(props: {
  name: string;
  ink?: string;
  title?: string | undefined;
  chart?: string;
  shared?: Shared;
  children: ComponentChildren;
}) {
  const { shared, chart } = props;
  const inner = (
    <>
      <span class="figure-name">{props.name} </span>
      <span class={`figure-value ${props.ink === undefined ? '' : `ink-${props.ink}`}`}>{props.children}</span>
    </>
  );
  if (shared === undefined || chart === undefined) {
    return (
      <div class="figure" title={props.title}>
        {inner}
      </div>
    );
  }
  return (
    <button
      type="button"
      class="figure figure-button"
      title={props.title}
      onClick={() => shared.go('overview', chart === 'cpu' ? {} : { chart })}
    >
      {inner}
    </button>
  );
}

// A parent's name comes from the list when that was seen, else it is asked for once:
// the stream has only its identity, and its leader's name is its own.
const parents = new Map<string, ReturnType<typeof signal<string | null>>>();

function parentName(identity: Identity) {
  const key = `${identity.pid}@${identity.start_time_ticks}`;
  let name = parents.get(key);
  if (name === undefined) {
    const row = store.byPid(identity.pid);
    name = signal<string | null>(row?.key === key ? row.summary.name : null);
    parents.set(key, name);
    const found = name;
    if (found.value !== null) return found;
    getJSON<Thread[]>('/api/processes/threads', { identity }).then(
      (threads) => {
        found.value = threads.find((t) => t.tid === identity.pid)?.name ?? null;
      },
      () => {
        // Without the name the link still has the pid.
      },
    );
  }
  return name;
}

function Parent(props: { identity: Identity }) {
  const { identity } = props;
  useEffect(() => {
    parentName(identity);
  }, [identity.pid, identity.start_time_ticks]);
  const name = parents.get(`${identity.pid}@${identity.start_time_ticks}`)?.value ?? null;
  return <ProcessLink identity={identity} name={name} />;
}

export function userText(summary: ProcessSummary): string {
  const real = summary.username === null ? String(summary.uid) : visible(summary.username);
  if (summary.uid === summary.euid) return real;
  return `${real} → ${summary.effective_username === null ? summary.euid : visible(summary.effective_username)}`;
}

// threadCount is the true number, also when an observation does not list all.
export function threadCount({ observation, summary }: View): number | undefined {
  return observation === null || observation.threads_truncated ? summary?.thread_count : observation.threads.length;
}

// WaitsIn is what the first thread waits for, and the way to the stacks of all.
function WaitsIn(props: { shared: Shared }) {
  const { shared } = props;
  const { summary, observation } = shared.model.view.value;
  if (summary?.kernel_thread) return null;
  const first = observation?.threads.find((t) => t.tid === shared.identity.pid);
  const place = first?.syscall ?? first?.wait_channel ?? null;
  const isRunning = first?.state === 'R';
  const why = isRunning ? 'it runs' : 'unknown, or not permitted to read it';
  return (
    <Figure name="Waits in" title={place === null ? why : `thread ${first?.tid}: ${first?.wait_channel ?? place}`}>
      {observation === null ? (
        WAITING
      ) : place === null ? (
        isRunning ? (
          'nothing'
        ) : (
          UNKNOWN
        )
      ) : (
        <a
          class="link"
          href={`${processPath(shared.identity)}${placeHash('stacks')}`}
          onClick={(event) => {
            if (!plainClick(event)) return;
            event.preventDefault();
            shared.go('stacks');
          }}
        >
          {visible(place)}
        </a>
      )}
    </Figure>
  );
}

export function IdentityBar(props: { shared: Shared }) {
  const { shared } = props;
  const { summary, observation } = shared.model.view.value;
  const { pid } = shared.identity;
  const rates = observation?.rates;
  const state = observation?.state ?? summary?.state ?? null;
  const first = observation !== null && rates?.minor_faults === null;
  const unknown = first ? 'needs two samples' : 'unknown';
  const [rss, unit] = bytesUnit(observation?.rss_bytes);
  return (
    <section class="identity" aria-label="Identity" data-region="identity">
      <div class="identity-who">
        <div class="identity-caption" title={summary === null ? undefined : `started ${dateTime(summary.started_at)}`}>
          pid {pid} · started {summary === null ? WAITING : clock(summary.started_at)}
        </div>
        <div class="identity-name">{summary === null ? WAITING : visible(summary.name)}</div>
      </div>
      <Figure name="State" {...(state === 'D' || state === 'Z' ? { ink: 'bad' } : {})}>
        {state === null ? WAITING : `${state} ${stateName(state)}`}
      </Figure>
      <WaitsIn shared={shared} />
      <Figure name="User" title={summary === null ? undefined : `uid ${summary.uid}, effective ${summary.euid}`}>
        {summary === null ? WAITING : userText(summary)}
      </Figure>
      <Figure name="Parent">
        {summary === null ? WAITING : summary.parent_id === null ? 'none' : <Parent identity={summary.parent_id} />}
      </Figure>
      <Figure name="Threads" shared={shared} chart="threads">
        {threadCount(shared.model.view.value) ?? WAITING}
      </Figure>
      <Figure
        name="CPU"
        ink="cpu"
        shared={shared}
        chart="cpu"
        title={observation?.cpu_percent === null ? unknown : '100 % = one core'}
      >
        {observation === null
          ? WAITING
          : observation.cpu_percent === null
            ? UNKNOWN
            : `${percent(observation.cpu_percent)} %`}
      </Figure>
      <Figure name="RSS" ink="mem" shared={shared} chart="cpu" title={bytesFull(observation?.rss_bytes)}>
        {observation === null ? WAITING : `${rss} ${unit}`}
      </Figure>
      <Figure
        name="Faults/s"
        shared={shared}
        chart="faults"
        title={rates?.minor_faults === null ? unknown : 'minor / major page faults'}
      >
        {observation === null ? WAITING : `${perSecond(rates?.minor_faults)} / ${perSecond(rates?.major_faults)}`}
      </Figure>
      <Figure
        name="Ctx sw/s"
        shared={shared}
        chart="switches"
        title={rates?.voluntary_context_switches === null ? unknown : 'voluntary / involuntary context switches'}
      >
        {observation === null
          ? WAITING
          : `${perSecond(rates?.voluntary_context_switches)} / ${perSecond(rates?.nonvoluntary_context_switches)}`}
      </Figure>
      <Figure
        name="Read / write"
        shared={shared}
        chart="io"
        title={
          rates?.read_bytes !== null
            ? 'storage bytes per second'
            : observation?.io === null
              ? 'not permitted to read /proc/PID/io'
              : unknown
        }
      >
        {observation === null ? (
          WAITING
        ) : (
          <>
            <span class="ink-read">{rate(rates?.read_bytes)}</span> /{' '}
            <span class="ink-write">{rate(rates?.write_bytes)}</span>
          </>
        )}
      </Figure>
      <div class="identity-command" title={summary === null ? undefined : commandOf(summary)}>
        {summary === null ? '' : commandOf(summary)}
      </div>
    </section>
  );
}

export function commandOf(summary: ProcessSummary): string {
  return (
    commandText(summary.command_line, summary.name, summary.kernel_thread) +
    (summary.command_line_truncated ? ' …' : '')
  );
}

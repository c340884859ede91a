// What ends or removes something takes two presses of the same button and no dialog: the
// first says what the second will do.

import { batch, type Signal, signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { announce } from '../announce';
import { count, duration, visible } from '../format';
import { errorFrom, HTTPError, reasonOf, sendJSON } from '../http';
import type { Run, RunStopIncomplete, RunStopped } from '../wire.gen';
import { isOver } from './model';
import { leave, now, selected } from './state';
import { store } from './store';

export const ARMED_MS = 4000;

// TwoStep is a button whose first press arms it for four seconds.
export function TwoStep(props: {
  label: ComponentChildren;
  armed: string;
  act: () => void;
  class?: string;
  disabled?: boolean;
}) {
  const [isArmed, setArmed] = useState(false);
  useEffect(() => {
    if (!isArmed) return;
    announce(`${props.armed}: press once more`);
    const timer = setTimeout(() => setArmed(false), ARMED_MS);
    return () => clearTimeout(timer);
  }, [isArmed]);
  return (
    <button
      type="button"
      class={`button ${props.class ?? ''}${isArmed ? ' button-armed' : ''}`}
      disabled={props.disabled}
      onBlur={() => setArmed(false)}
      onClick={() => {
        setArmed(!isArmed);
        if (isArmed) props.act();
      }}
    >
      {isArmed ? props.armed : props.label}
    </button>
  );
}

interface Stopping {
  since: number;
  grace: number; // ms
  text: string; // '' while it goes on
  survivors: readonly string[];
  isBad: boolean;
}

const stops: Signal<ReadonlyMap<string, Stopping>> = signal(new Map());

function note(id: string, change: Partial<Stopping>): void {
  const before = stops.peek().get(id) ?? { since: Date.now(), grace: 0, text: '', survivors: [], isBad: false };
  stops.value = new Map(stops.peek()).set(id, { ...before, ...change });
}

// outcome is how a stop ended; a refusal is thrown.
async function outcome(answer: Response): Promise<RunStopped | RunStopIncomplete> {
  if (answer.ok) return (await answer.json()) as RunStopped;
  if (answer.status !== 504) throw await errorFrom(answer);
  const left = (await answer.json()) as RunStopIncomplete;
  if (left.code !== 'stop_incomplete') throw new HTTPError(504, left.code, left.error);
  return left;
}

const took = (stopped: RunStopped | RunStopIncomplete) =>
  `Stopped ${count(stopped.stopped)} ${stopped.stopped === 1 ? 'process' : 'processes'} in ${duration(stopped.took_ms)}.`;

// end asks for an end and notes what came of it; what is the process that is meant.
async function end(run: Run, path: string, what: string): Promise<void> {
  try {
    const stopped = await outcome(await sendJSON('POST', path, {}));
    const text = `${what}${took(stopped)}${'error' in stopped ? ` ${visible(stopped.error)}` : ''}`;
    note(run.id, { text, survivors: stopped.survivors, isBad: stopped.survivors.length > 0 });
  } catch (cause) {
    note(run.id, { text: `${what}Not stopped: ${visible(reasonOf(cause))}`, isBad: true });
  }
  announce(stops.peek().get(run.id)?.text ?? '');
  await store.ask(run.id);
}

function stop(run: Run): Promise<void> {
  note(run.id, { since: Date.now(), grace: run.limits.grace_ms, text: '', survivors: [], isBad: false });
  return end(run, `/api/runs/${run.id}/stop`, '');
}

const underWay = (run: Run) => stops.value.get(run.id)?.text === '';

export function StopButton(props: { run: Run }) {
  const { run } = props;
  if (isOver(run)) return null;
  const grace = duration(run.limits.grace_ms);
  const isStopping = underWay(run);
  return (
    <TwoStep
      class="stop"
      label={isStopping ? 'Stopping' : 'Stop'}
      armed={`Stop now: TERM, KILL in ${grace}`}
      disabled={isStopping}
      act={() => void stop(run)}
    />
  );
}

// StopNote is the countdown of a stop, then what came of it.
export function StopNote(props: { id: string }) {
  const { id } = props;
  const stopping = stops.value.get(id);
  const counts = store.keptOf(id).counts;
  if (!stopping) return null;
  if (stopping.text === '') {
    const gone = Math.max(0, now.value - stopping.since);
    const left = Math.max(0, stopping.grace - gone);
    const share = stopping.grace === 0 ? 100 : Math.min(100, Math.round((gone / stopping.grace) * 100));
    return (
      <div class="note note-warn stop-note">
        <span class="note-text">
          {left > 0 ? `TERM sent. KILL in ${duration(left)}.` : 'KILL sent. Waiting for the last to go.'}
          {counts !== null && ` ${count(counts.left)} left over.`}
        </span>
        <span
          class="countdown"
          role="progressbar"
          aria-label="Grace"
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={share}
        >
          <span class="countdown-bar" style={{ width: `${100 - share}%` }} />
        </span>
      </div>
    );
  }
  return (
    <div class={`note ${stopping.isBad ? 'note-bad' : ''}`} role={stopping.isBad ? 'alert' : undefined}>
      <span class="note-text">
        {stopping.text}
        {stopping.survivors.length > 0 && ` Still there: ${stopping.survivors.map(visible).join(', ')}.`}
      </span>
      <button
        type="button"
        class="button button-text"
        onClick={() => {
          const rest = new Map(stops.peek());
          rest.delete(id);
          stops.value = rest;
        }}
      >
        Dismiss
      </button>
    </div>
  );
}

export function DeleteButton(props: { run: Run }) {
  const { run } = props;
  const isOn = !isOver(run);
  const remove = async () => {
    try {
      const answer = await sendJSON('DELETE', `/api/runs/${run.id}${isOn ? '?force=1' : ''}`);
      if (!answer.ok && answer.status !== 404) throw await errorFrom(answer);
      batch(() => {
        if (selected.peek() === run.id) leave();
        store.forget(run.id);
      });
      announce('The record is deleted.');
    } catch (cause) {
      note(run.id, { text: `Not deleted: ${visible(reasonOf(cause))}`, isBad: true });
    }
  };
  return (
    <TwoStep
      label={isOn ? 'Delete by force' : 'Delete'}
      armed={isOn ? 'Delete now: record gone, all killed' : 'Delete the record now'}
      act={() => void remove()}
    />
  );
}

export function StopMember(props: { run: Run; process: string; label: string }) {
  const { run, process, label } = props;
  const path = `/api/runs/${run.id}/processes/${process}/stop`;
  return (
    <TwoStep
      class="button-text"
      label="Stop"
      armed="Stop it now"
      act={() => void end(run, path, `${label} (${process.split('-')[0]}): `)}
    />
  );
}

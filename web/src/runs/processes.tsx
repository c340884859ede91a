// The processes of a run: a tree with a lane for each from its start to its end, and what
// each is: role, ports, cost. At first those that people call left over.

import { signal } from '@preact/signals';
import { bytes, clock, count, dateTime, duration, shortAge, visible } from '../format';
import { platePath, processPath } from '../route';
import type { Run } from '../wire.gen';
import { type Branch, isOver, memberID, portText, spanOf, treeOf } from './model';
import { now } from './state';
import { StopMember } from './stop';
import { store, type View } from './store';

// maxMembersShown processes are drawn at a time.
export const maxMembersShown = 300;

export const view = signal<View>('left');

const ROLES: Record<string, string> = {
  root: 'the command',
  started: 'started',
  orphan: 'orphan',
  support: 'support',
};

// lines draws the way from the top to a row: "│ ├ ".
const lines = (last: readonly boolean[]) =>
  last
    .slice(1)
    .map((isLast, i, rest) => (i === rest.length - 1 ? (isLast ? '└ ' : '├ ') : isLast ? '  ' : '│ '))
    .join('');

function Lane(props: { branch: Branch; from: number; to: number }) {
  const { process, endedAt } = props.branch;
  const width = Math.max(1, props.to - props.from);
  const place = (at: number) => Math.min(100, Math.max(0, ((at - props.from) / width) * 100));
  const begin = place(process.started_at);
  const end = place(endedAt ?? props.to);
  const says = `from ${clock(process.started_at)} ${endedAt === null ? 'on' : `to ${clock(endedAt)}`}`;
  return (
    <span class="lane" role="img" aria-label={says} title={says}>
      <span
        class={`lane-bar${process.escaped ? ' lane-escaped' : ''}${endedAt === null ? ' lane-on' : ''}`}
        style={{ left: `${begin}%`, width: `${Math.max(0.5, end - begin)}%` }}
      />
    </span>
  );
}

function Member(props: { run: Run; branch: Branch; from: number; to: number }) {
  const { branch, run } = props;
  const { process, endedAt } = branch;
  const identity = memberID(process.id);
  const isGone = endedAt !== null;
  const label = visible(process.label || '–');
  return (
    <tr class={`member${isGone ? ' member-gone' : ''}`}>
      <th class="member-name" scope="row" title={visible(process.command)}>
        <span class="member-lines" aria-hidden="true">
          {lines(branch.last)}
        </span>
        {label}
        {process.escaped && <span class="member-mark"> escaped: outside of the run’s cgroup, still in the run</span>}
      </th>
      <td class="member-lane">
        <Lane branch={branch} from={props.from} to={props.to} />
      </td>
      <td class="num">
        {isGone ? (
          process.pid
        ) : (
          <a class="link" href={processPath(identity)}>
            {process.pid}
          </a>
        )}
      </td>
      <td>{ROLES[process.role] ?? visible(process.role)}</td>
      <td>{isGone ? `ended ${clock(endedAt)}` : visible(process.origin)}</td>
      <td class="member-ports">{process.ports.map(portText).join(' ')}</td>
      <td class="num">{duration(process.cpu_usec / 1000)}</td>
      <td class="num">{isGone ? '' : bytes(process.rss_bytes)}</td>
      <td class="member-acts">
        {!isGone && (
          <>
            <a class="link" href={platePath(identity)}>
              in space
            </a>{' '}
            <StopMember run={run} process={process.id} label={label} />
          </>
        )}
      </td>
    </tr>
  );
}

export function Processes(props: { run: Run }) {
  const { run } = props;
  void store.changed.value;
  const answer = store.members.value;
  const mine = answer !== null && answer.id === run.id && answer.view === view.value ? answer.answer : null;
  const kept = store.keptOf(run.id);
  const problem = store.membersProblem.value;
  const alive = isOver(run) ? [] : (mine?.processes ?? []);
  const here = new Set(alive.map((process) => process.id));
  const ended = store.endedOf(run.id, view.value).filter(({ process }) => !here.has(process.id));
  const all = treeOf([
    ...alive.map((process) => ({ process, endedAt: null })),
    ...ended.map(({ process, at }) => ({ process, endedAt: at })),
  ]);
  const shown = all.slice(0, maxMembersShown);
  const to = run.ended_at ?? now.value;
  const from = Math.min(run.started_at ?? run.created_at, ...shown.map(({ process }) => process.started_at));
  const counts = isOver(run) ? null : kept.counts;
  const isWaiting = mine === null && !isOver(run) && problem === null;
  return (
    <div class="members" data-region="processes">
      <div class="members-tools">
        <fieldset class="members-views">
          <legend class="unseen">Which processes</legend>
          {(
            [
              ['left', 'Left over', counts?.left],
              [
                'all',
                'All',
                counts === null ? undefined : counts.root + counts.started + counts.orphan + counts.support,
              ],
            ] as const
          ).map(([value, label, n]) => (
            <label class="check" key={value}>
              <input
                class="check-box"
                type="radio"
                name="members"
                checked={view.value === value}
                onChange={() => {
                  view.value = value;
                }}
              />
              {label}
              {n !== undefined && <span class="mono">{count(n)}</span>}
            </label>
          ))}
        </fieldset>
        <span class="second">
          {shortAge(spanOf(run, now.value))} from {clock(from)}; ▸ = still running
        </span>
      </div>
      {problem !== null && (
        <div class="note note-bad">
          <span class="note-text">Could not refresh: {visible(problem)}</span>
        </div>
      )}
      {isWaiting && <p class="runs-quiet">····</p>}
      {!isWaiting && all.length === 0 && (
        <p class="runs-quiet">
          {isOver(run)
            ? 'Nothing of it runs any more.'
            : view.value === 'left'
              ? 'Nothing is left over: only the command and what supports it.'
              : 'No process.'}
        </p>
      )}
      {all.length > 0 && (
        <div class="members-scroll" tabIndex={0} role="region" aria-label="Processes over time">
          <table class="members-table">
            <thead>
              <tr>
                <th scope="col">Process</th>
                <th scope="col" class="member-lane">
                  Over time
                </th>
                <th scope="col" class="num">
                  PID
                </th>
                <th scope="col">Role</th>
                <th scope="col">Now</th>
                <th scope="col">Ports</th>
                <th scope="col" class="num">
                  CPU
                </th>
                <th scope="col" class="num">
                  RSS
                </th>
                <th scope="col">
                  <span class="unseen">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.map((branch) => (
                <Member key={branch.process.id} run={run} branch={branch} from={from} to={to} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {all.length > shown.length && (
        <p class="runs-quiet">
          ▨ first {count(maxMembersShown)} of {count(all.length)} processes
        </p>
      )}
      <p class="runs-quiet">
        Ended processes are those this page saw end, since {dateTime(kept.since)}
        {kept.endedLeftOut > 0 && `; ${count(kept.endedLeftOut)} older ones are left out`}. Stopping a run takes every
        process, also those not shown.
      </p>
    </div>
  );
}

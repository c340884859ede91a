// Everything the server says of a run, and the same as command lines.

import type { ComponentChildren } from 'preact';
import { copyText } from '../clipboard';
import { bytesFull, count, dateTime, duration, shellQuote, UNKNOWN, visible } from '../format';
import { curlPost, loopback } from '../http';
import { platePath, processPath } from '../route';
import type { Run } from '../wire.gen';
import { type Body, cliOf } from './draft';
import { confidenceLook, exitText, memberID, portText, spanOf, stateLook } from './model';
import { now } from './state';
import { DeleteButton } from './stop';
import { store } from './store';

const time = (ms: number | null) => (ms === null ? UNKNOWN : dateTime(ms));
const figure = (n: number | null) => (n === null ? UNKNOWN : count(n));
const limit = (ms: number | null) => (ms === null ? 'none' : duration(ms));

// again is the request that launches the same once more; variables are not kept.
function again(run: Run): Body {
  const body: Body = run.command === null ? { argv: run.argv } : { command: run.command };
  if (run.cwd !== '') body.cwd = run.cwd;
  if (run.scope !== null) body.scope = run.scope;
  if (run.pty !== null) body.pty = run.pty;
  else if (run.stdin === 'open') body.stdin = 'open';
  if (run.limits.timeout_ms !== null) body.timeout_ms = run.limits.timeout_ms;
  if (run.limits.no_output_timeout_ms !== null) body.no_output_timeout_ms = run.limits.no_output_timeout_ms;
  body.grace_ms = run.limits.grace_ms;
  return body;
}

export const curlOfRun = (run: Run): string => `curl -s ${shellQuote(`${loopback()}/api/runs/${run.id}`)}`;

function Line(props: { title: string; text: string }) {
  return (
    <div class="equal">
      <h3 class="caption">{props.title}</h3>
      <pre class="equal-text" tabIndex={0} role="region" aria-label={props.title}>
        {visible(props.text)}
      </pre>
      <button type="button" class="button" onClick={() => void copyText(props.text, props.title)}>
        Copy
      </button>
    </div>
  );
}

// Equals are command lines that do what a request does.
export function Equals(props: { body: Body }) {
  const cli = cliOf(props.body, loopback());
  return (
    <>
      <Line title="Command line" text={cli.text} />
      {cli.lacking.length > 0 && (
        <p class="runs-quiet">procinsh run has no option for {cli.lacking.join(' and ')}; curl has.</p>
      )}
      <Line title="curl" text={curlPost('/api/runs', JSON.stringify(props.body))} />
    </>
  );
}

export function Details(props: { run: Run }) {
  const { run } = props;
  void store.changed.value;
  const kept = store.keptOf(run.id);
  const root = run.root === null ? null : memberID(run.root);
  const sure = confidenceLook(run.confidence);
  const counts = run.counts ?? kept.counts;
  const rows: [string, ComponentChildren][] = [
    ['Id', run.id],
    ['State', `${stateLook(run).word.toLowerCase()}${exitText(run) === '' ? '' : `, ${exitText(run)}`}`],
    ['Reason', run.exit === null ? UNKNOWN : visible(run.exit.reason)],
    ['Command', run.command === null ? 'no shell' : 'text for sh -c'],
    [
      'Arguments',
      run.command === null ? (
        <ol class="argv">
          {run.argv.map((word, i) => (
            <li class="argv-word mono" key={String(i)}>
              {word === '' ? '(empty)' : visible(word)}
            </li>
          ))}
        </ol>
      ) : (
        <pre class="argv-word mono">{run.command.split('\n').map(visible).join('\n')}</pre>
      ),
    ],
    ['Working directory', visible(run.cwd) || UNKNOWN],
    ['User', run.user === null ? UNKNOWN : visible(run.user)],
    ['Scope', run.scope === null ? 'none' : visible(run.scope)],
    ['Terminal', run.pty === null ? 'none' : `${run.pty.cols} × ${run.pty.rows}`],
    ['Standard input', run.pty === null ? visible(run.stdin) : 'the terminal'],
    ['Created', time(run.created_at)],
    ['Started', time(run.started_at)],
    ['Command ended', time(run.root_exited_at)],
    ['Everything ended', time(run.ended_at)],
    ['Took', duration(spanOf(run, now.value))],
    [
      'First process',
      root === null ? (
        UNKNOWN
      ) : (
        <>
          <a class="link" href={processPath(root)}>
            {root.pid}
          </a>{' '}
          <a class="link" href={platePath(root)}>
            in space
          </a>
        </>
      ),
    ],
    ['Tracked', `${sure.word.toLowerCase()}: ${visible(run.confidence_reason) || UNKNOWN}`],
    ['Cgroup', run.cgroup === null ? 'none' : visible(run.cgroup)],
    [
      'Processes',
      `${figure(run.members)} (${figure(counts?.left ?? null)} left over, ${figure(run.zombies)} zombies, ${figure(run.escaped)} escaped)`,
    ],
    ['Ports', run.ports.length === 0 ? 'none seen' : run.ports.map(portText).join(' ')],
    ['CPU time', run.cpu_usec === null ? UNKNOWN : `${duration(run.cpu_usec / 1000)}, of all that ever ran in it`],
    ['Memory', bytesFull(run.memory_bytes)],
    ['Most memory seen', kept.peakBytes === null ? UNKNOWN : `${bytesFull(kept.peakBytes)}, by this page`],
    ['Output', `${bytesFull(run.output.bytes)}, of which ${count(run.output.dropped)} fell out`],
    ['Time limit', limit(run.limits.timeout_ms)],
    ['Silence limit', limit(run.limits.no_output_timeout_ms)],
    ['Grace', duration(run.limits.grace_ms)],
    ['Adopted', run.adopted ? 'yes: left by a server that is gone' : 'no'],
  ];
  return (
    <div class="details" data-region="details">
      {run.warnings.map((warning) => (
        <p class="note note-warn" key={warning}>
          <span class="note-text">{visible(warning)}</span>
        </p>
      ))}
      <dl class="run-facts">
        {rows.map(([title, value]) => (
          <div class="run-fact" key={title}>
            <dt class="run-fact-title">{title}</dt>
            <dd class="run-fact-value">{value}</dd>
          </div>
        ))}
      </dl>
      {(run.argv.length > 0 || run.command !== null) && (
        <section class="equals" aria-label="The same again">
          <h3 class="runs-head">The same again</h3>
          <p class="runs-quiet">Variables that were set are not kept and not shown.</p>
          <Equals body={again(run)} />
        </section>
      )}
      <section class="equals" aria-label="This run for curl">
        <Line title="This run" text={curlOfRun(run)} />
        <Line title="Stop it" text={`curl -s -X POST ${shellQuote(`${loopback()}/api/runs/${run.id}/stop`)}`} />
      </section>
      <DeleteButton run={run} />
    </div>
  );
}

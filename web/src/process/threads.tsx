// Threads: every thread with its state, CPU, scheduling and what it waits for,
// from the stream alone.

import { useMemo } from 'preact/hooks';
import { count, percent, stateName, UNKNOWN, visible } from '../format';
import type { Thread } from '../wire.gen';
import { affinityText, widest } from './affinity';
import type { Shared } from './context';
import { CopyAs, curlOf, tsvOf } from './copy';
import { FilterField } from './field';
import { type Column, Grid } from './grid';
import { matcher } from './match';
import { parseSort, sortText } from './order';
import { PanelBox, Provenance, Waiting, Warnings } from './parts';
import type { LaneSample } from './ring';

const NEW_MS = 5000;

// newcomers are the threads that were not there 5 s ago but are now.
export function newcomers(lanes: readonly LaneSample[], threads: readonly Thread[], end: number): Set<number> {
  const before = lanes.findLast((sample) => !sample.gap && sample.time <= end - NEW_MS) ?? lanes[0];
  if (before === undefined || before.gap || before.tids.length === 0) return new Set();
  const known = new Set(before.tids);
  return new Set(threads.filter((t) => !known.has(t.tid)).map((t) => t.tid));
}

export function policyText(thread: Thread): string {
  const { scheduler: policy, nice, priority } = thread;
  if (policy === 'FIFO' || policy === 'RR') return `${policy} ${-1 - priority}`;
  return nice === 0 ? policy : `${policy} nice ${nice}`;
}

function columnsOf(cpus: number, fresh: ReadonlySet<number>): Column<Thread>[] {
  return [
    {
      id: 'tid',
      title: 'TID',
      width: '76px',
      figure: true,
      sort: (t) => t.tid,
      cell: (t) => t.tid,
    },
    {
      id: 'name',
      title: 'Name',
      width: 'minmax(110px, 1.4fr)',
      sort: (t) => t.name,
      cell: (t) => (
        <>
          {visible(t.name)}
          {fresh.has(t.tid) && <span class="mark ink-ok"> started</span>}
        </>
      ),
      hint: (t) => visible(t.name),
    },
    {
      id: 'state',
      title: 'State',
      width: 'minmax(84px, .7fr)',
      sort: (t) => t.state,
      cell: (t) => (
        <span class={t.state === 'R' ? 'ink-ok' : t.state === 'D' || t.state === 'Z' ? 'ink-bad' : ''}>
          {t.state} {stateName(t.state)}
        </span>
      ),
    },
    {
      id: 'cpu',
      title: 'CPU %',
      width: '76px',
      figure: true,
      down: true,
      sort: (t) => t.cpu_percent,
      hint: (t) => (t.cpu_percent === null ? 'needs two samples' : undefined),
      cell: (t) => (
        <>
          <span class={t.cpu_percent === null || t.cpu_percent < 0.05 ? 'zero' : ''}>{percent(t.cpu_percent)}</span>
          {t.cpu_percent !== null && t.cpu_percent >= 4 && (
            <span class="bar-under" style={{ width: `${Math.min(100, t.cpu_percent)}%` }} />
          )}
        </>
      ),
    },
    {
      id: 'on',
      title: 'Last CPU',
      width: '70px',
      figure: true,
      sort: (t) => t.cpu,
      cell: (t) => t.cpu,
      narrow: 'hide',
    },
    {
      id: 'policy',
      title: 'Policy',
      width: 'minmax(96px, .7fr)',
      sort: (t) => policyText(t),
      hint: (t) => `priority ${t.priority}, nice ${t.nice}`,
      cell: policyText,
      narrow: 'hide',
    },
    {
      id: 'affinity',
      title: 'Affinity',
      width: 'minmax(84px, .7fr)',
      sort: (t) => t.affinity,
      hint: (t) => (t.affinity === null ? 'unknown' : `may run on CPU ${t.affinity}`),
      cell: (t) => affinityText(t.affinity, cpus),
      narrow: 'hide',
    },
    {
      id: 'voluntary',
      title: 'Voluntary',
      width: '92px',
      figure: true,
      down: true,
      sort: (t) => t.voluntary_context_switches,
      cell: (t) => count(t.voluntary_context_switches),
      narrow: 'hide',
    },
    {
      id: 'involuntary',
      title: 'Involuntary',
      width: '92px',
      figure: true,
      down: true,
      sort: (t) => t.nonvoluntary_context_switches,
      cell: (t) => count(t.nonvoluntary_context_switches),
      narrow: 'hide',
    },
    {
      id: 'wait',
      title: 'Waits in',
      width: 'minmax(120px, 1.3fr)',
      sort: (t) => t.wait_channel,
      hint: (t) => (t.wait_channel === null ? 'unknown, or not waiting' : undefined),
      cell: (t) => (t.wait_channel === null ? UNKNOWN : visible(t.wait_channel)),
      narrow: 'hide',
    },
    {
      id: 'syscall',
      title: 'System call',
      width: 'minmax(110px, 1fr)',
      sort: (t) => t.syscall,
      hint: (t) => (t.syscall === null ? 'none, or not permitted to read it' : undefined),
      cell: (t) => (t.syscall === null ? UNKNOWN : visible(t.syscall)),
    },
  ];
}

const HEAD = ['tid', 'name', 'state', 'cpu_percent', 'cpu', 'scheduler', 'priority', 'nice', 'affinity'];
const HEAD_MORE = ['voluntary_context_switches', 'nonvoluntary_context_switches', 'wait_channel', 'syscall'];

export function Threads(props: { shared: Shared }) {
  const { shared } = props;
  const view = shared.model.view.value;
  const threads = view.observation?.threads ?? [];
  const line = shared.params.get('q') ?? '';
  const match = useMemo(() => matcher(line), [line]);
  const rows = useMemo(
    () =>
      match.empty
        ? threads
        : threads.filter((t) =>
            match.test(
              `${t.tid} ${t.name} ${stateName(t.state)} ${t.scheduler} ${t.wait_channel ?? ''} ${t.syscall ?? ''}`,
            ),
          ),
    [threads, match],
  );
  const columns = useMemo(
    () => columnsOf(widest(threads.map((t) => t.affinity)), newcomers(view.seen.lanes, threads, view.end)),
    [threads, view],
  );
  const sort = parseSort(
    shared.params.get('sort'),
    columns.map((c) => c.id),
    { column: 'cpu', down: true },
  );
  const tid = Number(shared.params.get('tid') ?? Number.NaN);
  const { identity } = shared;
  const whole = view.observation;
  return (
    <PanelBox
      id="threads"
      title="Threads"
      class="panel-fill"
      note={
        <FilterField
          shared={shared}
          label="Filter threads"
          match={match}
          found={match.empty ? '' : `${count(rows.length)} of ${count(threads.length)}`}
        />
      }
      actions={
        <CopyAs
          what="threads"
          items={[
            { name: 'curl', text: () => curlOf('/api/processes/threads', identity) },
            { name: 'JSON', text: () => JSON.stringify(rows, null, 2) },
            {
              name: 'TSV',
              text: () =>
                tsvOf(
                  [...HEAD, ...HEAD_MORE],
                  rows.map((t) => [
                    t.tid,
                    t.name,
                    t.state,
                    t.cpu_percent,
                    t.cpu,
                    t.scheduler,
                    t.priority,
                    t.nice,
                    t.affinity,
                    t.voluntary_context_switches,
                    t.nonvoluntary_context_switches,
                    t.wait_channel,
                    t.syscall,
                  ]),
                ),
            },
          ]}
        />
      }
      foot={
        <Provenance
          source={`/proc/${identity.pid}/task/TID/stat, status, wchan, syscall`}
          at={whole?.timestamp ?? null}
        />
      }
    >
      {whole === null ? (
        <Waiting since={view.end} what="threads" />
      ) : (
        <>
          {whole.threads_truncated && (
            <Warnings
              list={[`First ${count(threads.length)} threads; there are more. Sums over threads are unknown.`]}
            />
          )}
          <Grid
            label="Threads"
            columns={columns}
            rows={rows}
            rowKey={(t) => t.tid}
            sort={sort}
            onSort={(next) => shared.set({ sort: sortText(next) })}
            selected={Number.isNaN(tid) ? null : tid}
            onSelect={(t) => shared.set({ tid: String(t.tid) })}
            rowClass={(t) => (columns.length > 0 && t.state === 'D' ? 'edge-bad' : '')}
            empty={match.empty ? 'No threads.' : `Nothing matches ${visible(line)}.`}
            live
          />
        </>
      )}
    </PanelBox>
  );
}

// Snapshot: all threads as they stood at one instant. The button says what it does
// to the target; the answer says what it cost.

import { useEffect, useMemo } from 'preact/hooks';
import { ago, clockMs, count, shellQuote, visible } from '../format';
import { bindKeys } from '../keys';
import { plainClick, processPath } from '../route';
import { KIND_LETTER } from '../strip';
import type { Register, SnapshotAnswer, SnapshotThread } from '../wire.gen';
import { now } from './clock';
import type { Shared } from './context';
import { CopyAs } from './copy';
import { Address, Frames } from './framesview';
import { type Column, Grid } from './grid';
import { pointsTo } from './hexview';
import { type Region, regionAt, regionsOf } from './maps';
import type { Model } from './model';
import { parseSort, type Sort, sortText } from './order';
import { Failed, PanelBox, Refused, Waiting, Warnings } from './parts';
import { placeHash } from './place';
import {
  askConfig,
  changedRegisters,
  maxSnapshots,
  requestBody,
  snapshotsOf,
  stackWords,
  threadBefore,
  unable,
} from './snapshot';
import { costText, snapshotText, threadText } from './stacks';

// whyNot is why no snapshot can be asked for now; null when one can.
function whyNot(model: Model): string | null {
  return model.ended.value !== null ? 'The process has ended.' : unable.value;
}

// takeSnapshot takes one if that is possible; the section says why when it is not.
export async function takeSnapshot(model: Model): Promise<void> {
  await askConfig();
  if (whyNot(model) === null) await snapshotsOf(model).take();
}

const PRIORITY: Readonly<Record<string, string>> = {
  fifo: 'with real-time priority',
  nice: 'with raised priority',
  normal: 'with normal priority: the stop may be longer',
};

function placeOf(thread: SnapshotThread): string {
  const top = thread.call_stack[0];
  return thread.syscall ?? top?.symbol ?? thread.error ?? '';
}

const threadColumns: Column<SnapshotThread>[] = [
  {
    id: 'tid',
    title: 'TID',
    width: '62px',
    figure: true,
    sort: (t) => t.tid,
    cell: (t) => t.tid,
  },
  {
    id: 'name',
    title: 'Name',
    width: 'minmax(70px, 1fr)',
    sort: (t) => t.name,
    hint: (t) => visible(t.name),
    cell: (t) => visible(t.name),
  },
  {
    id: 'in',
    title: 'In',
    width: 'minmax(70px, 1fr)',
    sort: placeOf,
    hint: (t) => visible(placeOf(t)),
    cell: (t) => <span class={t.error === null ? '' : 'ink-bad'}>{visible(placeOf(t))}</span>,
  },
];

function Threads(props: { shared: Shared; answer: SnapshotAnswer; thread: SnapshotThread | null }) {
  const { shared, answer, thread } = props;
  const sort: Sort = parseSort(shared.params.get('sort'), ['tid', 'name', 'in'], { column: 'tid', down: false });
  return (
    <section class="panel snap-threads" aria-label="Threads of the snapshot" data-region="snap-threads">
      <h3 class="snap-title">
        Threads <span class="section-count">{count(answer.threads.length)}</span>
      </h3>
      <Grid
        label="Threads of the snapshot"
        columns={threadColumns}
        rows={answer.threads}
        rowKey={(t) => t.tid}
        sort={sort}
        onSort={(next) => shared.set({ sort: sortText(next) })}
        selected={thread?.tid ?? null}
        onSelect={(t) => shared.set({ tid: String(t.tid) })}
        empty="No thread could be stopped."
      />
    </section>
  );
}

function RegisterRow(props: {
  shared: Shared;
  register: Register;
  regions: readonly Region[];
  was: string | undefined;
  call: string | null;
}) {
  const { register: r, was, regions } = props;
  const region = r.mapping === null ? null : regionAt(regions, BigInt(r.value));
  const restart = r.name === 'RAX' && props.call !== null;
  return (
    <tr class={was === undefined ? '' : 'reg-changed'}>
      <th scope="row" class="reg-name">
        {r.name.toLowerCase()}
      </th>
      <td class="reg-value" title={was === undefined ? undefined : `changed, was ${was}`}>
        {region === null ? r.value.slice(2) : <Address shared={props.shared} value={r.value} text={r.value.slice(2)} />}
      </td>
      <td class="reg-where" title={r.mapping === null ? undefined : `${visible(r.mapping)}+${r.offset ?? '?'}`}>
        <div class="where">
          {region === null ? (
            <span class="where-text">{restart ? 'restart code, no result' : r.decimal}</span>
          ) : (
            <span class={`where-text kind-text kind-text-${region.kind}`}>
              {KIND_LETTER[region.kind]} {visible(region.name)}
              {r.offset === null ? '' : `+${r.offset}`}
            </span>
          )}
          {was !== undefined && <span class="tag tag-warn">changed</span>}
        </div>
      </td>
    </tr>
  );
}

function Registers(props: {
  shared: Shared;
  thread: SnapshotThread;
  before: SnapshotThread | undefined;
  regions: readonly Region[];
}) {
  const { thread, before } = props;
  const changed = changedRegisters(before?.registers, thread.registers);
  return (
    <section class="panel snap-registers" aria-label="Registers" data-region="snap-registers">
      <h3 class="snap-title">
        Registers
        {before !== undefined && (
          <span class="snap-note">
            {changed.size === 0 ? 'as in the snapshot before' : `${changed.size} changed since the one before`}
          </span>
        )}
      </h3>
      <div class="snap-scroll" tabIndex={0} role="group" aria-label="Registers" data-scroll="">
        {thread.registers.length === 0 ? (
          <p class="state">No registers.</p>
        ) : (
          <table class="plain regs">
            <caption class="unseen">Registers of thread {thread.tid}</caption>
            <colgroup>
              <col class="reg-name" />
              <col class="reg-value" />
              <col class="reg-where" />
            </colgroup>
            <thead class="unseen-head">
              <tr>
                <th scope="col">Register</th>
                <th scope="col">Value</th>
                <th scope="col">Points to, or decimal</th>
              </tr>
            </thead>
            <tbody>
              {thread.registers.map((register) => (
                <RegisterRow
                  key={register.name}
                  shared={props.shared}
                  register={register}
                  regions={props.regions}
                  was={changed.get(register.name)}
                  call={thread.syscall}
                />
              ))}
            </tbody>
          </table>
        )}
      </div>
    </section>
  );
}

function CallStack(props: { shared: Shared; thread: SnapshotThread }) {
  const { thread } = props;
  return (
    <section class="panel snap-frames" aria-label="Call stack" data-region="snap-frames">
      <h3 class="snap-title">
        Call stack
        {thread.syscall !== null && <span class="snap-note">stands in {visible(thread.syscall)}</span>}
      </h3>
      <div class="snap-scroll" tabIndex={0} role="group" aria-label="Call stack" data-scroll="">
        {thread.error !== null && <p class="walk-end ink-bad">{visible(thread.error)}</p>}
        <Frames shared={props.shared} walk={thread} label={`Call stack of thread ${thread.tid}`} />
        {thread.call_stack.length === 0 && thread.error === null && <p class="state">No frames.</p>}
      </div>
    </section>
  );
}

function Code(props: { shared: Shared; thread: SnapshotThread }) {
  const { disassembly: code } = props.thread;
  return (
    <section class="panel snap-code" aria-label="Disassembly" data-region="snap-code">
      <h3 class="snap-title">Disassembly</h3>
      <div class="snap-scroll" tabIndex={0} role="group" aria-label="Disassembly" data-scroll="">
        {code === null && <p class="state">No code without registers.</p>}
        {code !== null && code.error !== null && (
          <p class="walk-end ink-bad">
            {visible(code.error)}
            {code.instructions.length === 0 && code.bytes !== '' && <span class="mono code-raw"> {code.bytes}</span>}
          </p>
        )}
        {code !== null && code.instructions.length > 0 && (
          <table class="plain code">
            <caption class="unseen">Instructions from {code.address}</caption>
            <thead class="unseen-head">
              <tr>
                <th scope="col">Current</th>
                <th scope="col">Address</th>
                <th scope="col" class="code-bytes">
                  Bytes
                </th>
                <th scope="col">Instruction</th>
              </tr>
            </thead>
            <tbody>
              {code.instructions.map((one) => (
                <tr key={one.address} class={one.current ? 'code-current' : ''} aria-current={one.current || undefined}>
                  <td class="code-mark">{one.current && <span title="the next instruction">▶</span>}</td>
                  <td>
                    <Address shared={props.shared} value={one.address} />
                  </td>
                  <td class="code-bytes">{one.bytes}</td>
                  <td class="code-text">{visible(one.text)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </div>
    </section>
  );
}

function StackMemory(props: { shared: Shared; thread: SnapshotThread; regions: readonly Region[] }) {
  const { stack_bytes: stack } = props.thread;
  const words = useMemo(() => (stack === null ? [] : stackWords(stack)), [stack]);
  return (
    <section class="panel snap-stack" aria-label="Stack memory" data-region="snap-stack">
      <h3 class="snap-title">
        Stack
        {stack !== null && <span class="snap-note">{stack.bytes.length / 2} bytes from rsp, as they stood</span>}
      </h3>
      <div class="snap-scroll" tabIndex={0} role="group" aria-label="Stack memory" data-scroll="">
        {words.length === 0 ? (
          <p class="state">The stack could not be read.</p>
        ) : (
          <table class="plain words">
            <caption class="unseen">Words from the stack pointer on</caption>
            <colgroup>
              <col class="word-offset" />
              <col class="word-value" />
              <col class="word-to" />
            </colgroup>
            <thead class="unseen-head">
              <tr>
                <th scope="col">Offset</th>
                <th scope="col">Value</th>
                <th scope="col">Points to</th>
              </tr>
            </thead>
            <tbody>
              {words.map((word) => {
                const to = pointsTo(word.value, props.regions);
                const value = word.value.toString(16).padStart(16, '0');
                return (
                  <tr key={word.offset}>
                    <th scope="row" class="word-offset" title={`0x${word.address.toString(16)}`}>
                      +{word.offset.toString(16)}
                    </th>
                    <td class={word.value === 0n ? 'zero' : ''}>
                      {to === null ? value : <Address shared={props.shared} value={`0x${value}`} text={value} />}
                    </td>
                    <td class="word-to">
                      {to !== null && <span class={`kind-text kind-text-${to.region.kind}`}>{to.text}</span>}
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        )}
      </div>
    </section>
  );
}

function Empty(props: { shared: Shared }) {
  const { shared } = props;
  return (
    <div class="state">
      <p class="state-text">
        No snapshot yet. One stops all threads at the same instant for some milliseconds, copies registers and stacks,
        and lets them go. A call like epoll_wait that is interrupted returns EINTR; nothing else changes.
      </p>
      <p class="state-text">
        <a
          class="link"
          href={`${processPath(shared.identity)}${placeHash('stacks')}`}
          onClick={(event) => {
            if (!plainClick(event)) return;
            event.preventDefault();
            shared.go('stacks');
          }}
        >
          Stacks
        </a>{' '}
        shows where sleeping threads wait without a stop.
      </p>
    </div>
  );
}

export function Snapshot(props: { shared: Shared }) {
  const { shared } = props;
  const { model, identity } = shared;
  const snapshots = snapshotsOf(model);
  const taken = snapshots.state.value;
  const reason = whyNot(model);
  const answer = taken.list[taken.at] ?? null;
  useEffect(() => void askConfig(), []);
  useEffect(
    () =>
      bindKeys([
        { keys: '[', label: 'older snapshot', group: 'Snapshot', run: () => snapshots.step(-1) },
        { keys: ']', label: 'newer snapshot', group: 'Snapshot', run: () => snapshots.step(1) },
      ]),
    [snapshots],
  );
  const regions = useMemo(() => regionsOf(answer?.maps ?? []), [answer]);
  const tid = Number(shared.params.get('tid') ?? Number.NaN);
  const thread = answer?.threads.find((t) => t.tid === tid) ?? answer?.threads[0] ?? null;
  const missed = answer?.not_stopped.map((t) => `Thread ${t.tid} was not stopped: ${t.reason}`) ?? [];
  const astray =
    answer !== null && !Number.isNaN(tid) && thread?.tid !== tid ? [`Thread ${tid} is not in this snapshot.`] : [];
  const take = () => void takeSnapshot(model);
  return (
    <PanelBox
      id="snapshot"
      title="Snapshot"
      class="panel-fill"
      note={
        <>
          <button
            type="button"
            class="button button-small button-armed snap-take"
            aria-keyshortcuts="S"
            disabled={reason !== null}
            aria-disabled={taken.running || undefined}
            title={reason ?? undefined}
            onClick={take}
          >
            {taken.running ? 'Waiting for the snapshot…' : 'Take snapshot – stops all threads for some ms'}{' '}
            <kbd class="key">S</kbd>
          </button>
          {reason !== null && <span class="snap-reason">{visible(reason)}</span>}
          {answer !== null && (
            <span class="snap-cost">
              {costText(answer)} · priority {visible(answer.cost.priority)} · {clockMs(answer.captured_at)}
            </span>
          )}
        </>
      }
      actions={
        answer !== null && (
          <>
            <button
              type="button"
              class="button button-text"
              aria-keyshortcuts="["
              aria-label="[ older snapshot"
              disabled={taken.at <= 0}
              onClick={() => snapshots.step(-1)}
            >
              [
            </button>
            <span class="snap-at">
              {taken.at + 1} of {taken.list.length}
            </span>
            <button
              type="button"
              class="button button-text"
              aria-keyshortcuts="]"
              aria-label="] newer snapshot"
              disabled={taken.at >= taken.list.length - 1}
              onClick={() => snapshots.step(1)}
            >
              ]
            </button>
            <CopyAs
              what="snapshot"
              items={[
                { name: 'text', text: () => snapshotText(answer) },
                { name: 'this thread', text: () => (thread === null ? '' : threadText(thread)) },
                { name: 'JSON', text: () => JSON.stringify(answer, null, 2) },
                { name: 'curl', text: () => curlPost(requestBody(identity)) },
              ]}
            />
          </>
        )
      }
      foot={
        answer === null ? (
          <span class="provenance">nothing was stopped yet</span>
        ) : (
          <span class="provenance">
            {`read by ptrace from the stopped threads · ${ago(Math.max(0, now.value - answer.captured_at))} · ${costText(answer)} ${
              PRIORITY[answer.cost.priority] ?? ''
            } in ${answer.cost.passes} ${answer.cost.passes === 1 ? 'pass' : 'passes'} · the last ${maxSnapshots} are kept in this page`}
          </span>
        )
      }
    >
      {taken.failure !== null &&
        (answer === null ? (
          <Refused failure={taken.failure} what="a snapshot" />
        ) : (
          <Failed failure={taken.failure} shown={answer.captured_at} what="No snapshot" />
        ))}
      {answer === null ? (
        taken.running ? (
          <Waiting since={taken.since} what="a snapshot" />
        ) : (
          taken.failure === null && <Empty shared={shared} />
        )
      ) : (
        <>
          <Warnings list={[...astray, ...missed, ...answer.warnings]} />
          <div class="snap">
            <Threads shared={shared} answer={answer} thread={thread} />
            {thread !== null && (
              <>
                <CallStack key={`f${thread.tid}`} shared={shared} thread={thread} />
                <Code shared={shared} thread={thread} />
                <Registers shared={shared} thread={thread} before={threadBefore(taken, thread)} regions={regions} />
                <StackMemory shared={shared} thread={thread} regions={regions} />
              </>
            )}
          </div>
        </>
      )}
    </PanelBox>
  );
}

// curlPost is a command line for the same request: the loopback address, and no secrets.
function curlPost(body: string): string {
  const port = location.port === '' ? '' : `:${location.port}`;
  return `curl -s -H 'Content-Type: application/json' -d ${shellQuote(body)} ${shellQuote(
    `http://127.0.0.1${port}/api/processes/snapshot`,
  )}`;
}

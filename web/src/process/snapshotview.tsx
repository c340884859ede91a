// Snapshot: all threads as they stood at one instant. The button says what it does
// to the target; the answer says what it cost.

import { useEffect, useMemo } from 'preact/hooks';
import { ago, clockMs, count, visible } from '../format';
import { curlPost } from '../http';
import { bindKeys } from '../keys';
import { lazy } from '../lazy';
import { plainClick, processPath } from '../route';
import type { SnapshotAnswer, SnapshotThread } from '../wire.gen';
import { now } from './clock';
import { Code } from './codeview';
import type { Shared } from './context';
import { CopyAs } from './copy';
import { Frames, useAddressKey, walkAddresses } from './framesview';
import { type Column, Grid } from './grid';
import type { Model } from './model';
import { parseSort, type Sort, sortText } from './order';
import { Failed, PanelBox, Refused, Waiting, Warnings } from './parts';
import { placeHash } from './place';
import {
  askConfig,
  maxSnapshots,
  movedThreads,
  requestBody,
  snapshotsOf,
  sourceOf,
  streamLost,
  threadBefore,
  unable,
} from './snapshot';
import { costText, howFound, snapshotText, threadText } from './stacks';
import { Registers, StackMemory } from './wordsview';

const Flame = lazy(async () => (await import('./flameview')).Flame);

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

function Threads(props: {
  shared: Shared;
  answer: SnapshotAnswer;
  thread: SnapshotThread | null;
  moved: ReadonlySet<number> | null;
}) {
  const { shared, answer, thread, moved } = props;
  const sort: Sort = parseSort(shared.params.get('sort'), ['tid', 'name', 'in'], { column: 'tid', down: false });
  return (
    <section class="panel snap-threads" aria-label="Threads of the snapshot" data-region="snap-threads">
      <h3 class="snap-title">
        Threads <span class="section-count">{count(answer.threads.length)}</span>
        {moved !== null && (
          <span class="snap-note">{moved.size === 0 ? 'none moved' : `${count(moved.size)} moved`}</span>
        )}
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
        rowClass={(t) => (moved?.has(t.tid) ? 'snap-moved' : '')}
        empty="No thread could be stopped."
      />
    </section>
  );
}

// foundBy counts how the frames were found: "4 cfi, 1 registers".
function foundBy(thread: SnapshotThread): string {
  const ways = new Map<string, number>();
  for (const frame of thread.call_stack) {
    const way = howFound(frame) || 'cfi';
    ways.set(way, (ways.get(way) ?? 0) + 1);
  }
  return [...ways].map(([way, n]) => `${count(n)} ${visible(way)}`).join(', ');
}

function CallStack(props: { shared: Shared; thread: SnapshotThread }) {
  const { thread } = props;
  const frames = thread.call_stack.length;
  return (
    <section class="panel snap-frames" aria-label="Call stack" data-region="snap-frames">
      <h3 class="snap-title">
        Call stack
        {thread.syscall !== null && <span class="snap-note">stands in {visible(thread.syscall)}</span>}
        {frames > 0 && (
          <span class="snap-note" title="how each frame was found; cfi is call frame information, the sure way">
            {count(frames)} {frames === 1 ? 'frame' : 'frames'}: {foundBy(thread)}
          </span>
        )}
      </h3>
      <div
        class="snap-scroll"
        tabIndex={0}
        role="group"
        aria-label="Call stack"
        data-scroll=""
        onKeyDown={walkAddresses}
      >
        {thread.error !== null && <p class="walk-end ink-bad">{visible(thread.error)}</p>}
        <Frames shared={props.shared} walk={thread} label={`Call stack of thread ${thread.tid}`} walked />
        {thread.call_stack.length === 0 && thread.error === null && <p class="state">No frames.</p>}
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

// Every is the switch for one snapshot a second.
function Every(props: { model: Model; reason: string | null }) {
  const { model } = props;
  const snapshots = snapshotsOf(model);
  const { on } = snapshots.auto.value;
  const lost = streamLost(model.live.state.value) ? 'The stream is lost.' : null;
  const held = model.heldAt.value !== null ? 'The page is held.' : null;
  const why = props.reason ?? lost ?? held;
  return (
    <label class="check switch" title={why ?? `the last ${maxSnapshots} are kept`}>
      <input
        type="checkbox"
        class="check-box snap-every"
        checked={on}
        disabled={why !== null}
        onChange={(event) => {
          if (event.currentTarget.checked) snapshots.start();
          else snapshots.stop(null);
        }}
      />
      every 1 s
    </label>
  );
}

function Ring(props: { model: Model }) {
  const snapshots = snapshotsOf(props.model);
  const { at, list } = snapshots.state.value;
  const step = (by: 1 | -1, key: string, name: string, off: boolean) => (
    <button
      type="button"
      class="button button-text"
      aria-keyshortcuts={key}
      aria-label={`${key} ${name} snapshot`}
      disabled={off}
      onClick={() => snapshots.step(by)}
    >
      {key}
    </button>
  );
  return (
    <>
      {step(-1, '[', 'older', at <= 0)}
      <span class="snap-at">
        {at + 1} of {list.length}
      </span>
      {step(1, ']', 'newer', at >= list.length - 1)}
    </>
  );
}

// One is a single snapshot: its threads, and the chosen one in full.
function One(props: { shared: Shared; answer: SnapshotAnswer; thread: SnapshotThread | null }) {
  const { shared, answer, thread } = props;
  const snapshots = snapshotsOf(shared.model);
  const taken = snapshots.state.value;
  const followed = thread === null ? undefined : snapshots.followed.value.get(thread);
  const stood = sourceOf(answer);
  const source = useMemo(() => ({ ...stood, later: followed?.blocks ?? [] }), [stood, followed]);
  const moved = useMemo(() => movedThreads(taken), [taken]);
  const before = thread === null ? undefined : threadBefore(taken, thread);
  return (
    <div class="snap">
      <Threads shared={shared} answer={answer} thread={thread} moved={moved} />
      {thread !== null && (
        <>
          <CallStack key={`f${thread.tid}`} shared={shared} thread={thread} />
          <Code key={`c${thread.tid}`} shared={shared} thread={thread} />
          <Registers shared={shared} thread={thread} before={before} source={source} />
          <StackMemory
            shared={shared}
            thread={thread}
            before={before}
            source={source}
            followed={followed}
            follow={() => void snapshots.follow(thread, stood)}
          />
        </>
      )}
    </div>
  );
}

export function Snapshot(props: { shared: Shared }) {
  const { shared } = props;
  const { model, identity } = shared;
  const snapshots = snapshotsOf(model);
  const taken = snapshots.state.value;
  const auto = snapshots.auto.value;
  const cannot = whyNot(model);
  const reason = cannot ?? (auto.on ? 'One is taken every second.' : null);
  const answer = taken.list[taken.at] ?? null;
  const flame = shared.params.get('view') === 'flame';
  useAddressKey(shared);
  useEffect(() => void askConfig(), []);
  useEffect(
    () =>
      bindKeys([
        { keys: '[', label: 'older snapshot', group: 'Snapshot', run: () => snapshots.step(-1) },
        { keys: ']', label: 'newer snapshot', group: 'Snapshot', run: () => snapshots.step(1) },
      ]),
    [snapshots],
  );
  const tid = Number(shared.params.get('tid') ?? Number.NaN);
  const thread = answer?.threads.find((t) => t.tid === tid) ?? answer?.threads[0] ?? null;
  const missed = answer?.not_stopped.map((t) => `Thread ${t.tid} was not stopped: ${t.reason}`) ?? [];
  const astray =
    answer !== null && !Number.isNaN(tid) && thread?.tid !== tid ? [`Thread ${tid} is not in this snapshot.`] : [];
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
            onClick={() => void takeSnapshot(model)}
          >
            {taken.running && !auto.on ? 'Waiting for the snapshot…' : 'Take snapshot – stops all threads for some ms'}{' '}
            <kbd class="key">S</kbd>
          </button>
          <Every model={model} reason={cannot} />
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
              class={flame ? 'button button-text button-on' : 'button button-text'}
              aria-pressed={flame}
              onClick={() => shared.set({ view: flame ? undefined : 'flame' })}
            >
              Flame graph
            </button>
            {!flame && <Ring model={model} />}
            {!flame && (
              <CopyAs
                what="snapshot"
                items={[
                  { name: 'text', text: () => snapshotText(answer) },
                  { name: 'this thread', text: () => (thread === null ? '' : threadText(thread)) },
                  { name: 'JSON', text: () => JSON.stringify(answer, null, 2) },
                  { name: 'curl', text: () => curlPost('/api/processes/snapshot', requestBody(identity)) },
                ]}
              />
            )}
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
            } in ${answer.cost.passes} ${answer.cost.passes === 1 ? 'pass' : 'passes'} · the last ${maxSnapshots} are kept in this page, fewer with very many threads`}
          </span>
        )
      }
    >
      {auto.ended !== null && <Warnings list={[auto.ended]} />}
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
      ) : flame ? (
        <Flame shared={shared} list={taken.list} tid={thread?.tid ?? null} />
      ) : (
        <>
          <Warnings list={[...astray, ...missed, ...answer.warnings]} />
          <One shared={shared} answer={answer} thread={thread} />
        </>
      )}
    </PanelBox>
  );
}

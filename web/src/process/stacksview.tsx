// Stacks: where every thread is, found without stopping one. Threads that stand in
// the same place are shown together.

import { useMemo, useState } from 'preact/hooks';
import { count, stateName, visible } from '../format';
import { plainClick, processPath } from '../route';
import type { StacksAnswer, StackThread } from '../wire.gen';
import type { Shared } from './context';
import { CopyAs, curlOf } from './copy';
import { FdLink } from './fdlink';
import { FilterField } from './field';
import { Frames, useAddressKey } from './framesview';
import { matcher } from './match';
import type { Panel } from './panel';
import { FetchedBody, PanelBox, Provenance, Refresh, Warnings } from './parts';
import { placeHash } from './place';
import { fdArgument } from './registers';
import { callText, groupStacks, type StackGroup, searchText, stacksText } from './stacks';

// maxGroupsShown groups are mounted at first, and as many more at each press.
export const maxGroupsShown = 40;
// maxNamesShown threads of a group are named at first.
export const maxNamesShown = 16;

const fdOf = (thread: StackThread) => fdArgument(thread.syscall?.name ?? null, thread.syscall?.arguments[0]);

function Names(props: { shared: Shared; group: StackGroup }) {
  const { threads, sameArguments } = props.group;
  const [all, setAll] = useState(false);
  const shown = all ? threads : threads.slice(0, maxNamesShown);
  return (
    <ul class={sameArguments ? 'stack-names' : 'stack-names stack-names-long'} aria-label="Threads">
      {shown.map((t) => (
        <li class="stack-name" key={t.tid}>
          <span class="mono">{t.tid}</span> {visible(t.name)}
          {!sameArguments && t.syscall !== null && (
            <>
              <span class="stack-call"> {visible(callText(t.syscall))}</span>{' '}
              <FdLink shared={props.shared} fd={fdOf(t)} />
            </>
          )}
        </li>
      ))}
      {shown.length < threads.length && (
        <li class="stack-name">
          <button type="button" class="button button-text" onClick={() => setAll(true)}>
            and {count(threads.length - shown.length)} more
          </button>
        </li>
      )}
    </ul>
  );
}

function Group(props: { shared: Shared; group: StackGroup }) {
  const { group, shared } = props;
  const { first, threads } = group;
  const bad = first.state === 'D' || first.state === 'Z';
  const toSnapshot = `${processPath(shared.identity)}${placeHash('snapshot', { tid: String(first.tid) })}`;
  return (
    <li class={bad ? 'stack stack-bad' : 'stack'}>
      <div class="stack-head">
        <h3 class="stack-title">
          {threads.length === 1 ? '1 thread' : `${count(threads.length)} threads`}
          <span class={bad ? 'stack-state ink-bad' : first.state === 'R' ? 'stack-state ink-ok' : 'stack-state'}>
            {visible(first.state)} {stateName(first.state)}
          </span>
        </h3>
        {first.syscall !== null && (
          <span class="stack-call">
            {group.sameArguments
              ? visible(callText(first.syscall))
              : `in ${visible(first.syscall.name ?? `call ${first.syscall.number}`)}`}
          </span>
        )}
        {group.sameArguments && <FdLink shared={shared} fd={fdOf(first)} />}
        {first.wait_channel !== null && <span class="stack-wait">waits in {visible(first.wait_channel)}</span>}
        {!first.stable && (
          <span class="tag tag-warn" title="Looked at again it was elsewhere: this stack may mix two moments.">
            it moved
          </span>
        )}
      </div>
      <Names shared={shared} group={group} />
      {first.error !== null && <p class="walk-end ink-bad">{visible(first.error)}</p>}
      {first.call_stack === null && first.error === null && (
        <p class="walk-end">
          {first.state === 'R' ? 'It runs: ' : ''}no stack without a stop.{' '}
          <a
            class="link"
            href={toSnapshot}
            onClick={(event) => {
              if (!plainClick(event)) return;
              event.preventDefault();
              shared.go('snapshot', { tid: String(first.tid) });
            }}
          >
            Snapshot
          </a>{' '}
          stops it for a moment and shows one.
        </p>
      )}
      <Frames
        shared={shared}
        walk={first}
        label={`Call stack of ${threads
          .map((t) => t.tid)
          .slice(0, 8)
          .join(', ')}`}
      />
      {first.kernel_stack === null ? (
        <p class="walk-end">Kernel stack: not permitted to read it, or it has none.</p>
      ) : (
        first.kernel_stack.length > 0 && (
          <details class="kernel">
            <summary class="kernel-head">Kernel stack {first.kernel_stack.length}</summary>
            <ol class="kernel-list">
              {first.kernel_stack.map((line, i) => (
                <li class="kernel-line" key={i}>
                  {visible(line)}
                </li>
              ))}
            </ol>
          </details>
        )
      )}
    </li>
  );
}

export function Stacks(props: { shared: Shared; panel: Panel<StacksAnswer> }) {
  const { shared, panel } = props;
  const state = panel.state.value;
  const ended = shared.model.ended.value !== null;
  const { data } = state;
  const { identity } = shared;
  useAddressKey(shared);
  const [limit, setLimit] = useState(maxGroupsShown);
  const all = useMemo(() => groupStacks(data?.threads ?? []), [data]);
  const line = shared.params.get('q') ?? '';
  const match = useMemo(() => matcher(line), [line]);
  const groups = useMemo(
    () => (match.empty ? all : all.filter((group) => match.test(searchText(group)))),
    [all, match],
  );
  const shown = groups.slice(0, limit);
  return (
    <PanelBox
      id="stacks"
      title="Stacks"
      class="panel-fill"
      note={
        <>
          <FilterField
            shared={shared}
            label="Filter threads and frames"
            match={match}
            found={match.empty ? '' : `${count(groups.length)} of ${count(all.length)}`}
          />
          {data !== null && (
            <span class="panel-hint">
              {count(data.threads.length)} {data.threads.length === 1 ? 'thread' : 'threads'} in {count(all.length)}{' '}
              {all.length === 1 ? 'place' : 'places'}
            </span>
          )}
        </>
      }
      actions={
        <>
          <Refresh
            onPress={() => void panel.refresh()}
            loading={state.loading}
            disabled={ended ? 'The process has ended.' : null}
          />
          <CopyAs
            what="stacks"
            disabled={data === null}
            items={[
              { name: 'text', text: () => (data === null ? '' : stacksText(data)) },
              { name: 'JSON', text: () => JSON.stringify(data, null, 2) },
              { name: 'curl', text: () => curlOf('/api/processes/stacks', identity) },
            ]}
          />
        </>
      }
      foot={
        <Provenance
          source={`/proc/${identity.pid}/task/TID/syscall, wchan, stack and memory`}
          at={data?.captured_at ?? null}
          took={state.took}
        />
      }
    >
      <FetchedBody panel={panel} what="stacks" ended={ended}>
        {(answer) => (
          <>
            <Warnings list={answer.warnings} />
            <div class="stacks" tabIndex={0} role="group" aria-label="Stacks by place" data-scroll="">
              {groups.length === 0 ? (
                <p class="state">{all.length === 0 ? 'No threads.' : `Nothing matches ${visible(line)}.`}</p>
              ) : (
                <ul class="stack-list">
                  {shown.map((group) => (
                    <Group key={group.key} shared={shared} group={group} />
                  ))}
                </ul>
              )}
              {shown.length < groups.length && (
                <div class="stacks-more">
                  <span class="hatch" aria-hidden="true" /> first {count(shown.length)} of {count(groups.length)} places{' '}
                  <button type="button" class="button button-small" onClick={() => setLimit(limit + maxGroupsShown)}>
                    Show more
                  </button>
                </div>
              )}
            </div>
          </>
        )}
      </FetchedBody>
    </PanelBox>
  );
}

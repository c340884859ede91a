// Signals: rows are the signals that are anything but default, columns the five
// sets; a row opens to the threads it concerns.

import { useMemo, useState } from 'preact/hooks';
import { count, visible } from '../format';
import type { SignalState, SignalsAnswer } from '../wire.gen';
import type { Shared } from './context';
import { CopyAs, copyText, curlOf, tsvOf } from './copy';
import { FilterField } from './field';
import { matcher } from './match';
import type { Panel } from './panel';
import { FetchedBody, PanelBox, Provenance, Refresh, Warnings } from './parts';
import { inSet, SET_LETTER, SET_NAME, SETS, type SignalRow, signalRows, statesOf } from './signals';

// maxThreadsOpen is how many threads an opened row lists; the JSON copy has all.
const maxThreadsOpen = 64;
// maxMaskThreads is how many threads the table of raw masks lists.
const maxMaskThreads = 256;

// The process's own sets are the same in each thread: they are marks, not counts.
const OF_PROCESS = new Set(['shared_pending', 'ignored', 'caught']);

function Cells(props: { row: SignalRow; threads: number }) {
  return (
    <>
      {SETS.map((set) => {
        const n = props.row.counts[set];
        const whole = OF_PROCESS.has(set) || props.threads === 1 || n === props.threads;
        return (
          <td class="sig-set" key={set} title={n > 0 ? SET_NAME[set] : undefined}>
            {n === 0 ? (
              <span class="zero">·</span>
            ) : (
              <span class={`sig sig-${set}`}>
                {SET_LETTER[set]}
                {whole ? '' : ` ${n}/${props.threads}`}
              </span>
            )}
          </td>
        );
      })}
    </>
  );
}

function Rows(props: { rows: readonly SignalRow[]; states: readonly SignalState[]; openAll: boolean }) {
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  return (
    <tbody>
      {props.rows.map((row) => {
        const on = open.has(row.number);
        return (
          <>
            <tr key={row.number}>
              <th scope="row" class="sig-name">
                <button
                  type="button"
                  class="sig-open"
                  aria-expanded={on}
                  onClick={() => {
                    const next = new Set(open);
                    if (!next.delete(row.number)) next.add(row.number);
                    setOpen(next);
                  }}
                >
                  <span aria-hidden="true">{on ? '▾' : '▸'}</span> {row.name}
                </button>
              </th>
              <td class="num">{row.number}</td>
              <Cells row={row} threads={props.states.length} />
            </tr>
            {on &&
              row.threads.slice(0, maxThreadsOpen).map((state) => (
                <tr class="sig-thread" key={`${row.number} ${state.tid}`}>
                  <td class="sig-name">
                    {state.tid} {visible(state.name)}
                  </td>
                  <td />
                  {SETS.map((set) => (
                    <td class="sig-set" key={set}>
                      {inSet(state, set, row.number) ? SET_LETTER[set] : <span class="zero">·</span>}
                    </td>
                  ))}
                </tr>
              ))}
            {on && row.threads.length > maxThreadsOpen && (
              <tr class="sig-thread" key={`${row.number} more`}>
                <td colSpan={7}>
                  <span class="hatch" aria-hidden="true" /> first {maxThreadsOpen} of {count(row.threads.length)}{' '}
                  threads
                </td>
              </tr>
            )}
          </>
        );
      })}
    </tbody>
  );
}

function Masks(props: { states: readonly SignalState[] }) {
  return (
    <table class="plain masks">
      <thead>
        <tr>
          <th scope="col">Thread</th>
          {SETS.map((set) => (
            <th scope="col" key={set}>
              {SET_LETTER[set]} {set.replace('_', ' ')}
            </th>
          ))}
          <th scope="col" class="num">
            Queued
          </th>
        </tr>
      </thead>
      <tbody>
        {props.states.slice(0, maxMaskThreads).map((state) => (
          <tr key={state.tid}>
            <th scope="row">
              {state.tid} {visible(state.name)}
            </th>
            {SETS.map((set) => (
              <td key={set}>
                <button
                  type="button"
                  class="address"
                  title="copy this mask"
                  onClick={() => void copyText(state[set].hex, `${set.replace('_', ' ')} mask`)}
                >
                  {state[set].hex}
                </button>
              </td>
            ))}
            <td class="num">{state.queued}</td>
          </tr>
        ))}
        {props.states.length > maxMaskThreads && (
          <tr>
            <td colSpan={7}>
              <span class="hatch" aria-hidden="true" /> first {maxMaskThreads} of {count(props.states.length)} threads
            </td>
          </tr>
        )}
      </tbody>
    </table>
  );
}

export function Signals(props: { shared: Shared; panel: Panel<SignalsAnswer> }) {
  const { shared, panel } = props;
  const state = panel.state.value;
  const ended = shared.model.ended.value !== null;
  const { data } = state;
  const states = useMemo(() => (data === null ? [] : statesOf(data)), [data]);
  const all = useMemo(() => signalRows(states), [states]);
  const line = shared.params.get('q') ?? '';
  const match = useMemo(() => matcher(line), [line]);
  const rows = useMemo(
    () =>
      all.filter((row) =>
        match.test(
          `${row.name} ${row.number} ${SETS.filter((set) => row.counts[set] > 0)
            .map((set) => SET_NAME[set])
            .join(' ')}`,
        ),
      ),
    [all, match],
  );
  const { identity } = shared;
  return (
    <PanelBox
      id="signals"
      title="Signals"
      class="panel-fill"
      note={
        <FilterField
          shared={shared}
          label="Filter signals"
          match={match}
          found={match.empty ? '' : `${count(rows.length)} of ${count(all.length)}`}
        />
      }
      actions={
        <>
          <Refresh
            onPress={() => void panel.refresh()}
            loading={state.loading}
            disabled={ended ? 'The process has ended.' : null}
          />
          <CopyAs
            what="signals"
            items={[
              { name: 'curl', text: () => curlOf('/api/processes/signals', identity) },
              { name: 'JSON', text: () => JSON.stringify(data, null, 2) },
              {
                name: 'TSV',
                text: () =>
                  tsvOf(
                    ['tid', 'name', ...SETS, 'queued'],
                    states.map((s) => [s.tid, s.name, ...SETS.map((set) => s[set].hex), s.queued]),
                  ),
              },
            ]}
          />
        </>
      }
      foot={
        <Provenance source={`/proc/${identity.pid}/task/TID/status`} at={data?.captured_at ?? null} took={state.took} />
      }
    >
      <FetchedBody panel={panel} what="signals" ended={ended}>
        {(answer) => (
          <>
            <Warnings list={answer.warnings} />
            <div class="signals" tabIndex={0} role="group" aria-label="Signal sets" data-scroll="">
              <div class="signals-rows">
                {all.length === 0 ? (
                  <p class="state">Every signal is at its default in {count(states.length)} threads.</p>
                ) : rows.length === 0 ? (
                  <p class="state">Nothing matches {visible(line)}.</p>
                ) : (
                  <table class="plain sigs">
                    <caption class="sigs-caption">
                      {SETS.map((set) => `${SET_LETTER[set]} ${SET_NAME[set]}`).join(' · ')} · {count(states.length)}{' '}
                      {states.length === 1 ? 'thread' : 'threads'}
                    </caption>
                    <thead>
                      <tr>
                        <th scope="col">Signal</th>
                        <th scope="col" class="num">
                          No.
                        </th>
                        {SETS.map((set) => (
                          <th scope="col" class="sig-set" key={set} title={SET_NAME[set]}>
                            {SET_LETTER[set]}
                          </th>
                        ))}
                      </tr>
                    </thead>
                    <Rows rows={rows} states={states} openAll={false} />
                  </table>
                )}
              </div>
              <div class="signals-masks">
                <h3 class="sub-title">Raw masks</h3>
                <Masks states={states} />
              </div>
            </div>
          </>
        )}
      </FetchedBody>
    </PanelBox>
  );
}

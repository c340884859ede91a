// The runs: commands that procinsh launched, what they print, what they started, and how
// all of it is ended.

import { effect } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { announce } from '../announce';
import { KeysLink, TopBar } from '../bar';
import { copied, copyText } from '../clipboard';
import { type Filtered, FilterLine, focusFilter } from '../filterline';
import { clock, count, dateTime, duration, visible } from '../format';
import { Lamp } from '../lamps';
import { Lifetime } from '../life';
import type { Run } from '../wire.gen';
import { Compare } from './compare';
import { Details } from './details';
import { InputLine } from './inputline';
import { confidenceLook, isOver, nameOf, RUN_KEYS, spanOf, stateLook, stateText } from './model';
import { NewRun } from './newrun';
import { OutputView } from './outputview';
import { view as membersView, Processes } from './processes';
import { matching, RunList } from './runlist';
import { bindRunsKeys } from './shortcuts';
import * as view from './state';
import { StopButton, StopNote } from './stop';
import { store } from './store';
import { TerminalView } from './terminalview';

const filtered: Filtered = {
  query: view.query,
  open: view.filterOpen,
  keys: RUN_KEYS,
  example: 'Filter: text, scope:ci, state:running',
  enter: () => document.querySelector<HTMLElement>('.runs-row[tabindex="0"]')?.focus(),
};

const isDisabled = (): boolean => {
  const state = store.live.state.value;
  return state.kind === 'refused' && state.code === 'runs_disabled';
};

function Lamps() {
  const state = store.live.state.value;
  const isDown = store.helperLost.value !== null;
  if (isDisabled()) return <Lamp word="RUNS OFF" tone="quiet" fill="off" />;
  if (state.kind === 'refused') return <Lamp word="DENIED" tone="bad" fill="trouble" />;
  return (
    <>
      {isDown ? (
        <Lamp word="HELPER DOWN" tone="bad" fill="trouble" />
      ) : (
        store.loaded.value && <Lamp word="RUNS ON" tone="ok" />
      )}
      {state.kind === 'live' && <Lamp word="LIVE" tone="ok" />}
      {state.kind === 'lost' && <Lamp word="OFF" tone="bad" fill="trouble" />}
      {state.kind === 'polling' && (
        <Lamp word="POLLING" tone="warn">
          2.0 s
        </Lamp>
      )}
      {(state.kind === 'connecting' || state.kind === 'hidden') && <Lamp word="CONNECTING" tone="quiet" fill="off" />}
    </>
  );
}

function Notes() {
  const state = store.live.state.value;
  const problem = store.problem.value;
  const down = store.helperLost.value;
  const can = store.capabilities.value;
  return (
    <>
      {state.kind === 'lost' && (
        <div class="note note-bad">
          <span class="note-text">
            Could not refresh at {clock(state.at)}:{' '}
            {state.status === 0 ? 'connection lost, retrying' : visible(state.error)}. What stands below is older.
          </span>
          <button type="button" class="button" onClick={() => store.live.restart()}>
            Retry
          </button>
        </div>
      )}
      {state.kind === 'refused' && !isDisabled() && (
        <div class="note note-bad" role="alert">
          <span class="note-text">{visible(state.error)}</span>
          <button type="button" class="button" onClick={() => store.live.restart()}>
            Try again
          </button>
        </div>
      )}
      {state.kind === 'polling' && (
        <div class="note note-warn">
          <span class="note-text">
            polling: 4 other views are open{state.error !== null && `. ${visible(state.error)}`}
          </span>
        </div>
      )}
      {down !== null && (
        <div class="note note-bad" role="alert">
          <span class="note-text">
            The helper that holds the runs ended at {clock(down)}; another one is being started. What it had launched
            comes back as ADOPTED, without its output, and can be stopped.
          </span>
        </div>
      )}
      {problem !== null && state.kind === 'live' && down === null && (
        <div class="note note-bad">
          <span class="note-text">Could not refresh: {visible(problem)}</span>
          <button type="button" class="button" onClick={() => void store.refresh()}>
            Retry
          </button>
        </div>
      )}
      {store.lostEvents.value > 0 && (
        <div class="note note-warn">
          <span class="note-text">
            {count(store.lostEvents.value)} events were lost while this page was away; the list is whole again, ended
            processes may be missing.
          </span>
          <button
            type="button"
            class="button button-text"
            onClick={() => {
              store.lostEvents.value = 0;
            }}
          >
            Dismiss
          </button>
        </div>
      )}
      {can !== null && can.confidence !== 'high' && (
        <div class="note note-warn">
          <span class="note-text">
            Processes of runs are found by marks and parents here, not by a cgroup: {visible(can.reason)}
          </span>
        </div>
      )}
    </>
  );
}

function Disabled() {
  return (
    <div class="runs-off" role="note">
      <h2 class="runs-head">Runs are off</h2>
      <p>
        A run executes a command. So runs exist only when whoever starts procinsh asks for them with{' '}
        <code class="mono">--runs</code>; until then nothing here can start a program, and no helper process exists.
      </p>
      <pre class="equal-text mono">procinsh serve --runs</pre>
      <p>Without a server, here and now, in a terminal:</p>
      <pre class="equal-text mono">procinsh run -- COMMAND</pre>
      <button type="button" class="button" onClick={() => store.live.restart()}>
        Look again
      </button>
    </div>
  );
}

const TITLES: Record<view.Tab, string> = {
  terminal: 'Terminal',
  output: 'Output',
  processes: 'Processes',
  details: 'Details',
  compare: 'Compare',
};

function Tabs(props: { run: Run; tab: view.Tab }) {
  const { run, tab } = props;
  const { counts } = store.keptOf(run.id);
  const tabs = view.tabsOf(run);
  return (
    <div
      class="runs-tabs"
      role="tablist"
      aria-label="Parts of the run"
      onKeyDown={(event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (step === undefined) return;
        event.preventDefault();
        const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length] as view.Tab;
        view.openTab(run.id, next);
        requestAnimationFrame(() => document.getElementById(`tab-${next}`)?.focus());
      }}
    >
      {tabs.map((name) => (
        <button
          type="button"
          role="tab"
          id={`tab-${name}`}
          class={`runs-tab${name === tab ? ' runs-tab-on' : ''}`}
          key={name}
          aria-selected={name === tab}
          aria-controls="runs-panel"
          tabIndex={name === tab ? 0 : -1}
          onClick={() => view.openTab(run.id, name)}
        >
          {TITLES[name]}
          {name === 'processes' && counts !== null && !isOver(run) && (
            <span class="runs-count mono" title="left over">
              {count(counts.left)}
            </span>
          )}
        </button>
      ))}
    </div>
  );
}

function OneRun(props: { run: Run }) {
  const { run } = props;
  void store.changed.value;
  const look = stateLook(run);
  const sure = confidenceLook(run.confidence);
  const tab = view.tabOf(run);
  const says = stateText(run, store.keptOf(run.id).counts);
  const why = visible(run.confidence_reason);
  return (
    <section class="run" aria-labelledby="run-name">
      <div class="run-head">
        <button type="button" class="button run-back" onClick={() => view.leave()}>
          ← Runs
        </button>
        <h2 class="run-name mono" id="run-name">
          {nameOf(run)}
        </h2>
        <span class="run-lamps">
          <Lamp word={look.word} tone={look.tone} fill={look.fill}>
            {duration(spanOf(run, view.now.value))}
          </Lamp>
          <Lamp word={sure.word} tone={sure.tone} fill={sure.fill} title={why} />
        </span>
        <span class="run-acts">
          <StopButton run={run} />
          <button
            type="button"
            class="button"
            onClick={() => void copyText(location.origin + view.linkOf(run.id, tab), 'Link')}
          >
            Copy link
          </button>
        </span>
      </div>
      <p class="run-says" aria-live="off">
        {says}
        {run.confidence !== 'high' && why !== '' && <span class="second"> Not tracked by a cgroup: {why}</span>}
      </p>
      <StopNote id={run.id} />
      <Tabs run={run} tab={tab} />
      <div class="run-panel" role="tabpanel" id="runs-panel" aria-labelledby={`tab-${tab}`}>
        {tab === 'terminal' && <TerminalView key={run.id} run={run} />}
        {tab === 'output' && <OutputView key={run.id} run={run} />}
        {tab === 'output' && run.stdin === 'open' && run.pty === null && !isOver(run) && <InputLine id={run.id} />}
        {tab === 'processes' && <Processes run={run} />}
        {tab === 'details' && <Details run={run} />}
        {tab === 'compare' && <Compare run={run} />}
      </div>
    </section>
  );
}

function Nothing() {
  const id = view.selected.value;
  const missing = store.missing.value;
  return (
    <section class="run run-none" aria-label="No run">
      {id !== null && (
        <button type="button" class="button run-back" onClick={() => view.leave()}>
          ← Runs
        </button>
      )}
      {id !== null && <StopNote id={id} />}
      <p class="runs-quiet">
        {id === null
          ? 'Choose a run, or start one.'
          : missing === id
            ? `There is no run ${visible(id)} (its record may have been deleted, or it was of an earlier server).`
            : '····'}
      </p>
    </section>
  );
}

export function RunsPage() {
  const main = useRef<HTMLElement>(null);
  useEffect(() => {
    const life = new Lifetime();
    document.title = view.runsTitle;
    view.readAddress();
    store.start();
    life.add(() => store.stop());
    life.add(bindRunsKeys());
    life.add(effect(view.writeAddress));
    life.add(
      effect(() => {
        const id = view.selected.value;
        const run = store.runs.value.get(id ?? '');
        const isShown = run !== undefined && view.tabOf(run) === 'processes';
        store.look(id, isShown ? membersView.value : null);
      }),
    );
    let said = '';
    life.add(
      effect(() => {
        const text = view.query.value.trim();
        if (text === said || !store.loaded.value) return;
        said = text;
        if (text)
          announce(`${matching().filter(({ isDim }) => !isDim).length} of ${store.runs.peek().size} runs match`);
      }),
    );
    life.interval(500, () => {
      if (document.visibilityState !== 'hidden') view.now.value = Date.now();
    });
    life.listen(window, 'popstate', () => view.readAddress());
    return () => life.close();
  }, []);

  const id = view.selected.value;
  const run = id === null ? undefined : store.runs.value.get(id);
  const off = isDisabled();
  const can = store.capabilities.value;
  return (
    <div
      class={`page runs${id === null ? '' : ' runs-one'}${off ? ' runs-disabled' : ''}${view.filterOpen.value ? ' runs-filtering' : ''}`}
    >
      <TopBar
        title="runs"
        page="runs"
        lamps={<Lamps />}
        actions={
          <>
            <button
              type="button"
              class="button bar-filter"
              aria-expanded={view.filterOpen.value}
              onClick={() => {
                if (view.filterOpen.value) view.filterOpen.value = false;
                else focusFilter();
              }}
            >
              Filter
            </button>
            <button
              type="button"
              class="button"
              aria-haspopup="dialog"
              aria-keyshortcuts="Shift+N"
              disabled={store.live.state.value.kind === 'refused'}
              onClick={() => {
                view.isNewOpen.value = true;
              }}
            >
              New<span class="bar-word"> run</span>
              <kbd class="key bar-key">N</kbd>
            </button>
          </>
        }
      >
        <FilterLine page={filtered} />
      </TopBar>
      <main class="runs-main" ref={main}>
        <Notes />
        {off ? (
          <Disabled />
        ) : (
          <div class="runs-split">
            <RunList />
            {run ? <OneRun run={run} /> : <Nothing />}
          </div>
        )}
      </main>
      <footer class="foot runs-foot" data-region="foot">
        <span>
          <span class="mono">{count(store.runs.value.size)}</span> runs
        </span>
        {can !== null && (
          <>
            <span>
              <span class="mono">{count([...store.runs.value.values()].filter((r) => !isOver(r)).length)}</span> live of{' '}
              <span class="mono">{count(can.max_runs)}</span>
            </span>
            <span class="runs-helper">helper {can.helper_pid}</span>
          </>
        )}
        <span>{copied.value}</span>
        {run && <span class="runs-made">created {dateTime(run.created_at)}</span>}
        <KeysLink />
      </footer>
      {view.isNewOpen.value && <NewRun />}
    </div>
  );
}

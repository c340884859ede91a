// The page of one process: bar, identity, address strip, sections, foot. It owns
// the model and gives everything back when it is left.

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { announce } from '../announce';
import { HoldButton, KeysLink, TopBar } from '../bar';
import { count, duration, visible } from '../format';
import { fullAddress } from '../hex';
import { getJSON } from '../http';
import { bindKeys } from '../keys';
import { Lamp } from '../lamps';
import { lazy } from '../lazy';
import { Lifetime } from '../life';
import { navigate, plainClick, processPath, rewrite, route } from '../route';
import type {
  AuxvAnswer,
  ContextAnswer,
  DescriptorsAnswer,
  EnvironmentAnswer,
  Identity,
  ProcessSummary,
  SignalsAnswer,
  StacksAnswer,
} from '../wire.gen';
import { now, runClock } from './clock';
import type { Shared } from './context';
import { copyText, openCopyMenu } from './copy';
import { IdentityBar, threadCount } from './identity';
import { Memory } from './memory';
import { Model } from './model';
import { FoldedCharts, Overview, TopCharts } from './overview';
import { Panel } from './panel';
import { parsePlace, placeHash, SECTION_NAME, SECTIONS, type Section, sectionKey } from './place';
import { StripBar } from './stripbar';

export interface ProcessPageProps {
  identity: Identity;
  // shown is false while the list stays on screen until the first observation.
  shown: boolean;
  onReady(): void;
  // onRefused: the stream was refused before the first observation (403, 410, 429).
  onRefused(status: number, text: string): void;
}

const SLOW_MS = 3000;

const sections = () => import('./sections');
const Auxv = lazy(async () => (await sections()).Auxv);
const Context = lazy(async () => (await sections()).Context);
const Environment = lazy(async () => (await sections()).Environment);
const Files = lazy(async () => (await sections()).Files);
const Finder = lazy(async () => (await sections()).Finder);
const MemorySection = lazy(async () => (await sections()).MemorySection);
const Signals = lazy(async () => (await sections()).Signals);
const Snapshot = lazy(async () => (await sections()).Snapshot);
const Stacks = lazy(async () => (await sections()).Stacks);
const Threads = lazy(async () => (await sections()).Threads);

// Answers are what is fetched when its section is first opened.
interface Answers {
  files: DescriptorsAnswer;
  environment: EnvironmentAnswer;
  auxv: AuxvAnswer;
  signals: SignalsAnswer;
  context: ContextAnswer;
  stacks: StacksAnswer;
}

class Panels {
  private readonly panels: { readonly [S in keyof Answers]: Panel<Answers[S]> };

  constructor(identity: Identity) {
    const panel = <T,>(name: string) => new Panel<T>(`/api/processes/${name}`, identity);
    this.panels = {
      files: panel('fds'),
      environment: panel('environment'),
      auxv: panel('auxv'),
      signals: panel('signals'),
      context: panel('context'),
      stacks: panel('stacks'),
    };
  }

  get<S extends keyof Answers>(section: S): Panel<Answers[S]> {
    return this.panels[section];
  }

  of(section: Section): Panel<unknown> | undefined {
    return (this.panels as Partial<Record<Section, Panel<unknown>>>)[section];
  }

  close(): void {
    for (const panel of Object.values(this.panels)) panel.close();
  }
}

function StateLamp(props: { model: Model }) {
  const { model } = props;
  const state = model.live.state.value;
  const held = model.heldAt.value;
  if (model.ended.value !== null) return <Lamp word="EXITED" tone="bad" fill="trouble" />;
  if (held !== null) {
    return (
      <Lamp word="HELD" tone="warn" fill="off">
        {duration(now.value - held).replace(/\.\d s/, ' s')}
      </Lamp>
    );
  }
  if (state.kind === 'refused') {
    return state.status === 403 ? (
      <Lamp word="DENIED" tone="bad" fill="trouble" />
    ) : (
      <Lamp word="OFF" tone="bad" fill="trouble" />
    );
  }
  if (model.stale(now.value)) {
    const heard = model.live.heard.value;
    return (
      <Lamp word="STALE" tone="bad" fill="trouble">
        {heard === 0 ? undefined : duration(now.value - heard)}
      </Lamp>
    );
  }
  if (state.kind === 'polling') {
    return (
      <Lamp word="POLLING" tone="warn" fill="off">
        2 s
      </Lamp>
    );
  }
  if (state.kind === 'live') {
    return (
      <Lamp word="LIVE" tone="ok">
        {`${(model.interval.value / 1000).toFixed(1)} s`}
      </Lamp>
    );
  }
  return <Lamp word="WAITING" tone="quiet" fill="off" />;
}

function StoppedLamp(props: { model: Model }) {
  if (props.model.ended.value !== null) return null;
  if (props.model.stopping.value)
    return (
      <Lamp word="STOPPING" tone="warn">
        1/s
      </Lamp>
    );
  const state = props.model.view.value.observation?.state;
  if (state === 'T' || state === 't') {
    return <Lamp word="STOPPED" tone="warn" title={state === 't' ? 'stopped by a debugger' : 'stopped by a signal'} />;
  }
  return <Lamp word="NOT STOPPED" tone="quiet" fill="off" title="procinsh stopped nothing to show this page" />;
}

function Note(props: { tone: 'bad' | 'warn' | 'info'; children: ComponentChildren }) {
  return (
    <div class={`note note-${props.tone}`} role="note">
      <span class="note-text">{props.children}</span>
    </div>
  );
}

// Notes are the lines between identity and sections that say what is wrong, one each.
function Notes(props: { model: Model; identity: Identity; since: number }) {
  const { model, identity } = props;
  const [other, setOther] = useState<ProcessSummary | null>(null);
  const state = model.live.state.value;
  const ended = model.ended.value;
  const view = model.view.value;
  const held = model.heldAt.value;
  const gone = ended !== null && state.kind === 'refused' && state.status === 410;

  // The pid may belong to another process by now: say so, never switch.
  useEffect(() => {
    if (!gone) return;
    const abort = new AbortController();
    getJSON<ProcessSummary[]>('/api/processes', { signal: abort.signal }).then(
      (list) => setOther(list.find((p) => p.identity.pid === identity.pid) ?? null),
      () => {
        // Without the list the page still says that its process ended.
      },
    );
    return () => abort.abort();
  }, [gone, identity.pid]);

  return (
    <>
      {ended !== null && (
        <Note tone="bad">
          {ended.words} Last state kept.
          {other !== null && other.identity.start_time_ticks !== identity.start_time_ticks && (
            <>
              {' '}
              Pid {identity.pid} now belongs to {visible(other.name)}.{' '}
              <a
                class="link"
                href={processPath(other.identity)}
                onClick={(event) => {
                  if (!plainClick(event)) return;
                  event.preventDefault();
                  navigate(processPath(other.identity));
                }}
              >
                Open that one
              </a>
            </>
          )}
        </Note>
      )}
      {ended === null && state.kind === 'refused' && (
        <Note tone="bad">
          {state.status === 403 ? 'Not permitted to go on watching: ' : 'The stream was refused: '}
          {visible(state.error)} {view.observation !== null && 'Last state kept.'}
        </Note>
      )}
      {ended === null && state.kind === 'lost' && (
        <Note tone="bad">
          {state.status === 0 ? 'Connection lost' : visible(state.error)}, retrying.
          {view.observation !== null && ` Showing ${new Date(view.end).toTimeString().slice(0, 8)}.`}
        </Note>
      )}
      {state.kind === 'polling' && (
        <Note tone="warn">
          polling: 4 other views are open
          {state.error !== null && ` · ${visible(state.error)}`}
        </Note>
      )}
      {view.error !== null && ended === null && (
        <Note tone="bad">
          Could not read the process again: {visible(view.error)}
          {view.observation !== null && ` Showing ${new Date(view.end).toTimeString().slice(0, 8)}.`}
        </Note>
      )}
      {held !== null && (
        <div class="held-line" role="note">
          Held. +{count(model.since.value.started)} −{count(model.since.value.exited)} threads since.
        </div>
      )}
      {view.observation === null && view.error === null && now.value - props.since > SLOW_MS && ended === null && (
        <Note tone="info">still waiting for /proc</Note>
      )}
    </>
  );
}

function Tabs(props: { shared: Shared; section: Section; counts: Partial<Record<Section, number | undefined>> }) {
  const { shared, section } = props;
  const here = useRef<HTMLAnchorElement>(null);
  const known = props.counts.threads !== undefined;
  useEffect(() => here.current?.scrollIntoView({ block: 'nearest', inline: 'nearest' }), [section, known]);
  return (
    <nav class="sections" aria-label="Sections" data-region="sections">
      {SECTIONS.map((name) => (
        <a
          class={name === section ? 'section-link section-current' : 'section-link'}
          key={name}
          href={`${processPath(shared.identity)}${placeHash(name)}`}
          aria-current={name === section ? 'page' : undefined}
          aria-keyshortcuts={sectionKey(name)}
          {...(name === section ? { ref: here } : {})}
          onClick={(event) => {
            if (!plainClick(event)) return;
            event.preventDefault();
            shared.go(name);
          }}
        >
          {SECTION_NAME[name]}
          {props.counts[name] !== undefined && <span class="section-count"> {count(props.counts[name])}</span>}
        </a>
      ))}
    </nav>
  );
}

export function ProcessPage(props: ProcessPageProps) {
  const { identity, shown } = props;
  const [model] = useState(() => new Model(identity));
  const [panels] = useState(() => new Panels(identity));
  const [memory] = useState(() => new Memory(identity, 256));
  const [walk] = useState(() => signal(-1));
  const [since] = useState(() => Date.now());
  const told = useRef(false);
  const calls = useRef(props);
  calls.current = props;

  useEffect(() => {
    const life = new Lifetime();
    runClock(life);
    model.start();
    life.add(() => model.close());
    life.add(() => panels.close());
    life.add(() => memory.close());
    life.listen(document, 'visibilitychange', () => {
      if (document.visibilityState === 'hidden') memory.suspend();
      else if (parsePlace(location.hash.slice(1)).section === 'memory') memory.resume();
    });
    return () => life.close();
  }, [model, panels, memory]);

  const view = model.view.value;
  const state = model.live.state.value;
  const heard = model.live.heard.value;
  useEffect(() => {
    if (told.current) return;
    if (heard > 0) {
      told.current = true;
      calls.current.onReady();
    } else if (state.kind === 'refused') {
      told.current = true;
      calls.current.onRefused(state.status, state.error);
    } else if (state.kind === 'lost' && state.status === 429) {
      told.current = true;
      model.live.stop();
      calls.current.onRefused(429, state.error);
    }
  }, [heard, state, model]);

  const ended = model.ended.value;
  const { auto } = memory;
  useEffect(() => {
    if (ended === null) return;
    announce(ended.words);
    auto.value = false;
    memory.suspend();
  }, [ended, auto, memory]);

  const hash = route.value.page === 'process' ? route.value.hash : '';
  const place = useMemo(() => parsePlace(hash), [hash]);
  const { section, params } = place;

  const shared = useMemo<Shared>(() => {
    const set: Shared['set'] = (changes) => {
      // Another page may be on its way already: its address is not ours to change.
      if (location.pathname !== `/process/${identity.pid}`) return;
      const at = parsePlace(location.hash.slice(1));
      const next: Record<string, string | undefined> = Object.fromEntries(at.params);
      for (const [name, value] of Object.entries(changes)) next[name] = value;
      rewrite(`${location.pathname}${location.search}${placeHash(at.section, next)}`);
    };
    const go: Shared['go'] = (to, next = {}) => {
      const target = `${location.pathname}${location.search}${placeHash(to, next)}`;
      if (target !== location.pathname + location.search + location.hash) navigate(target);
    };
    const openAddress = (address: bigint) => {
      if (parsePlace(location.hash.slice(1)).section === 'memory') memory.go(address);
      else go('memory', { addr: fullAddress(address) });
    };
    return {
      identity,
      model,
      memory,
      walk,
      params,
      set,
      go,
      openAddress,
      openRegion: (region) => {
        walk.value = region.index;
        openAddress(region.start);
      },
    };
  }, [identity, model, memory, walk, params]);

  const name = view.summary === null ? String(identity.pid) : visible(view.summary.name);
  useEffect(() => {
    if (shown) document.title = `procinsh / ${name}`;
  }, [shown, name]);

  // The other sections are loaded as soon as this one has something to show, so that
  // opening one is no wait; a failure is tried again when one is opened.
  useEffect(() => {
    if (shown && heard > 0) sections().catch(() => {});
  }, [shown, heard > 0]);

  // What is fetched is fetched when its section is first opened.
  useEffect(() => {
    if (shown && heard > 0) panels.of(section)?.open();
  }, [shown, heard > 0, section, panels]);

  const toggle = () => {
    if (model.heldAt.value === null) {
      model.hold();
      announce('Held');
    } else {
      model.release();
      announce('Live');
    }
  };
  const act = useRef({ shared, section, toggle });
  act.current = { shared, section, toggle };
  useEffect(() => {
    if (!shown) return;
    const find = <T extends HTMLElement>(selector: string) => document.querySelector<T>(selector);
    const focusFilter = (): boolean => {
      const field = find<HTMLInputElement>('.section [data-filter]');
      if (field === null || field === document.activeElement) return false;
      field.focus();
      field.select();
      return true;
    };
    const memoryKey = (run: () => boolean | undefined) => () => (act.current.section === 'memory' ? run() : false);
    return bindKeys([
      ...SECTIONS.map((to) => ({
        keys: sectionKey(to),
        label: SECTION_NAME[to],
        group: 'Sections',
        run: () => {
          act.current.shared.go(to);
          return undefined;
        },
      })),
      {
        keys: 'Space',
        label: 'hold / live',
        group: 'Process',
        run: () => {
          if (model.ended.value !== null) return false;
          act.current.toggle();
          return undefined;
        },
      },
      {
        keys: 'r',
        label: 'refresh the panel',
        group: 'Process',
        run: () => {
          if (model.ended.value !== null) return false;
          if (act.current.section === 'memory') void memory.read();
          else void panels.of(act.current.section)?.refresh();
          return undefined;
        },
      },
      { keys: '/', label: 'filter', group: 'Process', run: () => (focusFilter() ? undefined : false) },
      {
        keys: 'Ctrl+f',
        label: 'filter; again for the browser’s own search',
        group: 'Process',
        inFields: true,
        run: () => (focusFilter() ? undefined : false),
      },
      {
        keys: 'y',
        label: 'copy a link to this view',
        group: 'Process',
        run: () => {
          void copyText(location.href, 'the link');
          return undefined;
        },
      },
      { keys: 'Y', label: 'copy as…', group: 'Process', run: () => (openCopyMenu() ? undefined : false) },
      {
        keys: 'S',
        label: 'take a snapshot: stops all threads for some ms',
        group: 'Process',
        run: (event: KeyboardEvent) => {
          // A key that is held down takes one.
          if (event.repeat) return;
          if (act.current.section !== 'snapshot') act.current.shared.go('snapshot');
          sections().then(
            (all) => all.takeSnapshot(model),
            () => {},
          );
        },
      },
      {
        keys: 'm',
        label: 'go to an address in memory',
        group: 'Memory',
        run: () => {
          act.current.shared.go('memory', act.current.section === 'memory' ? Object.fromEntries(params) : {});
          requestAnimationFrame(() => {
            const field = find<HTMLInputElement>('[data-address]');
            field?.focus();
            field?.select();
          });
          return undefined;
        },
      },
      {
        keys: 'Alt+ArrowLeft',
        label: 'back to the address before',
        group: 'Memory',
        run: memoryKey(() => (memory.step(-1) ? undefined : false)),
      },
      {
        keys: 'Alt+ArrowRight',
        label: 'forward',
        group: 'Memory',
        run: memoryKey(() => (memory.step(1) ? undefined : false)),
      },
      {
        keys: 'w',
        label: 'bytes / words',
        group: 'Memory',
        run: memoryKey(() => {
          const on = act.current.shared.params.get('view') === 'words';
          act.current.shared.set({ view: on ? undefined : 'words' });
          return undefined;
        }),
      },
      // The bytes take these keys themselves while they have the focus.
      { keys: 'e', label: 'in bytes: little / big endian', group: 'Memory', run: () => false },
      { keys: 'Enter', label: 'in bytes: follow the pointer', group: 'Memory', run: () => false },
    ]);
  }, [shown, model, memory, panels, params]);

  if (!shown) return null;
  const large = section === 'overview' || section === 'threads' || section === 'snapshot';
  const counts = {
    threads: threadCount(view),
    memory: view.space.capturedAt === null ? undefined : view.space.regions.length,
    files: panels.get('files').state.value.data?.entries.length,
  };
  const { heldAt } = model;
  return (
    <div class={`page process${heldAt.value === null ? '' : ' process-held'}`}>
      <TopBar
        title={name}
        page="process"
        lamps={
          <>
            <StateLamp model={model} />
            <span class="lamp-stopped">
              <StoppedLamp model={model} />
            </span>
          </>
        }
        actions={
          <HoldButton
            held={heldAt.value !== null}
            toggle={toggle}
            off={ended !== null && heldAt.value === null ? 'The process has ended.' : null}
          />
        }
      />
      <main class="process-main">
        <IdentityBar shared={shared} />
        <StripBar space={view.space} walk={walk} open={shared.openRegion} />
        <div class="sections-row">
          <Tabs shared={shared} section={section} counts={counts} />
          <Finder shared={shared} />
        </div>
        <Notes model={model} identity={identity} since={since} />
        {large ? <TopCharts shared={shared} /> : <FoldedCharts shared={shared} />}
        <div class={`section section-${section}`} key={section}>
          {section === 'overview' && <Overview shared={shared} />}
          {section === 'threads' && <Threads shared={shared} />}
          {section === 'memory' && <MemorySection shared={shared} />}
          {section === 'files' && <Files shared={shared} panel={panels.get('files')} />}
          {section === 'environment' && <Environment shared={shared} panel={panels.get('environment')} />}
          {section === 'auxv' && <Auxv shared={shared} panel={panels.get('auxv')} />}
          {section === 'signals' && <Signals shared={shared} panel={panels.get('signals')} />}
          {section === 'context' && <Context shared={shared} panel={panels.get('context')} />}
          {section === 'stacks' && <Stacks shared={shared} panel={panels.get('stacks')} />}
          {section === 'snapshot' && <Snapshot shared={shared} />}
        </div>
      </main>
      <footer class="foot" data-region="foot">
        <span class="mono foot-identity">
          pid {identity.pid} @ start {identity.start_time_ticks}
        </span>
        <button
          type="button"
          class="button button-text"
          aria-keyshortcuts="y"
          onClick={() => void copyText(location.href, 'the link')}
        >
          Copy link to this view
        </button>
        <span class="foot-hint">100 % = one core · K M G = 1024</span>
        <KeysLink />
      </footer>
    </div>
  );
}

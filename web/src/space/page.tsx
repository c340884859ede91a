// The space: every process as a tower on the plate of its parent, its address space as
// slabs, its CPU time as a lamp on the roof, its connections as arcs.

import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { HoldButton, KeysLink, TopBar } from '../bar';
import { FilterButton, type Filtered, FilterLine } from '../filterline';
import { clock, count, visible } from '../format';
import { Lamp } from '../lamps';
import { Lifetime } from '../life';
import { AsList, type ListHandle } from './aslist';
import { Space } from './control';
import { SPACE_KEYS } from './grammar';
import { Panel } from './panel';
import { BUNDLE, type Which } from './protocol';
import { bindSpaceKeys } from './shortcuts';
import * as view from './state';
import { sensorLook } from './whole';

const NARROW = 700;

const filtered: Filtered = {
  query: view.query,
  open: view.filterOpen,
  keys: SPACE_KEYS,
  example: 'Search: name, port:443, host:…',
  enter: () => shown.peek()?.walk(1),
};

const shown = signal<Space | null>(null);
const list = { handle: null as ListHandle | null };
const setHandle = (handle: ListHandle | null) => {
  list.handle = handle;
};

function LiveLamp() {
  const state = view.live.value;
  const held = view.held.value;
  const stale = view.staleFor.value;
  if (held) {
    return (
      <Lamp word="HELD" tone="warn" fill="off">
        {`${Math.max(0, Math.round((view.now.value - held.since) / 1000))} s`}
      </Lamp>
    );
  }
  if (state.kind === 'refused') return <Lamp word="DENIED" tone="bad" fill="trouble" />;
  if (state.kind === 'polling') {
    return (
      <Lamp word="POLLING" tone="warn">
        2.0 s
      </Lamp>
    );
  }
  if (state.kind === 'lost') return <Lamp word="OFF" tone="bad" fill="trouble" />;
  if (stale !== null) {
    return (
      <Lamp word="STALE" tone="bad" fill="trouble">
        {`${(stale / 1000).toFixed(1)} s`}
      </Lamp>
    );
  }
  if (state.kind === 'live') {
    return (
      <Lamp word="LIVE" tone="ok">
        10 Hz
      </Lamp>
    );
  }
  return <Lamp word="CONNECTING" tone="quiet" fill="off" />;
}

function SensorLamps() {
  const status = view.status.value;
  return (
    <span class="space-lamps">
      {(['cpu', 'ipc', 'files'] as const).map((key) => {
        const look = sensorLook(status?.[key]);
        return (
          <Lamp
            key={key}
            word={`${key.toUpperCase()}${look.word ? ` ${look.word}` : ''}`}
            tone={look.tone}
            fill={look.fill}
            title={visible(status?.[key].reason ?? '')}
          />
        );
      })}
    </span>
  );
}

function Notes(props: { space: Space | null }) {
  const state = view.live.value;
  const held = view.held.value;
  const { space } = props;
  const captured = space?.data.capturedAt ?? 0;
  const since = captured > 0 ? ` Showing ${clock(captured)}.` : '';
  return (
    <>
      {view.missing.value && (
        <div class="note note-warn" role="alert">
          <span class="note-text">
            {view.missing.value.startsWith('host:')
              ? `Nobody here talks to ${visible(view.missing.value.slice(5))} now.`
              : `${visible(view.missing.value.replace(/@\d+$/, ''))} is not running now; it may have ended.`}
          </span>
          <button
            type="button"
            class="button button-text"
            onClick={() => {
              view.missing.value = null;
            }}
          >
            Dismiss
          </button>
        </div>
      )}
      {state.kind === 'lost' && (
        <div class="note note-bad">
          <span class="note-text">
            Could not refresh at {clock(state.at)}:{' '}
            {state.status === 0 ? 'connection lost, retrying' : visible(state.error)}.{since}
          </span>
          <button type="button" class="button" onClick={() => space?.retry()}>
            Retry
          </button>
        </div>
      )}
      {state.kind === 'refused' && (
        <div class="note note-bad" role="alert">
          <span class="note-text">
            {visible(state.error)}
            {since}
          </span>
          <button type="button" class="button" onClick={() => space?.retry()}>
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
      {held && (
        <div class="note note-warn">
          <span class="note-text">
            Held at {clock(held.since)}. +{held.started} started −{held.exited} exited since.
          </span>
          <button type="button" class="button" onClick={() => space?.toggleHold()}>
            Live
          </button>
        </div>
      )}
      {view.isLost.value && (
        <div class="note note-bad" role="alert">
          <span class="note-text">
            The graphics driver took the picture away; it comes back by itself. The list still works.
          </span>
        </div>
      )}
      {view.why.value && (
        <div class="note">
          <span class="note-text">{view.why.value}</span>
          {view.drawing.value === 'simple' && (
            <button type="button" class="button" onClick={() => space?.drawEverything()}>
              Draw everything
            </button>
          )}
        </div>
      )}
    </>
  );
}

function Tools(props: { space: Space | null }) {
  const { space } = props;
  const isSimple = view.drawing.value === 'simple';
  const byPointer = useRef(false);
  const toggle = (label: string, held: { value: boolean }, title: string) => (
    <button
      type="button"
      class={`button${held.value ? ' button-on' : ''}`}
      aria-pressed={held.value}
      title={title}
      onClick={() => {
        held.value = !held.value;
      }}
    >
      {label}
    </button>
  );
  return (
    <div class="space-tools" data-region="tools" role="toolbar" aria-label="What is shown">
      {toggle('As list', view.asList, 'The same processes as a table')}
      {!view.asList.value && (
        <>
          {toggle('Plates', view.withPlates, 'A plate for each parent')}
          {toggle('Parent lines', view.withParents, 'A line from each process to its parent')}
          <label class="button space-choice">
            Connections:
            <select
              class="space-select"
              value={view.shownConnections.value}
              onPointerDown={() => {
                byPointer.current = true;
              }}
              onKeyDown={() => {
                byPointer.current = false;
              }}
              onChange={(event) => {
                view.connections.value = event.currentTarget.value as Which;
                // Who chose with the pointer goes on in the picture, whose keys a field would take.
                if (byPointer.current) space?.focusPicture();
              }}
            >
              <option value="selected">selected</option>
              <option value="active" disabled={isSimple}>
                selected + active
              </option>
              <option value="all">all, in bundles</option>
            </select>
          </label>
          {toggle('Files', view.withFiles, 'A card for each file of the last 30 s')}
          <button
            type="button"
            class="button"
            aria-keyshortcuts="Home"
            title="Show all (Home)"
            onClick={() => space?.fitAll()}
          >
            Fit all
          </button>
          <button
            type="button"
            class={`button${view.isTop.value ? ' button-on' : ''}`}
            aria-pressed={view.isTop.value}
            aria-keyshortcuts="Shift+T"
            title="From above (T)"
            onClick={() => space?.toggleTop()}
          >
            Top-down
          </button>
          <button
            type="button"
            class="button"
            aria-keyshortcuts="Shift+R"
            title="Pack everything anew (R)"
            onClick={() => space?.rearrange()}
          >
            Rearrange
          </button>
        </>
      )}
    </div>
  );
}

function Legend() {
  return (
    <div class="space-legend">
      <span class="legend">
        <span class="legend-square swatch-cpu" aria-hidden="true" />
        on CPU: lamp on the roof
      </span>
      <span class="legend">
        <span class="legend-square swatch-read" aria-hidden="true" />
        read / receive
      </span>
      <span class="legend">
        <span class="legend-square swatch-write" aria-hidden="true" />
        write / send
      </span>
      <span class="legend">
        <span class="legend-frame" aria-hidden="true" />D state or zombie
      </span>
      <span class="legend">— connection</span>
      <span class="legend">┄ candidate</span>
      <span class="legend">
        <span class="tone-shared">◇</span> shared
      </span>
      <span class="legend">
        <span class="tone-mem">—</span> network
      </span>
      <span class="legend">height = log RSS; same height ≠ same address</span>
    </div>
  );
}

function Found() {
  if (!view.isFiltering.value) return null;
  const { count: found } = view.matches.value;
  return (
    <span class="space-found">
      <span class="mono">{count(found)}</span> found{found > 0 && ' · Enter or n: next'}
    </span>
  );
}

export function SpacePage() {
  const host = useRef<HTMLDivElement>(null);
  const main = useRef<HTMLElement>(null);
  const space = shown.value;

  useEffect(() => {
    const life = new Lifetime();
    document.title = view.spaceTitle;
    const measure = () => {
      view.narrow.value = (main.current?.clientWidth ?? NARROW) < NARROW;
    };
    measure();
    life.listen(window, 'resize', measure);
    if (!host.current) return undefined;
    const made = new Space(host.current);
    shown.value = made;
    life.add(() => {
      shown.value = null;
      made.close();
    });
    life.add(bindSpaceKeys(made, () => list.handle));
    return () => life.close();
  }, []);

  void view.tick.value;
  const held = view.held.value !== null;
  const drawn = view.arcs.value;
  const lost = view.status.value;
  const isEmpty = view.loaded.value && view.isFiltering.value && view.matches.value.count === 0;
  return (
    <div class={`page space${view.filterOpen.value ? ' space-filtering' : ''}`}>
      <TopBar
        title="space"
        page="space"
        lamps={
          <>
            <LiveLamp />
            <SensorLamps />
          </>
        }
        actions={
          <>
            <FilterButton open={view.filterOpen}>Search</FilterButton>
            <HoldButton held={held} toggle={() => space?.toggleHold()} />
          </>
        }
      >
        <FilterLine page={filtered} />
        <Found />
      </TopBar>
      <main class="space-main" ref={main}>
        <div class="space-left">
          <Notes space={space} />
          <Tools space={space} />
          <div class="space-stage">
            <div
              class={`space-host${view.asList.value ? ' space-host-off' : ''}`}
              ref={host}
              data-region={view.asList.value ? undefined : 'picture'}
            />
            {!view.loaded.value && (
              <p class="space-wait">{view.isWaitingLong.value ? 'still waiting for /proc' : '····'}</p>
            )}
            {isEmpty && <p class="space-wait">Nothing matches {visible(view.query.value.trim())}.</p>}
            {view.asList.value && space && <AsList space={space} handle={setHandle} />}
            {!view.asList.value && <Legend />}
          </div>
        </div>
        {space && <Panel space={space} />}
      </main>
      <footer class="foot space-foot" data-region="foot">
        <span>
          <span class="mono">{count(space?.data.processes ?? 0)}</span> processes ·{' '}
          <span class="mono">{count(space?.data.kernelThreads ?? 0)}</span> kernel threads folded
        </span>
        <span>
          <span class="mono">{count(drawn.drawn)}</span> of{' '}
          <span class="mono">{count(space?.data.connections ?? 0)}</span> connections drawn
          {drawn.bundles.length > 0 && (
            <>
              {' '}
              in <span class="mono">{count(drawn.bundles.length / BUNDLE)}</span> bundles
            </>
          )}
        </span>
        <span>
          lost <span class="mono">{lost ? count(lost.lost + lost.files_lost) : '–'}</span> · gaps{' '}
          <span class="mono">{count(view.gaps.value.gaps)}</span>
        </span>
        <KeysLink />
      </footer>
    </div>
  );
}

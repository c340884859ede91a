// Beside the picture: what is known of the selected as text, or of all.

import { Fragment } from 'preact';
import { bytes, bytesFull, count, percent, rate, UNKNOWN, visible } from '../format';
import { KIND_LETTER, KIND_NAME, KINDS, type Kind, kindFrom } from '../kinds';
import { navigate, plainClick, processPath } from '../route';
import { RunLink } from '../runlink';
import type { SensorStatus } from '../wire.gen';
import type { Space } from './control';
import type { SpaceData } from './data';
import { fileText } from './files';
import type { ConnectionFact } from './protocol';
import { slabs } from './slabs';
import * as view from './state';
import { HOSTS } from './structure';
import { State, Who } from './who';
import { Whole } from './whole';

const ANCESTORS = 4;
const SHOWN_CONNECTIONS = 60;

const WORD: Record<ConnectionFact['kind'], string> = {
  sure: '',
  candidate: 'candidate',
  shared: 'shared',
  network: 'network',
  open: 'no peer known',
};

// subject says what kind of object it is, and which, where the name of the peer does not.
function subject(fact: ConnectionFact): string {
  const kind = visible(fact.protocol);
  const label = visible(fact.label);
  if (fact.peer < 0) return kind;
  return label.toLowerCase().startsWith(kind.toLowerCase()) ? label : `${kind} ${label}`;
}

function Connection(props: { space: Space; fact: ConnectionFact }) {
  const { space, fact } = props;
  const hasFlow = fact.read > 0 || fact.write > 0;
  return (
    <li class="space-row">
      <span class={`space-way space-way-${fact.kind}`} aria-hidden="true">
        {fact.kind === 'candidate'
          ? '?'
          : fact.kind === 'shared'
            ? '◇'
            : fact.write > fact.read
              ? '→'
              : fact.read > 0
                ? '←'
                : '·'}
      </span>
      <span class="space-peer">
        {fact.peer >= 0 ? (
          <Who space={space} index={fact.peer} />
        ) : (
          <span>{visible(fact.peerText) || visible(fact.label)}</span>
        )}
        <span class="space-sub">
          {subject(fact)}
          {WORD[fact.kind] && ` · ${WORD[fact.kind]}`}
        </span>
      </span>
      <span class="mono space-figure">
        {hasFlow ? (
          <>
            {fact.read > 0 && <span class="tone-read">in {rate(fact.read)}/s</span>}
            {fact.write > 0 && <span class="tone-write"> out {rate(fact.write)}/s</span>}
          </>
        ) : (
          ''
        )}
      </span>
    </li>
  );
}

function Connections(props: { space: Space }) {
  const facts = view.facts.value;
  if (!facts) return null;
  const sensor = view.status.value?.ipc;
  return (
    <section class="space-part" aria-label="Connections">
      <h2 class="caption">
        Connections <span class="mono">{count(facts.connectionsActive)}</span> active of{' '}
        <span class="mono">{count(facts.connectionsTotal)}</span>
      </h2>
      {facts.connectionsTotal === 0 && <p class="space-none">No connections.</p>}
      <ul class="space-rows">
        {facts.connections.slice(0, SHOWN_CONNECTIONS).map((fact) => (
          <Connection key={fact.id} space={props.space} fact={fact} />
        ))}
      </ul>
      {facts.connectionsTotal > SHOWN_CONNECTIONS && (
        <p class="space-none">
          and {count(facts.connectionsTotal - SHOWN_CONNECTIONS)} more; the Files of the process have them all.
        </p>
      )}
      <Off name="Connection" sensor={sensor} />
    </section>
  );
}

function Off(props: { name: string; sensor: SensorStatus | undefined }) {
  const { sensor } = props;
  if (!sensor || sensor.state === 'observing' || sensor.state === 'idle') return null;
  return (
    <p class="space-off">
      {props.name} sensor is {sensor.state === 'starting' ? 'starting' : 'off'}
      {sensor.reason ? `: ${visible(sensor.reason)}` : '.'}
    </p>
  );
}

function Files() {
  const facts = view.facts.value;
  const sensor = view.status.value?.files;
  return (
    <section class="space-part" aria-label="Files">
      <h2 class="caption">Files, last 30 s</h2>
      {facts && facts.files.length > 0 && (
        <ul class="space-rows">
          {facts.files.map((file) => (
            <li class="space-row space-file" key={file.resource} title={visible(fileText(file.path, file.resource))}>
              <span class="space-peer space-path">{visible(fileText(file.path, file.resource))}</span>
              <span class="mono space-figure">
                {file.read > 0 && <span class="tone-read">read {bytes(file.read)}</span>}
                {file.write > 0 && <span class="tone-write"> wrote {bytes(file.write)}</span>}
              </span>
            </li>
          ))}
        </ul>
      )}
      {facts && facts.files.length === 0 && sensor?.state === 'observing' && (
        <p class="space-none">None read or written.</p>
      )}
      <Off name="File" sensor={sensor} />
    </section>
  );
}

function Space_(props: { space: Space; index: number }) {
  const facts = view.facts.value;
  if (!facts || facts.index !== props.index) return null;
  const { data } = props.space;
  const none = data.isKernel(props.index)
    ? 'Kernel threads have none of their own. “As list” has each of them with kernel:yes.'
    : data.state(props.index) === 'Z'
      ? 'None any more: the process has ended, and its parent has yet to take note.'
      : null;
  if (none !== null) {
    return (
      <section class="space-part" aria-label="Address space">
        <h2 class="caption">Address space</h2>
        <p class="space-none">{none}</p>
      </section>
    );
  }
  if (!facts.summary) {
    return (
      <section class="space-part" aria-label="Address space">
        <h2 class="caption">Address space</h2>
        <p class={facts.mapsError ? 'space-off' : 'space-none'}>
          {facts.mapsError ? `maps: ${visible(facts.mapsError)}` : 'Not read yet.'}
        </p>
      </section>
    );
  }
  const list = slabs(facts.summary, 24);
  const totals = Object.entries(facts.summary.totals)
    .map(([kind, size]) => [kindFrom(kind), size] as const)
    .filter(([, size]) => size > 0)
    .sort((a, b) => b[1] - a[1]);
  return (
    <section class="space-part" aria-label="Address space">
      <h2 class="caption">Address space, mapped</h2>
      <div class="space-maps">
        <div class="space-strip" aria-hidden="true">
          {[...list].reverse().map((slab, i) => (
            <div
              key={String(i)}
              class={`space-slab kind-${KINDS[slab.kind] ?? 'other'}`}
              style={{ height: `${Math.max(2, Math.round((slab.to - slab.from) * 150))}px` }}
            />
          ))}
        </div>
        <ul class="space-kinds">
          {totals.map(([kind, size]) => (
            <li class="space-kind" key={kind} title={bytesFull(size)}>
              <span class={`legend-square kind-${kind}`} aria-hidden="true" />
              <span>
                {KIND_LETTER[kind as Kind]} {KIND_NAME[kind as Kind]}
              </span>
              <span class="mono space-figure">{bytes(size)}</span>
            </li>
          ))}
        </ul>
      </div>
    </section>
  );
}

// ancestors are the parents of a process, the farthest of the nearest few first.
function ancestors(data: SpaceData, index: number): number[] {
  const out: number[] = [];
  for (let at = data.parents[index] as number; at >= 0 && out.length < ANCESTORS; at = data.parents[at] as number) {
    out.unshift(at);
  }
  return out;
}

function Process(props: { space: Space; index: number }) {
  const { space, index } = props;
  const { data } = space;
  const cpu = data.cpu[index] as number;
  const path = processPath(data.identity(index));
  const children = data.children[index] as number;
  return (
    <>
      <section class="space-part" aria-label="Selected process">
        <p class="space-line space-lineage">
          PID <span class="mono">{data.pid[index]}</span>
          {ancestors(data, index).map((above, i) => (
            <Fragment key={data.key(above)}>
              <span aria-hidden="true">{i === 0 ? '·' : '›'}</span>
              <Who space={space} index={above} />
            </Fragment>
          ))}
        </p>
        <h2 class="space-name">
          {visible(data.label(index))}
          {children > 0 && (
            <span class="space-children">
              {' '}
              +{count(children)} {children === 1 ? 'child' : 'children'}
            </span>
          )}
        </h2>
        <p class="space-line">
          <span class="tone-cpu">
            CPU <span class="mono">{Number.isFinite(cpu) ? `${percent(cpu)} %` : UNKNOWN}</span>
          </span>
          <span class="tone-mem">
            RSS <span class="mono">{bytes(data.rss[index])}</span>
          </span>
          <span>
            threads <span class="mono">{count(data.threads[index])}</span>
          </span>
          <span>{visible(data.user[index] ?? String(data.uid[index]))}</span>
          <State letter={data.state(index)} />
        </p>
        {data.container[index] && <p class="space-line">{visible(data.container[index] ?? '')}</p>}
        {data.run[index] && (
          <p class="space-line">
            Run <RunLink id={data.run[index] ?? ''} />
          </p>
        )}
        <p class="space-line">
          <a
            class="link"
            href={path}
            onClick={(event) => {
              if (!plainClick(event)) return;
              event.preventDefault();
              navigate(path);
            }}
          >
            Open detail
          </a>
          <button type="button" class="button button-text" aria-keyshortcuts="f" onClick={() => space.fitSelected()}>
            Fit
          </button>
          <button type="button" class="button button-text" onClick={() => space.select(-1)}>
            Clear
          </button>
        </p>
      </section>
      <Space_ space={space} index={index} />
      <Connections space={space} />
      <Files />
    </>
  );
}

function HostPanel(props: { space: Space; index: number }) {
  const host = props.space.data.hosts[props.index];
  if (!host) return null;
  return (
    <>
      <section class="space-part" aria-label="Selected host">
        <p class="space-line">Remote host</p>
        <h2 class="space-name">{visible(host.name ?? host.address)}</h2>
        <p class="space-line mono">{visible(host.address)}</p>
        <p class="space-line">
          <button type="button" class="button button-text" onClick={() => props.space.select(-1)}>
            Clear
          </button>
        </p>
      </section>
      <Connections space={props.space} />
    </>
  );
}

export function Panel(props: { space: Space }) {
  const { space } = props;
  void view.tick.value;
  const index = space.indexOf(view.selected.value);
  return (
    <section class="space-panel" data-region="panel" aria-label="Facts" tabIndex={0}>
      {index >= HOSTS ? (
        <Process space={space} index={index} />
      ) : index >= 0 ? (
        <HostPanel space={space} index={index} />
      ) : (
        <Whole space={space} />
      )}
    </section>
  );
}

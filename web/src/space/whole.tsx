// Beside the picture with nobody selected: who is busy, who is stuck, all connections,
// remote hosts, and how the sensors do.

import { count, percent, visible } from '../format';
import { Lamp } from '../lamps';
import type { SensorStatus } from '../wire.gen';
import { ALONE } from './bundles';
import type { Space } from './control';
import { BUNDLE, bundleEnds } from './protocol';
import * as view from './state';
import { HOSTS } from './structure';
import { State, Who } from './who';

const BUSIEST = 10;
const SHOWN_BUNDLES = 20;

function busiest(space: Space): number[] {
  const { data } = space;
  const list: number[] = [];
  for (let i = HOSTS; i < data.count; i++) if (data.isProcess(i) && (data.cpu[i] as number) > 0) list.push(i);
  list.sort((a, b) => (data.cpu[b] as number) - (data.cpu[a] as number));
  return list.slice(0, BUSIEST);
}

const SENSORS = [
  ['cpu', 'CPU', 'which process runs'],
  ['ipc', 'IPC', 'bytes through pipes and sockets'],
  ['files', 'FILES', 'bytes of files'],
] as const;

/** sensorLook gives a sensor's lamp. */
export function sensorLook(sensor: SensorStatus | undefined): {
  tone: 'ok' | 'bad' | 'quiet';
  fill: 'on' | 'off' | 'trouble';
  word: string;
} {
  switch (sensor?.state) {
    case 'observing':
      return { tone: 'ok', fill: 'on', word: '' };
    case 'unavailable':
    case 'error':
      return { tone: 'bad', fill: 'trouble', word: 'off' };
    case 'starting':
      return { tone: 'quiet', fill: 'off', word: 'starting' };
    default:
      return { tone: 'quiet', fill: 'off', word: 'idle' };
  }
}

function Sensors() {
  const status = view.status.value;
  const { gaps, frames } = view.gaps.value;
  return (
    <section class="space-part" aria-label="Sensors">
      <h2 class="caption">Sensors</h2>
      {!status && <p class="space-none">····</p>}
      {status &&
        SENSORS.map(([key, word, what]) => {
          const sensor = status[key];
          const look = sensorLook(sensor);
          return (
            <p class="space-sensor" key={key}>
              <Lamp word={word} tone={look.tone} fill={look.fill} />
              <span>
                {sensor.state === 'observing' ? what : look.word}
                {sensor.reason ? `: ${visible(sensor.reason)}` : ''}
              </span>
            </p>
          );
        })}
      {status && (
        <p class="space-none">
          Lost: {count(status.lost)} of CPU and connections, {count(status.files_lost)} of files;{' '}
          {count(status.unresolved)} without an owner; {count(gaps)} gaps{frames > 0 && ` (${count(frames)} frames)`}.
        </p>
      )}
      {status && (status.coverage.length > 0 || status.files_coverage.length > 0) && (
        <details class="space-more">
          <summary class="space-summary">What the sensors cannot see</summary>
          <ul class="space-notes">
            {[...new Set([...status.coverage, ...status.files_coverage])].map((line) => (
              <li key={line}>{visible(line)}</li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

// Those in a state that does not pass by itself in an instant.
function Stuck(props: { space: Space }) {
  const { space } = props;
  const { data } = space;
  const list: number[] = [];
  for (let i = HOSTS; i < data.count; i++) if (data.isProcess(i) && data.states[i]) list.push(i);
  if (list.length === 0) return null;
  return (
    <section class="space-part" aria-label="Waiting, stopped or zombie">
      <h2 class="caption">Waiting, stopped or zombie</h2>
      <ul class="space-rows">
        {list.slice(0, BUSIEST).map((i) => (
          <li class="space-row" key={data.key(i)}>
            <span class="space-peer">
              <Who space={space} index={i} />
            </span>
            <span class="space-figure">
              <State letter={data.state(i)} />
            </span>
          </li>
        ))}
      </ul>
      {list.length > BUSIEST && <p class="space-none">and {count(list.length - BUSIEST)} more.</p>}
    </section>
  );
}

// The bundles of the picture as text.
function Bundles(props: { space: Space }) {
  const { space } = props;
  const { bundles, within, hidden } = view.arcs.value;
  if (view.shownConnections.value !== 'all') return null;
  const rows: number[] = [];
  for (let k = 0; k < bundles.length && rows.length < SHOWN_BUNDLES; k += BUNDLE) rows.push(k);
  const more = bundles.length / BUNDLE - rows.length;
  const side = (k: number, which: 0 | 1) => (
    <>
      <Who space={space} index={bundles[k + which] as number} />
      {bundleEnds(bundles[k + 4] as number)[which] !== ALONE && ' (plate)'}
    </>
  );
  return (
    <section class="space-part" aria-label="All connections">
      <h2 class="caption">All connections, in bundles</h2>
      {rows.length === 0 && <p class="space-none">None between plates.</p>}
      <ul class="space-rows">
        {rows.map((k) => (
          <li class="space-row" key={`${bundles[k]} ${bundles[k + 1]}`}>
            <span class="space-peer">
              {side(k, 0)} – {side(k, 1)}
            </span>
            <span class="mono space-figure">{count(bundles[k + 2])}</span>
          </li>
        ))}
      </ul>
      <p class="space-none">
        {more > 0 && `${count(more)} more bundles are in the picture. `}
        {count(within)} connections stay on one plate
        {hidden > 0 && `; ${count(hidden)} are in bundles too many to draw`}.
      </p>
    </section>
  );
}

export function Whole(props: { space: Space }) {
  const { space } = props;
  const { data } = space;
  const list = busiest(space);
  return (
    <>
      <section class="space-part" aria-label="Busiest">
        <h2 class="caption">Busiest now</h2>
        {list.length === 0 && (
          <p class="space-none">{view.loaded.value ? 'Nothing ran, or CPU needs two samples.' : '····'}</p>
        )}
        <ul class="space-rows">
          {list.map((i) => (
            <li class="space-row" key={data.key(i)}>
              <span class="space-peer">
                <Who space={space} index={i} />
              </span>
              <span class="mono space-figure tone-cpu">{percent(data.cpu[i])} %</span>
            </li>
          ))}
        </ul>
      </section>
      <Stuck space={space} />
      <Bundles space={space} />
      <section class="space-part" aria-label="Remote hosts">
        <h2 class="caption">Remote hosts</h2>
        {data.hosts.every((host) => host === null) && <p class="space-none">None.</p>}
        <ul class="space-rows">
          {data.hosts.map((host, i) =>
            host ? (
              <li class="space-row" key={host.address}>
                <span class="space-peer">
                  <Who space={space} index={i} />
                </span>
                <span class="mono space-figure">{count(host.links)}</span>
              </li>
            ) : null,
          )}
        </ul>
        {data.hostsHidden > 0 && (
          <p class="space-none">and {count(data.hostsHidden)} more that have no place in the picture.</p>
        )}
      </section>
      <Sensors />
      {data.warnings.length > 0 && (
        <section class="space-part" aria-label="Not complete">
          <h2 class="caption">Not complete</h2>
          <ul class="space-notes">
            {data.warnings.map((line, i) => (
              <li key={String(i)}>{visible(line)}</li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

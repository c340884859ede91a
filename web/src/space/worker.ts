// The worker of the page: owns its event stream, parses it and packs the layout, so
// that the page's own thread only draws.

import { keyOf } from '../deltas';
import { getJSON } from '../http';
import { askWhy, type EventSourceLike, freeSlot, Live } from '../stream';
import type { ProcessSummary, SystemStatus, Topology } from '../wire.gen';
import { Engine } from './engine';
import type { FromWorker, ToWorker } from './protocol';
import { toldState } from './structure';

interface WorkerScope {
  postMessage(message: unknown, transfer: ArrayBuffer[]): void;
  addEventListener(type: 'message', handler: (event: MessageEvent<ToWorker>) => void): void;
}

const scope = self as unknown as WorkerScope;
const post = (message: FromWorker, transfer: ArrayBuffer[] = []) => scope.postMessage(message, transfer);
const engine = new Engine(post, () => performance.now());

const TICK_MS = 500;
const HEARD_MS = 250;
/** Processes older than this are asked for anew, connections older than OLD_MS are nobody's any more. */
const NEW_MS = 3000;
const OLD_MS = 10_000;

let isVisible = true;
let show: () => void = () => {};
let hide: () => void = () => {};
let said = 0;

// poll asks once what another view's stream keeps up to date. That is a structure about
// every 5 s; between two of them, and without one, the list knows the processes.
async function poll(): Promise<void> {
  const topology = await getJSON<Topology>('/api/system/topology', { params: { maps: 'summary' } });
  const status = await getJSON<SystemStatus>('/api/system/status');
  post({ kind: 'status', status });
  const age = topology.sequence > 0 ? Date.now() - topology.captured_at : Number.POSITIVE_INFINITY;
  if (age < NEW_MS) {
    engine.event('topology', topology);
    return;
  }
  const list = await getJSON<ProcessSummary[]>('/api/processes', { params: { maps: 'summary' } });
  const unread = new Map(topology.nodes.map((node) => [keyOf(node.identity), node.maps_error]));
  const nodes = list.map((p) => ({
    ...p,
    state: toldState(p.state),
    maps_epoch: p.map_summary ? 1 : 0,
    maps_error: p.map_summary ? null : (unread.get(keyOf(p.identity)) ?? null),
  }));
  engine.event(
    'topology',
    age < OLD_MS
      ? { ...topology, nodes }
      : ({
          sequence: 1,
          captured_at: Date.now(),
          nodes,
          edges: [],
          warnings: ['Connections and activity are not known while this page polls.'],
          inspected_processes: 0,
          inspected_fds: 0,
        } satisfies Topology),
  );
}

const live: Live = new Live(
  {
    url: () => '/api/system/events?delta=1&maps=summary',
    events: ['topology', 'topology_delta', 'metrics', 'activity', 'gap'],
    event(name, data) {
      if (!engine.event(name, data)) live.restart();
      const now = Date.now();
      if (now - said < HEARD_MS) return;
      said = now;
      post({ kind: 'heard', at: now });
    },
    opened: () => engine.opened(),
    async poll() {
      await poll();
      post({ kind: 'heard', at: Date.now() });
    },
  },
  {
    connect: (url) => new EventSource(url) as EventSourceLike,
    why: askWhy,
    slot: freeSlot,
    visible: () => isVisible,
    watch(shown, hidden) {
      show = shown;
      hide = hidden;
      return () => {
        show = () => {};
        hide = () => {};
      };
    },
    after(ms, run) {
      const id = setTimeout(run, ms);
      return () => clearTimeout(id);
    },
    now: () => Date.now(),
  },
);

live.state.subscribe((state) => post({ kind: 'state', state }));
let timer: ReturnType<typeof setInterval> | undefined;

function setTicking(on: boolean): void {
  clearInterval(timer);
  if (on) timer = setInterval(() => engine.tick(), TICK_MS);
}

scope.addEventListener('message', ({ data }) => {
  switch (data.kind) {
    case 'start':
      isVisible = data.visible;
      live.start();
      setTicking(isVisible);
      break;
    case 'visible':
      if (data.visible === isVisible) break;
      isVisible = data.visible;
      setTicking(isVisible);
      if (isVisible) show();
      else {
        hide();
        engine.clearMoments();
      }
      break;
    case 'stop':
      setTicking(false);
      live.stop();
      break;
    case 'retry':
      live.restart();
      break;
    case 'hold':
      if (!engine.hold(data.held)) live.restart();
      break;
    case 'select':
      engine.select(data.index);
      break;
    case 'query':
      engine.query(data.text);
      break;
    case 'connections':
      engine.show(data.which);
      break;
    case 'rearrange':
      engine.rearrange();
      break;
  }
});

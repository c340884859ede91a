// The two charts on top of Overview and Threads, their small form elsewhere, and
// the overview itself.

import { useEffect, useMemo, useRef } from 'preact/hooks';
import { ChartPanel, type ChartProps } from '../chart';
import { bytesFull, bytesUnit, count, dateTime, duration, percent, UNKNOWN, visible } from '../format';
import { palette } from '../palette';
import { RunLink } from '../runlink';
import { dark } from '../settings';
import { now } from './clock';
import type { Shared } from './context';
import { CopyAs, curlOf, tsvOf } from './copy';
import { CHARTS, type ChartKind, chartKind } from './figures';
import { commandOf, userText } from './identity';
import { Lanes, maxLanes } from './lanes';
import type { View } from './model';
import { type Fact, Facts, PanelBox, Provenance } from './parts';
import { FIGURES, type Figure, gapsOf, type Point, SPAN_MS } from './ring';

const TOP_HEIGHT = 108;

// endOf is the right edge of charts and lanes: they go on by the silence of a stale stream.
function endOf(view: View, shared: Shared): number {
  return view.end + (shared.model.heldAt.value === null ? shared.model.silence(now.value) : 0);
}

function chartProps(kind: ChartKind, view: View, shared: Shared, height: number): ChartProps & { id: string } {
  const { points } = view.seen;
  const of = (figure: Figure) => points.map((p) => p.figures[figure]);
  return {
    id: `chart-${kind.id}`,
    title: kind.title,
    times: points.map((p) => p.time),
    series: kind.lines.map(({ figure, ...line }) => ({ ...line, values: of(figure) })),
    end: endOf(view, shared),
    span: SPAN_MS,
    height,
    gaps: gapsOf(points),
    stale: shared.model.stale(now.value),
    ended: shared.model.ended.value !== null,
    note: kind.note,
  };
}

export function useChart(kind: ChartKind, shared: Shared, height: number): ChartProps & { id: string } {
  const view = shared.model.view.value;
  const stale = shared.model.stale(now.value);
  const ended = shared.model.ended.value;
  const held = shared.model.heldAt.value;
  const second = stale && held === null ? now.value : 0; // a stale chart moves on by itself
  return useMemo(() => chartProps(kind, view, shared, height), [kind, view, stale, ended, height, second]);
}

function ThreadStates(props: { shared: Shared }) {
  const { shared } = props;
  const view = shared.model.view.value;
  const threads = view.observation?.threads ?? [];
  const stopped = threads.some((t) => t.state === 'T' || t.state === 't');
  return (
    <section class="panel" aria-labelledby="thread-states" data-region="thread-states">
      <div class="panel-head">
        <h2 class="panel-title" id="thread-states">
          Thread states
        </h2>
        <span class="chart-legend">
          <span class="key-item">
            <span class="key-square key-ok" aria-hidden="true" /> running
          </span>
          <span class="key-item">
            <span class="key-square key-sleep" aria-hidden="true" /> sleeping
          </span>
          <span class="key-item">
            <span class="key-square key-disk" aria-hidden="true" /> disk wait
          </span>
          {stopped && (
            <span class="key-item">
              <span class="key-square key-stopped" aria-hidden="true" /> stopped
            </span>
          )}
        </span>
        <span class="panel-caption">
          {threads.length > maxLanes ? `busiest ${maxLanes} of ${count(threads.length)} · ` : ''}sampled 1/s · 60 s
        </span>
      </div>
      <div class="panel-body">
        <Lanes
          seen={view.seen}
          threads={threads}
          known={view.end}
          end={endOf(view, shared)}
          ended={shared.model.ended.value !== null}
        />
      </div>
    </section>
  );
}

// TopCharts are the two large charts.
export function TopCharts(props: { shared: Shared }) {
  const { shared } = props;
  const chart = useChart(chartKind(shared.params.get('chart')), shared, TOP_HEIGHT);
  return (
    <div class="top-charts">
      <ChartPanel {...chart} />
      <ThreadStates shared={shared} />
    </div>
  );
}

function Spark(props: { points: readonly Point[]; figure: Figure; ink: string; end: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = dark.value;
  useEffect(() => {
    const element = canvas.current;
    const ctx = element?.getContext('2d');
    if (!element || !ctx) return;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [element.clientWidth, element.clientHeight];
    element.width = Math.round(width * ratio);
    element.height = Math.round(height * ratio);
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    const top = Math.max(1, ...props.points.map((p) => p.figures[props.figure] ?? 0));
    ctx.strokeStyle = palette().role(props.ink);
    ctx.lineWidth = 1;
    ctx.beginPath();
    let on = false;
    for (const point of props.points) {
      const value = point.figures[props.figure];
      const x = width - ((props.end - point.time) / SPAN_MS) * width;
      if (value === null) {
        on = false;
        continue;
      }
      const y = height - 1.5 - (value / top) * (height - 3);
      if (on) ctx.lineTo(x, y);
      else ctx.moveTo(x, y);
      on = true;
    }
    ctx.stroke();
  }, [props.points, props.end, props.figure, props.ink, theme]);
  return <canvas class="spark" ref={canvas} />;
}

// FoldedCharts are the same two figures as sparklines, on the other sections.
export function FoldedCharts(props: { shared: Shared }) {
  const { shared } = props;
  const view = shared.model.view.value;
  const { observation } = view;
  return (
    <div class="folded">
      <button type="button" class="folded-item" onClick={() => shared.go('overview')}>
        <span class="folded-name">CPU</span>
        <Spark points={view.seen.points} figure="cpu" ink="cpu" end={view.end} />
        <span class="folded-value ink-cpu">
          {observation?.cpu_percent == null ? UNKNOWN : `${percent(observation.cpu_percent)} %`}
        </span>
      </button>
      <button type="button" class="folded-item" onClick={() => shared.go('overview')}>
        <span class="folded-name">RSS</span>
        <Spark points={view.seen.points} figure="rss" ink="mem" end={view.end} />
        <span class="folded-value ink-mem">{bytesUnit(observation?.rss_bytes).join(' ')}</span>
      </button>
    </div>
  );
}

function SmallChart(props: { shared: Shared; kind: ChartKind }) {
  return <ChartPanel {...useChart(props.kind, props.shared, 84)} short />;
}

const size = (n: number | null | undefined) => (n === null || n === undefined ? null : bytesUnit(n).join(' '));

function memoryFacts(view: View): Fact[] {
  const { observation: seen, space } = view;
  const { rollup } = space;
  const fact = (name: string, value: number | null | undefined): Fact => ({
    name,
    value: size(value),
    title: bytesFull(value),
  });
  return [
    fact('Resident', seen?.rss_bytes),
    fact('Proportional (PSS)', rollup?.pss_bytes),
    fact('Private', rollup?.private_bytes),
    fact('Swapped', seen?.swap_bytes),
    fact('Address space', seen?.vms_bytes),
    { name: 'Mappings', value: space.capturedAt === null ? null : count(space.regions.length) },
  ];
}

function countFacts(view: View): Fact[] {
  const { observation: seen } = view;
  const total = (n: number | null | undefined) => (n === null || n === undefined ? null : count(n));
  return [
    { name: 'Minor faults', value: total(seen?.minor_faults) },
    { name: 'Major faults', value: total(seen?.major_faults) },
    { name: 'Switches, voluntary', value: total(seen?.voluntary_context_switches) },
    { name: 'Switches, involuntary', value: total(seen?.nonvoluntary_context_switches) },
    { name: 'Storage read', value: size(seen?.io?.read_bytes), title: bytesFull(seen?.io?.read_bytes) },
    { name: 'Storage written', value: size(seen?.io?.write_bytes), title: bytesFull(seen?.io?.write_bytes) },
  ];
}

function processFacts(view: View): Fact[] {
  const { observation: seen, summary } = view;
  if (summary === null) return [];
  return [
    { name: 'Executable', value: summary.executable === null ? null : visible(summary.executable) },
    { name: 'Command', value: commandOf(summary) },
    { name: 'User', value: userText(summary) },
    { name: 'Started', value: `${dateTime(summary.started_at)} · up ${duration(now.value - summary.started_at)}` },
    { name: 'Control group', value: summary.cgroup === null ? null : visible(summary.cgroup) },
    { name: 'Container', value: summary.container === null ? 'none' : visible(summary.container) },
    ...(summary.run_id === null ? [] : [{ name: 'Run', value: <RunLink id={summary.run_id} /> }]),
    { name: 'Terminal', value: summary.tty === null ? 'none' : visible(summary.tty) },
    {
      name: 'Scheduling',
      value: seen === null ? null : `priority ${seen.priority}, nice ${seen.nice}, last on CPU ${seen.cpu}`,
    },
  ];
}

export function Overview(props: { shared: Shared }) {
  const { shared } = props;
  const view = shared.model.view.value;
  const large = chartKind(shared.params.get('chart')).id;
  const small = CHARTS.filter((chart) => chart.id !== large && chart.id !== 'threads');
  const { pid } = shared.identity;
  const at = view.observation?.timestamp ?? null;
  return (
    <div class="overview">
      <div class="small-charts">
        {small.map((kind) => (
          <SmallChart shared={shared} kind={kind} key={kind.id} />
        ))}
      </div>
      <div class="overview-facts">
        <PanelBox id="facts-memory" title="Memory" foot={<Provenance source="status, smaps_rollup" at={at} />}>
          <Facts list={memoryFacts(view)} label="Memory" />
        </PanelBox>
        <PanelBox id="facts-counters" title="Since start" foot={<Provenance source="stat, status, io" at={at} />}>
          <Facts list={countFacts(view)} label="Since start" />
        </PanelBox>
        <PanelBox
          id="facts-process"
          title="Process"
          class="panel-wide"
          actions={
            <CopyAs
              what="overview"
              items={[
                { name: 'curl', text: () => curlOf('/api/processes/observation', shared.identity) },
                {
                  name: 'JSON',
                  text: () => JSON.stringify({ summary: view.summary, observation: view.observation }, null, 2),
                },
                {
                  name: 'TSV of 60 s',
                  text: () =>
                    tsvOf(
                      ['time', ...FIGURES],
                      view.seen.points.map((p) => [p.time, ...FIGURES.map((figure) => p.figures[figure])]),
                    ),
                },
              ]}
            />
          }
          foot={<Provenance source={`/proc/${pid}/stat, exe, cmdline, cgroup`} at={at} />}
        >
          <Facts list={processFacts(view)} label="Process" />
        </PanelBox>
      </div>
    </div>
  );
}

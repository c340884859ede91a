// The gauges: the host's last minute on a graticule of 10 × 4, and a drag on any of
// them to bring the list back to that second.

import { effect } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { bytesUnit, clock, count, duration, UNKNOWN } from '../format';
import { palette } from '../palette';
import { dark } from '../settings';
import { type Point, store } from '../store';

export const SPAN_MS = 60_000;
const GAP_MS = 2500;

// Size is kept from the last resize: asking the element would force a layout.
interface Size {
  width: number;
  height: number;
}

interface ChartProps {
  label: string;
  tone: string;
  of: (point: Point) => number | null;
  full: () => number; // value of the full height
  text: (value: number) => string;
  stale: boolean;
}

function draw(canvas: HTMLCanvasElement, size: Size, props: ChartProps, at: number | null): void {
  const ctx = canvas.getContext('2d');
  const { width, height } = size;
  if (!ctx || width === 0) return;
  const scale = Math.min(2, window.devicePixelRatio || 1);
  const w = Math.round(width * scale);
  const h = Math.round(height * scale);
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const { role } = palette();
  const full = props.full();
  ctx.setTransform(scale, 0, 0, scale, 0, 0);
  ctx.clearRect(0, 0, width, height);
  ctx.strokeStyle = role('line');
  ctx.lineWidth = 1;
  ctx.beginPath();
  for (let i = 0; i <= 10; i++) {
    const x = Math.round((i * (width - 1)) / 10) + 0.5;
    ctx.moveTo(x, 0);
    ctx.lineTo(x, height);
  }
  for (let i = 0; i <= 4; i++) {
    const y = Math.round((i * (height - 1)) / 4) + 0.5;
    ctx.moveTo(0, y);
    ctx.lineTo(width, y);
  }
  ctx.stroke();
  const points = store.shownPoints;
  const end = points.at(-1)?.at ?? 0;
  const xOf = (time: number) => width - ((end - time) / SPAN_MS) * width;
  const yOf = (value: number) => height - 1 - Math.min(1, value / full) * (height - 2);
  const colour = role(props.tone);
  ctx.strokeStyle = colour;
  ctx.fillStyle = colour;
  let run: [number, number][] = [];
  const flush = () => {
    const first = run[0];
    const last = run.at(-1);
    if (first && last) {
      ctx.beginPath();
      ctx.moveTo(run.length === 1 ? first[0] - 2 : first[0], first[1]);
      for (const [x, y] of run) ctx.lineTo(x, y);
      ctx.stroke();
      ctx.lineTo(last[0], height);
      ctx.lineTo(first[0], height);
      ctx.globalAlpha = 0.16;
      ctx.fill();
      ctx.globalAlpha = 1;
    }
    run = [];
  };
  let before = 0;
  for (const point of points) {
    const value = props.of(point);
    if (value === null || (before && point.at - before > GAP_MS)) flush();
    if (value !== null) run.push([xOf(point.at), yOf(value)]);
    before = point.at;
  }
  flush();
  if (props.stale) {
    ctx.strokeStyle = role('fg2');
    ctx.beginPath();
    for (let x = width - 40; x < width + height; x += 5) {
      ctx.moveTo(Math.max(x, width - 40), Math.min(height, height - (Math.max(x, width - 40) - x)));
      ctx.lineTo(x + height, 0);
    }
    ctx.stroke();
  }
  if (at !== null && end - at <= SPAN_MS) {
    const x = Math.round(xOf(at)) - 0.5;
    ctx.strokeStyle = role('focus');
    ctx.lineWidth = 2;
    ctx.beginPath();
    ctx.moveTo(x, 0);
    ctx.lineTo(x, height);
    ctx.stroke();
  }
}

function sentence(props: ChartProps): string {
  let least = Number.POSITIVE_INFINITY;
  let most = Number.NEGATIVE_INFINITY;
  let last: number | null = null;
  for (const point of store.shownPoints) {
    const value = props.of(point);
    if (value === null) continue;
    least = Math.min(least, value);
    most = Math.max(most, value);
    last = value;
  }
  if (last === null) return `${props.label}, last 60 s: no sample yet`;
  return `${props.label}, last 60 s: least ${props.text(least)}, most ${props.text(most)}, now ${props.text(last)}. Full height ${props.text(props.full())}.`;
}

function rewindTo(canvas: HTMLElement, clientX: number): void {
  const box = canvas.getBoundingClientRect();
  const end = store.shownPoints.at(-1)?.at ?? 0;
  if (!end || box.width === 0) return;
  const share = Math.min(1, Math.max(0, (clientX - box.left) / box.width));
  store.rewind(end - (1 - share) * SPAN_MS);
}

// A sentence for those who do not see the chart need not change with each second.
const SENTENCE_MS = 5000;

// The chart draws itself when something comes: the component is not made anew for it.
function Chart(props: ChartProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const current = useRef(props);
  current.current = props;
  const redraw = useRef(() => {});
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const size: Size = { width: 0, height: 0 };
    let said = 0;
    redraw.current = () => {
      const frame = store.frame.peek();
      draw(element, size, current.current, frame.kind === 'past' ? frame.at : null);
      const now = Date.now();
      if (store.shownPoints.length === 0 || now - said >= SENTENCE_MS) {
        if (store.shownPoints.length > 0) said = now;
        element.setAttribute('aria-label', sentence(current.current));
      }
    };
    const stop = effect(() => {
      void [store.totals.value, store.frame.value, dark.value];
      redraw.current();
    });
    const observer = new ResizeObserver(() => {
      size.width = element.clientWidth;
      size.height = element.clientHeight;
      redraw.current();
    });
    observer.observe(element);
    return () => {
      stop();
      observer.disconnect();
    };
  }, []);
  useEffect(() => redraw.current(), [props.stale]);
  return (
    <canvas
      ref={canvas}
      class="gauge-chart"
      role="img"
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        const from = event.clientX;
        const element = event.currentTarget;
        const move = (e: PointerEvent) => {
          if (Math.abs(e.clientX - from) > 3 || store.frame.peek().kind === 'past') rewindTo(element, e.clientX);
        };
        const up = () => {
          element.removeEventListener('pointermove', move);
          element.removeEventListener('pointerup', up);
          element.removeEventListener('pointercancel', up);
        };
        element.addEventListener('pointermove', move);
        element.addEventListener('pointerup', up);
        element.addEventListener('pointercancel', up);
      }}
    />
  );
}

// Reading is the figure above a chart; the chart beside it stays as it is.
interface Reading {
  caption: string;
  figure: string;
  unit: string;
  title: string;
}

function Gauge(props: { reading: () => Reading; chart: ChartProps }) {
  return (
    <section class="gauge">
      <Figure reading={props.reading} />
      <Chart {...props.chart} />
    </section>
  );
}

function Figure(props: { reading: () => Reading }) {
  const { caption, figure, unit, title } = props.reading();
  return (
    <div title={title}>
      <h2 class="caption">{caption}</h2>
      <p class="gauge-figure">
        <span class="gauge-big">{figure}</span> <span class="gauge-unit">{unit}</span>
      </p>
    </div>
  );
}

// fullRate is the height of a rate chart: the most seen, rounded up to a power of two.
function fullRate(of: (point: Point) => number | null): number {
  let most = 1024 * 1024;
  for (const point of store.shownPoints) most = Math.max(most, of(point) ?? 0);
  return 2 ** Math.ceil(Math.log2(most));
}

const sizeText = (value: number) => bytesUnit(value).join(' ');
const rateText = (value: number) => `${sizeText(value)}/s`;

const LOADING = '····';

// shownPoint is the second on screen: the newest, or an earlier one after a rewind.
function shownPoint(): Point | undefined {
  void store.shownTotals;
  const frame = store.frame.value;
  if (frame.kind !== 'past') return store.shownPoints.at(-1);
  let best = store.shownPoints[0];
  for (const p of store.shownPoints) if (best && Math.abs(p.at - frame.at) < Math.abs(best.at - frame.at)) best = p;
  return best;
}

function cpuReading(): Reading {
  const totals = store.shownTotals;
  const busy = shownPoint()?.cores ?? null;
  const cores = totals?.cores ?? 0;
  return {
    caption: totals ? `CPU ${cores} ${cores === 1 ? 'core' : 'cores'}` : 'CPU',
    figure: totals ? (busy === null ? UNKNOWN : busy.toFixed(2)) : LOADING,
    unit: 'cores busy',
    title: busy === null ? 'needs two samples' : `of ${cores}; drag on the chart to rewind the list`,
  };
}

function memoryReading(): Reading {
  const totals = store.shownTotals;
  const [used, usedUnit] = bytesUnit(shownPoint()?.memory);
  const [all, allUnit] = bytesUnit(totals?.memory_total_bytes);
  return {
    caption: 'Memory',
    figure: totals ? used : LOADING,
    unit: totals ? `${usedUnit === allUnit ? '' : `${usedUnit} `}/ ${all} ${allUnit}` : '',
    title: totals?.swap_total_bytes
      ? `used of all; swap ${sizeText(totals.swap_used_bytes)} of ${sizeText(totals.swap_total_bytes)}`
      : 'used of all; no swap',
  };
}

function rateReading(caption: string, of: (point: Point) => number | null): Reading {
  const point = shownPoint();
  const value = point ? of(point) : null;
  const [figure, unit] = bytesUnit(value);
  return {
    caption,
    figure: store.shownTotals ? figure : LOADING,
    unit: value === null ? '' : `${unit}/s`,
    title: value === null ? 'needs two samples' : 'storage, whole host',
  };
}

function Counts() {
  const totals = store.shownTotals;
  const states = totals?.states ?? {};
  const turn = store.turnover();
  const parts: string[] = [];
  if (totals) {
    parts.push(`${count(states.R ?? 0)} running`);
    if (states.D) parts.push(`${count(states.D)} in D`);
    if (states.Z) parts.push(`${count(states.Z)} ${states.Z === 1 ? 'zombie' : 'zombies'}`);
  }
  return (
    <section class="gauge gauge-counts" title={totals ? `The host runs for ${duration(totals.uptime_ms)}` : undefined}>
      <h2 class="caption">Processes</h2>
      <p class="gauge-figure">
        <span class="gauge-big">{totals ? count(totals.processes) : LOADING}</span>{' '}
        <span class="gauge-unit">{parts.join(' · ')}</span>
      </p>
      {totals && (
        <p class="gauge-lines">
          <span class="gauge-turn">
            +{turn.started} started −{turn.exited} exited in the last 5 s
          </span>
          <span class="gauge-more">
            {count(totals.threads)} threads · load {totals.load.map((l) => l.toFixed(2)).join(' ')}
          </span>
        </p>
      )}
    </section>
  );
}

const read = (point: Point) => point.read;
const written = (point: Point) => point.write;

const CHARTS: readonly { reading: () => Reading; chart: Omit<ChartProps, 'stale'> }[] = [
  {
    reading: cpuReading,
    chart: {
      label: 'Cores busy',
      tone: 'cpu',
      of: (p) => p.cores,
      full: () => store.shownTotals?.cores ?? 1,
      text: (v) => v.toFixed(2),
    },
  },
  {
    reading: memoryReading,
    chart: {
      label: 'Memory used',
      tone: 'mem',
      of: (p) => p.memory,
      full: () => store.shownTotals?.memory_total_bytes ?? 1,
      text: sizeText,
    },
  },
  {
    reading: () => rateReading('Read', read),
    chart: { label: 'Read from storage', tone: 'read', of: read, full: () => fullRate(read), text: rateText },
  },
  {
    reading: () => rateReading('Write', written),
    chart: { label: 'Written to storage', tone: 'write', of: written, full: () => fullRate(written), text: rateText },
  },
];

export function Gauges(props: { stale: boolean }) {
  return (
    <div class="gauges" data-region="gauges">
      {CHARTS.map(({ reading, chart }) => (
        <Gauge key={chart.label} reading={reading} chart={{ ...chart, stale: props.stale }} />
      ))}
      <Counts />
    </div>
  );
}

// rewindLabel is the time of a frame as the lamp and the slider say it.
export function rewindLabel(at: number): string {
  return `${clock(at)}, −${Math.round(Math.max(0, store.capturedAt - at) / 1000)} s`;
}

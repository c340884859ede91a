// The gauges: the host's last minute on a graticule of 10 × 4, and a drag on any of
// them to bring the list back to that second.

import { signal } from '@preact/signals';
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
  full: number; // value of the full height
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
  const points = store.points;
  const end = points.at(-1)?.at ?? 0;
  const xOf = (time: number) => width - ((end - time) / SPAN_MS) * width;
  const yOf = (value: number) => height - 1 - Math.min(1, value / props.full) * (height - 2);
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
  for (const point of store.points) {
    const value = props.of(point);
    if (value === null) continue;
    least = Math.min(least, value);
    most = Math.max(most, value);
    last = value;
  }
  if (last === null) return `${props.label}, last 60 s: no sample yet`;
  return `${props.label}, last 60 s: least ${props.text(least)}, most ${props.text(most)}, now ${props.text(last)}. Full height ${props.text(props.full)}.`;
}

function rewindTo(canvas: HTMLElement, clientX: number): void {
  const box = canvas.getBoundingClientRect();
  const end = store.points.at(-1)?.at ?? 0;
  if (!end || box.width === 0) return;
  const share = Math.min(1, Math.max(0, (clientX - box.left) / box.width));
  store.rewind(end - (1 - share) * SPAN_MS);
}

function Chart(props: ChartProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const size = useRef<Size>({ width: 0, height: 0 });
  const frame = store.frame.value;
  const at = frame.kind === 'past' ? frame.at : null;
  const theme = dark.value;
  useEffect(() => {
    if (canvas.current) draw(canvas.current, size.current, props, at);
  });
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const observer = new ResizeObserver(() => {
      size.current = { width: element.clientWidth, height: element.clientHeight };
      resized.value++;
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  void resized.value;
  return (
    <canvas
      ref={canvas}
      class="gauge-chart"
      role="img"
      aria-label={sentence(props)}
      data-theme={theme ? 'dark' : 'light'}
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

const resized = signal(0);

function Gauge(props: ChartProps & { caption: string; figure: string; unit: string; title: string }) {
  const { caption, figure, unit, title, ...chart } = props;
  return (
    <section class="gauge" title={title}>
      <h2 class="caption">{caption}</h2>
      <p class="gauge-figure">
        <span class="gauge-big">{figure}</span> <span class="gauge-unit">{unit}</span>
      </p>
      <Chart {...chart} />
    </section>
  );
}

// fullRate is the height of a rate chart: the most seen, rounded up to a power of two.
function fullRate(of: (point: Point) => number | null): number {
  let most = 1024 * 1024;
  for (const point of store.points) most = Math.max(most, of(point) ?? 0);
  return 2 ** Math.ceil(Math.log2(most));
}

const sizeText = (value: number) => bytesUnit(value).join(' ');
const rateText = (value: number) => `${sizeText(value)}/s`;

const LOADING = '····';

export function Gauges(props: { stale: boolean }) {
  const totals = store.totals.value;
  const frame = store.frame.value;
  // At an earlier second the figures are those of that second.
  const point =
    frame.kind === 'past'
      ? store.points.reduce<Point | undefined>(
          (best, p) => (!best || Math.abs(p.at - frame.at) < Math.abs(best.at - frame.at) ? p : best),
          undefined,
        )
      : store.points.at(-1);
  const cores = totals?.cores ?? 1;
  const busy = point?.cores ?? null;
  const unknown = (value: number | null | undefined) => value === null || value === undefined;
  const [memory, memoryUnit] = bytesUnit(point?.memory);
  const [all, allUnit] = bytesUnit(totals?.memory_total_bytes);
  const [read, readUnit] = bytesUnit(point?.read);
  const [written, writeUnit] = bytesUnit(point?.write);
  const states = totals?.states ?? {};
  const turn = store.turnover();
  const parts: string[] = [];
  if (totals) {
    parts.push(`${count(states.R ?? 0)} running`);
    if (states.D) parts.push(`${count(states.D)} in D`);
    if (states.Z) parts.push(`${count(states.Z)} ${states.Z === 1 ? 'zombie' : 'zombies'}`);
  }
  const rateReason = (value: number | null | undefined) =>
    !totals ? 'waiting' : unknown(value) ? 'needs two samples' : 'storage, whole host';
  return (
    <div class="gauges" data-region="gauges">
      <Gauge
        caption={totals ? `CPU ${cores} ${cores === 1 ? 'core' : 'cores'}` : 'CPU'}
        figure={totals ? (busy === null ? UNKNOWN : busy.toFixed(2)) : LOADING}
        unit="cores busy"
        title={busy === null ? 'needs two samples' : `of ${cores}; drag on the chart to rewind the list`}
        label="Cores busy"
        tone="cpu"
        of={(p) => p.cores}
        full={cores}
        text={(v) => v.toFixed(2)}
        stale={props.stale}
      />
      <Gauge
        caption="Memory"
        figure={totals ? memory : LOADING}
        unit={totals ? `${memoryUnit === allUnit ? '' : `${memoryUnit} `}/ ${all} ${allUnit}` : ''}
        title={
          totals?.swap_total_bytes
            ? `used of all; swap ${sizeText(totals.swap_used_bytes)} of ${sizeText(totals.swap_total_bytes)}`
            : 'used of all; no swap'
        }
        label="Memory used"
        tone="mem"
        of={(p) => p.memory}
        full={totals?.memory_total_bytes ?? 1}
        text={sizeText}
        stale={props.stale}
      />
      <Gauge
        caption="Read"
        figure={totals ? read : LOADING}
        unit={unknown(point?.read) ? '' : `${readUnit}/s`}
        title={rateReason(point?.read)}
        label="Read from storage"
        tone="read"
        of={(p) => p.read}
        full={fullRate((p) => p.read)}
        text={rateText}
        stale={props.stale}
      />
      <Gauge
        caption="Write"
        figure={totals ? written : LOADING}
        unit={unknown(point?.write) ? '' : `${writeUnit}/s`}
        title={rateReason(point?.write)}
        label="Written to storage"
        tone="write"
        of={(p) => p.write}
        full={fullRate((p) => p.write)}
        text={rateText}
        stale={props.stale}
      />
      <section
        class="gauge gauge-counts"
        title={totals ? `The host runs for ${duration(totals.uptime_ms)}` : undefined}
      >
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
    </div>
  );
}

// rewindLabel is the time of a frame as the lamp and the slider say it.
export function rewindLabel(at: number): string {
  return `${clock(at)}, −${Math.round(Math.max(0, store.capturedAt - at) / 1000)} s`;
}

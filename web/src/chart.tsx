// Time charts: uPlot behind one component, so that it can be replaced here alone.
// The look is an oscilloscope's: a graticule of 10 × 4 divisions, the scale per
// division in words, gaps where a value is null, one cursor for all charts.
//
// Times are epoch ms on the outside and seconds inside, as uPlot wants them.

import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { clock } from './format';
import { palette } from './palette';
import { dark } from './settings';

const DIVISIONS_X = 10;
const DIVISIONS_Y = 4;
// maxTableRows of the "as table" form: the newest ones.
const maxTableRows = 240;

export interface Series {
  readonly label: string;
  readonly role: string; // colour role
  readonly values: readonly (number | null)[];
  // Series with the same scale share their divisions.
  readonly scale: string;
  // format writes a value with its unit; null is unknown.
  readonly format: (value: number | null) => string;
  // least is the smallest full height worth showing: noise near zero stays small.
  readonly least: number;
  // binary scales step in powers of two, others in 1, 2, 5.
  readonly binary?: boolean;
  readonly dash?: boolean;
}

export interface ChartProps {
  readonly title: string;
  readonly times: readonly number[]; // epoch ms, ascending
  readonly series: readonly Series[];
  readonly end: number; // right edge, epoch ms
  readonly span: number; // ms
  readonly height: number;
  readonly gaps?: readonly { readonly from: number; readonly to: number }[];
  readonly stale?: boolean; // nothing new comes: the right end is hatched
  readonly ended?: boolean; // the process is gone: a bar at its last sample
  readonly note?: string; // shown instead of a line while there is none
}

// perDivision is the step that holds `top` in four divisions: 1, 2, 5 × 10^n, or 2^n.
export function perDivision(top: number, binary: boolean): number {
  const need = Math.max(top, 1e-9) / DIVISIONS_Y;
  if (binary) return 2 ** Math.ceil(Math.log2(need));
  const base = 10 ** Math.floor(Math.log10(need));
  for (const step of [1, 2, 5, 10]) if (need <= step * base * (1 + 1e-9)) return step * base;
  return 10 * base;
}

export interface Summary {
  readonly least: number | null;
  readonly most: number | null;
  readonly last: number | null;
}

// summarize is the minimum, maximum and last known value.
export function summarize(values: readonly (number | null)[]): Summary {
  let least: number | null = null;
  let most: number | null = null;
  for (const value of values) {
    if (value === null) continue;
    if (least === null || value < least) least = value;
    if (most === null || value > most) most = value;
  }
  return { least, most, last: values.findLast((v) => v !== null) ?? null };
}

// sentence is what a chart says to someone who cannot see it.
export function sentence(title: string, span: number, series: readonly Series[]): string {
  const parts = series.map(({ label, values, format }) => {
    const { least, most, last } = summarize(values);
    if (last === null) return `${label}: no value yet`;
    return `${label}: minimum ${format(least)}, maximum ${format(most)}, last ${format(last)}`;
  });
  return `${title}, last ${Math.round(span / 1000)} s. ${parts.join('. ')}.`;
}

// pointed is the time under the cursor, epoch ms, the same for all charts; null without one.
export const pointed = signal<number | null>(null);

// nearest is the index of the sample closest to a time, -1 when there is none.
export function nearest(times: readonly number[], time: number): number {
  let best = -1;
  for (let i = 0; i < times.length; i++) {
    const here = Math.abs((times[i] as number) - time);
    if (best < 0 || here <= Math.abs((times[best] as number) - time)) best = i;
  }
  return best;
}

interface Scale {
  readonly step: number;
  readonly first: Series;
}

function scalesOf(series: readonly Series[]): Map<string, Scale> {
  const out = new Map<string, Scale>();
  for (const one of series) {
    const same = series.filter((s) => s.scale === one.scale);
    if (out.has(one.scale)) continue;
    const top = Math.max(...same.map((s) => Math.max(s.least, summarize(s.values).most ?? 0)));
    out.set(one.scale, { step: perDivision(top * 1.02, one.binary ?? false), first: one });
  }
  return out;
}

// drawn is what the hooks read: props of the newest render, outside of uPlot's options.
interface Drawn {
  props: ChartProps;
  scales: Map<string, Scale>;
}

function graticule(u: uPlot): void {
  const { ctx, bbox } = u;
  const ratio = uPlot.pxRatio;
  ctx.save();
  ctx.setLineDash([]);
  ctx.lineWidth = ratio;
  ctx.strokeStyle = palette().role('line');
  ctx.beginPath();
  for (let i = 1; i < DIVISIONS_X; i++) {
    const x = Math.round(bbox.left + (bbox.width * i) / DIVISIONS_X) + ratio / 2;
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
  }
  for (let i = 1; i < DIVISIONS_Y; i++) {
    const y = Math.round(bbox.top + (bbox.height * i) / DIVISIONS_Y) + ratio / 2;
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
  }
  ctx.stroke();
  ctx.strokeStyle = palette().role('line2');
  ctx.strokeRect(bbox.left + ratio / 2, bbox.top + ratio / 2, bbox.width - ratio, bbox.height - ratio);
  ctx.restore();
}

function marks(u: uPlot, drawn: Drawn): void {
  const { ctx, bbox } = u;
  const ratio = uPlot.pxRatio;
  const { gaps = [], stale, ended, times } = drawn.props;
  const at = (ms: number) => Math.max(bbox.left, Math.min(bbox.left + bbox.width, u.valToPos(ms / 1000, 'x', true)));
  const hatched = (left: number, right: number, role: string) => {
    if (right - left < 2 * ratio) return;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, bbox.top, right - left, bbox.height);
    ctx.clip();
    ctx.strokeStyle = palette().role(role);
    ctx.lineWidth = ratio;
    ctx.beginPath();
    const step = 6 * ratio;
    for (let x = Math.floor(left / step) * step - bbox.height; x < right; x += step) {
      ctx.moveTo(x, bbox.top + bbox.height);
      ctx.lineTo(x + bbox.height, bbox.top);
    }
    ctx.stroke();
    ctx.restore();
  };
  for (const gap of gaps) {
    hatched(at(gap.from), at(gap.to), 'line');
    ctx.fillStyle = palette().role('fg2');
    ctx.fillRect(at(gap.from), bbox.top + bbox.height - 5 * ratio, ratio, 5 * ratio);
  }
  const last = times.at(-1);
  if (last === undefined) return;
  if (ended) {
    ctx.fillStyle = palette().role('bad');
    ctx.fillRect(Math.min(at(last), bbox.left + bbox.width - 2 * ratio), bbox.top, 2 * ratio, bbox.height);
  } else if (stale) {
    hatched(at(last), bbox.left + bbox.width, 'line2');
  }
}

// Chart is the canvas with its sentence; the caller gives the panel around it.
export function Chart(props: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const scales = scalesOf(props.series);
  const drawn = useRef<Drawn>({ props, scales });
  drawn.current = { props, scales };
  const shape = props.series.map((s) => `${s.label} ${s.role} ${s.scale}`).join('|');

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const top = (name: string) => (drawn.current.scales.get(name)?.step ?? 1) * DIVISIONS_Y;
    const options: uPlot.Options = {
      width: Math.max(40, element.clientWidth),
      height: props.height,
      padding: [1, 1, 1, 1],
      legend: { show: false },
      cursor: { sync: { key: 'process' }, drag: { x: false, y: false }, points: { size: 5 }, y: false },
      select: { show: false, left: 0, top: 0, width: 0, height: 0 },
      scales: {
        x: {
          time: false,
          range: () => {
            const { end, span } = drawn.current.props;
            return [(end - span) / 1000, end / 1000];
          },
        },
        ...Object.fromEntries(
          [...scales.keys()].map((name) => [name, { range: () => [0, top(name)] as [number, number] }]),
        ),
      },
      axes: [{ show: false }, { show: false }],
      series: [
        {},
        ...props.series.map(
          (one): uPlot.Series => ({
            scale: one.scale,
            width: 1.25,
            stroke: () => palette().role(one.role),
            points: { show: false },
            spanGaps: false,
            ...(one.dash ? { dash: [4, 3] } : {}),
          }),
        ),
      ],
      hooks: {
        drawClear: [graticule],
        draw: [(u) => marks(u, drawn.current)],
        setCursor: [
          (u) => {
            const { left = -1, idx } = u.cursor;
            const at = left < 0 || idx === null || idx === undefined ? undefined : u.data[0][idx];
            pointed.value = at === undefined ? null : Math.round(at * 1000);
          },
        ],
      },
    };
    const u = new uPlot(options, dataOf(props), element);
    plot.current = u;
    const sizes = new ResizeObserver(() => {
      const width = element.clientWidth;
      if (width > 0) u.setSize({ width, height: drawn.current.props.height });
    });
    sizes.observe(element);
    return () => {
      sizes.disconnect();
      plot.current = null;
      u.destroy();
    };
  }, [shape, props.height]);

  // Pointing renders the panel again; only new samples or marks are drawn again.
  useEffect(() => {
    plot.current?.setData(dataOf(props), true);
  }, [props.times, props.end, props.stale, props.ended, shape]);

  // The colours are asked for at each draw, so a new theme needs only a draw.
  const theme = dark.value;
  useEffect(() => plot.current?.redraw(false), [theme]);

  const silent = props.series.every((one) => one.values.every((v) => v === null));
  return (
    <div class="chart" role="img" aria-label={sentence(props.title, props.span, props.series)}>
      <div class="chart-plot" ref={box} />
      {silent && props.note !== undefined && <div class="chart-note">{props.note}</div>}
    </div>
  );
}

function dataOf(props: ChartProps): uPlot.AlignedData {
  return [
    props.times.map((t) => t / 1000),
    ...props.series.map((one) => one.values as (number | null)[]),
  ] as uPlot.AlignedData;
}

function Table(props: ChartProps) {
  const from = Math.max(0, props.times.length - maxTableRows);
  const rows = props.times.slice(from).map((time, i) => ({ time, at: from + i }));
  rows.reverse();
  return (
    <div class="chart-table" tabIndex={0} role="group" aria-label={`${props.title} as table`} data-scroll="">
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">Time</th>
            {props.series.map((one) => (
              <th scope="col" class="num" key={one.label}>
                {one.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ time, at }) => (
            <tr key={time}>
              <td>{clock(time)}</td>
              {props.series.map((one) => (
                <td class="num" key={one.label}>
                  {one.format(one.values[at] ?? null)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

// ChartPanel is a chart with heading, legend, scale in words, and its table.
export function ChartPanel(props: ChartProps & { id: string; short?: boolean }) {
  const [table, setTable] = useState(false);
  const scales = scalesOf(props.series);
  const at = pointed.value === null ? -1 : nearest(props.times, pointed.value);
  const shown = at < 0 ? props.times.length - 1 : at;
  const caption = [
    ...(at < 0 ? [] : [`at ${clock(props.times[at] as number)}`]),
    ...(props.short
      ? []
      : [`${Math.round(props.span / 1000)} s`, `${Math.round(props.span / 1000 / DIVISIONS_X)} s/div`]),
    ...[...scales.values()].map(({ step, first }) => `${first.format(step).replace(/\.0(?!\d)/, '')}/div`),
  ].join(' · ');
  return (
    <section class="panel chart-panel" aria-labelledby={props.id} data-chart={props.id}>
      <div class="panel-head">
        <h2 class="panel-title" id={props.id}>
          {props.title}
        </h2>
        <span class="chart-legend">
          {props.series.map((one) => (
            <span class="key-item" key={one.label}>
              <span class={`key-square key-${one.role}${one.dash ? ' key-dash' : ''}`} aria-hidden="true" />
              {one.label} <span class="key-value">{one.format(one.values[shown] ?? null)}</span>
            </span>
          ))}
        </span>
        <span class="panel-caption">{caption}</span>
        <button type="button" class="button button-text" aria-pressed={table} onClick={() => setTable(!table)}>
          as table
        </button>
      </div>
      {table ? <Table {...props} /> : <Chart {...props} />}
    </section>
  );
}

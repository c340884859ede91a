// The preview: what the list knows of the selected row, at the foot of the page. It
// asks the server for nothing.

import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { userOf } from '../columns';
import type { Row } from '../deltas';
import { bytes, bytesFull, commandText, dateTime, duration, percent, stateName, visible } from '../format';
import { TICKS } from '../history';
import { palette } from '../palette';
import { navigate, plainClick, processPath } from '../route';
import { RunLink } from '../runlink';
import { dark } from '../settings';
import { store } from '../store';
import { drawStrip, KIND_NAME, kindFrom, layoutRow, stripPalette } from '../strip';
import { previewOpen } from './state';

const line = new Float32Array(TICKS);
const resized = signal(0);

function prepare(canvas: HTMLCanvasElement): CanvasRenderingContext2D | null {
  const ctx = canvas.getContext('2d');
  const { clientWidth: width, clientHeight: height } = canvas;
  if (!ctx || width === 0) return null;
  const scale = Math.min(2, window.devicePixelRatio || 1);
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  ctx.setTransform(scale, 0, 0, scale, 0, 0);
  return ctx;
}

function drawLine(canvas: HTMLCanvasElement, row: Row): void {
  const ctx = prepare(canvas);
  if (!ctx) return;
  const { clientWidth: width, clientHeight: height } = canvas;
  const { role } = palette();
  ctx.strokeStyle = role('line');
  ctx.beginPath();
  for (let i = 0; i <= 10; i++) {
    const x = Math.round((i * (width - 1)) / 10) + 0.5;
    ctx.moveTo(x, 0);
    ctx.lineTo(x, height);
  }
  for (let i = 0; i <= 2; i++) {
    const y = Math.round((i * (height - 1)) / 2) + 0.5;
    ctx.moveTo(0, y);
    ctx.lineTo(width, y);
  }
  ctx.stroke();
  const paths: [(slot: number, out: Float32Array) => void, string, number][] = [
    [(slot, out) => store.shownHistory.sizes(slot, out), role('mem'), 1],
    [(slot, out) => store.shownHistory.line(slot, out), role('cpu'), 100],
  ];
  for (const [fill, colour, least] of paths) {
    fill(row.slot, line);
    let most = least;
    for (const value of line) if (value > most) most = value;
    ctx.strokeStyle = colour;
    ctx.beginPath();
    let open = false;
    for (let i = 0; i < TICKS; i++) {
      const value = line[i] as number;
      if (Number.isNaN(value)) {
        open = false;
        continue;
      }
      const x = (i * (width - 1)) / (TICKS - 1);
      const y = height - 1 - (value / most) * (height - 3);
      if (open) ctx.lineTo(x, y);
      else ctx.moveTo(x - 1, y);
      if (!open) ctx.lineTo(x, y);
      open = true;
    }
    ctx.stroke();
  }
}

// parents are the ancestors of a row, nearest last. maxParents keeps the line readable.
const maxParents = 8;

function parents(row: Row): Row[] {
  const out: Row[] = [];
  let id = row.summary.parent_id;
  while (id && out.length < maxParents) {
    const up = store.byPid(id.pid);
    if (!up || up.start !== id.start_time_ticks || out.includes(up)) break;
    out.unshift(up);
    id = up.summary.parent_id;
  }
  return out;
}

function RowLink(props: { row: Row; open: (row: Row) => void; class?: string; children?: string }) {
  const { row } = props;
  return (
    <a
      class={props.class ?? 'link'}
      href={processPath(row.summary.identity)}
      onClick={(event) => {
        if (!plainClick(event)) return;
        event.preventDefault();
        props.open(row);
      }}
    >
      {props.children ?? (visible(row.summary.name) || row.pid)}
    </a>
  );
}

export function Preview(props: { row: Row; select: (row: Row) => void }) {
  const { row } = props;
  const s = row.summary;
  const open = (one: Row) => navigate(processPath(one.summary.identity));
  const strip = useRef<HTMLCanvasElement>(null);
  const chart = useRef<HTMLCanvasElement>(null);
  void store.tick.value;
  void dark.value;
  void resized.value;
  useEffect(() => {
    if (chart.current) drawLine(chart.current, row);
  });
  useEffect(() => {
    const canvas = strip.current;
    const ctx = canvas ? prepare(canvas) : null;
    if (!canvas || !ctx || row.maps === null) return;
    const { clientWidth: width, clientHeight: height } = canvas;
    const marks = { region: -1, range: null, focused: false };
    drawStrip(ctx, layoutRow(row.maps, width, 32), width, height, stripPalette(), marks, bytes);
  }, [row, row.maps, dark.value, resized.value]);
  useEffect(() => {
    const element = strip.current ?? chart.current;
    if (!element) return;
    const observer = new ResizeObserver(() => {
      resized.value++;
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [row]);
  const chain = parents(row);
  const totals = Object.entries(row.maps?.totals ?? {})
    .filter(([, size]) => size > 0)
    .sort((a, b) => b[1] - a[1]);
  const said = totals.map(([kind, size]) => `${KIND_NAME[kindFrom(kind)]} ${bytes(size)}`).join(' · ');
  let children = 0;
  for (const other of store.table.live.values()) {
    if (other.summary.parent_id?.pid === row.pid && other.summary.parent_id.start_time_ticks === row.start) children++;
  }
  return (
    <section class="preview" data-region="preview" aria-label="Selected process">
      <div class="preview-head">
        <h2 class="preview-name">
          <span class="mono second">{row.pid}</span> <RowLink row={row} open={open} />
        </h2>
        <span class="second">
          {userOf(row)} · {stateName(s.state)} ·{' '}
          {row.gone ? `ended ${dateTime(row.gone)}` : `runs ${duration(store.capturedAt - s.started_at)}`}
          {s.container !== null && ` · ${visible(s.container)}`}
          {s.run_id !== null && (
            <>
              {' · run '}
              <RunLink id={s.run_id} />
            </>
          )}
        </span>
        <span class="preview-parents second">
          {chain.length > 0 && 'under '}
          {chain.map((up, i) => (
            <span key={up.key}>
              {i > 0 && ' › '}
              <RowLink row={up} open={props.select} />
            </span>
          ))}
          {children > 0 && ` · ${children} ${children === 1 ? 'child' : 'children'}`}
        </span>
        <RowLink row={row} open={open} class="button preview-open">
          Open detail
        </RowLink>
        <button
          type="button"
          class="button button-text"
          onClick={() => {
            previewOpen.value = false;
          }}
        >
          Close
        </button>
      </div>
      <div class="preview-body">
        <div class="preview-space">
          {row.maps && row.maps.boxes.length > 0 ? (
            <canvas ref={strip} class="preview-strip" role="img" aria-label={`Address space: ${said}`} />
          ) : (
            <p class="preview-none second">
              {s.kernel_thread
                ? 'A kernel thread has no address space of its own.'
                : row.gone
                  ? 'It has ended.'
                  : 'Its maps are not read yet, or may not be read.'}
            </p>
          )}
          <p class="preview-line mono second">{said}</p>
          <p class="preview-line mono">{commandText(s.command_line, s.name, s.kernel_thread).slice(0, 1000)}</p>
        </div>
        <div class="preview-figures">
          <canvas
            ref={chart}
            class="preview-chart"
            role="img"
            aria-label={`Last 60 s: CPU now ${percent(s.cpu_percent)} percent, resident now ${bytesFull(s.rss_bytes)}`}
          />
          <p class="preview-line mono">
            <span class="tone-cpu">CPU {percent(s.cpu_percent)} %</span>{' '}
            <span class="tone-mem">RSS {row.gone ? '–' : bytes(s.rss_bytes)}</span>
          </p>
        </div>
      </div>
    </section>
  );
}

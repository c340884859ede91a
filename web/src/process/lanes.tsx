// Thread states over the last 60 s, one lane a thread. Height tells the states
// apart as well as colour: running is a full block, disk wait a lower one with an
// open top, sleeping a line, stopped a hollow block.

import { useEffect, useRef } from 'preact/hooks';
import { percent, visible } from '../format';
import { palette } from '../palette';
import { dark } from '../settings';
import type { Thread } from '../wire.gen';
import { busiest, gapsOf, type Lane, laneOf, type Seen, SPAN_MS } from './ring';

export const maxLanes = 6;
const ROW = 17;

function drawLane(ctx: CanvasRenderingContext2D, lane: Lane, y: number, width: number, from: number): void {
  const { role } = palette();
  const middle = y + ROW / 2;
  for (const stretch of lane.stretches) {
    const a = Math.max(0, ((stretch.from - from) / SPAN_MS) * width);
    const b = Math.min(width, ((stretch.to - from) / SPAN_MS) * width);
    if (b <= a) continue;
    const w = Math.max(1, b - a);
    switch (stretch.state) {
      case '':
        break;
      case 'R':
        ctx.fillStyle = role('ok');
        ctx.fillRect(a, middle - 4, w, 8);
        break;
      case 'D':
        ctx.fillStyle = role('bad');
        ctx.fillRect(a, middle - 1, w, 5);
        break;
      case 'T':
      case 't':
        ctx.strokeStyle = role('cpu');
        ctx.strokeRect(a + 0.5, middle - 3.5, Math.max(1, w - 1), 7);
        break;
      case 'Z':
      case 'X':
        ctx.fillStyle = role('bad');
        for (let x = a; x < b; x += 3) ctx.fillRect(x, middle - 4, 1, 8);
        break;
      default:
        ctx.fillStyle = role('kind-readonly');
        ctx.fillRect(a, middle - 0.5, w, 1.5);
    }
  }
}

function laneSentence(lane: Lane): string {
  const spent = new Map<string, number>();
  let all = 0;
  for (const { from, to, state } of lane.stretches) {
    if (state === '') continue;
    spent.set(state, (spent.get(state) ?? 0) + (to - from));
    all += to - from;
  }
  const share = (state: string) => (all === 0 ? 0 : Math.round(((spent.get(state) ?? 0) / all) * 100));
  return `thread ${lane.tid} ${visible(lane.name)}: running ${share('R')} %, disk wait ${share('D')} % of samples`;
}

// hatch marks a span that nothing is known of, over all lanes.
function hatch(ctx: CanvasRenderingContext2D, a: number, b: number, height: number): void {
  if (b <= a) return;
  ctx.save();
  ctx.beginPath();
  ctx.rect(a, 0, b - a, height);
  ctx.clip();
  ctx.strokeStyle = palette().role('line2');
  ctx.lineWidth = 1;
  ctx.beginPath();
  for (let x = a - height; x < b; x += 6) {
    ctx.moveTo(x, height);
    ctx.lineTo(x + height, 0);
  }
  ctx.stroke();
  ctx.restore();
}

// Lanes ends at `end`; what is known ends at `known`, the same unless the stream is stale.
export function Lanes(props: { seen: Seen; threads: readonly Thread[]; known: number; end: number; ended: boolean }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const tids = busiest(props.seen.lanes, props.threads, maxLanes);
  const names = new Map(props.threads.map((t) => [t.tid, t.name]));
  const lanes = tids.map((tid) => laneOf(props.seen.lanes, tid, names.get(tid) ?? '', props.known));
  const theme = dark.value;
  useEffect(() => {
    const element = canvas.current;
    const ctx = element?.getContext('2d');
    if (!element || !ctx) return;
    const draw = () => {
      const ratio = devicePixelRatio || 1;
      const width = element.clientWidth;
      const height = lanes.length * ROW;
      // A lane is as high as its name beside it.
      element.style.height = `${height}px`;
      element.width = Math.round(width * ratio);
      element.height = Math.round(height * ratio);
      ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
      ctx.clearRect(0, 0, width, height);
      const from = props.end - SPAN_MS;
      const x = (time: number) => ((time - from) / SPAN_MS) * width;
      for (const gap of gapsOf(props.seen.points)) hatch(ctx, x(gap.from), x(gap.to), height);
      hatch(ctx, x(props.known), width, height);
      for (const [i, lane] of lanes.entries()) drawLane(ctx, lane, i * ROW, width, from);
      if (!props.ended) return;
      ctx.fillStyle = palette().role('bad');
      ctx.fillRect(Math.min(width, x(props.known)) - 2, 0, 2, height);
    };
    draw();
    const sizes = new ResizeObserver(draw);
    sizes.observe(element);
    return () => sizes.disconnect();
  }, [props.seen, props.end, props.ended, theme, lanes.length]);

  return (
    <div class="lanes">
      <div class="lanes-names">
        {lanes.map((lane) => (
          <span class="lanes-name" key={lane.tid} title={visible(lane.name)}>
            {lane.tid} {visible(lane.name)}
          </span>
        ))}
      </div>
      <canvas class="lanes-canvas" ref={canvas} role="img" aria-label={`${lanes.map(laneSentence).join('. ')}.`} />
      <div class="lanes-figures">
        {lanes.map((lane) => (
          <span class="lanes-figure" key={lane.tid}>
            {lane.cpu === null ? '–' : `${percent(lane.cpu)} %`}
          </span>
        ))}
      </div>
    </div>
  );
}

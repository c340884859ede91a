// The flame graph of the ring of snapshots, on a canvas: the root on top, one line
// above it that says what the pointed box is, and the same figures as a table. Only
// the rows in sight are drawn.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { count, visible } from '../format';
import { bindKeys } from '../keys';
import { palette } from '../palette';
import { dark } from '../settings';
import type { SnapshotAnswer } from '../wire.gen';
import type { Shared } from './context';
import { CopyAs } from './copy';
import { FilterField } from './field';
import {
  findPath,
  flameOf,
  foldedText,
  foundUnits,
  type Flame as Graph,
  headText,
  type Node,
  nodeAt,
  type Options,
  pathOf,
  stepTo,
  totalsOf,
} from './flame';
import { baseName } from './maps';
import { matcher } from './match';

const ROW = 20; // CSS px
const CHARACTER = 7.23; // of 12 px monospace
const LEAST_PX = 0.5; // narrower boxes are not drawn
// maxFunctionsShown rows of the table are mounted.
export const maxFunctionsShown = 200;

const KINDS = ['code', 'data', 'heap', 'anonymous', 'shared', 'stack'];

// inkOf is the colour of a box: by module, so that one library is one colour.
function inkOf(module: string | null): string {
  if (module === null) return 'kind-readonly';
  let hash = 0;
  for (let i = 0; i < module.length; i++) hash = (hash * 31 + module.charCodeAt(i)) | 0;
  return `kind-${KINDS[Math.abs(hash) % KINDS.length]}`;
}

const share = (part: number, all: number) => (all === 0 ? '0' : ((part / all) * 100).toFixed(1));

function detailOf(graph: Graph, node: Node | undefined): string {
  if (node === undefined) return 'Point at a box, or walk with the arrow keys.';
  const whole = node.parent < 0 ? 'all stacks' : visible(node.name);
  const parts = [
    `${whole}${node.inlined ? ' (inlined)' : ''}`,
    `${count(node.total)} of ${count(graph.total)} stacks, ${share(node.total, graph.total)} %`,
  ];
  if (node.self > 0) parts.push(`${count(node.self)} stand in it`);
  if (node.module !== null) parts.push(visible(baseName(node.module)));
  if (node.source !== null) parts.push(visible(node.source));
  return parts.join(' · ');
}

interface Look {
  readonly graph: Graph;
  readonly zoom: number; // index of the box that fills the width
  readonly at: number; // the walked or pointed box
  readonly hits: ReadonlySet<number> | null; // of the search; null without one
  readonly top: number; // scrolled, px
}

// drawGraph draws the rows in sight.
function drawGraph(ctx: CanvasRenderingContext2D, width: number, height: number, look: Look): void {
  const { graph, hits } = look;
  const { role } = palette();
  const zoomed = graph.nodes[look.zoom] as Node;
  const scale = width / Math.max(1, zoomed.total);
  ctx.clearRect(0, 0, width, height);
  ctx.font = '12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
  ctx.textBaseline = 'middle';
  const firstRow = Math.floor(look.top / ROW);
  const lastRow = Math.ceil((look.top + height) / ROW);
  for (const [index, node] of graph.nodes.entries()) {
    if (node.depth < firstRow) continue;
    if (node.depth > lastRow) break;
    const x0 = Math.max(0, (node.first - zoomed.first) * scale);
    const x1 = Math.min(width, (node.first + node.total - zoomed.first) * scale);
    if (x1 - x0 < LEAST_PX) continue;
    const y = node.depth * ROW - look.top;
    const w = Math.max(1, x1 - x0 - 1);
    const h = ROW - 1;
    const hit = hits?.has(index) === true;
    ctx.globalAlpha = node.inlined ? 0.16 : 0.34;
    ctx.fillStyle = hit ? role('cpu') : role(node.parent < 0 ? 'line2' : inkOf(node.module));
    if (hits !== null && !hit) ctx.globalAlpha = 0.1;
    ctx.fillRect(x0, y, w, h);
    ctx.globalAlpha = 1;
    // An edge keeps neighbours of one colour apart; a match has a bar as well as its colour.
    ctx.fillStyle = hit ? role('cpu') : role('line2');
    ctx.fillRect(x0, y, hit ? Math.min(3, w) : 1, h);
    if (index === look.at) {
      // Hatch and outline: the focus is not told by colour alone.
      ctx.save();
      ctx.beginPath();
      ctx.rect(x0, y, w, h);
      ctx.clip();
      ctx.strokeStyle = role('line2');
      ctx.lineWidth = 1;
      ctx.beginPath();
      for (let d = -h; d < w; d += 6) {
        ctx.moveTo(x0 + d, y + h);
        ctx.lineTo(x0 + d + h, y);
      }
      ctx.stroke();
      ctx.restore();
      ctx.strokeStyle = role('focus');
      ctx.lineWidth = 2;
      ctx.strokeRect(x0 + 1, y + 1, Math.max(1, w - 2), h - 2);
    }
    const room = Math.floor((w - 8) / CHARACTER);
    if (room < 2) continue;
    const name = node.parent < 0 ? `all ${graph.total}` : visible(node.name);
    ctx.fillStyle = role('fg0');
    ctx.fillText(name.length > room ? `${name.slice(0, room - 1)}…` : name, x0 + 5, y + h / 2 + 1);
  }
}

function Functions(props: { graph: Graph; test: (node: { name: string; module: string | null }) => boolean }) {
  const { graph } = props;
  const all = useMemo(() => totalsOf(graph), [graph]);
  const rows = all.filter(props.test);
  const shown = rows.slice(0, maxFunctionsShown);
  return (
    <div class="flame-table" tabIndex={0} role="group" aria-label="Functions" data-scroll="">
      <table class="plain">
        <thead>
          <tr>
            <th scope="col" class="num" title="stacks that stand in the function itself">
              Self %
            </th>
            <th scope="col" class="num" title="stacks with the function anywhere">
              Total %
            </th>
            <th scope="col">Function</th>
            <th scope="col">Module</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((one) => (
            <tr key={`${one.name} ${one.module}`}>
              <td class="num">{share(one.self, graph.total)}</td>
              <td class="num">{share(one.total, graph.total)}</td>
              <th scope="row" class="flame-name">
                {visible(one.name)}
              </th>
              <td>{one.module === null ? '' : visible(baseName(one.module))}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {shown.length < rows.length && (
        <p class="walk-end">
          <span class="hatch" aria-hidden="true" /> first {count(shown.length)} of {count(rows.length)} functions
        </p>
      )}
    </div>
  );
}

// PickThread chooses whose stacks 'time' shows, of all threads in the ring.
function PickThread(props: { shared: Shared; list: readonly SnapshotAnswer[]; tid: number | null }) {
  const threads = useMemo(
    () => new Map(props.list.flatMap((answer) => answer.threads.map((t) => [t.tid, t.name] as const))),
    [props.list],
  );
  return (
    <label class="switch">
      thread{' '}
      <select
        class="field flame-thread"
        value={String(props.tid)}
        onChange={(event) => props.shared.set({ tid: event.currentTarget.value })}
      >
        {[...threads].map(([tid, name]) => (
          <option key={tid} value={String(tid)}>
            {tid} {visible(name)}
          </option>
        ))}
      </select>
    </label>
  );
}

export function Flame(props: { shared: Shared; list: readonly SnapshotAnswer[]; tid: number | null }) {
  const { shared, list, tid } = props;
  const { params } = shared;
  const order = params.get('order') === 'time' ? 'time' : 'left';
  const onlyRunning = params.get('calls') === 'out';
  const asTable = params.get('form') === 'table';
  const options: Options = { order, tid, onlyRunning };
  const graph = useMemo(() => flameOf(list, options), [list, order, onlyRunning, order === 'time' ? tid : null]);
  const line = params.get('q') ?? '';
  const match = useMemo(() => matcher(line), [line]);
  const test = (node: { name: string; module: string | null }) =>
    match.empty || match.test(`${node.name} ${node.module ?? ''}`);
  const hits = useMemo(
    () => (match.empty ? null : new Set(graph.nodes.flatMap((node, i) => (node.parent >= 0 && test(node) ? [i] : [])))),
    [graph, match],
  );
  // Kept as paths: the boxes of the next snapshot's graph are others.
  const [zoomPath, setZoomPath] = useState<readonly string[]>([]);
  const [atPath, setAtPath] = useState<readonly string[] | null>(null);
  const zoom = useMemo(() => Math.max(0, findPath(graph, zoomPath)), [graph, zoomPath]);
  const at = useMemo(() => (atPath === null ? -1 : findPath(graph, atPath)), [graph, atPath]);
  const setZoom = (index: number) => setZoomPath(pathOf(graph, index));
  const setAt = (index: number) => setAtPath(index < 0 ? null : pathOf(graph, index));
  const [top, setTop] = useState(0);
  const canvas = useRef<HTMLCanvasElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const theme = dark.value;
  useEffect(() => {
    const element = canvas.current;
    const box = scroller.current;
    const ctx = element?.getContext('2d');
    if (!element || !box || !ctx) return;
    const draw = () => {
      const ratio = devicePixelRatio || 1;
      const width = element.clientWidth;
      const height = box.clientHeight;
      element.width = Math.round(width * ratio);
      element.height = Math.round(height * ratio);
      element.style.height = `${height}px`;
      ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
      drawGraph(ctx, width, height, { graph, zoom, at, hits, top });
    };
    draw();
    const sizes = new ResizeObserver(draw);
    sizes.observe(box);
    return () => sizes.disconnect();
  }, [graph, zoom, at, hits, top, theme, asTable]);

  const go = (next: number) => {
    setAt(next);
    const node = graph.nodes[next];
    const box = scroller.current;
    if (node === undefined || box === null) return;
    // Outside of the zoomed box the view widens to hold the walked one.
    const frame = graph.nodes[zoom] as Node;
    if (node.first + node.total <= frame.first || node.first >= frame.first + frame.total) setZoom(0);
    const y = node.depth * ROW;
    if (y < box.scrollTop) box.scrollTop = y;
    else if (y + ROW > box.scrollTop + box.clientHeight) box.scrollTop = y + ROW - box.clientHeight;
  };
  const nextHit = (by: 1 | -1): boolean => {
    if (hits === null || hits.size === 0) return false;
    const sorted = [...hits];
    const past = by > 0 ? sorted.find((i) => i > at) : sorted.findLast((i) => i < at);
    go(past ?? (sorted[by > 0 ? 0 : sorted.length - 1] as number));
    return true;
  };
  const step = useRef(nextHit);
  step.current = nextHit;
  useEffect(
    () =>
      bindKeys([
        { keys: 'n', label: 'next match', group: 'Flame graph', run: () => step.current(1) },
        { keys: 'N', label: 'match before', group: 'Flame graph', run: () => step.current(-1) },
      ]),
    [],
  );

  const keys = (event: KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === 'Enter') setZoom(at === zoom ? 0 : Math.max(0, at));
    else if (event.key === 'Escape' && zoom !== 0) setZoom(0);
    else if (/^(Arrow|Home)/.test(event.key)) go(stepTo(graph, at, event.key));
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const boxUnder = (event: MouseEvent): number => {
    const element = canvas.current;
    if (element === null) return -1;
    const box = element.getBoundingClientRect();
    const frame = graph.nodes[zoom] as Node;
    const units = frame.first + ((event.clientX - box.left) / box.width) * frame.total;
    return nodeAt(graph, Math.floor((event.clientY - box.top + top) / ROW), units);
  };
  const found = hits === null ? 0 : foundUnits(graph, hits);
  const pick = (name: string, words: string, on: boolean, value: string | undefined, title?: string) => (
    <button
      type="button"
      class={on ? 'button button-small button-on' : 'button button-small'}
      aria-pressed={on}
      title={title}
      onClick={() => shared.set({ [name]: value })}
    >
      {words}
    </button>
  );
  const says = order === 'time' ? `thread ${tid ?? '?'}` : 'all threads';
  return (
    <div class="flame">
      <p class="flame-head">
        {headText(list)} · {count(graph.total)} {graph.total === 1 ? 'stack' : 'stacks'} of {says} ·{' '}
        {onlyRunning ? 'threads in a system call left out' : 'waiting counts as well as running'}
        {graph.left > 0 && ` · ${count(graph.left)} boxes over the limit left out`}
      </p>
      <div class="flame-tools">
        {pick('order', 'Left-heavy', order === 'left', undefined, 'all threads merged, the widest first')}
        {pick('order', 'Time order', order === 'time', 'time', 'the chosen thread, a column for each snapshot')}
        {order === 'time' && <PickThread shared={shared} list={list} tid={tid} />}
        <label class="check switch">
          <input
            type="checkbox"
            class="check-box"
            checked={onlyRunning}
            onChange={(event) => shared.set({ calls: event.currentTarget.checked ? 'out' : undefined })}
          />
          without threads in a system call
        </label>
        <FilterField
          shared={shared}
          label="Search functions"
          match={match}
          found={match.empty ? '' : `${count(hits?.size)} boxes, ${share(found, graph.total)} % of stacks`}
        />
        {zoom !== 0 && (
          <button type="button" class="button button-small" onClick={() => setZoom(0)}>
            Whole width
          </button>
        )}
        {pick('form', 'as table', asTable, asTable ? undefined : 'table')}
        <CopyAs what="flame graph" items={[{ name: 'folded stacks', text: () => foldedText(list, options) }]} />
      </div>
      {graph.total === 0 ? (
        <p class="state">Every thread stood in a system call in every snapshot.</p>
      ) : asTable ? (
        <Functions graph={graph} test={test} />
      ) : (
        <>
          <p class="flame-detail" id="flame-detail">
            {detailOf(graph, graph.nodes[at])}
          </p>
          <div
            class="flame-scroll"
            ref={scroller}
            tabIndex={0}
            role="application"
            aria-roledescription="flame graph"
            aria-label={`Flame graph of ${count(list.length)} snapshots, ${says}: arrow keys walk, Enter widens, "as table" gives the figures`}
            aria-describedby="flame-detail"
            data-scroll=""
            onScroll={(event) => setTop(event.currentTarget.scrollTop)}
            onKeyDown={keys}
          >
            <div class="flame-space" style={{ height: `${graph.depth * ROW}px` }} />
            <canvas
              class="flame-canvas"
              ref={canvas}
              onMouseMove={(event) => setAt(boxUnder(event))}
              onClick={(event) => {
                const under = boxUnder(event);
                if (under >= 0) setZoom(under === zoom ? 0 : under);
              }}
            />
          </div>
        </>
      )}
    </div>
  );
}

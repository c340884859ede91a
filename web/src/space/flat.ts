// The space as a flat map, for a browser without WebGL: the same places seen from
// above, drawn on a plain canvas when something changed.

import { count } from '../format';
import { KINDS } from '../kinds';
import { palette } from '../palette';
import { type End, strands, WHOLE_PLATE } from './bundles';
import { Camera, HALF, TOP } from './camera';
import type { SpaceData } from './data';
import {
  type ActivityMessage,
  type ArcsMessage,
  BUNDLE,
  bundleEnds,
  type Cards,
  LINK_KINDS,
  SHOWN,
  STUCK,
} from './protocol';
import { DENIED_MAPS, HOST } from './slabs';
import { HOSTS } from './structure';
import { DIM, type Figures, type View, type ViewEvents } from './view';

const LEAST_MS = 100;

const TONES = { sure: 'fg0', candidate: 'fg1', shared: 'kind-data', network: 'mem', open: 'fg0' } as const;

export class Flat implements View {
  readonly canvas: HTMLCanvasElement;
  readonly camera = new Camera();
  private readonly context: CanvasRenderingContext2D;
  private data: SpaceData | null = null;
  private marked = new Uint8Array(0);
  private share = new Float32Array(0);
  private sums = new Float32Array(0);
  private windows = 0;
  private shownAt = 0;
  private arcsMessage: ArcsMessage | null = null;
  private cardsMessage: Cards | null = null;
  private selected = -1;
  private hovered = -1;
  private withParents = false;
  private withPlates = true;
  private withFiles = true;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private asked = 0;
  private last = 0;
  private frames = 0;
  private boxes = 0;
  private readonly at = new Float64Array(3);

  constructor(
    host: HTMLElement,
    private readonly events: ViewEvents,
  ) {
    this.canvas = document.createElement('canvas');
    this.canvas.className = 'space-canvas';
    const context = this.canvas.getContext('2d');
    if (!context) throw new Error('this browser has no canvas');
    this.context = context;
    host.prepend(this.canvas);
    this.camera.phi = TOP;
    this.camera.theta = 0;
  }

  layout(data: SpaceData): void {
    this.data = data;
    if (this.share.length < data.count) {
      const share = new Float32Array(data.count * 2);
      share.set(this.share);
      this.share = share;
      const sums = new Float32Array(data.count * 2);
      sums.set(this.sums);
      this.sums = sums;
    }
    this.camera.farthest = Math.max(60, 4 * Math.hypot(data.ground.w, data.ground.d));
    this.invalidate();
  }

  marks(marks: Uint8Array): void {
    this.marked = marks.slice();
    this.invalidate();
  }

  select(index: number, hover: number): void {
    if (index === this.selected && hover === this.hovered) return;
    this.selected = index;
    this.hovered = hover;
    this.invalidate();
  }

  arcs(message: ArcsMessage): void {
    this.arcsMessage = message;
    this.invalidate();
  }

  cards(message: Cards): void {
    this.cardsMessage = message;
    this.invalidate();
  }

  activity({ cpuIndex, cpuShare }: ActivityMessage): void {
    for (let k = 0; k < cpuIndex.length; k++) {
      const i = cpuIndex[k] as number;
      if (i < this.sums.length) this.sums[i] = (this.sums[i] as number) + (cpuShare[k] as number);
    }
    this.windows++;
    const now = performance.now();
    if (now - this.shownAt < 1000) return;
    this.shownAt = now;
    for (let i = 0; i < this.sums.length; i++) this.share[i] = (this.sums[i] as number) / this.windows;
    this.sums.fill(0);
    this.windows = 0;
    this.invalidate();
  }

  lamps(cpu: Float32Array): void {
    for (let i = 0; i < Math.min(cpu.length, this.share.length); i++) {
      const value = cpu[i] as number;
      this.share[i] = Number.isFinite(value) ? value / 100 : 0;
    }
    this.invalidate();
  }

  parentLines(on: boolean): void {
    this.withParents = on;
    this.invalidate();
  }

  plates(on: boolean): void {
    this.withPlates = on;
    this.invalidate();
  }

  files(on: boolean): void {
    this.withFiles = on;
    this.invalidate();
  }

  /** save changes nothing: a map is drawn ten times a second at most. */
  save(): void {}

  forget(): void {
    this.share.fill(0);
    this.sums.fill(0);
    this.invalidate();
  }

  recolour(): void {
    this.invalidate();
  }

  resize(width: number, height: number): void {
    const scale = Math.min(2, window.devicePixelRatio || 1);
    this.camera.width = Math.max(1, width);
    this.camera.height = Math.max(1, height);
    this.canvas.width = Math.round(this.camera.width * scale);
    this.canvas.height = Math.round(this.camera.height * scale);
    this.invalidate();
  }

  invalidate(): void {
    if (this.timer !== null || this.asked !== 0) return;
    const wait = Math.max(0, this.last + LEAST_MS - performance.now());
    this.timer = setTimeout(() => {
      this.timer = null;
      this.asked = requestAnimationFrame(() => {
        this.asked = 0;
        if (document.visibilityState !== 'hidden') this.draw();
      });
    }, wait);
  }

  private draw(): void {
    const { camera, context, data } = this;
    this.last = performance.now();
    // A map is seen from above, whatever a link or a key asks for.
    const flying = camera.step(this.last);
    camera.phi = TOP;
    camera.theta = 0;
    camera.update();
    this.frames++;
    const { role } = palette();
    const scale = this.canvas.width / camera.width;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = role('bg0');
    context.fillRect(0, 0, camera.width, camera.height);
    if (data) this.drawData(context, data, role);
    this.events.drawn();
    if (flying) this.invalidate();
  }

  private drawData(context: CanvasRenderingContext2D, data: SpaceData, role: (name: string) => string): void {
    const { camera, at } = this;
    const px = camera.pixelsAt(camera.x, 0, camera.z);
    const left = (x: number) => camera.width / 2 + (x - camera.x) * px;
    const top = (z: number) => camera.height / 2 + (z - camera.z) * px;
    const grounds = [role('bg1'), role('bg2'), role('bg3')];
    const plate = (x: number, z: number, w: number, d: number, depth: number) => {
      context.fillStyle = grounds[depth % 3] as string;
      context.fillRect(left(x) + 1, top(z) + 1, w * px - 2, d * px - 2);
      context.strokeStyle = role('line');
      context.strokeRect(left(x) + 1.5, top(z) + 1.5, Math.max(1, w * px - 3), Math.max(1, d * px - 3));
    };
    if (this.withPlates) {
      plate(0, 0, data.ground.w, data.ground.d, 0);
      for (let k = 0; k < data.plates.length; k += 6) {
        const p = data.plates;
        plate(p[k] as number, p[k + 1] as number, p[k + 2] as number, p[k + 3] as number, p[k + 5] as number);
      }
    }
    const colours = [...KINDS.map((kind) => role(`kind-${kind}`)), role('line2'), role('line2'), role('fg1')];
    const half = HALF * px;
    this.boxes = 0;
    for (let i = 0; i < data.count; i++) {
      if (((data.flags[i] as number) & SHOWN) === 0) continue;
      const x = left(data.place[i * 4] as number);
      const z = top(data.place[i * 4 + 1] as number);
      if (x < -half || z < -half || x > camera.width + half || z > camera.height + half) continue;
      this.boxes++;
      const share = this.share[i] ?? 0;
      context.globalAlpha = this.marked[i] === DIM ? 0.35 : share > 0.01 || i < HOSTS ? 1 : 0.6;
      const kind = i < HOSTS ? HOST : (data.main[i] as number);
      context.fillStyle = colours[kind] ?? role('fg2');
      context.fillRect(x - half, z - half, half * 2, half * 2);
      if (kind === DENIED_MAPS) {
        context.strokeStyle = role('bg0');
        context.beginPath();
        context.moveTo(x - half, z + half);
        context.lineTo(x + half, z - half);
        context.stroke();
      }
      if (((data.flags[i] as number) & STUCK) !== 0) {
        context.strokeStyle = role('bad');
        context.lineWidth = 2;
        context.strokeRect(x - half, z - half, half * 2, half * 2);
        context.lineWidth = 1;
      }
      const lamp = share < 0.002 ? 0 : half * Math.min(0.9, 0.25 + 0.65 * Math.sqrt(Math.min(1, share)));
      if (lamp > 0) {
        context.fillStyle = role('cpu');
        context.fillRect(x - lamp, z - lamp, lamp * 2, lamp * 2);
      }
    }
    context.globalAlpha = 1;
    if (this.withFiles && this.cardsMessage) {
      const { cards } = this.cardsMessage;
      for (let k = 0; k < cards.length; k += 3) {
        const i = cards[k] as number;
        const slot = cards[k + 1] as number;
        context.fillStyle = cards[k + 2] ? role('write') : role('read');
        const x = left(data.place[i * 4] as number) + half + 1;
        context.fillRect(x, top(data.place[i * 4 + 1] as number) - half + (slot % 8) * (half / 4), 3, half / 5);
      }
    }
    if (this.withParents) this.parents(context, data, role('line2'), left, top);
    this.drawArcs(context, data, role, left, top);
    for (const index of [this.hovered, this.selected]) {
      if (index < 0 || !data.place[index * 4 + 3]) continue;
      context.strokeStyle = role('focus');
      context.lineWidth = index === this.selected ? 3 : 1;
      camera.project(data.place[index * 4] as number, 0, data.place[index * 4 + 1] as number, at);
      context.strokeRect((at[0] as number) - half - 2, (at[1] as number) - half - 2, half * 2 + 4, half * 2 + 4);
      context.lineWidth = 1;
    }
  }

  private parents(
    context: CanvasRenderingContext2D,
    data: SpaceData,
    colour: string,
    left: (x: number) => number,
    top: (z: number) => number,
  ): void {
    context.strokeStyle = colour;
    context.beginPath();
    for (let i = HOSTS; i < data.count; i++) {
      const up = data.parents[i] as number;
      if (up < 0 || !data.place[i * 4 + 3] || !data.place[up * 4 + 3]) continue;
      context.moveTo(left(data.place[i * 4] as number), top(data.place[i * 4 + 1] as number));
      context.lineTo(left(data.place[up * 4] as number), top(data.place[up * 4 + 1] as number));
    }
    context.stroke();
  }

  private drawArcs(
    context: CanvasRenderingContext2D,
    data: SpaceData,
    role: (name: string) => string,
    left: (x: number) => number,
    top: (z: number) => number,
  ): void {
    const message = this.arcsMessage;
    if (!message) return;
    const x = (i: number) => left(data.place[i * 4] as number);
    const z = (i: number) => top(data.place[i * 4 + 1] as number);
    for (let k = 0; k + 3 < message.arcs.length; k += 4) {
      const a = message.arcs[k] as number;
      const b = message.arcs[k + 1] as number;
      const kind = LINK_KINDS[message.arcs[k + 2] as number] ?? 'sure';
      context.strokeStyle = role(TONES[kind]);
      context.setLineDash(kind === 'candidate' ? [4, 4] : []);
      context.beginPath();
      context.moveTo(x(a), z(a));
      context.lineTo(x(b), z(b));
      context.stroke();
    }
    context.setLineDash([]);
    this.drawBundles(context, data, message, role, left, top);
    context.strokeStyle = role('kind-data');
    const groups = new Map<number, number[]>();
    for (let k = 0; k + 1 < message.hubs.length; k += 2) {
      const list = groups.get(message.hubs[k + 1] as number) ?? [];
      list.push(message.hubs[k] as number);
      groups.set(message.hubs[k + 1] as number, list);
    }
    for (const list of groups.values()) {
      const hx = list.reduce((sum, i) => sum + x(i), 0) / list.length;
      const hz = list.reduce((sum, i) => sum + z(i), 0) / list.length;
      context.beginPath();
      for (const i of list) {
        context.moveTo(x(i), z(i));
        context.lineTo(hx, hz);
      }
      context.rect(hx - 3, hz - 3, 6, 6);
      context.stroke();
    }
  }

  private drawBundles(
    context: CanvasRenderingContext2D,
    data: SpaceData,
    { bundles }: ArcsMessage,
    role: (name: string) => string,
    left: (x: number) => number,
    top: (z: number) => number,
  ): void {
    const end = (index: number, stands: End): readonly [number, number] => {
      const k = stands === WHOLE_PLATE ? data.plateOwner.indexOf(index) * 6 : -1;
      const p = data.plates;
      if (k < 0) return [left(data.place[index * 4] as number), top(data.place[index * 4 + 1] as number)];
      return [left((p[k] as number) + (p[k + 2] as number) / 2), top((p[k + 1] as number) + (p[k + 3] as number) / 2)];
    };
    context.font = '11px monospace';
    context.textAlign = 'center';
    for (let k = 0; k + BUNDLE <= bundles.length; k += BUNDLE) {
      const [endA, endB] = bundleEnds(bundles[k + 4] as number);
      const a = end(bundles[k] as number, endA);
      const b = end(bundles[k + 1] as number, endB);
      const connections = bundles[k + 2] as number;
      context.strokeStyle = role(TONES[LINK_KINDS[bundles[k + 3] as number] ?? 'sure']);
      context.lineWidth = strands(connections);
      context.beginPath();
      context.moveTo(...a);
      context.lineTo(...b);
      context.stroke();
      if (connections === 1) continue; // the line says so
      const text = count(connections);
      const x = (a[0] + b[0]) / 2;
      const z = (a[1] + b[1]) / 2;
      context.fillStyle = role('bg0');
      context.fillRect(x - text.length * 3.5 - 1, z - 7, text.length * 7 + 2, 14);
      context.fillStyle = role('fg0');
      context.fillText(text, x, z + 4);
    }
    context.lineWidth = 1;
  }

  figures(): Figures {
    return {
      frames: this.frames,
      calls: 0,
      triangles: 0,
      lines: 0,
      points: 0,
      geometries: 0,
      textures: 0,
      programs: 0,
      boxes: this.boxes,
      livePulses: 0,
      renderer: 'flat map',
    };
  }

  dispose(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    cancelAnimationFrame(this.asked);
    this.canvas.remove();
  }
}

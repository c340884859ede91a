// The space in three dimensions: seven draw calls, eight with numbers, whatever there is to see.
//
// World units are cells of the layout; a tower stands at (x, z) with its foot at y.
// invalidate() is the only way to a frame: what changed asks for one, and what moves by
// itself (a flight, a plate that was packed anew, pulses, lamps that fade) for the next.

import {
  BoxGeometry,
  BufferAttribute,
  BufferGeometry,
  Color,
  DataTexture,
  DynamicDrawUsage,
  FloatType,
  GLSL3,
  InstancedBufferAttribute,
  InstancedBufferGeometry,
  type IUniform,
  LinearSRGBColorSpace,
  LineSegments,
  Mesh,
  NearestFilter,
  type Object3D,
  PerspectiveCamera,
  Points,
  RawShaderMaterial,
  RGBAFormat,
  Vector2,
  Vector3,
  WebGLRenderer,
  Scene as World,
} from 'three';
import { KINDS } from '../kinds';
import { palette } from '../palette';
import { maxBundles, maxStrands } from './bundles';
import { Camera, FOV, HALF } from './camera';
import type { SpaceData } from './data';
import { DIGIT_FRAGMENT, DIGIT_VERTEX, Digits } from './digits';
import { Lines } from './lines';
import { type ActivityMessage, type ArcsMessage, BUNDLE, type Cards, isBundleActive, SHOWN, STUCK } from './protocol';
import * as glsl from './shaders';
import { CARD_READ, CARD_WRITE, HOST } from './slabs';
import { HOSTS } from './structure';
import { CHOSEN, DIM, type Figures, PLAIN, type View, type ViewEvents } from './view';
import { putArcs, putBundles, putParents, type Tones, type Wiring } from './wiring';

/** Boxes drawn at most; towers farther off become single boxes before that. */
export const maxBoxes = 40_000;
/** Line segments drawn at most: 200 arcs of 20, or 80 of them and 200 strands of bundles of 12; the rest for parent lines. */
export const maxSegments = 4000;
/** Characters of the numbers on bundles. */
const maxDigits = maxBundles * 6;
/** Pulses on screen at most; the oldest makes room. */
export const maxPulses = 2000;
const TWEEN_MS = 300;
const FADE_MS = 500;
const PULSE_S = 0.9;
/** A plate smaller than this on screen has one box a process. */
const SMALL_PLATE = 90;
/** A cell of this many px shows every slab. */
const NEAR_CELL = 30;
const LEVEL_MS = 160;
/** The shortest time between two frames, ms: at most 60 a second, 30 to save a battery, 10 drawn in software. */
const FRAME_MS = 1000 / 60;
const SAVING_MS = 1000 / 30;
const SIMPLE_MS = 100;
/** A frame may come this much early: displays are not exact. */
const EARLY_MS = 1;
const BLINK_MS = 1000;
/** RIM is what of a plate's edge is left out on each side of its drawing, in cells. */
const RIM = 0.05;
const TEXELS = 128;

const FAR = 0;
const MIDDLE = 1;
const NEAR = 2;

export interface SceneOptions {
  renderer: string;
  /** simple: software drawing; one box a process, at most ten frames a second. */
  simple: boolean;
  reducedMotion: boolean;
}

/** probe asks what would draw; null when there is no WebGL 2 here. */
export function probe(): { renderer: string; software: boolean } | null {
  const context = document.createElement('canvas').getContext('webgl2');
  if (!context) return null;
  const info = context.getExtension('WEBGL_debug_renderer_info');
  const renderer = String(context.getParameter(info ? info.UNMASKED_RENDERER_WEBGL : context.RENDERER));
  context.getExtension('WEBGL_lose_context')?.loseContext();
  return { renderer, software: /swiftshader|llvmpipe|basic render|software/i.test(renderer) };
}

type Uniforms = Record<string, IUniform>;

function material(vertexShader: string, fragmentShader: string, uniforms: Uniforms): RawShaderMaterial {
  return new RawShaderMaterial({ vertexShader, fragmentShader, uniforms, glslVersion: GLSL3 });
}

/** unit is the box all boxes are: x and z from −½ to ½, y from 0 to 1. */
function unit(): InstancedBufferGeometry {
  const box = new BoxGeometry(1, 1, 1);
  box.translate(0, 0.5, 0);
  const geometry = new InstancedBufferGeometry();
  geometry.setAttribute('position', box.getAttribute('position'));
  geometry.setAttribute('normal', box.getAttribute('normal'));
  geometry.setIndex(box.getIndex());
  geometry.instanceCount = 0;
  return geometry;
}

/** grown is an array of at least `need` numbers: twice the old one, again and again. */
function room(have: number, need: number): number {
  let size = Math.max(256, have);
  while (size < need) size *= 2;
  return size;
}

export class Scene implements View {
  readonly canvas: HTMLCanvasElement;
  readonly camera = new Camera();
  private readonly gl: WebGLRenderer;
  private readonly world = new World();
  private readonly eye = new PerspectiveCamera((FOV * 180) / Math.PI, 1, 0.5, 5000);
  private readonly began = performance.now();
  private readonly look = new Vector3();

  private capacity = 0;
  private placeTexture!: DataTexture;
  private beforeTexture!: DataTexture;
  private stateTexture!: DataTexture;
  private place: Float32Array<ArrayBuffer> = new Float32Array(0);
  private before: Float32Array<ArrayBuffer> = new Float32Array(0);
  private state: Float32Array<ArrayBuffer> = new Float32Array(0); // cpu, mark, last seen (s), fades

  private readonly shared: Uniforms = {
    uPlace: { value: null },
    uBefore: { value: null },
    uState: { value: null },
    uMix: { value: 1 },
    uTime: { value: 0 },
    uRatio: { value: 1 },
    uCards: { value: 1 },
    uFlat: { value: 0 },
    uKinds: { value: Array.from({ length: 16 }, () => new Color()) },
    uGround: { value: new Color() },
    uFocus: { value: new Color() },
    uCpu: { value: new Color() },
    uLow: { value: new Color() },
    uHigh: { value: new Color() },
    uEdge: { value: new Color() },
    uRead: { value: new Color() },
    uWrite: { value: new Color() },
    uBad: { value: new Color() },
    uGlyphs: { value: null },
    uScreen: { value: new Vector2(1, 1) },
  };
  private readonly boxes = unit();
  private readonly lamp = unit();
  private readonly plate = unit();
  private readonly lines = new Lines(maxSegments);
  private readonly outline = new Lines(OUTLINE);
  private readonly digits: Digits;
  private readonly digitMesh: Mesh;
  private readonly pulse = new BufferGeometry();
  private readonly plateMesh: Mesh;
  private readonly pulseMesh: Points;
  private readonly objects: Object3D[] = [];
  private readonly materials: RawShaderMaterial[] = [];

  private data: SpaceData | null = null;
  private boxArray = new Float32Array(0);
  private towers = 0;
  private levels = new Uint8Array(0);
  private levelsAt = 0;
  private boxesWanted = true;
  private cardsMessage: Cards | null = null;
  private arcsMessage: ArcsMessage | null = null;
  private withParents = false;
  private linesWanted = true;
  private selected = -1;
  private hovered = -1;
  private pulseHead = 0;
  private pulseEnd = 0; // s
  private fadeEnd = 0; // s
  private tweenFrom = -1; // s
  private stepSum = new Float32Array(0);
  private stepWindows = 0;
  private stepAt = 0;
  private asked = 0;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private due = 0; // before then no frame is drawn
  private isSaving = false;
  private isBlink = false;
  private blinking: ReturnType<typeof setTimeout> | null = null;
  private digitsWanted = false;
  private frames = 0;
  private isLost = false;
  private disposed = false;
  private livePulses = 0;

  constructor(
    host: HTMLElement,
    private readonly options: SceneOptions,
    private readonly events: ViewEvents,
  ) {
    this.canvas = document.createElement('canvas');
    this.canvas.className = 'space-canvas';
    this.gl = new WebGLRenderer({
      canvas: this.canvas,
      antialias: !options.simple,
      powerPreference: 'low-power',
      stencil: false,
    });
    this.gl.outputColorSpace = LinearSRGBColorSpace; // colours are written as the style sheet has them
    this.gl.setPixelRatio(options.simple ? 1 : Math.min(2, window.devicePixelRatio || 1));
    host.prepend(this.canvas);

    const box = this.mesh(this.boxes, glsl.BOX_VERTEX, glsl.BOX_FRAGMENT, 2);
    const lamp = this.mesh(this.lamp, glsl.LAMP_VERTEX, glsl.LAMP_FRAGMENT, 3);
    this.plateMesh = this.mesh(this.plate, glsl.PLATE_VERTEX, glsl.PLATE_FRAGMENT, 1);
    this.growTextures(1024);
    this.growBoxes(1024);
    this.growPlates(64);

    const line = this.add(new LineSegments(this.lines.geometry, this.lineShader()), 4);
    const outlineShader = this.lineShader();
    outlineShader.depthTest = false;
    const outline = this.add(new LineSegments(this.outline.geometry, outlineShader), 6);
    this.digits = new Digits(maxDigits, this.uniform('uGlyphs'));
    this.digitMesh = this.mesh(this.digits.geometry, DIGIT_VERTEX, DIGIT_FRAGMENT, 7);
    (this.digitMesh.material as RawShaderMaterial).depthTest = false;
    this.digitMesh.visible = false;

    this.pulse.setAttribute('from', dynamic(new Float32Array(maxPulses * 3), 3));
    this.pulse.setAttribute('to', dynamic(new Float32Array(maxPulses * 3), 3));
    this.pulse.setAttribute('pulse', dynamic(new Float32Array(maxPulses * 4), 4));
    this.pulse.setAttribute('position', this.pulse.getAttribute('from'));
    this.pulseMesh = this.add(new Points(this.pulse, this.shader(glsl.PULSE_VERTEX, glsl.PULSE_FRAGMENT)), 5);
    this.objects.push(box, lamp, line, outline);
    this.recolour();

    this.canvas.addEventListener('webglcontextlost', this.onLost);
    this.canvas.addEventListener('webglcontextrestored', this.onRestored);
    document.addEventListener('visibilitychange', this.onVisible);
  }

  private shader(vertex: string, fragment: string): RawShaderMaterial {
    const made = material(vertex, fragment, this.shared);
    this.materials.push(made);
    return made;
  }

  private lineShader(): RawShaderMaterial {
    const made = this.shader(glsl.LINE_VERTEX, glsl.LINE_FRAGMENT);
    made.transparent = true;
    made.depthWrite = false;
    return made;
  }

  private add<T extends Object3D>(object: T, order: number): T {
    // The bounds of what a shader moves are not known to the library.
    object.frustumCulled = false;
    object.renderOrder = order;
    object.matrixAutoUpdate = false;
    this.world.add(object);
    return object;
  }

  private mesh(geometry: BufferGeometry, vertex: string, fragment: string, order: number): Mesh {
    return this.add(new Mesh(geometry, this.shader(vertex, fragment)), order);
  }

  private readonly onLost = (event: Event) => {
    event.preventDefault();
    this.isLost = true;
    this.events.lost();
  };

  private readonly onRestored = () => {
    this.isLost = false;
    this.placeTexture.needsUpdate = true;
    this.beforeTexture.needsUpdate = true;
    this.stateTexture.needsUpdate = true;
    this.events.restored();
    this.invalidate();
  };

  private readonly onVisible = () => {
    if (document.visibilityState !== 'hidden') this.invalidate();
  };

  private seconds(): number {
    return (performance.now() - this.began) / 1000;
  }

  // --- buffers

  private growTextures(count: number): void {
    if (count <= this.capacity) return;
    const size = Math.ceil(room(this.capacity, count) / TEXELS) * TEXELS;
    const grow = (old: Float32Array): Float32Array<ArrayBuffer> => {
      const made = new Float32Array(size * 4);
      made.set(old);
      return made;
    };
    this.place = grow(this.place);
    this.before = grow(this.before);
    this.state = grow(this.state);
    const make = (old: DataTexture | undefined, values: Float32Array<ArrayBuffer>): DataTexture => {
      old?.dispose();
      const texture = new DataTexture(values, TEXELS, size / TEXELS, RGBAFormat, FloatType);
      texture.minFilter = NearestFilter;
      texture.magFilter = NearestFilter;
      texture.needsUpdate = true;
      return texture;
    };
    this.placeTexture = make(this.placeTexture, this.place);
    this.beforeTexture = make(this.beforeTexture, this.before);
    this.stateTexture = make(this.stateTexture, this.state);
    this.uniform('uPlace').value = this.placeTexture;
    this.uniform('uBefore').value = this.beforeTexture;
    this.uniform('uState').value = this.stateTexture;
    const sum = new Float32Array(size);
    sum.set(this.stepSum);
    this.stepSum = sum;
    this.capacity = size;
    // A lamp each, and a frame for those that are stuck.
    replace(this.lamp, 'who', new InstancedBufferAttribute(new Float32Array(size * 2 * 2), 2));
  }

  private uniform(name: string): IUniform {
    return this.shared[name] as IUniform;
  }

  private growBoxes(count: number): void {
    if (this.boxArray.length >= count * 4) return;
    this.boxArray = new Float32Array(room(this.boxArray.length / 4, count) * 4);
    const attribute = new InstancedBufferAttribute(this.boxArray, 4);
    attribute.setUsage(DynamicDrawUsage);
    replace(this.boxes, 'box', attribute);
  }

  private growPlates(count: number): void {
    const have = this.plate.getAttribute('rect')?.count ?? 0;
    if (have >= count) return;
    const size = room(have, count);
    replace(this.plate, 'rect', new InstancedBufferAttribute(new Float32Array(size * 4), 4));
    replace(this.plate, 'rectBefore', new InstancedBufferAttribute(new Float32Array(size * 4), 4));
    replace(this.plate, 'more', new InstancedBufferAttribute(new Float32Array(size * 3), 3));
  }

  // --- what there is

  layout(data: SpaceData, fresh: readonly number[], moved: boolean): void {
    const first = this.data === null;
    this.data = data;
    this.growTextures(data.count);
    const n = data.count * 4;
    const tween = moved && !first && !this.options.reducedMotion && !this.options.simple;
    if (tween) this.before.set(this.place.subarray(0, n));
    else this.before.set(data.place.subarray(0, n));
    this.place.fill(0);
    this.place.set(data.place.subarray(0, n));
    for (let i = 0; i < data.count; i++) {
      // Who had no place before appears where it stands now.
      if ((this.before[i * 4 + 3] as number) === 0) this.before.set(this.place.subarray(i * 4, i * 4 + 4), i * 4);
    }
    for (const i of fresh) {
      this.before.set(this.place.subarray(i * 4, i * 4 + 4), i * 4);
      this.state.fill(0, i * 4, i * 4 + 4);
      this.stepSum[i] = 0;
    }
    this.placeTexture.needsUpdate = true;
    this.beforeTexture.needsUpdate = true;
    this.stateTexture.needsUpdate = true;
    this.putLamps(data);
    this.putPlates(data, tween);
    this.uniform('uMix').value = tween ? 0 : 1;
    this.tweenFrom = tween ? this.seconds() : -1;
    this.camera.farthest = Math.max(60, 4 * Math.hypot(data.ground.w, data.ground.d));
    this.boxesWanted = true;
    this.linesWanted = true;
    this.invalidate();
  }

  private putLamps(data: SpaceData): void {
    const who = this.lamp.getAttribute('who') as InstancedBufferAttribute;
    let count = 0;
    this.towers = 0;
    for (let i = HOSTS; i < data.count; i++) {
      const flags = data.flags[i] as number;
      if ((flags & SHOWN) === 0) continue;
      this.towers++;
      who.setXY(count++, i, 0);
      if ((flags & STUCK) !== 0) who.setXY(count++, i, 1);
    }
    who.needsUpdate = true;
    this.lamp.instanceCount = count;
  }

  private readonly plateBefore = new Map<number, number>(); // owner → instance

  private putPlates(data: SpaceData, tween: boolean): void {
    const count = data.plateOwner.length;
    const old = (this.plate.getAttribute('rect') as InstancedBufferAttribute).array.slice();
    this.growPlates(count + 1);
    const rect = this.plate.getAttribute('rect') as InstancedBufferAttribute;
    const before = this.plate.getAttribute('rectBefore') as InstancedBufferAttribute;
    const more = this.plate.getAttribute('more') as InstancedBufferAttribute;
    const was = new Map(this.plateBefore);
    this.plateBefore.clear();
    const { ground } = data;
    const put = (k: number, x: number, z: number, w: number, d: number, y: number, depth: number, owner: number) => {
      rect.setXYZW(k, x, z, w, d);
      const from = tween ? was.get(owner) : undefined;
      if (from === undefined) before.setXYZW(k, x, z, w, d);
      else before.setXYZW(k, ...(old.slice(from * 4, from * 4 + 4) as unknown as [number, number, number, number]));
      more.setXYZ(k, y, depth, PLAIN);
      this.plateBefore.set(owner, k);
    };
    put(0, 0, 0, ground.w, ground.d, 0, 0, -1);
    for (let k = 0; k < count; k++) {
      const o = k * 6;
      const p = data.plates;
      put(
        k + 1,
        p[o] as number,
        p[o + 1] as number,
        p[o + 2] as number,
        p[o + 3] as number,
        p[o + 4] as number,
        p[o + 5] as number,
        data.plateOwner[k] as number,
      );
    }
    rect.needsUpdate = true;
    before.needsUpdate = true;
    more.needsUpdate = true;
    this.plate.instanceCount = count + 1;
  }

  marks(marks: Uint8Array): void {
    const n = Math.min(marks.length, this.capacity);
    for (let i = 0; i < n; i++) this.state[i * 4 + 1] = marks[i] as number;
    this.stateTexture.needsUpdate = true;
    const more = this.plate.getAttribute('more') as InstancedBufferAttribute;
    for (const [owner, k] of this.plateBefore) {
      const isDim = owner >= 0 && marks[owner] === DIM;
      more.setZ(k, owner >= 0 && owner === this.selected ? CHOSEN : isDim ? DIM : PLAIN);
    }
    more.needsUpdate = true;
    this.invalidate();
  }

  select(index: number, hover: number): void {
    if (index === this.selected && hover === this.hovered) return;
    this.selected = index;
    this.hovered = hover;
    this.linesWanted = true;
    this.invalidate();
  }

  arcs(message: ArcsMessage): void {
    this.arcsMessage = message;
    this.linesWanted = true;
    if (this.steps > 0) this.blink();
    this.invalidate();
  }

  // Where nothing moves, what moves bytes changes its colour once a second instead.
  private blink(): void {
    if (this.blinking !== null || !this.hasActive()) return;
    this.blinking = setTimeout(() => {
      this.blinking = null;
      this.isBlink = this.hasActive() && !this.isBlink;
      this.linesWanted = true;
      this.invalidate();
      this.blink();
    }, BLINK_MS);
  }

  private hasActive(): boolean {
    const message = this.arcsMessage;
    if (!message) return false;
    for (let k = 3; k < message.arcs.length; k += 4) if ((message.arcs[k] as number) & 2) return true;
    for (let k = BUNDLE - 1; k < message.bundles.length; k += BUNDLE) {
      if (isBundleActive(message.bundles[k] as number)) return true;
    }
    return false;
  }

  save(on: boolean): void {
    this.isSaving = on;
  }

  cards(message: Cards): void {
    if (message.total === 0 && (this.cardsMessage?.total ?? 0) === 0) return;
    this.cardsMessage = message;
    this.boxesWanted = true;
    this.invalidate();
  }

  parentLines(on: boolean): void {
    this.withParents = on;
    this.linesWanted = true;
    this.invalidate();
  }

  plates(on: boolean): void {
    this.plateMesh.visible = on;
    this.invalidate();
  }

  files(on: boolean): void {
    this.uniform('uCards').value = on ? 1 : 0;
    this.invalidate();
  }

  // --- activity

  private get steps(): number {
    return this.options.reducedMotion ? 1000 : this.options.simple ? 500 : 0;
  }

  activity(message: ActivityMessage): void {
    const now = this.seconds();
    this.lampActivity(message, now);
    if (!this.options.reducedMotion && !this.options.simple) this.addPulses(message.pulses, now);
  }

  private lampActivity({ cpuIndex, cpuShare }: ActivityMessage, now: number): void {
    const { state, steps } = this;
    if (steps > 0) {
      // Steps instead of fading: the mean of each step, at its end.
      for (let k = 0; k < cpuIndex.length; k++) {
        const i = cpuIndex[k] as number;
        if (i < this.capacity) this.stepSum[i] = (this.stepSum[i] as number) + (cpuShare[k] as number);
      }
      this.stepWindows++;
      if (now - this.stepAt < steps / 1000) return;
      let changed = false;
      for (let i = HOSTS; i < this.capacity; i++) {
        const mean = (this.stepSum[i] as number) / this.stepWindows;
        if (Math.abs(mean - (state[i * 4] as number)) > 0.001) changed = true;
        state[i * 4] = mean;
        state[i * 4 + 3] = 0;
      }
      this.stepSum.fill(0);
      this.stepWindows = 0;
      this.stepAt = now;
      if (!changed) return;
    } else {
      if (cpuIndex.length === 0) return;
      for (let k = 0; k < cpuIndex.length; k++) {
        const i = cpuIndex[k] as number;
        if (i >= this.capacity) continue;
        const o = i * 4;
        const old = (state[o + 3] as number) > 0.5 ? fade(state[o] as number, now - (state[o + 2] as number)) : 0;
        // Half old, half new: a lamp that flickers at 10 Hz would be hard on the eyes.
        state[o] = (old + (cpuShare[k] as number)) / 2;
        state[o + 2] = now;
        state[o + 3] = 1;
      }
      this.fadeEnd = now + FADE_MS / 1000;
    }
    this.stateTexture.needsUpdate = true;
    this.invalidate();
  }

  lamps(cpu: Float32Array): void {
    for (let i = HOSTS; i < this.capacity; i++) {
      const value = cpu[i] as number;
      this.state[i * 4] = Number.isFinite(value) ? value / 100 : 0;
      this.state[i * 4 + 3] = 0;
    }
    this.stateTexture.needsUpdate = true;
    this.invalidate();
  }

  private addPulses(list: Float32Array, now: number): void {
    const { data, selected } = this;
    if (list.length === 0 || !data) return;
    // Bundles tell what moves by their light: only what has an arc has pulses.
    const isBundled = (this.arcsMessage?.bundles.length ?? 0) > 0;
    const from = this.pulse.getAttribute('from') as BufferAttribute;
    const to = this.pulse.getAttribute('to') as BufferAttribute;
    const pulse = this.pulse.getAttribute('pulse') as BufferAttribute;
    for (let k = 0; k + 3 < list.length; k += 4) {
      const a = (list[k] as number) * 4;
      const b = (list[k + 1] as number) * 4;
      const p = this.place;
      if (!p[a + 3] || !p[b + 3]) continue;
      if (isBundled && a !== selected * 4 && b !== selected * 4) continue;
      const i = this.pulseHead;
      this.pulseHead = (i + 1) % maxPulses;
      from.setXYZ(i, p[a] as number, (p[a + 2] as number) + (p[a + 3] as number), p[a + 1] as number);
      to.setXYZ(i, p[b] as number, (p[b + 2] as number) + (p[b + 3] as number), p[b + 1] as number);
      // Spread over the window they come from, so that they do not march in rows.
      const start = now + ((k / 4) % 8) * 0.0125;
      const size = Math.min(9, 3 + Math.log2(1 + (list[k + 3] as number) / 64) * 0.45);
      pulse.setXYZW(i, start, PULSE_S, list[k + 2] as number, size);
      this.pulseEnd = Math.max(this.pulseEnd, start + PULSE_S);
    }
    from.needsUpdate = true;
    to.needsUpdate = true;
    pulse.needsUpdate = true;
    this.invalidate();
  }

  forget(): void {
    (this.pulse.getAttribute('pulse') as BufferAttribute).array.fill(0);
    (this.pulse.getAttribute('pulse') as BufferAttribute).needsUpdate = true;
    for (let i = 0; i < this.capacity; i++) this.state[i * 4] = 0;
    this.stepSum.fill(0);
    this.stateTexture.needsUpdate = true;
    this.pulseEnd = 0;
    this.fadeEnd = 0;
    this.invalidate();
  }

  // --- levels of detail

  private level(x: number, y: number, z: number, w: number): number {
    if (this.options.simple) return FAR;
    const px = this.camera.pixelsAt(x, y, z);
    if (px * w < SMALL_PLATE) return FAR;
    return px >= NEAR_CELL ? NEAR : MIDDLE;
  }

  /** setLevels decides plate by plate how much of its towers is drawn; true when that changed. */
  private setLevels(data: SpaceData): boolean {
    const levels = new Uint8Array(data.count);
    const plateLevel = new Uint8Array(data.count).fill(255);
    for (let k = 0; k < data.plateOwner.length; k++) {
      const o = k * 6;
      const p = data.plates;
      const w = p[o + 2] as number;
      const d = p[o + 3] as number;
      plateLevel[data.plateOwner[k] as number] = this.level(
        (p[o] as number) + w / 2,
        p[o + 4] as number,
        (p[o + 1] as number) + d / 2,
        Math.max(w, d),
      );
    }
    for (let i = HOSTS; i < data.count; i++) {
      if (((data.flags[i] as number) & SHOWN) === 0) continue;
      const parent = data.parents[i] as number;
      let level = plateLevel[i] as number;
      if (level === 255 && parent >= 0) level = plateLevel[parent] as number;
      if (level === 255) {
        level = this.level(
          data.place[i * 4] as number,
          data.place[i * 4 + 2] as number,
          data.place[i * 4 + 1] as number,
          4,
        );
      }
      levels[i] = level;
    }
    const same = levels.length === this.levels.length && levels.every((level, i) => level === this.levels[i]);
    this.levels = levels;
    return !same;
  }

  private putBoxes(data: SpaceData): void {
    const cards = this.cardsMessage?.cards ?? null;
    const most = Math.min(maxBoxes, data.near.length / 4 + data.count + (cards ? cards.length / 3 : 0) + HOSTS);
    this.growBoxes(most);
    const out = this.boxArray;
    let n = 0;
    const put = (index: number, from: number, to: number, kind: number) => {
      out[n++] = index;
      out[n++] = from;
      out[n++] = to;
      out[n++] = kind;
    };
    for (let i = 0; i < HOSTS; i++) if ((data.flags[i] as number) & SHOWN) put(i, 0, 1, HOST);
    if (cards) {
      for (let k = 0; k + 2 < cards.length; k += 3) {
        put(cards[k] as number, cards[k + 1] as number, 0, cards[k + 2] ? CARD_WRITE : CARD_READ);
      }
    }
    // Those still to come get a box each whatever the others take.
    let { towers } = this;
    let atMiddle = 0;
    let atNear = 0;
    const { middle, near } = data;
    for (let i = HOSTS; i < data.count; i++) {
      while (atMiddle < middle.length && (middle[atMiddle] as number) < i) atMiddle += 4;
      while (atNear < near.length && (near[atNear] as number) < i) atNear += 4;
      if (((data.flags[i] as number) & SHOWN) === 0) continue;
      towers--;
      const level = this.levels[i] as number;
      const source = level === NEAR ? near : middle;
      let from = level === NEAR ? atNear : atMiddle;
      let to = from;
      while (to < source.length && source[to] === i) to += 4;
      const wanted = (to - from) / 4;
      if (level === FAR || wanted === 0 || n / 4 + wanted + towers > maxBoxes) {
        if (n / 4 < maxBoxes) put(i, 0, 1, data.main[i] as number);
        continue;
      }
      for (; from < to; from += 4) {
        put(i, source[from + 1] as number, source[from + 2] as number, source[from + 3] as number);
      }
    }
    const attribute = this.boxes.getAttribute('box') as InstancedBufferAttribute;
    attribute.clearUpdateRanges();
    attribute.addUpdateRange(0, n);
    attribute.needsUpdate = true;
    this.boxes.instanceCount = n / 4;
  }

  // --- lines

  private readonly tones = Object.fromEntries(
    ['sure', 'candidate', 'shared', 'network', 'open', 'parent', 'focus', 'blink'].map((name) => [name, new Color()]),
  ) as Tones;

  private putLines(data: SpaceData): void {
    const { digits, lines, place, selected, tones } = this;
    const plateOf = (index: number) => (this.plateBefore.get(index) ?? 0) - 1;
    const wiring: Wiring = { lines, tones, data, place, selected, plateOf, isBlink: this.isBlink };
    lines.clear();
    digits.clear();
    if (this.arcsMessage) {
      putArcs(wiring, this.arcsMessage);
      putBundles(wiring, this.arcsMessage, maxStrands, (x, y, z, value) => digits.add(x, y, z, value));
    }
    if (this.withParents) putParents(wiring);
    lines.done();
    this.digitMesh.visible = !digits.isEmpty;
    this.digitsWanted = true;
    this.putOutline(data);
  }

  private putOutline(data: SpaceData): void {
    const { outline, place, tones } = this;
    outline.clear();
    for (const [index, alpha] of [
      [this.selected, 1],
      [this.hovered, 0.7],
    ] as const) {
      const o = index * 4;
      if (index < 0 || !place[o + 3]) continue;
      const [x, z, y, h] = place.subarray(o, o + 4) as unknown as [number, number, number, number];
      outline.box(x, z, HALF + 0.05, HALF + 0.05, y, h + 0.03, tones.focus, alpha);
      const k = data.plateOwner.indexOf(index);
      if (k < 0) continue;
      const plate = data.plates.subarray(k * 6, k * 6 + 6) as unknown as [number, number, number, number, number];
      const w = plate[2] / 2;
      const d = plate[3] / 2;
      outline.box(plate[0] + w, plate[1] + d, w - RIM, d - RIM, plate[4], 0, tones.focus, alpha);
    }
    outline.done();
  }

  // --- looks

  recolour(): void {
    const { role } = palette();
    const set = (name: string, value: string) => (this.uniform(name).value as Color).copy(plain(value));
    set('uGround', role('bg0'));
    set('uFocus', role('focus'));
    set('uCpu', role('cpu'));
    set('uLow', role('bg1'));
    set('uHigh', role('bg3'));
    set('uEdge', role('line2'));
    set('uRead', role('read'));
    set('uWrite', role('write'));
    set('uBad', role('bad'));
    const kinds = this.uniform('uKinds').value as Color[];
    const names = [...KINDS.map((kind) => `kind-${kind}`), 'line2', 'line2', 'fg1', 'read', 'write', 'fg2'];
    names.forEach((name, i) => void (kinds[i] as Color).copy(plain(role(name))));
    const { tones } = this;
    tones.sure.copy(plain(role('fg1')));
    tones.candidate.copy(plain(role('fg1')));
    tones.shared.copy(plain(role('kind-data')));
    tones.network.copy(plain(role('mem')));
    tones.open.copy(tones.sure);
    tones.parent.copy(plain(role('line2')));
    tones.focus.copy(plain(role('focus')));
    tones.blink.copy(plain(role('read')));
    this.digits.recolour(role('bg0'), role('fg0'));
    this.gl.setClearColor(plain(role('bg0')), 1);
    this.linesWanted = true;
    this.invalidate();
  }

  resize(width: number, height: number): void {
    this.camera.width = Math.max(1, width);
    this.camera.height = Math.max(1, height);
    this.gl.setSize(this.camera.width, this.camera.height, false);
    this.eye.aspect = this.camera.width / this.camera.height;
    (this.uniform('uScreen').value as Vector2).set(this.camera.width, this.camera.height);
    this.digitsWanted = true;
    this.invalidate();
  }

  // --- frames

  invalidate(): void {
    if (this.asked !== 0 || this.timer !== null || this.disposed) return;
    const wait = this.due - performance.now();
    if (wait > FRAME_MS) {
      this.timer = setTimeout(() => {
        this.timer = null;
        this.asked = requestAnimationFrame(this.frame);
      }, wait - EARLY_MS);
    } else this.asked = requestAnimationFrame(this.frame);
  }

  private get least(): number {
    return this.options.simple ? SIMPLE_MS : this.isSaving ? SAVING_MS : FRAME_MS;
  }

  private readonly frame = (): void => {
    this.asked = 0;
    if (this.disposed || this.isLost || document.visibilityState === 'hidden') return;
    const began = performance.now();
    if (began < this.due - EARLY_MS) {
      this.asked = requestAnimationFrame(this.frame);
      return;
    }
    // One that came late does not put off the next, and what was not drawn is not made up for.
    this.due = Math.max(this.due, began - this.least) + this.least;
    const now = this.seconds();
    const { camera, data } = this;
    const flying = camera.step(began);
    camera.update();
    this.eye.position.set(camera.eye[0] as number, camera.eye[1] as number, camera.eye[2] as number);
    this.look.set(camera.x, 0, camera.z);
    // Straight down "up" is no direction: there the far edge is at the top.
    if (camera.phi > 0.01) this.eye.up.set(0, 1, 0);
    else this.eye.up.set(-Math.sin(camera.theta), 0, -Math.cos(camera.theta));
    this.eye.lookAt(this.look);
    this.eye.near = Math.max(0.3, camera.dist * 0.02);
    this.eye.far = camera.dist * 3 + camera.farthest * 2;
    this.eye.updateProjectionMatrix();
    this.uniform('uTime').value = now;
    this.uniform('uRatio').value = this.gl.getPixelRatio();
    if (this.tweenFrom >= 0) {
      const t = Math.min(1, ((now - this.tweenFrom) * 1000) / TWEEN_MS);
      this.uniform('uMix').value = t * t * (3 - 2 * t);
      if (t >= 1) this.tweenFrom = -1;
    }
    let later = false;
    if (data) {
      if (this.boxesWanted || began - this.levelsAt > LEVEL_MS) {
        this.levelsAt = began;
        if (this.setLevels(data) || this.boxesWanted) {
          this.boxesWanted = false;
          this.putBoxes(data);
        }
      } else if (flying || this.cameraMoved(0)) later = true;
      if (this.linesWanted) {
        this.linesWanted = false;
        this.putLines(data);
      }
      if (this.digitMesh.visible && (this.digitsWanted || this.cameraMoved(1))) {
        this.digitsWanted = false;
        this.digits.lay(camera);
      }
    }
    this.pulse.setDrawRange(0, now < this.pulseEnd ? maxPulses : 0);
    this.pulseMesh.visible = now < this.pulseEnd;
    this.gl.render(this.world, this.eye);
    this.frames++;
    const took = performance.now() - began;
    // Software draws as slowly as there is to draw: the pause counts from the end.
    if (this.options.simple) this.due = performance.now() + SIMPLE_MS;
    if (this.frames === 1 && took > 250 && !this.options.simple) this.events.slow();
    this.livePulses = now < this.pulseEnd ? 1 : 0;
    this.events.drawn();
    if (flying || this.tweenFrom >= 0 || now < this.pulseEnd) this.invalidate();
    else if (now < this.fadeEnd) this.invalidate();
    else if (later) this.laterLevels();
  };

  private readonly lastPose = new Float64Array(2);

  // cameraMoved tells each of those who ask whether it stands elsewhere than when they last did.
  private cameraMoved(asker: 0 | 1): boolean {
    const { x, z, dist, phi, theta } = this.camera;
    const pose = x + z * 31 + dist * 977 + phi * 7919 + theta * 104729;
    if (pose === this.lastPose[asker]) return false;
    this.lastPose[asker] = pose;
    return true;
  }

  // One more frame once the camera stands still, with the detail that fits.
  private laterLevels(): void {
    if (this.timer !== null || this.asked !== 0) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      this.invalidate();
    }, LEVEL_MS + 20);
  }

  figures(): Figures {
    const { render, memory, programs } = this.gl.info;
    return {
      frames: this.frames,
      calls: render.calls,
      triangles: render.triangles,
      lines: render.lines,
      points: render.points,
      geometries: memory.geometries,
      textures: memory.textures,
      programs: programs?.length ?? 0,
      boxes: this.boxes.instanceCount,
      livePulses: this.livePulses,
      renderer: this.options.renderer,
    };
  }

  dispose(): void {
    this.disposed = true;
    if (this.timer !== null) clearTimeout(this.timer);
    if (this.blinking !== null) clearTimeout(this.blinking);
    cancelAnimationFrame(this.asked);
    this.canvas.removeEventListener('webglcontextlost', this.onLost);
    this.canvas.removeEventListener('webglcontextrestored', this.onRestored);
    document.removeEventListener('visibilitychange', this.onVisible);
    const lines = [this.lines.geometry, this.outline.geometry];
    for (const geometry of [this.boxes, this.lamp, this.plate, this.pulse, ...lines]) geometry.dispose();
    this.digits.dispose();
    for (const made of this.materials) made.dispose();
    for (const texture of [this.placeTexture, this.beforeTexture, this.stateTexture]) texture.dispose();
    this.gl.dispose();
    this.gl.forceContextLoss();
    this.canvas.remove();
  }
}

/** OUTLINE is the most edges of the outlines: two towers and two plates. */
const OUTLINE = 2 * (12 + 4);

function dynamic(array: Float32Array, size: number): BufferAttribute {
  return new BufferAttribute(array, size).setUsage(DynamicDrawUsage);
}

/** replace gives a geometry a larger buffer; the old one's memory on the card goes at once. */
function replace(geometry: BufferGeometry, name: string, attribute: BufferAttribute): void {
  if (geometry.hasAttribute(name)) geometry.dispose();
  geometry.setAttribute(name, attribute);
}

function fade(value: number, age: number): number {
  return value * Math.max(0, 1 - age / (FADE_MS / 1000));
}

/** plain is a colour of the style sheet as it stands there, not made linear. */
function plain(text: string): Color {
  const match = /^#([0-9a-f]{6})$/i.exec(text);
  const n = match ? Number.parseInt(match[1] as string, 16) : 0x808080;
  const colour = new Color();
  colour.r = ((n >> 16) & 255) / 255;
  colour.g = ((n >> 8) & 255) / 255;
  colour.b = (n & 255) / 255;
  return colour;
}

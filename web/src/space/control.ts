// The space at work: worker and data in, picture out.

import { effect, untracked } from '@preact/signals';
import { announce } from '../announce';
import { visible } from '../format';
import { Lifetime } from '../life';
import { navigate, processPath } from '../route';
import { batterySaver, dark } from '../settings';
import { answered } from '../stream';
import { pick, type Ray } from './camera';
import { SpaceData } from './data';
import { fileText } from './files';
import { Flat } from './flat';
import { Labels } from './labels';
import type { FromWorker, ToWorker } from './protocol';
import { probe, Scene } from './scene';
import * as view from './state';
import { HOSTS } from './structure';
import { CHOSEN, DIM, type Figures, PLAIN, type View } from './view';

declare const WORKER_URL: string; // the built worker, put in by the build

interface Policy {
  createScriptURL(url: string): string;
}

// One policy a document: the content policy allows this name once.
let policy: Policy | null = null;

function workerURL(): string {
  const types = (
    window as unknown as {
      trustedTypes?: { createPolicy(name: string, rules: { createScriptURL(url: string): string }): Policy };
    }
  ).trustedTypes;
  if (!types) return WORKER_URL;
  policy ??= types.createPolicy('procinsh', {
    createScriptURL(url) {
      if (url !== WORKER_URL) throw new TypeError('not the worker of this page');
      return url;
    },
  });
  return policy.createScriptURL(WORKER_URL);
}

const WRITE_MS = 400;
/** TALL is what most towers with their lamps keep below, in cells. */
const TALL = 2.5;
const NONE: Figures = {
  frames: 0,
  calls: 0,
  triangles: 0,
  lines: 0,
  points: 0,
  geometries: 0,
  textures: 0,
  programs: 0,
  boxes: 0,
  livePulses: 0,
  renderer: 'none',
};

/** Pulse is one of the last that were shown, for who asks what the picture shows. */
interface Pulse {
  from: string;
  to: string;
  write: boolean;
}

export class Space {
  readonly data = new SpaceData();
  readonly labels = new Labels();
  match = new Uint8Array(0);
  private matchText = '';
  private isWalking: 0 | 1 | -1 = 0;
  /** onData is called when the list must look again. */
  onData: () => void = () => {};
  private readonly life = new Lifetime();
  private readonly worker: Worker;
  private picture: View | null = null;
  private hovered = -1;
  private wantedView: string;
  private isPlaced = false;
  private isFull = false;
  /** isFollowing: all is shown and stays so as the ground grows, until somebody moves the camera. */
  private isFollowing = false;
  private readonly related = new Set<number>();
  private readonly shownHosts = new Set<number>();
  private readonly reduced = matchMedia('(prefers-reduced-motion: reduce)');
  private marked = new Uint8Array(0);
  private pulses: Pulse[] = [];
  private metricsLamps = true;
  private closed = false;
  private writing: ReturnType<typeof setTimeout> | null = null;

  constructor(private readonly host: HTMLElement) {
    this.wantedView = view.readAddress();
    view.mountedAt.value = Date.now();
    view.loaded.value = false;
    view.heard.value = 0;
    view.held.value = null;
    view.facts.value = null;
    this.worker = new Worker(workerURL(), { name: 'space' });
    this.worker.onmessage = (event: MessageEvent<FromWorker>) => this.message(event.data);
    this.worker.onerror = () => {
      view.live.value = { kind: 'lost', status: 0, error: 'the worker of this page failed', at: Date.now() };
    };
    host.append(this.labels.element);
    this.makePicture();
    this.follow();
    this.tell({ kind: 'start', visible: document.visibilityState !== 'hidden' });
  }

  private tell(message: ToWorker): void {
    this.worker.postMessage(message);
  }

  private follow(): void {
    const { life } = this;
    const seen = () => {
      const isVisible = document.visibilityState !== 'hidden';
      if (!isVisible) this.picture?.forget();
      this.tell({ kind: 'visible', visible: isVisible });
    };
    life.listen(document, 'visibilitychange', seen);
    life.listen(window, 'pagehide', () => this.tell({ kind: 'visible', visible: false }));
    life.listen<PageTransitionEvent>(window, 'pageshow', (event) => {
      if (event.persisted) seen();
    });
    life.listen(window, 'popstate', () => {
      if (location.pathname !== '/space') return;
      this.wantedView = view.readAddress();
      if (this.wantedView) this.picture?.camera.read(this.wantedView);
      this.picture?.invalidate();
    });
    life.listen(this.reduced, 'change', () => this.makePicture());
    life.interval(500, () => {
      if (document.visibilityState !== 'hidden') view.now.value = Date.now();
    });
    const observer = new ResizeObserver(() => this.resize());
    observer.observe(this.host);
    life.add(() => observer.disconnect());
    life.add(effect(() => this.tell({ kind: 'query', text: view.query.value })));
    life.add(
      effect(() => {
        this.tell({ kind: 'connections', which: view.shownConnections.value });
      }),
    );
    life.add(
      effect(() => {
        const index = this.indexOf(view.selected.value);
        untracked(() => {
          this.tell({ kind: 'select', index });
          if (view.facts.value?.index !== index) view.facts.value = null;
          this.remark();
          this.name();
          this.writeSoon();
        });
      }),
    );
    life.add(effect(() => this.picture?.plates(view.withPlates.value)));
    life.add(effect(() => this.picture?.parentLines(view.withParents.value)));
    life.add(effect(() => this.picture?.files(view.withFiles.value)));
    life.add(effect(() => this.picture?.save(batterySaver.value)));
    life.add(
      effect(() => {
        void dark.value;
        requestAnimationFrame(() => this.picture?.recolour());
      }),
    );
    life.add(
      effect(() => {
        void [view.query.value, view.asList.value];
        untracked(() => this.writeSoon());
      }),
    );
    let said = '';
    life.add(
      effect(() => {
        const text = view.query.value.trim();
        const { count } = view.matches.value;
        if (text === said) return;
        said = text;
        if (text) announce(`${count} found`);
      }),
    );
  }

  // --- the picture

  private makePicture(): void {
    const kept = this.picture?.camera.text() ?? '';
    this.picture?.dispose();
    this.picture = null;
    view.isLost.value = false;
    const events = {
      drawn: () => this.drawn(),
      lost: () => {
        view.isLost.value = true;
      },
      restored: () => {
        view.isLost.value = false;
      },
      slow: () => {
        if (this.isFull) return;
        view.why.value = 'Slow drawing: simplified.';
        this.simple = true;
        queueMicrotask(() => this.makePicture());
      },
    };
    const found = probe();
    const isSimple = !this.isFull && (this.simple || found?.software === true);
    try {
      if (!found) throw new Error('this browser has no WebGL 2, or it is switched off');
      this.picture = new Scene(
        this.host,
        { renderer: found.renderer, simple: isSimple, reducedMotion: this.reduced.matches },
        events,
      );
      view.drawing.value = isSimple ? 'simple' : 'gl';
      if (!isSimple) view.why.value = '';
      else if (!this.simple) view.why.value = 'Software drawing: simplified.';
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      this.picture = new Flat(this.host, events);
      view.drawing.value = 'flat';
      view.why.value = `Flat map: ${reason}.`;
    }
    const { canvas, camera } = this.picture;
    canvas.setAttribute('role', 'img');
    canvas.setAttribute(
      'aria-label',
      'Processes as towers on the plates of their parents. “As list” has the same as text.',
    );
    canvas.tabIndex = 0;
    // For tests and for the curious: what the picture costs and shows.
    Object.assign(canvas, {
      space: {
        figures: () => this.picture?.figures() ?? NONE,
        screen: (key: string) => this.screen(key),
        pick: (x: number, y: number) => this.keyAt(this.pick(x, y)),
        pulses: () => this.pulses,
        invalidate: () => this.picture?.invalidate(),
      },
    });
    this.listen(canvas);
    this.resize();
    if (kept) camera.read(kept);
    this.picture.plates(view.withPlates.peek());
    this.picture.parentLines(view.withParents.peek());
    this.picture.files(view.withFiles.peek());
    this.picture.save(batterySaver.peek());
    if (this.data.sequence >= 0) {
      this.picture.layout(this.data, [], false);
      this.tell({ kind: 'select', index: this.indexOf(view.selected.peek()) });
      this.remark();
      if (this.metricsLamps) this.picture.lamps(this.data.cpu);
    }
  }

  private simple = false;

  /** drawEverything leaves the simplified drawing. */
  drawEverything(): void {
    this.isFull = true;
    this.makePicture();
  }

  private resize(): void {
    const { clientWidth, clientHeight } = this.host;
    if (clientWidth === 0 || clientHeight === 0) return;
    this.picture?.resize(clientWidth, clientHeight);
    this.picture?.camera.update();
  }

  private drawn(): void {
    if (this.picture) this.labels.place(this.picture.camera, this.data);
  }

  private get when(): number | null {
    return this.reduced.matches || view.drawing.peek() !== 'gl' ? null : performance.now();
  }

  /** change moves the camera and asks for a frame. */
  change(move: (camera: View['camera']) => void): void {
    if (!this.picture) return;
    this.isFollowing = false;
    move(this.picture.camera);
    this.picture.camera.update();
    view.isTop.value = this.picture.camera.isTop;
    this.picture.invalidate();
    this.writeSoon();
  }

  fitAll(): void {
    this.change((camera) => this.fitGround(camera, this.when));
    this.isFollowing = true;
  }

  private fitGround(camera: View['camera'], when: number | null): void {
    const { ground, hosts } = this.data;
    const front = hosts.some(Boolean) ? 3 : 0;
    camera.fit(0, -front, ground.w, ground.d + front, TALL, when);
  }

  /** fitSelected flies to the selected, with its plate and some of its neighbours; to all without one. */
  fitSelected(): void {
    const i = this.indexOf(view.selected.peek());
    const { place, plateOwner, plates } = this.data;
    if (i < 0) {
      this.fitAll();
      return;
    }
    if (!place[i * 4 + 3]) return;
    const x = place[i * 4] as number;
    const z = place[i * 4 + 1] as number;
    const tall = Math.max(TALL, place[i * 4 + 3] as number);
    const k = plateOwner.indexOf(i);
    if (k < 0) {
      this.change((camera) => camera.fit(x - 4, z - 4, 8, 8, tall, this.when));
      return;
    }
    const [left, top, w, d] = plates.subarray(k * 6, k * 6 + 4) as unknown as [number, number, number, number];
    // A small plate is seen with what is around it.
    const more = Math.max(1, (8 - Math.max(w, d)) / 2);
    this.change((camera) => camera.fit(left - more, top - more, w + 2 * more, d + 2 * more, tall, this.when));
  }

  toggleTop(): void {
    const isAll = this.isFollowing;
    this.change((camera) => {
      camera.turn(!camera.isTop, this.when);
      if (isAll) this.fitGround(camera, this.when);
    });
    this.isFollowing = isAll;
  }

  rearrange(): void {
    this.tell({ kind: 'rearrange' });
    announce('Everything is packed anew');
  }

  retry(): void {
    this.tell({ kind: 'retry' });
  }

  toggleHold(): void {
    if (view.held.peek()) {
      view.held.value = null;
      this.tell({ kind: 'hold', held: false });
      announce('Live again');
      return;
    }
    if (!view.loaded.peek()) return;
    view.held.value = { since: Date.now(), started: 0, exited: 0 };
    this.tell({ kind: 'hold', held: true });
    this.picture?.forget();
    announce('Held: the space stands still');
  }

  // --- what the worker says

  private message(m: FromWorker): void {
    if (this.closed) return;
    const { picture, data } = this;
    switch (m.kind) {
      case 'state':
        view.live.value = m.state;
        // There is something to show, if only why not.
        if (m.state.kind === 'lost' || m.state.kind === 'refused') answered.value = true;
        break;
      case 'heard':
        view.heard.value = m.at;
        break;
      case 'status':
        view.status.value = m.status;
        if (this.metricsLamps !== (m.status.cpu.state !== 'observing')) {
          // Lamps that hold their second must not stay among those that fade.
          this.metricsLamps = !this.metricsLamps;
          picture?.forget();
        }
        break;
      case 'gap':
        view.gaps.value = { gaps: m.gaps, frames: m.frames };
        picture?.forget();
        break;
      case 'held':
        if (view.held.peek()) view.held.value = { ...view.held.peek()!, started: m.started, exited: m.exited };
        break;
      case 'layout':
        this.layout(m);
        break;
      case 'metrics':
        data.metrics(m);
        if (this.metricsLamps) picture?.lamps(data.cpu);
        view.tick.value++;
        this.onData();
        break;
      case 'activity':
        if (view.held.peek()) break;
        this.keepPulses(m.pulses);
        picture?.activity(m);
        break;
      case 'arcs':
        this.arcs(m);
        break;
      case 'cards':
        picture?.cards(m);
        break;
      case 'facts':
        if (m.index === this.indexOf(view.selected.peek())) {
          view.facts.value = m;
          this.name();
        }
        break;
      case 'matches':
        this.match = m.match as Uint8Array<ArrayBuffer>;
        this.matchText = m.text;
        view.matches.value = { count: m.count, total: m.total };
        this.remark();
        this.onData();
        if (this.isWalking !== 0 && m.text === view.query.peek()) {
          const step = this.isWalking;
          this.isWalking = 0;
          this.walk(step);
        }
        break;
    }
  }

  private layout(m: Extract<FromWorker, { kind: 'layout' }>): void {
    const before = this.indexOf(view.selected.peek());
    const { w, d } = this.data.ground;
    const fresh = this.data.take(m);
    this.picture?.layout(this.data, fresh, m.moved);
    if (this.metricsLamps) this.picture?.lamps(this.data.cpu);
    const isFirst = !this.isPlaced && m.sequence > 0;
    if (isFirst) {
      this.isPlaced = true;
      view.loaded.value = true;
      this.firstLook();
      answered.value = true;
    } else if (this.isFollowing && (w !== m.ground.w || d !== m.ground.d)) this.fitAll();
    const key = view.selected.peek();
    const index = this.indexOf(key);
    if (key !== null && index < 0 && m.sequence > 0) {
      view.missing.value = key;
      view.selected.value = null;
      if (!isFirst) announce('The selected process has ended');
    } else if (index !== before || isFirst) this.tell({ kind: 'select', index });
    if (!this.data.isLive(this.hovered)) this.hovered = -1;
    view.tick.value++;
    this.remark();
    this.name();
    this.onData();
  }

  private firstLook(): void {
    const picture = this.picture;
    if (!picture) return;
    if (this.wantedView && picture.camera.read(this.wantedView)) {
      this.change(() => {});
      return;
    }
    if (view.narrow.peek()) picture.camera.turn(true, null);
    this.fitGround(picture.camera, null);
    picture.camera.update();
    view.isTop.value = picture.camera.isTop;
    this.isFollowing = true;
    if (view.selected.peek()) this.fitSelected();
    picture.invalidate();
    this.writeSoon();
  }

  private arcs(m: Extract<FromWorker, { kind: 'arcs' }>): void {
    this.picture?.arcs(m);
    view.arcs.value = { drawn: m.drawn, bundles: m.bundles, within: m.within, hidden: m.hidden };
    this.related.clear();
    this.shownHosts.clear();
    const own = this.indexOf(view.selected.peek());
    const note = (a: number, b: number) => {
      if (a === own) this.related.add(b);
      if (b === own) this.related.add(a);
      for (const i of [a, b]) if (i < HOSTS) this.shownHosts.add(i);
    };
    for (let k = 0; k + 3 < m.arcs.length; k += 4) note(m.arcs[k] as number, m.arcs[k + 1] as number);
    const groups = new Map<number, number[]>();
    for (let k = 0; k + 1 < m.hubs.length; k += 2) {
      const list = groups.get(m.hubs[k + 1] as number) ?? [];
      list.push(m.hubs[k] as number);
      groups.set(m.hubs[k + 1] as number, list);
    }
    for (const list of groups.values()) if (list.includes(own)) for (const i of list) this.related.add(i);
    this.remark();
    this.name();
    this.picture?.invalidate();
  }

  private keepPulses(list: Float32Array): void {
    if (list.length === 0 || this.reduced.matches) return;
    const out: Pulse[] = [];
    for (let k = 0; k + 3 < list.length && out.length < 200; k += 4) {
      const [from, to] = [list[k] as number, list[k + 1] as number];
      out.push({ from: this.keyAt(from) ?? '', to: this.keyAt(to) ?? '', write: list[k + 2] === 1 });
    }
    this.pulses = out;
  }

  /** remark decides who is dimmed: with a filter what does not match, else all but the selected and its own. */
  private remark(): void {
    const { data } = this;
    const own = this.indexOf(view.selected.peek());
    const marks = this.marked.length >= data.count ? this.marked : new Uint8Array(data.count * 2);
    this.marked = marks;
    const isFiltering = view.isFiltering.peek();
    for (let i = 0; i < data.count; i++) {
      let mark = PLAIN;
      if (i === own) mark = CHOSEN;
      else if (isFiltering) mark = i < HOSTS || this.match[i] ? PLAIN : DIM;
      else if (own >= 0) mark = this.related.has(i) || this.isBelow(i, own) ? PLAIN : DIM;
      marks[i] = mark;
    }
    this.picture?.select(own, this.hovered);
    this.picture?.marks(marks.subarray(0, data.count));
  }

  private isBelow(i: number, above: number): boolean {
    let at = i;
    for (let steps = 0; at >= HOSTS && steps < 64; steps++) {
      at = this.data.parents[at] as number;
      if (at === above) return true;
    }
    return false;
  }

  private name(): void {
    const own = this.indexOf(view.selected.peek());
    const files = view.withFiles.peek() && view.facts.peek()?.index === own ? (view.facts.peek()?.files ?? []) : [];
    const isOther = this.labels.choose(
      this.data,
      own,
      this.hovered,
      this.shownHosts,
      files.map((file) => fileText(file.path, file.resource)),
    );
    if (isOther) this.picture?.invalidate();
  }

  // --- who is meant

  keyAt(i: number): string | null {
    if (!this.data.isLive(i)) return null;
    if (i < HOSTS) return `host:${this.data.hosts[i]?.address ?? ''}`;
    return this.data.key(i);
  }

  indexOf(key: string | null): number {
    if (key === null) return -1;
    if (key.startsWith('host:')) return this.data.hosts.findIndex((host) => host?.address === key.slice(5));
    return this.data.byKey.get(key) ?? -1;
  }

  select(i: number): void {
    view.missing.value = null;
    view.selected.value = this.keyAt(i);
  }

  open(i: number, newTab = false): void {
    if (!this.data.isProcess(i)) return;
    const path = processPath(this.data.identity(i));
    if (newTab) window.open(path, '_blank', 'noopener');
    else {
      this.write();
      navigate(path);
    }
  }

  private pick(x: number, y: number): number {
    if (!this.picture) return -1;
    this.picture.camera.update();
    this.picture.camera.ray(x, y, ray);
    return pick(ray, this.data.place, this.data.count);
  }

  private screen(key: string): { x: number; y: number } | null {
    const i = this.indexOf(key);
    const { picture, data } = this;
    if (i < 0 || !picture || !data.place[i * 4 + 3]) return null;
    picture.camera.update();
    const out = new Float64Array(3);
    const high = (data.place[i * 4 + 2] as number) + (data.place[i * 4 + 3] as number);
    picture.camera.project(data.place[i * 4] as number, high - 0.02, data.place[i * 4 + 1] as number, out);
    const box = picture.canvas.getBoundingClientRect();
    return { x: box.left + (out[0] as number), y: box.top + (out[1] as number) };
  }

  /** walk selects the next of what matches; without a filter, of all. */
  walk(step: 1 | -1): void {
    const { data } = this;
    if (this.matchText !== view.query.peek()) {
      this.isWalking = step; // what matches is still looked for
      return;
    }
    const list: number[] = [];
    for (let i = HOSTS; i < data.count; i++) {
      if (data.isProcess(i) && data.place[i * 4 + 3] && (!view.isFiltering.peek() || this.match[i])) list.push(i);
    }
    list.sort((a, b) => (data.pid[a] as number) - (data.pid[b] as number));
    if (list.length === 0) {
      announce('Nothing matches');
      return;
    }
    const at = list.indexOf(this.indexOf(view.selected.peek()));
    const next = list[at < 0 ? (step > 0 ? 0 : list.length - 1) : (at + step + list.length) % list.length] as number;
    this.select(next);
    this.fitSelected();
    announce(`${visible(data.label(next))}, pid ${data.pid[next]}`);
  }

  // --- pointer

  private listen(canvas: HTMLCanvasElement): void {
    const pointers = new Map<number, { x: number; y: number }>();
    let moved = 0;
    let button = 0;
    let spread = 0;
    const local = (event: MouseEvent) => {
      const box = canvas.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    canvas.addEventListener('contextmenu', (event) => event.preventDefault());
    canvas.addEventListener('pointerdown', (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, local(event));
      if (pointers.size === 1) {
        moved = 0;
        button = event.button;
      }
      spread = 0;
    });
    canvas.addEventListener('pointermove', (event) => {
      const at = local(event);
      const last = pointers.get(event.pointerId);
      if (!last) {
        this.hover(this.pick(at.x, at.y));
        return;
      }
      const dx = at.x - last.x;
      const dy = at.y - last.y;
      moved += Math.abs(dx) + Math.abs(dy);
      pointers.set(event.pointerId, at);
      if (moved < 4) return;
      if (pointers.size >= 2) {
        const [a, b] = [...pointers.values()] as [{ x: number; y: number }, { x: number; y: number }];
        const wide = Math.hypot(a.x - b.x, a.y - b.y);
        this.change((camera) => {
          camera.pan(dx / 2, dy / 2);
          if (spread > 0 && wide > 0) camera.zoom(spread / wide, (a.x + b.x) / 2, (a.y + b.y) / 2);
        });
        spread = wide;
      } else if (button === 2 || button === 1 || event.shiftKey || view.isTop.peek()) {
        this.change((camera) => camera.pan(dx, dy));
      } else this.change((camera) => camera.orbit(dx, dy));
    });
    const up = (event: PointerEvent) => {
      const at = local(event);
      const isOnly = pointers.size === 1;
      pointers.delete(event.pointerId);
      if (event.type !== 'pointerup' || !isOnly || moved >= 4 || button !== 0) return;
      this.select(this.pick(at.x, at.y));
    };
    canvas.addEventListener('pointerup', up);
    canvas.addEventListener('pointercancel', up);
    canvas.addEventListener('pointerleave', () => this.hover(-1));
    canvas.addEventListener('dblclick', (event) => {
      const at = local(event);
      this.open(this.pick(at.x, at.y), event.ctrlKey || event.metaKey);
    });
    canvas.addEventListener(
      'wheel',
      (event) => {
        event.preventDefault();
        const at = local(event);
        const step = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
        this.change((camera) => camera.zoom(Math.exp(Math.max(-240, Math.min(240, step)) * 0.0016), at.x, at.y));
      },
      { passive: false },
    );
  }

  private hover(i: number): void {
    if (i === this.hovered) return;
    this.hovered = i;
    const { picture } = this;
    if (!picture) return;
    picture.canvas.style.cursor = i >= 0 ? 'pointer' : '';
    picture.select(this.indexOf(view.selected.peek()), i);
    this.name();
    picture.invalidate();
  }

  // --- the address

  private writeSoon(): void {
    if (this.writing !== null) return;
    this.writing = setTimeout(() => {
      this.writing = null;
      this.write();
    }, WRITE_MS);
  }

  private write(): void {
    if (this.closed) return;
    const { picture } = this;
    view.writeAddress(picture && this.isPlaced ? picture.camera.text() : this.wantedView);
  }

  link(): string {
    return location.origin + view.spacePath(this.picture?.camera.text() ?? '');
  }

  focusPicture(): void {
    this.picture?.canvas.focus();
  }

  close(): void {
    this.closed = true;
    if (this.writing !== null) clearTimeout(this.writing);
    this.life.close();
    this.tell({ kind: 'stop' });
    this.worker.terminate();
    this.picture?.dispose();
    this.picture = null;
    this.labels.element.remove();
    view.live.value = { kind: 'off' };
    view.status.value = null;
    view.gaps.value = { gaps: 0, frames: 0 };
  }
}

const ray: Ray = { ox: 0, oy: 0, oz: 0, dx: 0, dy: 0, dz: 0 };

// What connects the towers, as lines: arcs, hubs, bundles with their numbers, parents.

import type { Color } from 'three';
import { type End, strands, WHOLE_PLATE } from './bundles';
import type { SpaceData } from './data';
import type { Lines } from './lines';
import { type ArcsMessage, BUNDLE, bundleEnds, isBundleActive, LINK_KINDS } from './protocol';
import { HOSTS } from './structure';
import { arcHeight } from './view';

export const ARC_STEPS = 20;
export const BUNDLE_STEPS = 12;
/** STRAND is the distance of two lines of a bundle, in cells. */
const STRAND = 0.09;

export type Tones = Readonly<
  Record<'sure' | 'candidate' | 'shared' | 'network' | 'open' | 'parent' | 'focus' | 'blink', Color>
>;

export interface Wiring {
  lines: Lines;
  tones: Tones;
  data: SpaceData;
  place: Float32Array;
  selected: number;
  /** plateOf is where the plate of a process is in data.plates, −1 without one. */
  plateOf: (index: number) => number;
  /** isBlink: those that move bytes are in the colour of moving bytes now. */
  isBlink: boolean;
}

/** Tell is told where a number stands. */
export type Tell = (x: number, y: number, z: number, value: number) => void;

type Point = readonly [number, number, number];

const roof = (place: Float32Array, i: number): number => (place[i * 4 + 2] as number) + (place[i * 4 + 3] as number);

function topOf(place: Float32Array, i: number): Point | null {
  if (!place[i * 4 + 3]) return null;
  return [place[i * 4] as number, roof(place, i), place[i * 4 + 1] as number];
}

function arc(lines: Lines, a: Point, b: Point, steps: number, colour: Color, alpha: number, dashed: boolean): void {
  const up = arcHeight(b[0] - a[0], b[2] - a[2]);
  let [lx, ly, lz] = a;
  for (let k = 1; k <= steps; k++) {
    const t = k / steps;
    const x = a[0] + (b[0] - a[0]) * t;
    const y = a[1] + (b[1] - a[1]) * t + up * 4 * t * (1 - t);
    const z = a[2] + (b[2] - a[2]) * t;
    if (!dashed || k % 2 === 1) lines.add(lx, ly, lz, x, y, z, colour, alpha);
    lx = x;
    ly = y;
    lz = z;
  }
}

/** putArcs draws the connections that have an arc of their own. */
export function putArcs(wiring: Wiring, { arcs, hubs }: ArcsMessage): void {
  const { lines, place, selected, tones } = wiring;
  for (let k = 0; k + 3 < arcs.length; k += 4) {
    const kind = LINK_KINDS[arcs[k + 2] as number] ?? 'sure';
    const flags = arcs[k + 3] as number;
    const isActive = (flags & 2) !== 0;
    const isOwn = (flags & 1) !== 0;
    const a = topOf(place, arcs[k] as number);
    const b = topOf(place, arcs[k + 1] as number);
    if (!a || !b) continue;
    // With somebody selected, of the others there is only a trace.
    const alpha = isOwn ? (isActive ? 1 : 0.7) : selected >= 0 ? 0.22 : 0.5;
    arc(lines, a, b, ARC_STEPS, isActive && wiring.isBlink ? tones.blink : tones[kind], alpha, kind === 'candidate');
  }
  putHubs(wiring, hubs);
}

// Those who share one object meet above their middle.
function putHubs({ lines, tones, place }: Wiring, hubs: Float32Array): void {
  const c = tones.shared;
  for (let k = 0; k < hubs.length; ) {
    const group = hubs[k + 1];
    const tops: Point[] = [];
    for (; k < hubs.length && hubs[k + 1] === group; k += 2) {
      const top = topOf(place, hubs[k] as number);
      if (top) tops.push(top);
    }
    if (tops.length === 0) continue;
    const hx = tops.reduce((sum, top) => sum + top[0], 0) / tops.length;
    const hz = tops.reduce((sum, top) => sum + top[2], 0) / tops.length;
    const hy = Math.max(...tops.map((top) => top[1])) + 1.2;
    for (const top of tops) lines.add(top[0], top[1], top[2], hx, hy, hz, c, 0.85);
    // A diamond where they meet.
    const s = 0.22;
    lines.add(hx - s, hy, hz, hx, hy + s, hz, c, 1);
    lines.add(hx, hy + s, hz, hx + s, hy, hz, c, 1);
    lines.add(hx + s, hy, hz, hx, hy - s, hz, c, 1);
    lines.add(hx, hy - s, hz, hx - s, hy, hz, c, 1);
  }
}

/** putBundles draws bundles as parallel strands, the more the thicker, and tells their numbers. */
export function putBundles(wiring: Wiring, { bundles }: ArcsMessage, most: number, tell: Tell): void {
  const { data, lines, place, plateOf, selected, tones } = wiring;
  const end = (index: number, stands: End): Point | null => {
    const k = stands === WHOLE_PLATE ? plateOf(index) : -1;
    if (k < 0) return topOf(place, index);
    const [x, z, w, d, y] = data.plates.subarray(k * 6, k * 6 + 5) as unknown as [
      number,
      number,
      number,
      number,
      number,
    ];
    return [x + w / 2, y + 0.02, z + d / 2];
  };
  let spare = most - bundles.length / BUNDLE;
  for (let k = 0; k + BUNDLE <= bundles.length; k += BUNDLE) {
    const flags = bundles[k + 4] as number;
    const [endA, endB] = bundleEnds(flags);
    const from = end(bundles[k] as number, endA);
    const to = end(bundles[k + 1] as number, endB);
    const connections = bundles[k + 2] as number;
    if (!from || !to) continue;
    const extra = Math.max(0, Math.min(spare, strands(connections) - 1));
    spare -= extra;
    const kind = LINK_KINDS[bundles[k + 3] as number] ?? 'sure';
    const isActive = isBundleActive(flags);
    const colour = isActive && wiring.isBlink ? tones.blink : tones[kind];
    const alpha = (isActive ? 0.9 : 0.4) * (selected >= 0 ? 0.45 : 1);
    const long = Math.max(1e-6, Math.hypot(to[0] - from[0], to[2] - from[2]));
    const sx = (-(to[2] - from[2]) / long) * STRAND;
    const sz = ((to[0] - from[0]) / long) * STRAND;
    for (let strand = 0; strand <= extra; strand++) {
      const off = strand - extra / 2;
      const a: Point = [from[0] + sx * off, from[1], from[2] + sz * off];
      const b: Point = [to[0] + sx * off, to[1], to[2] + sz * off];
      arc(lines, a, b, BUNDLE_STEPS, colour, alpha, kind === 'candidate');
    }
    if (connections === 1) continue; // the line says so
    const up = arcHeight(to[0] - from[0], to[2] - from[2]);
    tell((from[0] + to[0]) / 2, (from[1] + to[1]) / 2 + up, (from[2] + to[2]) / 2, connections);
  }
}

/** putParents draws a line from each process to its parent, as far as the buffer goes. */
export function putParents({ data, lines, place, selected, tones }: Wiring): void {
  for (let i = HOSTS; i < data.count; i++) {
    const up = data.parents[i] as number;
    if (up < 0 || !place[i * 4 + 3] || !place[up * 4 + 3]) continue;
    const isChosen = i === selected || up === selected;
    lines.add(
      place[i * 4] as number,
      roof(place, i) + 0.02,
      place[i * 4 + 1] as number,
      place[up * 4] as number,
      roof(place, up) + 0.02,
      place[up * 4 + 1] as number,
      isChosen ? tones.focus : tones.parent,
      isChosen ? 1 : 0.5,
    );
  }
}

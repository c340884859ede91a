// What a drawing of the space must be able to do, and what each of them needs alike.

import type { Camera } from './camera';
import type { SpaceData } from './data';
import type { ActivityMessage, ArcsMessage, Cards } from './protocol';

/** Marks of a process in a drawing. */
export const PLAIN = 0;
export const DIM = 1;
export const CHOSEN = 2;

export interface Figures {
  frames: number;
  calls: number;
  triangles: number;
  lines: number;
  points: number;
  geometries: number;
  textures: number;
  programs: number;
  boxes: number;
  livePulses: number;
  renderer: string;
}

export interface View {
  readonly canvas: HTMLCanvasElement;
  readonly camera: Camera;
  /** layout takes new places; fresh are indices that belong to somebody else now. */
  layout(data: SpaceData, fresh: readonly number[], moved: boolean): void;
  /** marks has a byte by index. */
  marks(marks: Uint8Array): void;
  select(index: number, hover: number): void;
  arcs(message: ArcsMessage): void;
  cards(message: Cards): void;
  activity(message: ActivityMessage): void;
  /** lamps shows shares of one core that hold until the next, for want of a sensor. */
  lamps(cpu: Float32Array): void;
  parentLines(on: boolean): void;
  plates(on: boolean): void;
  files(on: boolean): void;
  /** forget drops what only a moment showed: pulses and lamps. */
  forget(): void;
  /** save draws at most 30 frames a second instead of 60. */
  save(on: boolean): void;
  recolour(): void;
  resize(width: number, height: number): void;
  invalidate(): void;
  figures(): Figures;
  dispose(): void;
}

export interface ViewEvents {
  /** drawn is called after each frame, for what lies over the picture. */
  drawn(): void;
  lost(): void;
  restored(): void;
  slow(): void;
}

/** arcHeight is how high an arc rises over its ends. */
export function arcHeight(dx: number, dz: number): number {
  return 0.6 + 0.22 * Math.hypot(dx, dz);
}

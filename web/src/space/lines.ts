// Line segments of a scene in one buffer, as many as fit. World units are cells.

import { BufferAttribute, BufferGeometry, type Color, DynamicDrawUsage } from 'three';

export class Lines {
  readonly geometry = new BufferGeometry();
  private readonly position: BufferAttribute;
  private readonly tone: BufferAttribute;
  private count = 0;

  /** most is the number of segments; what is added beyond is left out. */
  constructor(private readonly most: number) {
    this.position = new BufferAttribute(new Float32Array(most * 6), 3).setUsage(DynamicDrawUsage);
    this.tone = new BufferAttribute(new Float32Array(most * 8), 4).setUsage(DynamicDrawUsage);
    this.geometry.setAttribute('position', this.position);
    this.geometry.setAttribute('tone', this.tone);
    this.geometry.setDrawRange(0, 0);
  }

  clear(): void {
    this.count = 0;
  }

  add(ax: number, ay: number, az: number, bx: number, by: number, bz: number, c: Color, alpha: number): void {
    if (this.count >= this.most) return;
    const p = this.count * 6;
    const t = this.count * 8;
    const position = this.position.array;
    const tone = this.tone.array;
    position[p] = ax;
    position[p + 1] = ay;
    position[p + 2] = az;
    position[p + 3] = bx;
    position[p + 4] = by;
    position[p + 5] = bz;
    for (let k = t; k < t + 8; k += 4) {
      tone[k] = c.r;
      tone[k + 1] = c.g;
      tone[k + 2] = c.b;
      tone[k + 3] = alpha;
    }
    this.count++;
  }

  /** box adds the edges of a box around (x, z), or of a rectangle when its height is 0. */
  box(x: number, z: number, halfW: number, halfD: number, y: number, h: number, c: Color, alpha: number): void {
    for (let k = 0; k < 4; k++) {
      const ax = x + (k === 0 || k === 3 ? -halfW : halfW);
      const az = z + (k < 2 ? -halfD : halfD);
      const bx = x + (k === 2 || k === 3 ? -halfW : halfW);
      const bz = z + (k === 0 || k === 3 ? -halfD : halfD);
      this.add(ax, y, az, bx, y, bz, c, alpha);
      if (h === 0) continue;
      this.add(ax, y + h, az, bx, y + h, bz, c, alpha);
      this.add(ax, y, az, ax, y + h, az, c, alpha);
    }
  }

  /** done hands what was added to the card. */
  done(): void {
    this.position.needsUpdate = true;
    this.tone.needsUpdate = true;
    this.geometry.setDrawRange(0, this.count * 2);
  }
}

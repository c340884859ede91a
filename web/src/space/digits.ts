// Numbers in the picture, all in one draw call: a quad for each character, cut from one
// small texture. Where two would lie on each other the smaller number is left out.

import {
  CanvasTexture,
  DynamicDrawUsage,
  InstancedBufferAttribute,
  InstancedBufferGeometry,
  type IUniform,
  LinearFilter,
  PlaneGeometry,
} from 'three';
import { count } from '../format';
import type { Camera } from './camera';

const GLYPHS = '0123456789,';
/** A character in px of the screen; the texture has SHARP times as many. */
const CELL_W = 7;
const CELL_H = 14;
const SHARP = 2;

interface Numeral {
  x: number;
  y: number;
  z: number;
  text: string;
}

export class Digits {
  readonly geometry = new InstancedBufferGeometry();
  readonly texture: CanvasTexture;
  private readonly canvas = document.createElement('canvas');
  private readonly at: InstancedBufferAttribute;
  private readonly glyph: InstancedBufferAttribute;
  private readonly list: Numeral[] = [];
  private readonly taken: number[] = [];
  private readonly screen = new Float64Array(3);

  /** most is the number of characters. */
  constructor(
    private readonly most: number,
    atlas: IUniform,
  ) {
    const quad = new PlaneGeometry(1, 1);
    this.geometry.setAttribute('position', quad.getAttribute('position'));
    this.geometry.setIndex(quad.getIndex());
    this.geometry.instanceCount = 0;
    this.at = new InstancedBufferAttribute(new Float32Array(most * 3), 3).setUsage(DynamicDrawUsage);
    this.glyph = new InstancedBufferAttribute(new Float32Array(most * 2), 2).setUsage(DynamicDrawUsage);
    this.geometry.setAttribute('at', this.at);
    this.geometry.setAttribute('glyph', this.glyph);
    this.canvas.width = GLYPHS.length * CELL_W * SHARP;
    this.canvas.height = CELL_H * SHARP;
    this.texture = new CanvasTexture(this.canvas);
    this.texture.minFilter = LinearFilter;
    this.texture.magFilter = LinearFilter;
    this.texture.generateMipmaps = false;
    atlas.value = this.texture;
  }

  recolour(ground: string, ink: string): void {
    const context = this.canvas.getContext('2d');
    if (!context) return;
    context.fillStyle = ground;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    context.fillStyle = ink;
    context.font = `${11 * SHARP}px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace`;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    for (let i = 0; i < GLYPHS.length; i++) {
      context.fillText(GLYPHS[i] as string, (i + 0.5) * CELL_W * SHARP, (CELL_H * SHARP) / 2 + SHARP);
    }
    this.texture.needsUpdate = true;
  }

  clear(): void {
    this.list.length = 0;
  }

  /** add takes a number; those that are added first keep their room. */
  add(x: number, y: number, z: number, value: number): void {
    this.list.push({ x, y, z, text: count(value) });
  }

  get isEmpty(): boolean {
    return this.list.length === 0;
  }

  /** lay decides which numbers have room, as the camera stands. */
  lay(camera: Camera): void {
    const { at, glyph, screen, taken } = this;
    taken.length = 0;
    let n = 0;
    for (const one of this.list) {
      camera.project(one.x, one.y, one.z, screen);
      if ((screen[2] as number) <= 0) continue;
      const half = (one.text.length * CELL_W) / 2 + 1;
      const x = screen[0] as number;
      const y = screen[1] as number;
      let isFree = n + one.text.length <= this.most;
      for (let k = 0; k < taken.length && isFree; k += 3) {
        isFree =
          Math.abs(x - (taken[k] as number)) > half + (taken[k + 2] as number) ||
          Math.abs(y - (taken[k + 1] as number)) > CELL_H;
      }
      if (!isFree) continue;
      taken.push(x, y, half);
      for (let k = 0; k < one.text.length; k++) {
        at.setXYZ(n, one.x, one.y, one.z);
        glyph.setXY(n, GLYPHS.indexOf(one.text[k] as string), k - (one.text.length - 1) / 2);
        n++;
      }
    }
    at.needsUpdate = true;
    glyph.needsUpdate = true;
    this.geometry.instanceCount = n;
  }

  dispose(): void {
    this.geometry.dispose();
    this.texture.dispose();
  }
}

// at: world; glyph: which, and how many characters beside the middle.
export const DIGIT_VERTEX = /* glsl */ `
precision highp float;
uniform mat4 projectionMatrix;
uniform mat4 viewMatrix;
uniform vec2 uScreen;
in vec3 position;
in vec3 at;
in vec2 glyph;
out vec2 vUV;
void main() {
  vec4 p = projectionMatrix * viewMatrix * vec4(at, 1.0);
  vec2 px = vec2((glyph.y + position.x) * ${CELL_W}.0, position.y * ${CELL_H}.0);
  p.xy += px / uScreen * 2.0 * p.w;
  vUV = vec2((glyph.x + position.x + 0.5) / ${GLYPHS.length}.0, position.y + 0.5);
  gl_Position = p;
}
`;

export const DIGIT_FRAGMENT = /* glsl */ `
precision highp float;
uniform sampler2D uGlyphs;
in vec2 vUV;
out vec4 colour;
void main() { colour = vec4(texture(uGlyphs, vUV).rgb, 1.0); }
`;

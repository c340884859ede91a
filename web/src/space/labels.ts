// Names over the picture: at most 24 elements, the largest plates first; those that
// would lie on another are left out. The hovered and the selected are always named.

import { visible } from '../format';
import type { Camera } from './camera';
import type { SpaceData } from './data';

export const maxLabels = 24;
const CANDIDATES = 90;
const PLATES_FIRST = 12;
const NAME = 22;

interface Candidate {
  index: number;
  text: string;
  tone: '' | 'label-host' | 'label-hover' | 'label-chosen' | 'label-file';
  /** dy is px below the roof. */
  dy: number;
}

interface Label {
  element: HTMLElement;
  text: string;
  tone: string;
  move: string;
  shown: boolean;
}

const isSame = (a: Candidate, b: Candidate): boolean =>
  a.index === b.index && a.text === b.text && a.tone === b.tone && a.dy === b.dy;

const short = (text: string): string => {
  const seen = visible(text);
  return seen.length > NAME ? `${seen.slice(0, NAME - 1)}…` : seen;
};

export class Labels {
  readonly element = document.createElement('div');
  private readonly labels: Label[] = [];
  private candidates: Candidate[] = [];
  private readonly at = new Float64Array(3);
  private readonly taken = new Float64Array(maxLabels * 4);

  constructor() {
    this.element.className = 'space-labels';
    this.element.setAttribute('aria-hidden', 'true');
  }

  /** choose decides what could be named; true when that is something else than before. */
  choose(
    data: SpaceData,
    selected: number,
    hovered: number,
    hosts: ReadonlySet<number>,
    files: readonly string[],
  ): boolean {
    const out: Candidate[] = [];
    const add = (index: number, tone: Candidate['tone']) => {
      const children = data.children[index] as number;
      const text = short(data.label(index));
      // The slab of the kernel has its number in its name.
      const isPlain = children === 0 || data.isKernel(index);
      out.push({ index, text: isPlain ? text : `${text}  ${children + 1}`, tone, dy: 0 });
    };
    if (data.isLive(selected)) {
      add(selected, 'label-chosen');
      files.slice(0, 4).forEach((file, i) => {
        const tail = file.length > 34 ? `…${file.slice(-33)}` : file;
        out.push({ index: selected, text: visible(tail), tone: 'label-file', dy: 22 + i * 17 });
      });
    }
    if (data.isLive(hovered) && hovered !== selected) add(hovered, 'label-hover');
    for (const host of hosts) if (data.isLive(host) && host !== selected && host !== hovered) add(host, 'label-host');
    const others = [...data.hosts.keys()].filter(
      (i) => data.hosts[i] && !hosts.has(i) && i !== selected && i !== hovered,
    );
    const order = [...data.plateOwner.keys()];
    // A plate with one other on it says no more than that one, however large it is.
    const area = (k: number) => {
      const alone = data.children[data.plateOwner[k] as number] === 1 ? 1e6 : 0;
      return (data.plates[k * 6 + 2] as number) * (data.plates[k * 6 + 3] as number) - alone;
    };
    order.sort((a, b) => area(b) - area(a));
    for (const k of order) {
      if (out.length >= CANDIDATES) break;
      const owner = data.plateOwner[k] as number;
      if (owner !== selected && owner !== hovered) add(owner, '');
      // The largest plates, then who is talked to, then the rest.
      if (out.length >= PLATES_FIRST) while (others.length > 0) add(others.shift() as number, 'label-host');
    }
    for (const host of others) if (out.length < CANDIDATES) add(host, 'label-host');
    const was = this.candidates;
    this.candidates = out;
    return was.length !== out.length || out.some((one, i) => !isSame(one, was[i] as Candidate));
  }

  /** place puts the names where their owners are on the screen now. */
  place(camera: Camera, data: SpaceData): void {
    let n = 0;
    const { at, taken } = this;
    for (const one of this.candidates) {
      if (n >= maxLabels) break;
      const o = one.index * 4;
      if (!data.place[o + 3]) continue;
      camera.project(
        data.place[o] as number,
        (data.place[o + 2] as number) + (data.place[o + 3] as number),
        data.place[o + 1] as number,
        at,
      );
      if ((at[2] as number) <= 0) continue;
      const wide = one.text.length * 6.6 + 12;
      const x = Math.round((at[0] as number) + (one.tone === 'label-file' ? 10 : -wide / 2));
      const y = Math.round((at[1] as number) + 6 + one.dy);
      if (x < -wide || y < 0 || x > camera.width || y > camera.height - 16) continue;
      const always = one.tone === 'label-chosen' || one.tone === 'label-hover';
      let free = true;
      for (let k = 0; k < n && free && !always; k++) {
        const q = k * 4;
        free =
          x > (taken[q + 2] as number) ||
          x + wide < (taken[q] as number) ||
          y > (taken[q + 3] as number) ||
          y + 17 < (taken[q + 1] as number);
      }
      if (!free) continue;
      taken[n * 4] = x;
      taken[n * 4 + 1] = y;
      taken[n * 4 + 2] = x + wide;
      taken[n * 4 + 3] = y + 17;
      this.put(n++, one, x, y);
    }
    for (let k = n; k < this.labels.length; k++) {
      const label = this.labels[k] as Label;
      if (!label.shown) continue;
      label.shown = false;
      label.element.hidden = true;
    }
  }

  private put(n: number, one: Candidate, x: number, y: number): void {
    let label = this.labels[n];
    if (!label) {
      const element = document.createElement('span');
      element.className = 'label';
      this.element.append(element);
      label = { element, text: '', tone: '', move: '', shown: true };
      this.labels.push(label);
    }
    if (!label.shown) {
      label.shown = true;
      label.element.hidden = false;
    }
    if (label.text !== one.text) {
      label.text = one.text;
      label.element.textContent = one.text;
    }
    if (label.tone !== one.tone) {
      label.tone = one.tone;
      label.element.className = one.tone === '' ? 'label' : `label ${one.tone}`;
    }
    const move = `translate(${x}px,${y}px)`;
    if (label.move !== move) {
      label.move = move;
      label.element.style.transform = move;
    }
  }
}

// Where every process stands: nested plates on a grid of cells, one cell a process.
// A parent's plate holds its own tower and its children; a child with children of its
// own is a plate within it. Deterministic, and stable: a new child takes the first
// free place of its parent's plate, and only a plate that is full is packed anew.
// Pure.
//
// Units are cells. A plate is a rectangle of cells with a rim of half a cell; x and z
// count from its corner, and places are those of whole rectangles, rims included.

/** GROUND is the plate of all that has no parent here. */
export const GROUND = -1;

interface Rect {
  x: number;
  z: number;
  w: number;
  d: number;
}

interface Plate {
  children: Set<number>;
  /** Inner size; the outer one is a cell more each way. */
  w: number;
  d: number;
  /** taken has a byte a cell. */
  taken: Uint8Array;
  /** places by index; the owner's own tower is there under its own index. */
  places: Map<number, Rect>;
}

/** maxDepth plates stand within each other; what is deeper stands on the last of them. */
export const maxDepth = 12;

const SPARE = 0.12; // free cells a fresh plate keeps for what comes
const LOOSE = 1.12; // area asked for, since rectangles never fit without loss
/** WIDTHS are tried for a plate with few others on it, as shares of the side of a square. */
const WIDTHS = [0.8, 1.2, 1];
/** With more plates than this on it, one width is enough: there are many to fill the holes. */
const FEW = 3;
/** LONG is what a plate that is no square is charged, in cells, for each cell of the difference squared. */
const LONG = 0.12;

export interface Placed {
  /** moved says that a plate was packed anew: what was there may stand elsewhere. */
  moved: boolean;
}

export class Packer {
  private readonly parents = new Map<number, number>();
  private readonly plates = new Map<number, Plate>();
  private readonly dirty = new Set<number>();
  private moved = false;

  constructor() {
    this.plates.set(GROUND, fresh());
  }

  /** update takes the parent of every process there is; a parent that is not among them is GROUND. */
  update(wanted: ReadonlyMap<number, number>): Placed {
    this.moved = false;
    const straight = flattened(withoutCircles(wanted));
    for (const index of [...this.parents.keys()]) {
      const parent = straight.get(index);
      if (parent === undefined || parent !== this.parents.get(index)) this.detach(index);
    }
    for (const [index, parent] of straight) {
      if (this.parents.get(index) === parent) continue;
      this.parents.set(index, parent);
      let plate = this.plates.get(parent);
      if (!plate) {
        plate = fresh();
        this.plates.set(parent, plate);
      }
      plate.children.add(index);
      this.touch(parent);
    }
    this.settle();
    return { moved: this.moved };
  }

  /** rearrange packs every plate anew. */
  rearrange(): Placed {
    for (const [owner, plate] of this.plates) {
      plate.places.clear();
      plate.w = 0;
      plate.d = 0;
      this.dirty.add(owner);
    }
    this.settle();
    return { moved: true };
  }

  /** each tells the rectangle of every process: cells are the tower's corner, plate its plate or null. */
  each(tell: (index: number, x: number, z: number, depth: number, plate: Rect | null) => void): void {
    const walk = (owner: number, x: number, z: number, depth: number): void => {
      const plate = this.plates.get(owner) as Plate;
      for (const [index, place] of plate.places) {
        const px = x + 0.5 + place.x;
        const pz = z + 0.5 + place.z;
        if (index === owner) {
          tell(index, px, pz, depth, { x, z, w: plate.w + 1, d: plate.d + 1 });
        } else if (this.plates.has(index)) walk(index, px, pz, depth + 1);
        else tell(index, px, pz, depth, null);
      }
    };
    walk(GROUND, 0, 0, 0);
  }

  /** size is that of the ground. */
  get size(): { w: number; d: number } {
    const ground = this.plates.get(GROUND) as Plate;
    return { w: ground.w + 1, d: ground.d + 1 };
  }

  private touch(owner: number): void {
    for (let at: number | undefined = owner; at !== undefined && !this.dirty.has(at); at = this.parents.get(at)) {
      this.dirty.add(at);
    }
    this.dirty.add(GROUND);
  }

  private detach(index: number): void {
    const parent = this.parents.get(index) as number;
    this.touch(parent);
    this.parents.delete(index);
    const plate = this.plates.get(parent);
    if (plate) {
      plate.children.delete(index);
      release(plate, index);
    }
    // Its own children, if any, are told of elsewhere: they have another parent now.
    const own = this.plates.get(index);
    if (own && own.children.size === 0) this.plates.delete(index);
  }

  private settle(): void {
    for (const [owner, plate] of [...this.plates]) {
      if (owner === GROUND || plate.children.size > 0) continue;
      // A plate without children is a tower again.
      this.plates.delete(owner);
      const parent = this.parents.get(owner);
      if (parent !== undefined) this.touch(parent);
    }
    if (this.dirty.size > 0) this.fit(GROUND);
    this.dirty.clear();
  }

  private sizeOf(index: number): { w: number; d: number } {
    const plate = this.plates.get(index);
    return plate ? { w: plate.w + 1, d: plate.d + 1 } : { w: 1, d: 1 };
  }

  /** fit gives every child of a plate a place, those of its inner plates first. */
  private fit(owner: number): void {
    if (!this.dirty.has(owner)) return;
    const plate = this.plates.get(owner) as Plate;
    for (const child of plate.children) if (this.plates.has(child)) this.fit(child);
    const waiting: number[] = [];
    if (owner !== GROUND && !plate.places.has(owner)) waiting.push(owner);
    for (const child of plate.children) {
      const place = plate.places.get(child);
      const size = this.sizeOf(child);
      if (place && place.w === size.w && place.d === size.d) continue;
      if (place && size.w <= place.w && size.d <= place.d) {
        // It shrank: it stays, and what it leaves is free.
        mark(plate, place, 0);
        place.w = size.w;
        place.d = size.d;
        mark(plate, place, 1);
        continue;
      }
      if (place) {
        release(plate, child);
        this.moved = true;
      }
      waiting.push(child);
    }
    if (waiting.length === 0) return;
    waiting.sort((a, b) => a - b);
    if (plate.w > 0) {
      const scan = { at: 0 };
      if (waiting.every((index) => this.place(plate, owner, index, scan))) return;
      this.moved = true;
    }
    this.repack(owner, plate);
  }

  private place(plate: Plate, owner: number, index: number, scan: { at: number }): boolean {
    const size = index === owner ? { w: 1, d: 1 } : this.sizeOf(index);
    const { w, d, taken } = plate;
    const unit = size.w === 1 && size.d === 1;
    for (let at = unit ? scan.at : 0; at < w * d; at++) {
      if (taken[at]) continue;
      const x = at % w;
      const z = (at - x) / w;
      const rect = { x, z, w: size.w, d: size.d };
      if (!unit && !isFree(plate, rect)) continue;
      plate.places.set(index, rect);
      mark(plate, rect, 1);
      if (unit) scan.at = at + 1;
      return true;
    }
    return false;
  }

  private repack(owner: number, plate: Plate): void {
    const items = [...plate.children].map((index) => ({ index, ...this.sizeOf(index) }));
    // The largest first; towers keep the order of their indices.
    items.sort((a, b) => b.w * b.d - a.w * a.d || b.w - a.w || a.index - b.index);
    const area = items.reduce((sum, item) => sum + item.w * item.d, owner === GROUND ? 0 : 1);
    const towers = items.filter((item) => item.w === 1 && item.d === 1).length;
    const spare = items.length === 1 ? 0 : Math.max(1, Math.ceil(towers * SPARE));
    const widest = items.reduce((most, item) => Math.max(most, item.w), 1);
    const order = owner === GROUND ? items.map((item) => item.index) : [owner, ...items.map((item) => item.index)];
    // How well a few rectangles fit cannot be told from their areas: several widths are tried.
    const square = Math.ceil(Math.sqrt((area + spare) * LOOSE * 1.15));
    const plates = items.length - towers;
    const tries = plates > 0 && plates <= FEW ? WIDTHS : [1];
    let best = Number.POSITIVE_INFINITY;
    let wide = widest;
    for (const width of new Set(tries.map((share) => Math.max(widest, Math.ceil(square * share))))) {
      this.fill(owner, plate, order, width, spare);
      const cost = (plate.w + 1) * (plate.d + 1) + LONG * (plate.w - plate.d) ** 2;
      if (cost >= best) continue;
      best = cost;
      wide = width;
    }
    if (plate.w !== wide) this.fill(owner, plate, order, wide, spare);
  }

  // fill packs in rows of `wide` cells, as many as it takes.
  private fill(owner: number, plate: Plate, order: readonly number[], wide: number, spare: number): void {
    plate.w = wide;
    plate.d = 0;
    plate.taken = new Uint8Array(0);
    plate.places.clear();
    const grow = (rows: number): void => {
      const taken = new Uint8Array(wide * rows);
      taken.set(plate.taken);
      plate.taken = taken;
      plate.d = rows;
    };
    grow(1);
    const scan = { at: 0 };
    for (const index of order) {
      while (!this.place(plate, owner, index, scan)) grow(plate.d + 1);
    }
    let free = 0;
    for (const cell of plate.taken) if (cell === 0) free++;
    if (free < spare) grow(plate.d + 1);
  }
}

function fresh(): Plate {
  return { children: new Set(), w: 0, d: 0, taken: new Uint8Array(0), places: new Map() };
}

function mark(plate: Plate, rect: Rect, value: 0 | 1): void {
  for (let z = rect.z; z < rect.z + rect.d; z++) {
    plate.taken.fill(value, z * plate.w + rect.x, z * plate.w + rect.x + rect.w);
  }
}

function release(plate: Plate, index: number): void {
  const place = plate.places.get(index);
  if (!place) return;
  mark(plate, place, 0);
  plate.places.delete(index);
}

function isFree(plate: Plate, rect: Rect): boolean {
  if (rect.x + rect.w > plate.w || rect.z + rect.d > plate.d) return false;
  for (let z = rect.z; z < rect.z + rect.d; z++) {
    for (let x = rect.x; x < rect.x + rect.w; x++) if (plate.taken[z * plate.w + x]) return false;
  }
  return true;
}

/**
 * withoutCircles gives everybody a way to the ground. Processes in a circle of parents
 * cannot be, but what is told of them must neither hide them nor hang the page.
 */
function withoutCircles(wanted: ReadonlyMap<number, number>): Map<number, number> {
  const out = new Map<number, number>();
  const safe = new Set<number>();
  for (const index of wanted.keys()) {
    const path: number[] = [];
    const onPath = new Set<number>();
    let at = index;
    while (at !== GROUND && !safe.has(at) && !onPath.has(at)) {
      path.push(at);
      onPath.add(at);
      const parent = wanted.get(at) as number;
      at = parent === GROUND || wanted.has(parent) ? parent : GROUND;
    }
    const circle = at !== GROUND && onPath.has(at) ? at : null;
    for (const step of path) {
      const parent = wanted.get(step) as number;
      out.set(step, step === circle || (parent !== GROUND && !wanted.has(parent)) ? GROUND : parent);
      safe.add(step);
    }
  }
  return out;
}

/** flattened keeps plates from nesting without end: a chain of forks is as deep as its author likes. */
function flattened(parents: Map<number, number>): Map<number, number> {
  const depths = new Map<number, number>([[GROUND, 0]]);
  const out = new Map<number, number>();
  for (const index of parents.keys()) {
    const path: number[] = [];
    let at = index;
    while (!depths.has(at)) {
      path.push(at);
      at = parents.get(at) as number;
    }
    for (let step = path.pop(); step !== undefined; step = path.pop()) {
      const parent = parents.get(step) as number;
      const deep = depths.get(parent) as number;
      if (deep < maxDepth) {
        out.set(step, parent);
        depths.set(step, deep + 1);
      } else {
        out.set(step, out.get(parent) as number);
        depths.set(step, deep);
      }
    }
  }
  return out;
}

// Where one looks from: orbit, pan, zoom, fit, top-down. Pure.
//
// World: x to the right, z towards the viewer, y up; units are cells. Screen points are
// CSS px from the top left corner of the picture.

export const FOV = (40 * Math.PI) / 180;
const TAN = Math.tan(FOV / 2);
/** TOP looks straight down, all but: there the direction up would be lost. */
export const TOP = 0.0015;
const LOW = 1.42;
const NEAREST = 3;
/** MARGIN is how much farther than nearest a fitted picture is seen from. */
const MARGIN = 1.04;
const STEP = 0.6;
const CORNERS = Array.from({ length: 8 }, (_, k) => [k & 1, (k >> 1) & 1, k >> 2] as const);
const FLY_MS = 320;

interface Pose {
  x: number;
  z: number;
  theta: number;
  phi: number;
  dist: number;
}

export interface Ray {
  ox: number;
  oy: number;
  oz: number;
  dx: number;
  dy: number;
  dz: number;
}

export class Camera {
  x = 0;
  z = 0;
  theta = 0.55;
  phi = 0.95;
  dist = 40;
  width = 1;
  height = 1;
  /** farthest is as far as the whole needs. */
  farthest = 4000;
  private from: Pose | null = null;
  private to: Pose | null = null;
  private began = 0;
  // The eye and its directions: forward, right, up.
  readonly eye = new Float64Array(3);
  private readonly f = new Float64Array(3);
  private readonly r = new Float64Array(3);
  private readonly u = new Float64Array(3);

  get isTop(): boolean {
    return (this.to ?? this).phi < 0.01;
  }

  /** update works out the directions; call it after every change. */
  update(): void {
    const sp = Math.sin(this.phi);
    const cp = Math.cos(this.phi);
    const st = Math.sin(this.theta);
    const ct = Math.cos(this.theta);
    const { eye, f, r, u } = this;
    eye[0] = this.x + this.dist * sp * st;
    eye[1] = this.dist * cp;
    eye[2] = this.z + this.dist * sp * ct;
    f[0] = -sp * st;
    f[1] = -cp;
    f[2] = -sp * ct;
    r[0] = ct;
    r[1] = 0;
    r[2] = -st;
    u[0] = -cp * st;
    u[1] = sp;
    u[2] = -cp * ct;
  }

  /** ray goes from the eye through a screen point. */
  ray(sx: number, sy: number, out: Ray): void {
    const nx = ((sx / this.width) * 2 - 1) * TAN * (this.width / this.height);
    const ny = (1 - (sy / this.height) * 2) * TAN;
    const { eye, f, r, u } = this;
    out.ox = eye[0] as number;
    out.oy = eye[1] as number;
    out.oz = eye[2] as number;
    out.dx = (f[0] as number) + (r[0] as number) * nx + (u[0] as number) * ny;
    out.dy = (f[1] as number) + (r[1] as number) * nx + (u[1] as number) * ny;
    out.dz = (f[2] as number) + (r[2] as number) * nx + (u[2] as number) * ny;
  }

  /** project puts a world point on the screen: x, y and the distance along the view; that is ≤ 0 behind the eye. */
  project(x: number, y: number, z: number, out: Float64Array): void {
    const { eye, f, r, u } = this;
    const px = x - (eye[0] as number);
    const py = y - (eye[1] as number);
    const pz = z - (eye[2] as number);
    const deep = px * (f[0] as number) + py * (f[1] as number) + pz * (f[2] as number);
    out[2] = deep;
    if (deep <= 0) return;
    const scale = this.height / (2 * TAN * deep);
    out[0] = this.width / 2 + (px * (r[0] as number) + py * (r[1] as number) + pz * (r[2] as number)) * scale;
    out[1] = this.height / 2 - (px * (u[0] as number) + py * (u[1] as number) + pz * (u[2] as number)) * scale;
  }

  /** pixelsAt is how many px a cell has at a world point. */
  pixelsAt(x: number, y: number, z: number): number {
    const { eye, f } = this;
    const deep =
      (x - (eye[0] as number)) * (f[0] as number) +
      (y - (eye[1] as number)) * (f[1] as number) +
      (z - (eye[2] as number)) * (f[2] as number);
    return this.height / (2 * TAN * Math.max(0.5, deep));
  }

  private stop(): void {
    this.to = null;
  }

  orbit(dx: number, dy: number): void {
    this.stop();
    this.theta -= dx * 0.006;
    this.phi = Math.min(LOW, Math.max(TOP, this.phi - dy * 0.006));
  }

  /** pan moves what is looked at by px on the screen. */
  pan(dx: number, dy: number): void {
    this.stop();
    const per = (2 * TAN * this.dist) / this.height;
    const st = Math.sin(this.theta);
    const ct = Math.cos(this.theta);
    const forward = per / Math.max(0.35, Math.cos(this.phi));
    this.x -= dx * per * ct + dy * forward * st;
    this.z -= -dx * per * st + dy * forward * ct;
  }

  /** zoom comes nearer (factor < 1) to the ground under a screen point. */
  zoom(factor: number, sx = this.width / 2, sy = this.height / 2): void {
    this.stop();
    const next = Math.min(this.farthest, Math.max(NEAREST, this.dist * factor));
    const real = next / this.dist;
    this.ray(sx, sy, scratch);
    if (scratch.dy < -1e-6) {
      const t = -scratch.oy / scratch.dy;
      const gx = scratch.ox + scratch.dx * t;
      const gz = scratch.oz + scratch.dz * t;
      if (t > 0 && Math.abs(gx - this.x) + Math.abs(gz - this.z) < this.dist * 6) {
        this.x += (gx - this.x) * (1 - real);
        this.z += (gz - this.z) * (1 - real);
      }
    }
    this.dist = next;
  }

  /** poseFor shows a rectangle of the ground whole, with what stands on it up to `tall`, as large as it goes. */
  private poseFor(x: number, z: number, w: number, d: number, tall: number, phi: number, theta: number): Pose {
    const wide = (TAN * this.width) / Math.max(1, this.height);
    const st = Math.sin(theta);
    const ct = Math.cos(theta);
    const sp = Math.sin(phi);
    const cp = Math.cos(phi);
    let [cx, cz] = [x + w / 2, z + d / 2];
    let best: Pose = { x: cx, z: cz, theta, phi, dist: Number.POSITIVE_INFINITY };
    for (let step = 0; step < 12; step++) {
      // The corners as seen from far: to the right, up, and towards the eye.
      const corners = CORNERS.map(([kx, ky, kz]) => {
        const [px, py, pz] = [x + kx * w - cx, ky * tall, z + kz * d - cz];
        return [px * ct - pz * st, py * sp - (px * st + pz * ct) * cp, (px * st + pz * ct) * sp + py * cp] as const;
      });
      const dist = Math.max(...corners.map(([r, u, f]) => f + Math.max(Math.abs(r) / wide, Math.abs(u) / TAN)));
      if (dist < best.dist) best = { x: cx, z: cz, theta, phi, dist };
      // Perspective makes the middle of the picture another than that of the ground.
      const middle = (axis: 0 | 1) => {
        const seen = corners.map((corner) => corner[axis] / Math.max(0.5, dist - corner[2]));
        return ((Math.min(...seen) + Math.max(...seen)) / 2) * dist * STEP;
      };
      const aside = middle(0);
      const forward = middle(1) / Math.max(0.3, cp);
      cx += aside * ct - forward * st;
      cz -= aside * st + forward * ct;
    }
    best.dist = Math.min(this.farthest, Math.max(NEAREST + 4, best.dist * MARGIN));
    return best;
  }

  /** fit shows a rectangle and what stands on it; flying there takes time when `now` is given, else it jumps. */
  fit(x: number, z: number, w: number, d: number, tall: number, now: number | null): void {
    const { phi, theta } = this.to ?? this;
    this.go(this.poseFor(x, z, w, d, tall, phi, theta), now);
  }

  /** turn goes to top-down and back. */
  turn(top: boolean, now: number | null): void {
    const { x, z, dist } = this;
    this.go({ x, z, dist, theta: top ? 0 : 0.55, phi: top ? TOP : 0.95 }, now);
  }

  private go(pose: Pose, now: number | null): void {
    if (now === null) {
      Object.assign(this, pose);
      this.to = null;
      return;
    }
    this.from = { x: this.x, z: this.z, theta: this.theta, phi: this.phi, dist: this.dist };
    this.to = pose;
    this.began = now;
  }

  /** step moves a flight on; true while it lasts. */
  step(now: number): boolean {
    const { from, to } = this;
    if (!from || !to) return false;
    const t = Math.min(1, Math.max(0, (now - this.began) / FLY_MS));
    const e = t * t * (3 - 2 * t);
    this.x = from.x + (to.x - from.x) * e;
    this.z = from.z + (to.z - from.z) * e;
    this.theta = from.theta + (to.theta - from.theta) * e;
    this.phi = from.phi + (to.phi - from.phi) * e;
    this.dist = from.dist + (to.dist - from.dist) * e;
    if (t >= 1) this.to = null;
    return t < 1;
  }

  /** text is the view for a link. */
  text(): string {
    const { x, z, theta, phi, dist } = this.to ?? this;
    return [x, z, theta, phi, dist].map((n) => String(Math.round(n * 100) / 100)).join(',');
  }

  /** read takes the view of a link; false when it is none. */
  read(text: string): boolean {
    const list = text.split(',').map(Number);
    if (list.length !== 5 || !list.every((n) => Number.isFinite(n) && Math.abs(n) < 1e5)) return false;
    const [x, z, theta, phi, dist] = list as [number, number, number, number, number];
    this.stop();
    this.x = x;
    this.z = z;
    this.theta = theta;
    this.phi = Math.min(LOW, Math.max(TOP, phi));
    this.dist = Math.min(this.farthest, Math.max(NEAREST, dist));
    return true;
  }
}

const scratch: Ray = { ox: 0, oy: 0, oz: 0, dx: 0, dy: 0, dz: 0 };

/** HALF is half the side of a tower. */
export const HALF = 0.33;

/**
 * pick is the index of the nearest tower a ray meets, −1 for none: one box test a
 * process. Gaps between slabs belong to their process.
 */
export function pick(ray: Ray, place: Float32Array, count: number): number {
  const ix = 1 / ray.dx;
  const iy = 1 / ray.dy;
  const iz = 1 / ray.dz;
  let best = -1;
  let nearest = Number.POSITIVE_INFINITY;
  for (let i = 0; i < count; i++) {
    const o = i * 4;
    const h = place[o + 3] as number;
    if (h === 0) continue;
    const x = place[o] as number;
    const z = place[o + 1] as number;
    const y = place[o + 2] as number;
    const ax = (x - HALF - ray.ox) * ix;
    const bx = (x + HALF - ray.ox) * ix;
    const az = (z - HALF - ray.oz) * iz;
    const bz = (z + HALF - ray.oz) * iz;
    const ay = (y - ray.oy) * iy;
    const by = (y + h - ray.oy) * iy;
    const from = Math.max(Math.min(ax, bx), Math.min(ay, by), Math.min(az, bz));
    const to = Math.min(Math.max(ax, bx), Math.max(ay, by), Math.max(az, bz));
    if (to < 0 || from > to || from >= nearest) continue;
    nearest = from;
    best = i;
  }
  return best;
}

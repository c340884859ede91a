// What the page holds of the processes: arrays by index, and the text of each.

import type { Identity } from '../wire.gen';
import { type HostName, KERNEL_THREAD, type Layout, LIVE, type Metrics } from './protocol';
import { HOSTS } from './structure';

const EMPTY_F32 = new Float32Array(0);

export class SpaceData {
  count = HOSTS;
  sequence = -1;
  capturedAt = 0;
  processes = 0;
  kernelThreads = 0;
  flags = new Uint8Array(HOSTS);
  states = new Uint8Array(HOSTS);
  parents = new Int32Array(HOSTS);
  threads = new Int32Array(HOSTS);
  children = new Int32Array(HOSTS);
  cpu = new Float32Array(HOSTS);
  rss = new Float64Array(HOSTS);
  place: Float32Array = new Float32Array(HOSTS * 4);
  main = new Uint8Array(HOSTS);
  middle: Float32Array = EMPTY_F32;
  near: Float32Array = EMPTY_F32;
  plates: Float32Array = EMPTY_F32;
  plateOwner = new Int32Array(0);
  ground = { w: 1, d: 1 };
  hosts: (HostName | null)[] = [];
  hostsHidden = 0;
  connections = 0;
  warnings: readonly string[] = [];
  inspectedProcesses = 0;
  inspectedFDs = 0;

  readonly pid: number[] = [];
  readonly start: number[] = [];
  readonly uid: number[] = [];
  readonly euid: number[] = [];
  readonly name: string[] = [];
  readonly user: (string | null)[] = [];
  readonly effectiveUser: (string | null)[] = [];
  readonly container: (string | null)[] = [];
  readonly run: (string | null)[] = [];
  /** byKey finds the index of pid@start. */
  readonly byKey = new Map<string, number>();

  /** take keeps a layout; it gives the indices that belong to somebody else now. */
  take(layout: Layout): number[] {
    const { kind: _kind, names, moved: _moved, ...rest } = layout;
    const before = this.flags;
    Object.assign(this, rest);
    const fresh: number[] = [];
    for (let i = HOSTS; i < before.length; i++) {
      if (((before[i] as number) & LIVE) !== 0 && !this.isLive(i)) this.byKey.delete(this.key(i));
    }
    for (let k = 0; k < names.index.length; k++) {
      const i = names.index[k] as number;
      if (this.pid[i] !== names.pid[k] || this.start[i] !== names.start[k]) {
        if (this.pid[i] !== undefined && this.byKey.get(this.key(i)) === i) this.byKey.delete(this.key(i));
        fresh.push(i);
      }
      this.pid[i] = names.pid[k] as number;
      this.start[i] = names.start[k] as number;
      this.uid[i] = names.uid[k] as number;
      this.euid[i] = names.euid[k] as number;
      this.name[i] = names.name[k] as string;
      this.user[i] = names.user[k] ?? null;
      this.effectiveUser[i] = names.effectiveUser[k] ?? null;
      this.container[i] = names.container[k] ?? null;
      this.run[i] = names.run[k] ?? null;
      this.byKey.set(this.key(i), i);
    }
    return fresh;
  }

  metrics(metrics: Metrics): void {
    const n = Math.min(this.count, metrics.cpu.length);
    this.cpu.set(metrics.cpu.subarray(0, n));
    this.rss.set(metrics.rss.subarray(0, n));
  }

  key(i: number): string {
    return `${this.pid[i]}@${this.start[i]}`;
  }

  identity(i: number): Identity {
    return { pid: this.pid[i] ?? 0, start_time_ticks: this.start[i] ?? 0 };
  }

  isHost(i: number): boolean {
    return i >= 0 && i < HOSTS;
  }

  isLive(i: number): boolean {
    return i >= 0 && i < this.count && ((this.flags[i] as number) & LIVE) !== 0;
  }

  isProcess(i: number): boolean {
    return i >= HOSTS && this.isLive(i);
  }

  isKernel(i: number): boolean {
    return this.isProcess(i) && ((this.flags[i] as number) & KERNEL_THREAD) !== 0;
  }

  /** state is the letter of a state that is told (D Z T t), '' of the others. */
  state(i: number): string {
    const code = this.states[i] ?? 0;
    return code === 0 ? '' : String.fromCharCode(code);
  }

  /** label is what a process or a host is called, as it calls itself. */
  label(i: number): string {
    if (this.isHost(i)) {
      const host = this.hosts[i];
      return host ? (host.name ?? host.address) : '';
    }
    if (this.isKernel(i) && this.pid[i] === 2) return `kernel ${this.kernelThreads}`;
    return this.name[i] || '(no name)';
  }
}

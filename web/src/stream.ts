// Live owns the one event stream of a tab: when it is open, when it is given back,
// and what the page may say about it. A stream is open only while its tab is seen
// and holds one of the slots all tabs of this origin share; a tab without a slot
// polls. Every connection has a generation, and what an older one still delivers is
// dropped.

import { type Signal, signal } from '@preact/signals';
import { errorFrom, HTTPError } from './http';

// maxStreams event streams at a time in all tabs of this origin: a browser opens six
// connections to one host, and two must stay free for everything else.
export const maxStreams = 4;
export const RETRY_MS = 3000;
export const POLL_MS = 2000;

export type LiveState =
  | { kind: 'off' } // not started, or stopped by the page
  | { kind: 'hidden' } // given back while the tab is not seen
  | { kind: 'connecting' }
  | { kind: 'live' }
  | { kind: 'polling'; error: string | null } // every slot is taken by other tabs
  | { kind: 'lost'; status: number; error: string; at: number } // trying again soon
  | { kind: 'refused'; status: number; code: string; error: string }; // final

export interface Source {
  url(): string;
  events: readonly string[];
  // event gets the parsed data of one message of the newest connection.
  event(name: string, data: unknown): void;
  // opened is called before the first event of each connection: what it will send
  // is whole, so what an older one left half done must go.
  opened?(): void;
  // quiet: events come only when something happens, so an open connection is live.
  quiet?: boolean;
  // poll asks once for the same facts; it may throw HTTPError.
  poll?(): Promise<void>;
}

export interface EventSourceLike {
  readyState: number;
  addEventListener(type: string, handler: (event: MessageEvent<string>) => void): void;
  close(): void;
}

// Environment is what the browser gives, so that tests in Node can give the same.
export interface Environment {
  connect(url: string): EventSourceLike;
  // why asks what a refused stream would have answered; null when it would be served.
  why(url: string): Promise<HTTPError | null>;
  // slot gives a release function, or null when all slots are taken.
  slot(): Promise<(() => void) | null>;
  visible(): boolean;
  watch(show: () => void, hide: () => void): () => void;
  after(ms: number, run: () => void): () => void;
  now(): number;
}

const CLOSED = 2;

// answered says that a stream of this page, or what stands in for one, has answered:
// there is something to show, if only why not.
export const answered = signal(false);

export class Live {
  readonly state: Signal<LiveState> = signal<LiveState>({ kind: 'off' });
  // heard is when the last event came, epoch ms; 0 before the first.
  readonly heard = signal(0);

  private generation = 0;
  private source: EventSourceLike | null = null;
  private release: (() => void) | null = null;
  private stopTimer: (() => void) | null = null;
  private unwatch: (() => void) | null = null;
  private wanted = false;

  constructor(
    private readonly what: Source,
    private readonly env: Environment = browser,
  ) {}

  start(): void {
    if (this.wanted) return;
    this.wanted = true;
    this.unwatch = this.env.watch(
      () => this.show(),
      () => this.hide(),
    );
    if (this.env.visible()) void this.connect();
    else this.state.value = { kind: 'hidden' };
  }

  // stop gives everything back; a stopped Live may be started again.
  stop(): void {
    this.wanted = false;
    this.unwatch?.();
    this.unwatch = null;
    this.disconnect();
    this.state.value = { kind: 'off' };
  }

  // restart connects anew at once, as after a press of Retry.
  restart(): void {
    if (!this.wanted) {
      this.start();
      return;
    }
    this.disconnect();
    if (this.env.visible()) void this.connect();
  }

  private show(): void {
    if (!this.wanted || this.state.value.kind === 'refused') return;
    if (this.source || this.state.value.kind === 'connecting') return;
    this.disconnect();
    void this.connect();
  }

  private hide(): void {
    if (!this.wanted || this.state.value.kind === 'refused') return;
    this.disconnect();
    this.state.value = { kind: 'hidden' };
  }

  private disconnect(): void {
    this.generation++;
    this.stopTimer?.();
    this.stopTimer = null;
    this.source?.close();
    this.source = null;
    this.release?.();
    this.release = null;
  }

  private later(ms: number, run: () => void): void {
    this.stopTimer?.();
    this.stopTimer = this.env.after(ms, () => {
      this.stopTimer = null;
      run();
    });
  }

  private async connect(): Promise<void> {
    const mine = ++this.generation;
    const kind = this.state.value.kind;
    if (kind !== 'lost' && kind !== 'polling') this.state.value = { kind: 'connecting' };
    if (!this.release) {
      const release = await this.env.slot();
      if (mine !== this.generation) return release?.();
      if (!release) return void this.pollOnce(mine);
      this.release = release;
    }
    const url = this.what.url();
    const source = this.env.connect(url);
    this.source = source;
    let first = true;
    // heard is false once this connection counts no more.
    const heard = (): boolean => {
      if (mine === this.generation && first) {
        first = false;
        this.what.opened?.();
      }
      if (mine !== this.generation) return false;
      this.heard.value = this.env.now();
      if (this.state.value.kind !== 'live') this.state.value = { kind: 'live' };
      return true;
    };
    if (this.what.quiet) source.addEventListener('open', () => void heard());
    for (const name of this.what.events) {
      source.addEventListener(name, (message) => {
        if (!heard()) return;
        this.what.event(name, JSON.parse(message.data));
        answered.value = true;
      });
    }
    source.addEventListener('error', () => {
      if (mine !== this.generation) return;
      const refused = source.readyState === CLOSED;
      // Close it ourselves, so that the browser's own retry never runs beside ours.
      this.disconnect();
      if (refused) void this.explain(url, this.generation);
      else this.lost(0, 'Connection lost', null);
    });
  }

  private lost(status: number, error: string, retryAfter: number | null): void {
    this.state.value = { kind: 'lost', status, error, at: this.env.now() };
    answered.value = true;
    this.later(Math.max(RETRY_MS, (retryAfter ?? 0) * 1000), () => void this.connect());
  }

  // refuse is final: nothing is tried again.
  private refuse(error: HTTPError): void {
    this.state.value = { kind: 'refused', status: error.status, code: error.code, error: error.message };
    answered.value = true;
  }

  // explain finds out why the browser could not open the stream, which it does not say.
  private async explain(url: string, mine: number): Promise<void> {
    const error = await this.env.why(url);
    if (mine !== this.generation) return;
    if (error && (error.final || error.status === 404)) {
      this.refuse(error);
    } else if (error) {
      this.lost(error.status, error.message, error.retryAfter);
    } else {
      this.lost(0, 'Connection lost', null);
    }
  }

  private async pollOnce(mine: number): Promise<void> {
    let problem: string | null = null;
    if (this.state.value.kind !== 'polling') this.state.value = { kind: 'polling', error: null };
    if (this.what.poll) {
      try {
        await this.what.poll();
        if (mine !== this.generation) return;
        this.heard.value = this.env.now();
      } catch (cause) {
        if (mine !== this.generation) return;
        if (cause instanceof HTTPError && cause.final) return this.refuse(cause);
        problem = cause instanceof Error ? cause.message : 'The answer could not be read.';
      }
    }
    answered.value = true;
    const now = this.state.value;
    if (now.kind !== 'polling' || now.error !== problem) this.state.value = { kind: 'polling', error: problem };
    // A slot may have come free meanwhile: connect asks for one before it polls again.
    this.later(POLL_MS, () => void this.connect());
  }
}

// takeLock takes a lock that all tabs of this origin share, as long as its release is
// not called; null when another tab has it.
export async function takeLock(name: string): Promise<(() => void) | null> {
  if (!('locks' in navigator) || !navigator.locks) return () => {}; // plain http from elsewhere
  return await new Promise((resolve) => {
    navigator.locks
      .request(name, { ifAvailable: true }, (lock) => {
        if (!lock) {
          resolve(null);
          return undefined;
        }
        return new Promise<void>((done) => resolve(() => done()));
      })
      .catch(() => resolve(null));
  });
}

// freeSlot takes one of the slots of this origin.
export async function freeSlot(): Promise<(() => void) | null> {
  for (let n = 1; n <= maxStreams; n++) {
    const release = await takeLock(`stream-${n}`);
    if (release) return release;
  }
  return null;
}

// askWhy asks what a refused stream would have answered.
export async function askWhy(url: string): Promise<HTTPError | null> {
  const abort = new AbortController();
  try {
    const answer = await fetch(url, {
      headers: { Accept: 'text/event-stream' },
      cache: 'no-store',
      signal: abort.signal,
    });
    if (!answer.ok) return await errorFrom(answer);
    return null;
  } catch {
    return new HTTPError(0, 'unreachable', 'Connection lost');
  } finally {
    abort.abort();
  }
}

// browser is the real environment. It is read at call time only, so that this file
// loads under Node as well.
export const browser: Environment = {
  connect: (url) => new EventSource(url) as EventSourceLike,
  why: askWhy,
  slot: freeSlot,
  visible: () => document.visibilityState !== 'hidden',
  watch(show, hide) {
    const change = () => (document.visibilityState === 'hidden' ? hide() : show());
    const restored = (event: PageTransitionEvent) => {
      if (event.persisted && document.visibilityState !== 'hidden') show();
    };
    document.addEventListener('visibilitychange', change);
    window.addEventListener('pagehide', hide);
    window.addEventListener('pageshow', restored);
    return () => {
      document.removeEventListener('visibilitychange', change);
      window.removeEventListener('pagehide', hide);
      window.removeEventListener('pageshow', restored);
    };
  },
  after(ms, run) {
    const id = setTimeout(run, ms);
    return () => clearTimeout(id);
  },
  now: () => Date.now(),
};

// Requests to the server. Every one names its target in full (pid and start time),
// and a Latest drops the answer of any request but the newest.

import { shellQuote } from './format';
import type { ErrorAnswer, Identity } from './wire.gen';

export class HTTPError extends Error {
  // status is 0 when no answer came at all.
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly retryAfter: number | null = null, // seconds
  ) {
    super(message);
    this.name = 'HTTPError';
  }

  // final says that asking again in the same way cannot help.
  get final(): boolean {
    return this.status === 403 || this.status === 410 || this.status === 400 || this.status === 422;
  }
}

// reasonOf is what to say of a request that failed.
export const reasonOf = (cause: unknown): string =>
  cause instanceof HTTPError ? cause.message : 'The answer could not be read.';

export type Params = Record<string, string | number | undefined>;

// address builds the path and query of a request, the identity first.
export function address(path: string, identity?: Identity | null, params: Params = {}): string {
  const query = new URLSearchParams();
  if (identity) {
    query.set('pid', String(identity.pid));
    query.set('start_time_ticks', String(identity.start_time_ticks));
  }
  for (const [name, value] of Object.entries(params)) if (value !== undefined) query.set(name, String(value));
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

function isErrorAnswer(value: unknown): value is ErrorAnswer {
  return typeof value === 'object' && value !== null && typeof (value as { error?: unknown }).error === 'string';
}

// errorFrom reads the error body of an answer that is not 200.
export async function errorFrom(answer: Response): Promise<HTTPError> {
  const wait = Number(answer.headers.get('Retry-After') ?? Number.NaN);
  const retryAfter = Number.isFinite(wait) ? wait : null;
  try {
    const body: unknown = await answer.json();
    if (isErrorAnswer(body)) return new HTTPError(answer.status, body.code ?? '', body.error, retryAfter);
  } catch {
    // A proxy's page or a cut answer; the status says enough.
  }
  return new HTTPError(answer.status, '', `The server answered ${answer.status}.`, retryAfter);
}

export interface GetOptions {
  identity?: Identity | null;
  params?: Params;
  signal?: AbortSignal;
}

async function ask(url: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, { credentials: 'same-origin', cache: 'no-store', ...init });
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    throw new HTTPError(0, 'unreachable', 'The server cannot be reached.');
  }
}

// getJSON asks once. It throws HTTPError, also when the server cannot be reached (status 0).
export async function getJSON<T>(path: string, options: GetOptions = {}): Promise<T> {
  const answer = await ask(address(path, options.identity, options.params), {
    headers: { Accept: 'application/json' },
    signal: options.signal ?? null,
  });
  if (!answer.ok) throw await errorFrom(answer);
  return (await answer.json()) as T;
}

// sendJSON changes something once. It gives the answer as it is, also a refusal: there
// the body may say more than an error. It throws HTTPError when none came.
export function sendJSON(method: 'POST' | 'DELETE', path: string, body?: unknown): Promise<Response> {
  return ask(path, {
    method,
    headers: { Accept: 'application/json', ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
    body: body === undefined ? null : JSON.stringify(body),
  });
}

// loopback is this server for a command line on its host: no name, no secret.
export const loopback = (): string =>
  `${location.protocol}//127.0.0.1${location.port === '' ? '' : `:${location.port}`}`;

// curlPost is a command line for the same request; body is JSON.
export const curlPost = (path: string, body: string): string =>
  `curl -s -H 'Content-Type: application/json' -d ${shellQuote(body)} ${shellQuote(loopback() + path)}`;

// Latest runs requests of which only the newest counts: starting one aborts the one
// before, and an answer that comes all the same is dropped.
export class Latest {
  private generation = 0;
  private abort: AbortController | null = null;

  // run gives undefined when a newer request or cancel() came in between, whatever
  // the answer was. An error of the newest request is thrown.
  async run<T>(request: (signal: AbortSignal) => Promise<T>): Promise<T | undefined> {
    this.cancel();
    const mine = this.generation;
    const abort = new AbortController();
    this.abort = abort;
    try {
      const value = await request(abort.signal);
      return mine === this.generation ? value : undefined;
    } catch (cause) {
      if (mine !== this.generation) return undefined;
      throw cause;
    }
  }

  cancel(): void {
    this.generation++;
    this.abort?.abort();
    this.abort = null;
  }
}

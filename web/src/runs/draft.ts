// A run that is being described: what the form holds, the request it makes, and the
// command lines that do the same. Pure.

import { shellQuote } from '../format';
import type { RunRequest } from '../wire.gen';

export interface Draft {
  isShell: boolean;
  argv: readonly string[];
  text: string; // for sh -c
  id: string;
  cwd: string;
  scope: string;
  isReplacing: boolean;
  env: readonly { name: string; value: string }[];
  hasTerminal: boolean;
  columns: string;
  rows: string;
  isInputOpen: boolean;
  timeout: string;
  silence: string;
  grace: string;
  leftovers: string; // kill, keep or ''
  user: string;
}

export const EMPTY: Draft = {
  isShell: false,
  argv: [''],
  text: '',
  id: '',
  cwd: '',
  scope: '',
  isReplacing: false,
  env: [],
  hasTerminal: true,
  columns: '120',
  rows: '30',
  isInputOpen: false,
  timeout: '',
  silence: '',
  grace: '',
  leftovers: '',
  user: '',
};

/** Field is the part of the form that a problem belongs to. */
export type Field = 'command' | 'id' | 'scope' | 'env' | 'size' | 'timeout' | 'silence' | 'grace';

export type Body = Partial<RunRequest>;

export interface Described {
  body: Body;
  problems: ReadonlyMap<Field, string>;
}

const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

// parseTime reads "30s", "1m30s", "500ms": ms, null for nothing, NaN for what is no time.
export function parseTime(text: string): number | null {
  const all = text.trim();
  if (all === '') return null;
  if (all === '0') return 0;
  if (!/^(\d+(\.\d+)?(ms|s|m|h))+$/.test(all)) return Number.NaN;
  let sum = 0;
  for (const [, n, unit] of all.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)) sum += Number(n) * (UNITS[unit as string] ?? 0);
  return Math.round(sum);
}

const timeText = (ms: number): string => (ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`);

// wordsOf are the boxes without the empty ones at the end: an empty one before a filled
// one is an empty argument.
function wordsOf(argv: readonly string[]): string[] {
  let end = argv.length;
  while (end > 0 && argv[end - 1] === '') end--;
  return argv.slice(0, end);
}

const sizeOf = (text: string): number => (/^[1-9]\d{0,3}$/.test(text.trim()) ? Number(text) : Number.NaN);

// describe makes the request; what the form leaves out is left to the server.
export function describe(draft: Draft): Described {
  const problems = new Map<Field, string>();
  const body: Body = {};
  if (draft.isShell) {
    body.command = draft.text;
    if (draft.text.trim() === '') problems.set('command', 'Give a command.');
  } else {
    body.argv = wordsOf(draft.argv);
    if ((body.argv[0] ?? '').trim() === '') problems.set('command', 'Give a program.');
  }
  if (draft.id !== '') {
    body.id = draft.id;
    if (!/^[A-Za-z0-9_-]{1,64}$/.test(draft.id)) problems.set('id', 'An id has 1 to 64 letters, digits, _ or -.');
  }
  if (draft.cwd !== '') body.cwd = draft.cwd;
  if (draft.scope !== '') {
    body.scope = draft.scope;
    if (draft.isReplacing) body.replace = true;
  } else if (draft.isReplacing) problems.set('scope', 'To replace runs, name their scope.');
  const env = draft.env.filter(({ name, value }) => name !== '' || value !== '');
  if (env.length > 0) {
    body.env = Object.fromEntries(env.map(({ name, value }) => [name, value]));
    if (env.some(({ name }) => name === '' || name.includes('=')))
      problems.set('env', 'A variable has a name without =.');
    else if (Object.keys(body.env).length < env.length) problems.set('env', 'A variable is given twice.');
  }
  if (draft.hasTerminal) {
    const size = { cols: sizeOf(draft.columns), rows: sizeOf(draft.rows) };
    const isSize = !Number.isNaN(size.cols + size.rows);
    body.pty = isSize ? size : { cols: 0, rows: 0 };
    if (!isSize) problems.set('size', 'Columns and rows are numbers from 1 to 9999.');
  } else if (draft.isInputOpen) body.stdin = 'open';
  for (const [field, text] of [
    ['timeout', draft.timeout],
    ['silence', draft.silence],
    ['grace', draft.grace],
  ] as const) {
    const ms = parseTime(text);
    if (ms === null) continue;
    if (Number.isNaN(ms)) problems.set(field, 'A time has a unit: 500ms, 30s, 10m, 1h.');
    else if (field === 'timeout') body.timeout_ms = ms;
    else if (field === 'silence') body.no_output_timeout_ms = ms;
    else body.grace_ms = ms;
  }
  if (draft.leftovers !== '') body.leftovers = draft.leftovers;
  if (draft.user !== '') body.user = draft.user;
  return { body, problems };
}

// cliOf is the command line of procinsh run for a request, and what it has no option for.
export function cliOf(body: Body, server: string): { text: string; lacking: readonly string[] } {
  const words = ['procinsh', 'run', '--server', server];
  // What stays open to be typed into stays in the foreground.
  words.push(body.stdin === 'open' ? '--stdin' : '--detach');
  const option = (name: string, value: string | undefined) => {
    if (value !== undefined && value !== '') words.push(`--${name}`, value);
  };
  option('name', body.id);
  option('cwd', body.cwd);
  for (const [name, value] of Object.entries(body.env ?? {})) words.push('--env', `${name}=${value}`);
  option('scope', body.scope);
  if (body.replace) words.push('--replace');
  if (body.pty) words.push('--pty');
  const time = (name: string, ms: number | null | undefined) =>
    option(name, ms === null || ms === undefined ? undefined : timeText(ms));
  time('timeout', body.timeout_ms);
  time('silence', body.no_output_timeout_ms);
  time('grace', body.grace_ms);
  option('leftovers', body.leftovers);
  const lacking: string[] = [];
  if (body.user) lacking.push('another user');
  if (body.pty && (body.pty.cols !== 120 || body.pty.rows !== 30)) lacking.push('the size of the terminal');
  if (body.command !== undefined && body.command !== null) words.push('-c', body.command);
  else words.push('--', ...(body.argv ?? []));
  return { text: words.map(shellQuote).join(' '), lacking };
}

// The filter line: one grammar for every screen and for the address (?q=).
//
//   word  "two words"  /regex/        name or command, case-insensitive
//   key:value  key>n  key<n           n with K M G T, %, s m h d
//   a|b                               either value
//   -term                             what matches is left out
//   blanks                            and
//
// Pure. A term that cannot be understood is kept with its reason and matches
// everything: the page shows it underlined, never silently dropped.

import type { ProcessSummary } from './wire.gen';

/** Named is what words are looked for in. */
export interface Named {
  name: string;
  command_line: readonly string[] | null;
}

// Subject is what a filter looks at: a process or a run, and its text in lower case, which is
// made once a change rather than once a look.
export interface Subject<P = ProcessSummary> {
  summary: P;
  lower: string;
}

export interface Term<P = ProcessSummary> {
  // text as typed, with its minus and quotes.
  text: string;
  from: number;
  to: number;
  negative: boolean;
  key: string | null;
  // chip says that it is a whole key term, shown as one piece.
  chip: boolean;
  error: string | null;
  matches: (subject: Subject<P>, now: number) => boolean;
}

export interface Filter<P = ProcessSummary> {
  text: string;
  terms: Term<P>[];
  // null when everything matches.
  test: ((subject: Subject<P>, now: number) => boolean) | null;
}

type Kind = 'text' | 'exact' | 'bytes' | 'percent' | 'age' | 'count' | 'yes' | 'state' | 'asked';

export interface Key<P = ProcessSummary> {
  kind: Kind;
  // texts gives the candidates of a text key, flag the answer of yes or no, number the
  // figure of the others.
  texts?: (p: P) => readonly (string | null)[];
  flag?: (p: P) => boolean;
  number?: (p: P, now: number) => number | null;
  // test is that of an asked key: one of its values. It throws for what is none.
  test?: (value: string) => (p: P) => boolean;
  states?: string; // the letters that are known here, if not all
  help: string;
}

/** A grammar names the keys of one page. */
export type Grammar<P = ProcessSummary> = Readonly<Record<string, Key<P>>>;

/** AnyGrammar is one whose subjects do not matter: to parse and to explain. */
export type AnyGrammar = Grammar<never>;

export const KEYS: Grammar = {
  pid: { kind: 'count', number: (p) => p.identity.pid, help: 'pid:3310' },
  ppid: { kind: 'count', number: (p) => p.parent_id?.pid ?? null, help: 'ppid:1' },
  name: { kind: 'text', texts: (p) => [p.name], help: 'name:post' },
  exe: { kind: 'text', texts: (p) => [p.executable], help: 'exe:/usr/bin' },
  cmd: { kind: 'text', texts: (p) => [p.command_line === null ? null : p.command_line.join(' ')], help: 'cmd:--type' },
  user: {
    kind: 'exact',
    texts: (p) => [p.username, String(p.uid), p.euid === p.uid ? null : p.effective_username],
    help: 'user:root',
  },
  state: { kind: 'state', texts: (p) => [p.state], help: 'state:R|D' },
  cpu: { kind: 'percent', number: (p) => p.cpu_percent, help: 'cpu>0.5' },
  rss: { kind: 'bytes', number: (p) => p.rss_bytes, help: 'rss>100M' },
  vms: { kind: 'bytes', number: (p) => p.vms_bytes, help: 'vms>1G' },
  thr: { kind: 'count', number: (p) => p.thread_count, help: 'thr>8' },
  age: { kind: 'age', number: (p, now) => Math.max(0, now - p.started_at), help: 'age<5m' },
  read: { kind: 'bytes', number: (p) => p.read_bytes_rate, help: 'read>1M' },
  write: { kind: 'bytes', number: (p) => p.write_bytes_rate, help: 'write>1M' },
  tty: { kind: 'text', texts: (p) => [p.tty], help: 'tty:pts' },
  run: { kind: 'exact', texts: (p) => [p.run_id], help: 'run:web' },
  kernel: { kind: 'yes', flag: (p) => p.kernel_thread, help: 'kernel:yes' },
};

export const KNOWN_KEYS = Object.keys(KEYS);

const STATE_WORDS: Record<string, string> = {
  running: 'R',
  sleeping: 'S',
  disk: 'D',
  zombie: 'Z',
  stopped: 'T',
  traced: 't',
  idle: 'I',
};

// keyHelp shows how a key is used: "user:root".
export function keyHelp(key: string, keys: AnyGrammar = KEYS): string {
  return keys[key]?.help ?? `${key}:`;
}

// lowerText is what words are looked for in: name, a line feed, the command.
export function lowerText(p: Named): string {
  return `${p.name}\n${p.command_line === null ? '' : p.command_line.join(' ')}`.toLowerCase();
}

// split cuts at blanks outside quotes and regexes; each piece keeps its place.
export function split(text: string): { text: string; from: number; to: number }[] {
  const out: { text: string; from: number; to: number }[] = [];
  let i = 0;
  while (i < text.length) {
    while (i < text.length && /\s/.test(text[i] as string)) i++;
    if (i >= text.length) break;
    const from = i;
    let quote = '';
    while (i < text.length) {
      const c = text[i] as string;
      if (quote) {
        if (quote === '/' && c === '\\') i++;
        else if (c === quote) quote = '';
      } else if (c === '"') quote = '"';
      else if (c === '/' && opensRegex(text, from, i)) quote = '/';
      else if (/\s/.test(c)) break;
      i++;
    }
    out.push({ text: text.slice(from, Math.min(i, text.length)), from, to: Math.min(i, text.length) });
  }
  return out;
}

// A slash opens a regex only where a value begins, and only if another slash closes
// it: a path such as /usr/bin is a word.
function opensRegex(text: string, from: number, at: number): boolean {
  const before = text.slice(from, at);
  if (!/^(-?|-?\w+:|.*\|)$/.test(before)) return false;
  for (let i = at + 1; i < text.length; i++) {
    if (text[i] === '\\') i++;
    else if (text[i] === '/') return i > at + 1 && (i + 1 >= text.length || /[\s|]/.test(text[i + 1] as string));
  }
  return false;
}

// alternatives cuts a value at its bars, outside quotes and regexes.
function alternatives(value: string): string[] {
  const out: string[] = [];
  let from = 0;
  let quote = '';
  for (let i = 0; i < value.length; i++) {
    const c = value[i] as string;
    if (quote) {
      if (quote === '/' && c === '\\') i++;
      else if (c === quote) quote = '';
    } else if (c === '"') quote = '"';
    else if (c === '/' && i === from && opensRegex(value.slice(from), 0, 0)) quote = '/';
    else if (c === '|') {
      out.push(value.slice(from, i));
      from = i + 1;
    }
  }
  out.push(value.slice(from));
  return out;
}

const isRegex = (text: string): boolean => text.length > 2 && text.startsWith('/') && text.endsWith('/');

// maxRegex characters: a longer pattern is refused, so that a pasted file is no filter.
const maxRegex = 1000;

function regex(text: string): RegExp {
  const body = text.slice(1, -1);
  if (body.length > maxRegex) throw new Error(`a pattern has at most ${maxRegex} characters`);
  return new RegExp(body, 'i');
}

export const unquote = (text: string): string =>
  text.length >= 2 && text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1) : text.replace(/^"/, '');

const BYTE_UNITS: Record<string, number> = { '': 1, b: 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3, t: 1024 ** 4 };
const AGE_UNITS: Record<string, number> = { '': 1000, s: 1000, m: 60e3, h: 3600e3, d: 86400e3 };

// values are those of an asked key, as typed: a path is no pattern.
export const values = (text: string): string[] => alternatives(text).map(unquote);

// amount reads a figure with its unit; a string is the reason why it cannot.
export function amount(text: string, kind: Kind): number | string {
  const match = /^(\d+(?:\.\d+)?|\.\d+)\s*([a-z%]*)$/i.exec(text);
  if (!match) return text === '' ? 'needs a number' : `“${text}” is no number`;
  const value = Number(match[1]);
  const unit = (match[2] ?? '').toLowerCase().replace(/^([kmgt])(i?b)$/, '$1');
  const units: Record<string, number> =
    kind === 'bytes' ? BYTE_UNITS : kind === 'age' ? AGE_UNITS : kind === 'percent' ? { '': 1, '%': 1 } : { '': 1 };
  const factor = units[unit];
  if (factor === undefined) {
    const known = Object.keys(units).filter(Boolean);
    return known.length === 0
      ? `“${match[2]}” is no unit here`
      : `“${match[2]}” is no unit here (${known.join(' ').toUpperCase().replace('S M H D', 's m h d')})`;
  }
  return value * factor;
}

// near is the reach of "key:n" for figures that are shown rounded.
function near(value: number, wanted: number, kind: Kind): boolean {
  if (kind === 'count') return value === wanted;
  if (kind === 'percent') return Math.abs(value - wanted) < 0.05;
  return Math.abs(value - wanted) <= wanted * 0.05;
}

type Test<P> = (subject: Subject<P>, now: number) => boolean;

function wordTest<P extends Named>(value: string): Test<P> {
  const tests = alternatives(value)
    .filter((part) => part !== '')
    .map((part): Test<P> => {
      if (isRegex(part)) {
        const pattern = regex(part);
        return ({ summary }) =>
          pattern.test(summary.name) || (summary.command_line !== null && pattern.test(summary.command_line.join(' ')));
      }
      const word = unquote(part).toLowerCase();
      return (subject) => {
        if (subject.lower === '') subject.lower = lowerText(subject.summary);
        return subject.lower.includes(word);
      };
    });
  return tests.length === 1 ? (tests[0] as Test<P>) : (s, now) => tests.some((test) => test(s, now));
}

function textTest<P>(key: Key<P>, value: string): Test<P> {
  const texts = key.texts ?? (() => []);
  const tests = alternatives(value).map((part): ((text: string) => boolean) => {
    if (isRegex(part)) {
      const pattern = regex(part);
      return (text) => pattern.test(text);
    }
    const wanted = unquote(part).toLowerCase();
    if (key.kind === 'state') {
      const letter = STATE_WORDS[wanted] ?? unquote(part);
      const known = key.states ?? 'RSDZTtI';
      if (letter.length !== 1) throw new Error(`“${part}” is no state (${[...known].join(' ')})`);
      if (key.states && !known.includes(letter) && !known.includes(letter.toUpperCase()))
        throw new Error(`of the states only ${[...known].join(' ')} are known here`);
      // T and t differ; of the others both cases are meant.
      return (text) => text === letter || (letter.toLowerCase() !== 't' && text === letter.toUpperCase());
    }
    if (key.kind === 'exact') return (text) => text.toLowerCase() === wanted;
    return (text) => text.toLowerCase().includes(wanted);
  });
  return ({ summary }) => texts(summary).some((text) => text !== null && tests.some((test) => test(text)));
}

function numberTest<P>(key: Key<P>, op: string, value: string): Test<P> {
  const figure = key.number ?? (() => null);
  if (op !== ':') {
    const wanted = amount(value, key.kind);
    if (typeof wanted === 'string') throw new Error(wanted);
    const compare: Record<string, (v: number) => boolean> = {
      '>': (v) => v > wanted,
      '<': (v) => v < wanted,
      '>=': (v) => v >= wanted,
      '<=': (v) => v <= wanted,
    };
    const test = compare[op] as (v: number) => boolean;
    return ({ summary }, now) => {
      const v = figure(summary, now);
      return v !== null && test(v);
    };
  }
  const wanted = alternatives(value).map((part) => {
    const n = amount(part, key.kind);
    if (typeof n === 'string') throw new Error(n);
    return n;
  });
  return ({ summary }, now) => {
    const v = figure(summary, now);
    return v !== null && wanted.some((n) => near(v, n, key.kind));
  };
}

function keyTest<P>(name: string, op: string, value: string, keys: Grammar<P>): Test<P> {
  const key = Object.hasOwn(keys, name) ? keys[name] : undefined;
  if (!key) throw new Error(`unknown key ${name}: known are ${Object.keys(keys).join(' ')}`);
  if (value === '') throw new Error(`${name} needs a value, as in ${key.help}`);
  const { flag } = key;
  if (flag) {
    if (op !== ':' || !/^(yes|no)$/i.test(value)) throw new Error(`${name} is yes or no`);
    const wanted = value.toLowerCase() === 'yes';
    return ({ summary }) => flag(summary) === wanted;
  }
  if (key.number) return numberTest(key, op, value);
  if (op !== ':') throw new Error(`${name} cannot be compared, use ${key.help}`);
  if (key.test) {
    const tests = values(value).map(key.test);
    return ({ summary }) => tests.some((test) => test(summary));
  }
  return textTest(key, value);
}

const always = () => true;

function parseTerm<P extends Named>(piece: { text: string; from: number; to: number }, keys: Grammar<P>): Term<P> {
  const negative = piece.text.length > 1 && piece.text.startsWith('-');
  const body = negative ? piece.text.slice(1) : piece.text;
  const match = /^([a-z]\w*)(:|>=|<=|>|<)(.*)$/is.exec(body);
  const term: Term<P> = { ...piece, negative, key: null, chip: false, error: null, matches: always };
  try {
    let test: Test<P>;
    if (match) {
      const name = (match[1] as string).toLowerCase();
      term.key = name;
      test = keyTest(name, match[2] as string, match[3] as string, keys);
      term.chip = true;
    } else {
      if (body.replace(/[|"]/g, '') === '') return term;
      test = wordTest(body);
    }
    term.matches = negative ? (s, now) => !test(s, now) : test;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    term.error = reason.replace(/^Invalid regular expression: .*: /, 'no pattern: ');
  }
  return term;
}

// kernelNamed says that the filter itself asks about kernel threads, so that hiding
// them by default would answer another question.
export function kernelNamed(filter: Filter): boolean {
  return filter.terms.some((term) => term.key === 'kernel' && !term.error);
}

export function parseFilter(text: string): Filter;
export function parseFilter<P extends Named>(text: string, keys: Grammar<P> | undefined): Filter<P>;
export function parseFilter(text: string, keys: Grammar = KEYS): Filter {
  const terms = split(text).map((piece) => parseTerm(piece, keys));
  const active = terms.filter((term) => term.matches !== always);
  const test: Filter['test'] =
    active.length === 0
      ? null
      : active.length === 1
        ? (active[0] as Term).matches
        : (subject, now) => {
            for (const term of active) if (!term.matches(subject, now)) return false;
            return true;
          };
  return { text, terms, test };
}

// The columns of the list: what each shows, sorts by and copies. Pure.

import type { Row } from './deltas';
import {
  bytes,
  bytesFull,
  commandText,
  count,
  dateTime,
  duration,
  percent,
  rate,
  stateName,
  UNKNOWN,
  visible,
} from './format';

export type ColumnId =
  | 'pid'
  | 'name'
  | 'user'
  | 'state'
  | 'cpu'
  | 'spark'
  | 'rss'
  | 'maps'
  | 'thr'
  | 'read'
  | 'write'
  | 'age'
  | 'vms'
  | 'nice'
  | 'core'
  | 'tty'
  | 'ppid'
  | 'container'
  | 'cgroup'
  | 'exe'
  | 'command';

// Show is what a cell's text depends on besides its row.
export interface Show {
  now: number; // epoch ms of the list on screen
  cores: number; // divisor of CPU figures: 1, or the number of cores
  past: boolean; // an earlier second: only what the history keeps is known
}

export interface Column {
  id: ColumnId;
  label: string;
  // title explains the column on its header.
  title: string;
  // letter sorts by it, after "s".
  letter: string;
  width: number; // CSS px; 0 takes the rest
  right: boolean;
  mono: boolean;
  // drawn columns have no text of their own: the canvas draws them.
  drawn: boolean;
  sortable: boolean;
  // downFirst: the first press sorts from large to small.
  downFirst: boolean;
  sortKey: (row: Row) => number | string;
  text: (row: Row, show: Show) => string;
  // hint is the cell's title, '' for none: full figures, and why something is unknown.
  hint: (row: Row, show: Show) => string;
  // copy is the cell in a TSV copy: full figures without letters.
  copy: (row: Row) => string;
}

const NaNif = (n: number | null | undefined): number => (n === null || n === undefined ? Number.NaN : n);
const raw = (n: number | null): string => (n === null ? '' : String(n));

const cpuOf = (row: Row): number | null => (row.sums ? row.sums.cpu : row.summary.cpu_percent);
const readOf = (row: Row): number | null => (row.sums ? row.sums.read : row.summary.read_bytes_rate);
const writeOf = (row: Row): number | null => (row.sums ? row.sums.write : row.summary.write_bytes_rate);
const sigma = (row: Row, text: string): string => (row.sums ? `Σ ${text}` : text);
const sumHint = (row: Row, more = ''): string =>
  row.sums ? `Sum of ${count(row.sums.processes)} processes${more}. ` : '';

// userOf is the name of the real user, its number where it has none.
export function userOf(row: Row): string {
  return row.summary.username === null ? String(row.summary.uid) : visible(row.summary.username);
}

function rateHint(row: Row, show: Show, value: number | null): string {
  if (value !== null) return `${sumHint(row)}${bytesFull(Math.round(value))} a second, storage only`;
  if (row.gone) return 'it has ended';
  return show.past ? 'not known at that second' : 'needs two samples, or not permitted to read /proc/PID/io';
}

const base = {
  right: false,
  mono: false,
  drawn: false,
  sortable: true,
  downFirst: false,
  hint: () => '',
};

export const COLUMNS: readonly Column[] = [
  {
    ...base,
    id: 'pid',
    label: 'PID',
    title: 'Process id (the kernel’s tgid)',
    letter: 'p',
    width: 64,
    right: true,
    mono: true,
    sortKey: (r) => r.pid,
    text: (r) => String(r.pid),
    copy: (r) => String(r.pid),
  },
  {
    ...base,
    id: 'name',
    label: 'Name',
    title: 'Command name, at most 15 bytes; a program can set it to anything',
    letter: 'n',
    width: 252,
    sortKey: (r) => r.summary.name.toLowerCase(),
    text: (r) => visible(r.summary.name) || '(no name)',
    copy: (r) => visible(r.summary.name),
  },
  {
    ...base,
    id: 'user',
    label: 'User',
    title: 'Real user; set-uid programs show the effective one on the detail page',
    letter: 'u',
    width: 76,
    sortKey: (r) => userOf(r).toLowerCase(),
    text: userOf,
    hint: (r) =>
      r.summary.euid === r.summary.uid
        ? `uid ${r.summary.uid}`
        : `uid ${r.summary.uid}, effective ${visible(r.summary.effective_username ?? String(r.summary.euid))}`,
    copy: userOf,
  },
  {
    ...base,
    id: 'state',
    label: 'St',
    title: 'State: R running, S sleeping, D disk wait, T stopped, t traced, Z zombie, I idle',
    letter: 't',
    width: 34,
    mono: true,
    sortKey: (r) => 'RDtTZSI'.indexOf(r.summary.state) + 10,
    text: (r) => r.summary.state,
    hint: (r) => stateName(r.summary.state),
    copy: (r) => r.summary.state,
  },
  {
    ...base,
    id: 'cpu',
    label: 'CPU %',
    title: '100 % = one core; % switches to the share of all cores',
    letter: 'c',
    width: 78,
    right: true,
    mono: true,
    downFirst: true,
    sortKey: (r) => NaNif(cpuOf(r)),
    text: (r, show) => {
      const cpu = cpuOf(r);
      return cpu === null ? UNKNOWN : sigma(r, percent(cpu / show.cores));
    },
    hint: (r) => {
      const cpu = cpuOf(r);
      if (cpu === null) return r.gone ? 'it has ended' : 'needs two samples';
      if (!r.sums) return '';
      return sumHint(r, r.sums.cpuUnknown ? `, ${r.sums.cpuUnknown} of them not known yet` : '').trim();
    },
    copy: (r) => raw(r.summary.cpu_percent),
  },
  {
    ...base,
    id: 'spark',
    label: '60 s',
    title:
      'CPU of the last 60 s as far as this page has seen it; height is the square root, full at 100 % or its own most',
    letter: '',
    width: 88,
    drawn: true,
    sortable: false,
    sortKey: () => 0,
    text: () => '',
    copy: () => '',
  },
  {
    ...base,
    id: 'rss',
    label: 'RSS',
    title: 'Resident memory; shared pages count in every process that has them',
    letter: 'r',
    width: 80,
    right: true,
    mono: true,
    downFirst: true,
    sortKey: (r) => (r.sums ? r.sums.rss : r.summary.rss_bytes),
    text: (r) => (r.gone && !r.sums ? UNKNOWN : sigma(r, bytes(r.sums ? r.sums.rss : r.summary.rss_bytes))),
    hint: (r) =>
      r.gone
        ? 'it has ended'
        : sumHint(r, ', shared pages counted more than once') + bytesFull(r.sums ? r.sums.rss : r.summary.rss_bytes),
    copy: (r) => (r.gone ? '' : String(r.summary.rss_bytes)),
  },
  {
    ...base,
    id: 'maps',
    label: 'Address space',
    title: 'Mappings in address order by kind, log widths; the legend is in the foot',
    letter: '',
    width: 124,
    drawn: true,
    sortable: false,
    sortKey: () => 0,
    text: (r) => {
      if (r.maps !== null && r.maps.boxes.length > 0) return '';
      if (r.summary.kernel_thread) return 'kernel';
      if (r.gone || r.summary.state === 'Z') return 'no address space';
      return UNKNOWN;
    },
    hint: (r) => {
      if (r.maps !== null && r.maps.boxes.length > 0) return '';
      if (r.summary.kernel_thread) return 'a kernel thread has no address space of its own';
      if (r.gone || r.summary.state === 'Z') return 'the process has ended';
      return 'not read yet, or not permitted to read its maps';
    },
    copy: () => '',
  },
  {
    ...base,
    id: 'thr',
    label: 'Thr',
    title: 'Threads',
    letter: 'h',
    width: 44,
    right: true,
    mono: true,
    downFirst: true,
    sortKey: (r) => (r.sums ? r.sums.threads : r.summary.thread_count),
    text: (r, show) => (show.past ? UNKNOWN : sigma(r, String(r.sums ? r.sums.threads : r.summary.thread_count))),
    hint: (r, show) => (show.past ? 'not known at that second' : sumHint(r)),
    copy: (r) => String(r.summary.thread_count),
  },
  {
    ...base,
    id: 'read',
    label: 'Read/s',
    title: 'Bytes read from storage a second',
    letter: 'i',
    width: 68,
    right: true,
    mono: true,
    downFirst: true,
    sortKey: (r) => NaNif(readOf(r)),
    text: (r) => (readOf(r) === null ? UNKNOWN : sigma(r, rate(readOf(r)))),
    hint: (r, show) => rateHint(r, show, readOf(r)),
    copy: (r) => raw(r.summary.read_bytes_rate),
  },
  {
    ...base,
    id: 'write',
    label: 'Write/s',
    title: 'Bytes written to storage a second',
    letter: 'o',
    width: 68,
    right: true,
    mono: true,
    downFirst: true,
    sortKey: (r) => NaNif(writeOf(r)),
    text: (r) => (writeOf(r) === null ? UNKNOWN : sigma(r, rate(writeOf(r)))),
    hint: (r, show) => rateHint(r, show, writeOf(r)),
    copy: (r) => raw(r.summary.write_bytes_rate),
  },
  {
    ...base,
    id: 'age',
    label: 'Lifetime',
    title: 'How long it has run',
    letter: 'a',
    width: 84,
    right: true,
    mono: true,
    sortKey: (r) => -r.summary.started_at,
    text: (r, show) => duration((r.gone || show.now) - r.summary.started_at),
    hint: (r) => `started ${dateTime(r.summary.started_at)}${r.gone ? `, ended ${dateTime(r.gone)}` : ''}`,
    copy: (r) => String(r.summary.started_at),
  },
  {
    ...base,
    id: 'vms',
    label: 'Virtual',
    title: 'Size of the address space, most of it without memory behind it',
    letter: 'v',
    width: 76,
    right: true,
    mono: true,
    downFirst: true,
    sortKey: (r) => (r.sums ? r.sums.vms : r.summary.vms_bytes),
    text: (r) => (r.gone && !r.sums ? UNKNOWN : sigma(r, bytes(r.sums ? r.sums.vms : r.summary.vms_bytes))),
    hint: (r) => (r.gone ? 'it has ended' : sumHint(r) + bytesFull(r.sums ? r.sums.vms : r.summary.vms_bytes)),
    copy: (r) => String(r.summary.vms_bytes),
  },
  {
    ...base,
    id: 'nice',
    label: 'Nice',
    title: 'Nice value, −20 first to 19 last',
    letter: 'e',
    width: 46,
    right: true,
    mono: true,
    sortKey: (r) => r.summary.nice,
    text: (r) => String(r.summary.nice).replace('-', '−'),
    copy: (r) => String(r.summary.nice),
  },
  {
    ...base,
    id: 'core',
    label: 'Core',
    title: 'The CPU it ran on last',
    letter: 'x',
    width: 46,
    right: true,
    mono: true,
    sortKey: (r) => r.summary.processor,
    text: (r) => String(r.summary.processor),
    copy: (r) => String(r.summary.processor),
  },
  {
    ...base,
    id: 'tty',
    label: 'TTY',
    title: 'Controlling terminal',
    letter: 'y',
    width: 64,
    mono: true,
    sortKey: (r) => r.summary.tty ?? '\uffff',
    text: (r) => (r.summary.tty === null ? UNKNOWN : visible(r.summary.tty)),
    hint: (r) => (r.summary.tty === null ? 'it has no terminal' : ''),
    copy: (r) => visible(r.summary.tty ?? ''),
  },
  {
    ...base,
    id: 'ppid',
    label: 'Parent',
    title: 'Pid of the parent',
    letter: 'q',
    width: 64,
    right: true,
    mono: true,
    sortKey: (r) => NaNif(r.summary.parent_id?.pid),
    text: (r) => (r.summary.parent_id === null ? UNKNOWN : String(r.summary.parent_id.pid)),
    hint: (r) => (r.summary.parent_id === null ? 'it has none that can be seen' : ''),
    copy: (r) => raw(r.summary.parent_id?.pid ?? null),
  },
  {
    ...base,
    id: 'container',
    label: 'Container',
    title: 'Short container id or unit, from the control group',
    letter: 'b',
    width: 120,
    sortKey: (r) => r.summary.container?.toLowerCase() ?? '\uffff',
    text: (r) => (r.summary.container === null ? UNKNOWN : visible(r.summary.container)),
    hint: (r) => (r.summary.cgroup === null ? 'its control group is not known' : visible(r.summary.cgroup)),
    copy: (r) => visible(r.summary.container ?? ''),
  },
  {
    ...base,
    id: 'cgroup',
    label: 'Control group',
    title: 'Path in the control group tree',
    letter: 'g',
    width: 200,
    mono: true,
    sortKey: (r) => r.summary.cgroup ?? '\uffff',
    text: (r) => (r.summary.cgroup === null ? UNKNOWN : visible(r.summary.cgroup)),
    hint: (r) => (r.summary.cgroup === null ? 'not known' : visible(r.summary.cgroup)),
    copy: (r) => visible(r.summary.cgroup ?? ''),
  },
  {
    ...base,
    id: 'exe',
    label: 'Program',
    title: 'The file it runs',
    letter: 'f',
    width: 220,
    mono: true,
    sortKey: (r) => r.summary.executable ?? '\uffff',
    text: (r) => (r.summary.executable === null ? UNKNOWN : visible(r.summary.executable)),
    hint: (r) =>
      r.summary.executable !== null
        ? visible(r.summary.executable)
        : r.summary.kernel_thread
          ? 'a kernel thread runs no file'
          : 'not permitted to read /proc/PID/exe',
    copy: (r) => visible(r.summary.executable ?? ''),
  },
  {
    ...base,
    id: 'command',
    label: 'Command',
    title: 'Arguments as the process shows them',
    letter: 'd',
    width: 0,
    mono: true,
    sortKey: (r) => commandText(r.summary.command_line, r.summary.name, r.summary.kernel_thread).toLowerCase(),
    text: (r) => commandText(r.summary.command_line, r.summary.name, r.summary.kernel_thread).slice(0, 400),
    hint: (r) =>
      r.summary.command_line === null
        ? 'not permitted to read /proc/PID/cmdline'
        : commandText(r.summary.command_line, r.summary.name, r.summary.kernel_thread) +
          (r.summary.command_line_truncated ? ' … cut at 4,096 bytes' : ''),
    copy: (r) => commandText(r.summary.command_line, r.summary.name, r.summary.kernel_thread),
  },
];

const byId = new Map<string, Column>(COLUMNS.map((column) => [column.id, column]));

export const columnById = (id: string): Column | undefined => byId.get(id);

export const SETS: Readonly<Record<string, readonly ColumnId[]>> = {
  Overview: ['pid', 'name', 'user', 'state', 'cpu', 'spark', 'rss', 'maps', 'thr', 'read', 'write', 'command'],
  Memory: ['pid', 'name', 'user', 'rss', 'vms', 'maps', 'thr', 'age', 'command'],
  'I/O': ['pid', 'name', 'user', 'state', 'read', 'write', 'cpu', 'spark', 'container', 'command'],
};

export const DEFAULT_COLUMNS = SETS.Overview as readonly ColumnId[];
export const NARROW_COLUMNS: readonly ColumnId[] = ['name', 'cpu', 'pid', 'rss'];

// parseColumns reads "pid,name,cpu"; names it does not know are left out, and the
// name column is always there, since it carries the link.
export function parseColumns(text: string): ColumnId[] {
  const out: ColumnId[] = [];
  for (const id of text.split(',')) {
    const column = byId.get(id);
    if (column && !out.includes(column.id)) out.push(column.id);
  }
  if (out.length === 0) return [...DEFAULT_COLUMNS];
  if (!out.includes('name')) out.unshift('name');
  return out;
}

// parseSort reads "-cpu" or "name"; null when it names no column one can sort by.
export function parseSort(text: string): { column: ColumnId; descending: boolean } | null {
  const descending = text.startsWith('-');
  const column = byId.get(descending ? text.slice(1) : text);
  return column?.sortable ? { column: column.id, descending } : null;
}

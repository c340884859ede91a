// Which figures are charted together, and how each is written. Pure.

import { bytesUnit, percent, perSecond, rate, UNKNOWN } from '../format';
import type { Figure } from './ring';

export interface ChartLine {
  readonly figure: Figure;
  readonly label: string;
  readonly role: string;
  readonly scale: string;
  readonly format: (value: number | null) => string;
  readonly least: number;
  readonly binary?: boolean;
  readonly dash?: boolean;
}

export interface ChartKind {
  readonly id: string;
  readonly title: string;
  readonly lines: readonly ChartLine[];
  readonly note: string; // shown while there is no value
}

const size = (value: number | null): string => (value === null ? UNKNOWN : bytesUnit(value).join(' '));
const sizeRate = (value: number | null): string => (value === null ? UNKNOWN : `${rate(value)}/s`);
const each = (value: number | null): string => (value === null ? UNKNOWN : perSecond(value));
const share = (value: number | null): string => (value === null ? UNKNOWN : `${percent(value)} %`);
const whole = (value: number | null): string => (value === null ? UNKNOWN : String(Math.round(value)));

const NEEDS_TWO = 'needs two samples';

export const CHARTS: readonly ChartKind[] = [
  {
    id: 'cpu',
    title: 'CPU and memory',
    note: NEEDS_TWO,
    lines: [
      { figure: 'cpu', label: 'CPU', role: 'cpu', scale: 'cpu', format: share, least: 2 },
      { figure: 'rss', label: 'RSS', role: 'mem', scale: 'rss', format: size, least: 1 << 20, binary: true },
    ],
  },
  {
    id: 'faults',
    title: 'Page faults/s',
    note: NEEDS_TWO,
    lines: [
      { figure: 'minor', label: 'minor', role: 'mem', scale: 'n', format: each, least: 10 },
      { figure: 'major', label: 'major', role: 'bad', scale: 'n', format: each, least: 10, dash: true },
    ],
  },
  {
    id: 'switches',
    title: 'Context switches/s',
    note: NEEDS_TWO,
    lines: [
      { figure: 'voluntary', label: 'voluntary', role: 'ok', scale: 'n', format: each, least: 10 },
      { figure: 'involuntary', label: 'involuntary', role: 'cpu', scale: 'n', format: each, least: 10, dash: true },
    ],
  },
  {
    id: 'io',
    title: 'Storage I/O',
    note: 'needs two samples, and the right to read /proc/PID/io',
    lines: [
      { figure: 'read', label: 'read', role: 'read', scale: 'b', format: sizeRate, least: 4096, binary: true },
      {
        figure: 'write',
        label: 'write',
        role: 'write',
        scale: 'b',
        format: sizeRate,
        least: 4096,
        binary: true,
        dash: true,
      },
    ],
  },
  {
    id: 'threads',
    title: 'Threads',
    note: NEEDS_TWO,
    lines: [{ figure: 'threads', label: 'threads', role: 'ok', scale: 'n', format: whole, least: 4 }],
  },
];

// chartKind finds a chart by its name in the address; the first one when there is none.
export function chartKind(id: string | null): ChartKind {
  return CHARTS.find((chart) => chart.id === id) ?? (CHARTS[0] as ChartKind);
}

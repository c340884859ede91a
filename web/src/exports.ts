// The list as text to take away: TSV, JSON, curl, and a file that can be opened again.
// Pure.

import type { Column } from './columns';
import type { Row } from './deltas';
import { shellQuote, tsvField } from './format';
import type { ProcessSummary } from './wire.gen';

export function rowsAsTSV(rows: readonly Row[], columns: readonly Column[]): string {
  const shown = columns.filter((column) => !column.drawn);
  const head = shown.map((column) => column.label).join('\t');
  const lines = rows.map((row) => shown.map((column) => tsvField(column.copy(row))).join('\t'));
  return `${[head, ...lines].join('\n')}\n`;
}

export function rowsAsJSON(rows: readonly Row[]): string {
  const list = rows.map((row) => ({ ...row.summary, map_summary: row.maps }));
  return `${JSON.stringify(list.length === 1 ? list[0] : list, null, 2)}\n`;
}

// curlOf is the command that asks the server for the same; no secret is in it.
export function curlOf(origin: string, path: string): string {
  return `curl -s ${shellQuote(origin + path)}`;
}

export interface Saved {
  procinsh: 'list';
  captured_at: number;
  processes: ProcessSummary[];
}

export function save(rows: Iterable<Row>, capturedAt: number): string {
  const processes: ProcessSummary[] = [];
  for (const row of rows) if (row.gone === 0) processes.push({ ...row.summary, map_summary: row.maps });
  const saved: Saved = { procinsh: 'list', captured_at: capturedAt, processes };
  return `${JSON.stringify(saved)}\n`;
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

function isSummary(value: unknown): value is ProcessSummary {
  if (!isObject(value) || !isObject(value.identity)) return false;
  return (
    typeof value.identity.pid === 'number' &&
    typeof value.identity.start_time_ticks === 'number' &&
    typeof value.name === 'string' &&
    typeof value.state === 'string' &&
    typeof value.uid === 'number' &&
    typeof value.euid === 'number' &&
    typeof value.rss_bytes === 'number' &&
    typeof value.vms_bytes === 'number' &&
    typeof value.thread_count === 'number' &&
    typeof value.started_at === 'number' &&
    typeof value.kernel_thread === 'boolean' &&
    (value.command_line === null || Array.isArray(value.command_line)) &&
    (value.map_summary === null || (isObject(value.map_summary) && Array.isArray(value.map_summary.boxes)))
  );
}

// open reads a saved list; a string says why it cannot.
export function open(text: string): Saved | string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return 'This file is no JSON.';
  }
  if (!isObject(value) || value.procinsh !== 'list') return 'This file is no list saved by procinsh.';
  if (typeof value.captured_at !== 'number' || !Array.isArray(value.processes)) return 'This file is not whole.';
  if (!value.processes.every(isSummary)) return 'A process in this file is not whole.';
  return { procinsh: 'list', captured_at: value.captured_at, processes: value.processes };
}

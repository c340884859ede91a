// What the page says of a run: its state in a word, how it ended, how sure its members
// are, and what the filter can ask. Pure.

import type { Grammar, Named } from '../filter';
import { count, duration, shellQuote, UNKNOWN, visible } from '../format';
import type { Fill, Tone } from '../lamps';
import type { Run, RunCounts, RunPort, RunProcess } from '../wire.gen';

export interface Look {
  word: string;
  tone: Tone;
  fill: Fill;
}

export const isOver = (run: Run): boolean => run.state === 'exited' || run.state === 'failed';

// hasFailed says that a run ended otherwise than by itself with 0.
export const hasFailed = (run: Run): boolean =>
  run.state === 'failed' || (run.exit !== null && (run.exit.reason !== 'exit' || run.exit.code !== 0));

// stateLook is the lamp of a run; its word says what its colour does.
export function stateLook(run: Run): Look {
  if (run.adopted && !isOver(run)) return { word: 'ADOPTED', tone: 'warn', fill: 'trouble' };
  switch (run.state) {
    case 'starting':
      return { word: 'STARTING', tone: 'quiet', fill: 'off' };
    case 'running':
      return { word: 'RUNNING', tone: 'ok', fill: 'on' };
    case 'stopping':
      return { word: 'STOPPING', tone: 'warn', fill: 'on' };
    case 'draining':
      return { word: 'DRAINING', tone: 'warn', fill: 'off' };
    case 'failed':
      return { word: 'FAILED', tone: 'bad', fill: 'trouble' };
    default:
      return hasFailed(run)
        ? { word: 'EXITED', tone: 'bad', fill: 'trouble' }
        : { word: 'EXITED', tone: 'quiet', fill: 'off' };
  }
}

// exitText is how the command ended: "exit 0", "SIGKILL", "timed out after 30.0 s"; ''
// while it lives.
export function exitText(run: Run): string {
  const { exit } = run;
  if (exit === null) return run.state === 'failed' ? 'could not be started' : '';
  const how = exit.signal !== null ? visible(exit.signal) : exit.code === null ? 'end unknown' : `exit ${exit.code}`;
  switch (exit.reason) {
    case 'exit':
    case 'signal':
      return how;
    case 'manual_cancel':
      return `stopped, ${how}`;
    case 'overall_timeout':
      return `timed out after ${duration(run.limits.timeout_ms)}, ${how}`;
    case 'no_output_timeout':
      return `silent for ${duration(run.limits.no_output_timeout_ms)}, ${how}`;
    case 'spawn_error':
      return 'could not be started';
    default:
      return `${visible(exit.reason)}, ${how}`;
  }
}

const plural = (n: number, one: string, many: string) => `${count(n)} ${n === 1 ? one : many}`;

// stateText is the state as a sentence, for what a lamp's word leaves open.
export function stateText(run: Run, counts: RunCounts | null): string {
  if (run.adopted && !isOver(run)) return 'left by a procinsh that is gone; it ends only when it is stopped';
  if (run.state === 'draining') {
    const n = run.members;
    const left = n === null ? 'its children still run' : plural(n, 'child still runs', 'children still run');
    return `command ended (${exitText(run) || UNKNOWN}), ${left}`;
  }
  if (run.waiting_for_input) return 'it seems to wait for input';
  if (isOver(run)) return exitText(run);
  return counts !== null && counts.left > 0 ? `${plural(counts.left, 'process', 'processes')} left over so far` : '';
}

// commandOf is what was launched, as it would be typed.
export function commandOf(run: Run): string {
  if (run.command !== null) return run.command;
  return run.argv.map(shellQuote).join(' ');
}

// nameOf is a run's heading: its command, or its id where nobody knows that any more.
export const nameOf = (run: Run): string => visible(commandOf(run).trim().replace(/\s+/g, ' ') || run.id);

// spanOf is how long a run took or has taken so far, ms; null before it started.
export function spanOf(run: Run, now: number): number | null {
  const from = run.started_at ?? (run.adopted ? run.created_at : null);
  return from === null ? null : Math.max(0, (run.ended_at ?? now) - from);
}

// confidenceLook is how sure it is which processes belong to a run.
export function confidenceLook(confidence: string): Look {
  switch (confidence) {
    case 'high':
      return { word: 'TRACKED BY CGROUP', tone: 'ok', fill: 'on' };
    case 'best_effort':
      return { word: 'BEST EFFORT', tone: 'warn', fill: 'off' };
    default:
      return { word: 'NOT TRACKED', tone: 'bad', fill: 'trouble' };
  }
}

export const portText = (port: RunPort): string =>
  `${port.protocol === 'tcp' ? '' : `${port.protocol} `}${visible(port.address)}:${port.port}`;

// memberID takes a pid-start apart.
export function memberID(id: string): { pid: number; start_time_ticks: number } {
  const [pid, start] = id.split('-');
  return { pid: Number(pid), start_time_ticks: Number(start) };
}

/** SoughtRun is a run as the filter sees it. */
export interface SoughtRun extends Named {
  run: Run;
}

export const soughtRun = (run: Run): SoughtRun => ({
  name: run.id,
  command_line: run.command === null ? run.argv : [run.command],
  run,
});

export const RUN_KEYS: Grammar<SoughtRun> = {
  id: { kind: 'text', texts: (s) => [s.run.id], help: 'id:web' },
  scope: { kind: 'exact', texts: (s) => [s.run.scope], help: 'scope:ci' },
  state: {
    kind: 'exact',
    texts: (s) => [s.run.state, s.run.adopted ? 'adopted' : null],
    help: 'state:running|draining',
  },
  reason: { kind: 'text', texts: (s) => [s.run.exit?.reason ?? null], help: 'reason:timeout' },
  exit: { kind: 'count', number: (s) => s.run.exit?.code ?? null, help: 'exit>0' },
  cmd: { kind: 'text', texts: (s) => [commandOf(s.run)], help: 'cmd:--port' },
  cwd: { kind: 'text', texts: (s) => [s.run.cwd], help: 'cwd:/srv' },
  user: { kind: 'exact', texts: (s) => [s.run.user], help: 'user:root' },
  port: { kind: 'exact', texts: (s) => s.run.ports.map((p) => String(p.port)), help: 'port:8080' },
  age: { kind: 'age', number: (s, now) => Math.max(0, now - s.run.created_at), help: 'age<5m' },
  took: { kind: 'age', number: (s, now) => spanOf(s.run, now), help: 'took>30s' },
  tty: { kind: 'yes', flag: (s) => s.run.pty !== null, help: 'tty:yes' },
};

export interface Branch {
  process: RunProcess;
  // last tells for each level whether no sibling follows: for the lines of the tree.
  last: readonly boolean[];
  endedAt: number | null;
}

// treeOf puts members below their parents, in the order they were seen; one whose parent
// is no member, or is not shown, stands at the top.
export function treeOf(list: readonly { process: RunProcess; endedAt: number | null }[]): Branch[] {
  const here = new Set(list.map((entry) => entry.process.id));
  const children = new Map<string, (typeof list)[number][]>();
  for (const entry of list) {
    const { parent } = entry.process;
    const at = parent !== null && here.has(parent) ? parent : '';
    const siblings = children.get(at);
    if (siblings) siblings.push(entry);
    else children.set(at, [entry]);
  }
  const out: Branch[] = [];
  const seen = new Set<string>();
  const walk = (siblings: readonly (typeof list)[number][], last: readonly boolean[]) => {
    siblings.forEach((entry, i) => {
      if (seen.has(entry.process.id)) return;
      seen.add(entry.process.id);
      const mine = [...last, i === siblings.length - 1];
      out.push({ process: entry.process, last: mine, endedAt: entry.endedAt });
      walk(children.get(entry.process.id) ?? [], mine);
    });
  };
  walk(children.get('') ?? [], []);
  // Parents in a circle reach no top: each is shown all the same.
  for (const entry of list) walk([entry], []);
  return out;
}

// isLeft is what people call left over, as the server counts it.
export const isLeft = (p: RunProcess): boolean =>
  (p.role === 'started' || p.role === 'orphan') && (p.origin === 'background' || p.ports.length > 0);

// Flame graph of the ring of snapshots: the call stacks of all threads merged from the
// root on, or those of one thread in the order they were taken. Pure; flameview draws it.
//
// A unit is one thread in one snapshot. Where a thread stands is counted whether it
// runs or waits, unless those in a system call are left out.

import type { SnapshotAnswer, SnapshotThread } from '../wire.gen';
import { baseName } from './maps';
import { frameRows, pauseText } from './stacks';

export type Order = 'left' | 'time';

export interface Options {
  readonly order: Order;
  readonly tid: number | null; // of 'time'
  readonly onlyRunning: boolean; // threads in a system call are left out
}

// maxFlameDepth rows of a stack are kept; a deeper one ends in "deeper frames left out".
export const maxFlameDepth = 512;
// maxFlameNodes boxes are made; what is over is counted.
export const maxFlameNodes = 50_000;

export interface Node {
  readonly name: string;
  readonly module: string | null;
  readonly source: string | null; // file:line of the first seen
  readonly inlined: boolean;
  readonly depth: number;
  readonly parent: number; // index, -1 for the root
  readonly first: number; // units from the left edge
  total: number; // units
  self: number; // units in which it is the innermost
  readonly children: number[];
}

export interface Flame {
  readonly nodes: readonly Node[]; // by depth, then from the left
  readonly total: number; // units
  readonly depth: number; // rows
  readonly left: number; // boxes over the limit
  readonly samples: number; // snapshots looked at
}

interface Step {
  readonly key: string;
  readonly name: string;
  readonly module: string | null;
  readonly source: string | null;
  readonly inlined: boolean;
}

type Named = Pick<Step, 'name' | 'module' | 'inlined'>;
const keyOf = (step: Named) => `${step.inlined ? 'i' : 'f'}${step.name}\0${step.module ?? ''}`;

// keyed makes a step; one without a place in the code has its name alone.
function keyed(name: string, module: string | null = null, source: string | null = null, inlined = false): Step {
  return { key: keyOf({ name, module, inlined }), name, module, source, inlined };
}

// The stacks of a snapshot are worked out once, however often a graph is made of them.
const known = new WeakMap<SnapshotThread, readonly Step[]>();

// stepsOf is a call stack from the root on, a row for each inlined function.
export function stepsOf(thread: SnapshotThread): readonly Step[] {
  let steps = known.get(thread);
  if (steps === undefined) {
    steps = stepsFrom(thread);
    known.set(thread, steps);
  }
  return steps;
}

function stepsFrom(thread: SnapshotThread): Step[] {
  const steps = frameRows(thread.call_stack)
    .slice(0, maxFlameDepth)
    .map((row): Step => {
      const { module } = row.frame;
      const name =
        row.name ?? (row.inlined ? 'inlined' : module === null ? 'no symbol' : `no symbol in ${baseName(module)}`);
      const source = row.file === null ? null : `${row.file}${row.line === null ? '' : `:${row.line}`}`;
      return keyed(name, module, source, row.inlined);
    });
  const all = thread.call_stack.length;
  if (all > 0 && steps.length === maxFlameDepth) {
    steps.push(keyed('deeper frames left out'));
  }
  if (all === 0) return [keyed(thread.error === null ? 'no frames' : 'not read')];
  return steps.reverse();
}

interface Building {
  step: Step;
  total: number;
  self: number;
  order: number; // of its first unit
  children: Map<string, Building>;
}

const building = (step: Step, order: number): Building => ({ step, total: 0, self: 0, order, children: new Map() });

function wanted(thread: SnapshotThread, options: Options): boolean {
  return !(options.onlyRunning && thread.syscall !== null);
}

// columnOf are the stacks of one snapshot that are looked at. In time order a snapshot
// without the thread has its column all the same.
function columnOf(answer: SnapshotAnswer, options: Options): (readonly Step[])[] {
  const plain = (name: string): Step[][] => [[keyed(name)]];
  if (options.order === 'left') return answer.threads.filter((t) => wanted(t, options)).map(stepsOf);
  const thread = answer.threads.find((t) => t.tid === options.tid);
  if (thread === undefined) return plain('not in this snapshot');
  return wanted(thread, options) ? [stepsOf(thread)] : plain('in a system call');
}

// flameOf builds the graph. 'left' merges all threads of all snapshots and puts the
// widest box of a row first; 'time' has a column for each snapshot, of one thread.
export function flameOf(list: readonly SnapshotAnswer[], options: Options): Flame {
  const root = building(keyed('all'), 0);
  let left = 0;
  let made = 1;
  let units = 0;
  // The chain of the column before, to go on with where 'time' sees the same frame again.
  let open: Building[] = [];
  for (const [column, answer] of list.entries()) {
    for (const steps of columnOf(answer, options)) {
      let at = root;
      root.total++;
      const chain: Building[] = [];
      let same = options.order === 'time' && open.length > 0;
      for (const [depth, step] of steps.entries()) {
        const { key } = step;
        const before = open[depth];
        same &&= before !== undefined && before.step.key === key;
        const id = options.order === 'left' || same ? key : `${column}\0${key}`;
        let next = options.order === 'time' && same ? before : at.children.get(id);
        if (next === undefined) {
          if (made >= maxFlameNodes) {
            left += steps.length - depth;
            break;
          }
          made++;
          next = building(step, units);
          at.children.set(id, next);
        }
        next.total++;
        at = next;
        chain.push(next);
      }
      at.self++;
      units++;
      open = chain;
    }
  }
  return { ...laidOut(root, options.order), total: root.total, left, samples: list.length };
}

// laidOut gives each box its place, row by row.
function laidOut(root: Building, order: Order): { nodes: Node[]; depth: number } {
  const nodes: Node[] = [];
  let row: { from: Building; parent: number; first: number }[] = [{ from: root, parent: -1, first: 0 }];
  let depth = 0;
  for (; row.length > 0; depth++) {
    const next: typeof row = [];
    for (const { from, parent, first } of row) {
      const index = nodes.length;
      const { name, module, source, inlined } = from.step;
      nodes.push({
        name,
        module,
        source,
        inlined,
        depth,
        parent,
        first,
        total: from.total,
        self: from.self,
        children: [],
      });
      if (parent >= 0) nodes[parent]?.children.push(index);
      const children = [...from.children.values()];
      if (order === 'left') {
        children.sort(
          (a, b) => b.total - a.total || (a.step.name < b.step.name ? -1 : a.step.name > b.step.name ? 1 : 0),
        );
        let x = first;
        for (const child of children) {
          next.push({ from: child, parent: index, first: x });
          x += child.total;
        }
      } else {
        for (const child of children.sort((a, b) => a.order - b.order)) {
          next.push({ from: child, parent: index, first: child.order });
        }
      }
    }
    row = next;
  }
  return { nodes, depth };
}

// Total is one function of the table: self and with what it called, each unit once.
export interface FunctionTotal {
  readonly name: string;
  readonly module: string | null;
  self: number;
  total: number;
}

// totalsOf sums by function; recursion counts a unit once.
export function totalsOf(flame: Flame): FunctionTotal[] {
  const sums = new Map<string, FunctionTotal>();
  const key = (node: Node) => `${node.name}\0${node.module ?? ''}`;
  flame.nodes.forEach((node) => {
    if (node.parent < 0) return;
    const sum = sums.get(key(node)) ?? { name: node.name, module: node.module, self: 0, total: 0 };
    sum.self += node.self;
    let above = node.parent;
    while (above >= 0 && key(flame.nodes[above] as Node) !== key(node)) above = flame.nodes[above]?.parent ?? -1;
    if (above < 0) sum.total += node.total;
    sums.set(key(node), sum);
  });
  return [...sums.values()].sort((a, b) => b.self - a.self || b.total - a.total || (a.name < b.name ? -1 : 1));
}

// foundUnits is how many units have a matching box, each counted once.
export function foundUnits(flame: Flame, hit: ReadonlySet<number>): number {
  let sum = 0;
  for (const index of hit) {
    let above = flame.nodes[index]?.parent ?? -1;
    while (above >= 0 && !hit.has(above)) above = flame.nodes[above]?.parent ?? -1;
    if (above < 0) sum += flame.nodes[index]?.total ?? 0;
  }
  return sum;
}

// pathOf names a box by its names from the root on; findPath finds it again in another
// graph, -1 when it is not there. A box stays chosen while new snapshots come.
export function pathOf(flame: Flame, index: number): string[] {
  const path: string[] = [];
  for (let at = index; at > 0; at = flame.nodes[at]?.parent ?? -1) path.push(keyOf(flame.nodes[at] as Node));
  return path.reverse();
}

export function findPath(flame: Flame, path: readonly string[]): number {
  let at = flame.nodes.length > 0 ? 0 : -1;
  for (const key of path) {
    at = flame.nodes[at]?.children.find((i) => keyOf(flame.nodes[i] as Node) === key) ?? -1;
    if (at < 0) return -1;
  }
  return at;
}

// Step of the keyboard: to the widest callee, the caller, or the neighbour in its row.
export function stepTo(flame: Flame, at: number, key: string): number {
  const node = flame.nodes[at];
  if (node === undefined) return 0;
  const widest = () =>
    node.children.reduce((best, i) => ((flame.nodes[i]?.total ?? 0) > (flame.nodes[best]?.total ?? -1) ? i : best), -1);
  const beside = (by: 1 | -1) => (flame.nodes[at + by]?.depth === node.depth ? at + by : at);
  switch (key) {
    case 'ArrowDown': {
      const next = widest();
      return next < 0 ? at : next;
    }
    case 'ArrowUp':
      return Math.max(0, node.parent);
    case 'ArrowLeft':
      return beside(-1);
    case 'ArrowRight':
      return beside(1);
    case 'Home':
      return 0;
    default:
      return at;
  }
}

// nodeAt finds the box of a row that holds a place from the left edge, in units; -1 for none.
export function nodeAt(flame: Flame, depth: number, units: number): number {
  let low = 0;
  let high = flame.nodes.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const node = flame.nodes[middle] as Node;
    if (node.depth < depth || (node.depth === depth && node.first + node.total <= units)) low = middle + 1;
    else if (node.depth > depth || node.first > units) high = middle - 1;
    else return middle;
  }
  return -1;
}

// median of a list that is not empty.
function median(list: readonly number[]): number {
  const sorted = [...list].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] as number;
}

// paceText says how often snapshots were taken: "1/s", "1 every 12 s", or by hand.
export function paceText(list: readonly SnapshotAnswer[]): string {
  const between = list.slice(1).map((answer, i) => answer.captured_at - (list[i]?.captured_at ?? 0));
  if (between.length === 0) return '';
  const middle = median(between);
  if (between.some((ms) => ms > middle * 2 || ms < middle / 2)) return 'at uneven times';
  const seconds = middle / 1000;
  return seconds < 1.5 ? '1/s' : `1 every ${Math.round(seconds)} s`;
}

// headText is what every flame graph says first: how many samples, how often, at what cost.
export function headText(list: readonly SnapshotAnswer[]): string {
  const n = list.length;
  const paused = list.map((answer) => answer.paused_ms);
  if (n === 0) return 'no samples';
  const sum = paused.reduce((all, ms) => all + ms, 0);
  if (n === 1) return `1 sample, it stopped the target ${pauseText(sum)}`;
  const middle = median(paused);
  const longest = Math.max(...paused);
  const one = `${pauseText(middle)}${longest > 2 * middle ? `, at most ${pauseText(longest)}` : ''}`;
  return `${n} samples, ${paceText(list)}, each stopped the target ${one}, ${pauseText(sum)} in all`;
}

// foldedText is the graph as folded stacks, the form other flame graph tools read.
export function foldedText(list: readonly SnapshotAnswer[], options: Options): string {
  const sums = new Map<string, number>();
  for (const answer of list) {
    for (const thread of answer.threads) {
      if (!wanted(thread, options) || (options.order === 'time' && thread.tid !== options.tid)) continue;
      const line = stepsOf(thread)
        .map((step) => step.name.replaceAll(/[;\n\r]/g, ' '))
        .join(';');
      sums.set(line, (sums.get(line) ?? 0) + 1);
    }
  }
  return [...sums].map(([line, n]) => `${line} ${n}\n`).join('');
}

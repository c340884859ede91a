// The order of the list: sorted, filtered, flat or as a tree. Pure.
//
// A refresh moves few rows, so the sorted array is kept: what changed is taken out,
// sorted alone and merged back. The tree needs no sort of its own: rows linked to
// their parents in sorted order are sorted siblings.

import type { Row, Sums } from './deltas';
import type { Filter } from './filter';

export interface OrderOptions {
  // sortKey gives a number or a lower-case text; an unknown number sorts last both ways.
  sortKey: (row: Row) => number | string;
  descending: boolean;
  tree: boolean;
  kernel: boolean; // kernel threads too
  filter: Filter;
  descendants: boolean; // in the tree, also what is below a match
  collapsed: (row: Row) => boolean;
  pinned: Row | null; // never hidden by the filter
  locked: boolean; // values change, places do not
  now: number;
}

export class Order {
  // rows is the result, in the order of the screen.
  rows: Row[] = [];
  matches = 0; // rows the filter lets through
  total = 0; // rows it was asked about
  kernelHidden = 0;

  private sorted: Row[] = [];
  private generation = 0;
  private membership = 0; // changes with the set of rows
  private withKernel = false;

  // update makes the result anew. With fresh, everything is taken from all and sorted
  // again: after a change of column, of direction, or of the list itself.
  update(all: Iterable<Row>, added: readonly Row[], fresh: boolean, options: OrderOptions): void {
    if (fresh || added.length > 0 || options.kernel !== this.withKernel) this.membership++;
    this.withKernel = options.kernel;
    if (fresh) {
      for (const row of this.sorted) row.listed = false;
      this.sorted = [...all];
      for (const row of this.sorted) {
        row.listed = true;
        row.moved = false;
        row.late = false;
        row.sortKey = this.key(row, options);
      }
      this.sorted.sort(comparator(options.descending));
    } else {
      this.merge(added, options);
    }
    this.arrange(options);
    // A collapsed row sorts by its sum, which is known only now.
    if (options.tree && this.sum(options) && !options.locked) {
      this.merge([], options);
      this.arrange(options);
      this.sum(options);
    }
  }

  private key(row: Row, options: OrderOptions): number | string {
    return options.sortKey(row);
  }

  // scratch is the array the next merge fills: two are used in turn.
  private scratch: Row[] = [];

  private merge(added: readonly Row[], options: OrderOptions): void {
    const compare = comparator(options.descending);
    const { locked } = options;
    const sorted = this.sorted;
    const moved: Row[] = [];
    let kept = 0;
    for (let i = 0; i < sorted.length; i++) {
      const row = sorted[i] as Row;
      if (!row.listed) continue; // dropped
      if (row.moved && !locked) {
        row.moved = false;
        const key = this.key(row, options);
        if (key !== row.sortKey || row.late) {
          row.late = false;
          row.sortKey = key;
          moved.push(row);
          continue;
        }
      }
      sorted[kept++] = row;
    }
    sorted.length = kept;
    for (const row of added) {
      // It may have come and gone between two frames.
      if (row.listed || row.dropped) continue;
      row.listed = true;
      row.moved = locked;
      row.late = locked;
      row.sortKey = this.key(row, options);
      if (locked) sorted.push(row);
      else moved.push(row);
    }
    if (moved.length === 0) return;
    moved.sort(compare);
    const out = this.scratch;
    out.length = 0;
    let i = 0;
    for (const row of moved) {
      while (i < kept && compare(sorted[i] as Row, row) <= 0) out.push(sorted[i++] as Row);
      out.push(row);
    }
    while (i < kept) out.push(sorted[i++] as Row);
    this.sorted = out;
    this.scratch = sorted;
  }

  private arrange(options: OrderOptions): void {
    const generation = ++this.generation;
    const test = options.filter.test;
    const { pinned, kernel, now } = options;
    this.matches = 0;
    this.total = 0;
    this.kernelHidden = 0;
    const rows: Row[] = [];
    for (const row of this.sorted) {
      row.firstChild = null;
      row.lastChild = null;
      row.next = null;
      row.parent = null;
      row.depth = 0;
      row.pinned = false;
      row.under = false;
      if (row.summary.kernel_thread && !kernel) {
        this.kernelHidden++;
        row.match = false;
        if (row !== pinned) continue;
      } else {
        this.total++;
        row.match = test === null || test(row, now);
        if (row.match) this.matches++;
      }
      if (!row.match && row === pinned) row.pinned = true;
      if (options.tree) {
        row.keep = row.match || row.pinned ? generation : 0;
        row.seen = generation;
        rows.push(row);
      } else if (row.match || row.pinned) {
        row.shown = generation;
        rows.push(row);
      }
    }
    this.rows = options.tree ? this.link(rows, generation, options) : rows;
  }

  private link(rows: Row[], generation: number, options: OrderOptions): Row[] {
    let byPid: Map<number, Row> | null = null;
    let firstRoot: Row | null = null;
    let lastRoot: Row | null = null;
    for (let i = 0; i < rows.length; i++) {
      const row = rows[i] as Row;
      const id = row.summary.parent_id;
      let parent: Row | null = null;
      if (id !== null) {
        // Parents seldom change: the one of the last time is looked at first.
        const last = row.up;
        if (last !== null && last.seen === generation && last.pid === id.pid && last.start === id.start_time_ticks) {
          parent = last;
        } else if (row.orphan !== this.membership) {
          byPid ??= index(rows);
          const found = byPid.get(id.pid);
          if (found && found !== row && found.start === id.start_time_ticks) parent = found;
          else row.orphan = this.membership;
          row.up = parent;
        }
      }
      if (parent !== null) {
        row.parent = parent;
        if (parent.lastChild) parent.lastChild.next = row;
        else parent.firstChild = row;
        parent.lastChild = row;
      } else {
        if (lastRoot) lastRoot.next = row;
        else firstRoot = row;
        lastRoot = row;
      }
    }
    // Rows in a circle of parents have no root above them. It should not be, but what a
    // target does must neither hide it nor hang the page: the circle is opened.
    let path = generation * 1e6;
    for (let i = 0; i < rows.length; i++) {
      path++;
      let row: Row | null = rows[i] as Row;
      while (row !== null && row.path < generation * 1e6) {
        row.path = path;
        row = row.parent;
      }
      if (row === null || row.path !== path) continue;
      detach(row);
      if (lastRoot) lastRoot.next = row;
      else firstRoot = row;
      lastRoot = row;
    }
    // Ancestors of what is kept are kept, dimmed.
    if (options.filter.test !== null || options.pinned !== null) {
      for (const row of rows) {
        if (row.keep !== generation) continue;
        for (let up = row.parent; up && up.keep !== generation; up = up.parent) up.keep = generation;
      }
    }
    const out: Row[] = [];
    this.walk(firstRoot, generation, options, out);
    return out;
  }

  private walk(first: Row | null, generation: number, options: OrderOptions, out: Row[]): void {
    let row = first;
    while (row) {
      row.under =
        options.descendants && row.parent !== null && (row.parent.under || (row.parent.match && row.parent.gone === 0));
      if (options.filter.test === null) row.under = false;
      let down: Row | null = null;
      if (row.keep === generation || row.under) {
        row.shown = generation;
        row.depth = row.parent ? row.parent.depth + 1 : 0;
        out.push(row);
        if (row.firstChild && !options.collapsed(row)) down = row.firstChild;
      }
      if (down) {
        row = down;
        continue;
      }
      while (row && !row.next) row = row.parent;
      row = row ? row.next : null;
    }
  }

  // sum adds up the collapsed rows on screen and says whether one must move for it.
  private sum(options: OrderOptions): boolean {
    let move = false;
    for (const row of this.rows) {
      if (row.firstChild === null || !options.collapsed(row)) {
        if (row.sums) {
          row.sums = null;
          row.moved = true;
          move = true;
        }
        continue;
      }
      row.sums = sumTree(row);
      const key = this.key(row, options);
      if (key !== row.sortKey) {
        row.moved = true;
        move = true;
      }
    }
    return move;
  }

  // hasNextShown says whether a sibling below row is in the result (│ or a blank).
  hasNextShown(row: Row): boolean {
    for (let next = row.next; next; next = next.next) if (next.shown === this.generation) return true;
    return false;
  }

  shows(row: Row): boolean {
    return row.shown === this.generation;
  }
}

// detach takes a row from its parent's children.
function detach(row: Row): void {
  const parent = row.parent as Row;
  let before: Row | null = null;
  for (let child = parent.firstChild; child && child !== row; child = child.next) before = child;
  if (before) before.next = row.next;
  else parent.firstChild = row.next;
  if (parent.lastChild === row) parent.lastChild = before;
  row.parent = null;
  row.next = null;
}

// index finds rows by pid. A row that ended is found only where no running one has its pid.
function index(rows: readonly Row[]): Map<number, Row> {
  const byPid = new Map<number, Row>();
  for (const row of rows) if (row.gone === 0 || !byPid.has(row.pid)) byPid.set(row.pid, row);
  return byPid;
}

function comparator(descending: boolean): (a: Row, b: Row) => number {
  const sign = descending ? -1 : 1;
  return (a, b) => {
    const x = a.sortKey;
    const y = b.sortKey;
    if (x !== y) {
      if (typeof x === 'number' && typeof y === 'number') {
        // NaN is unknown, and last in both directions.
        if (Number.isNaN(x)) {
          if (!Number.isNaN(y)) return 1;
        } else if (Number.isNaN(y)) return -1;
        else return x < y ? -sign : sign;
      } else return x < y ? -sign : sign;
    }
    return a.pid - b.pid || a.start - b.start;
  };
}

// sumTree adds a row and everything below it. RSS counts shared pages once a process.
export function sumTree(top: Row): Sums {
  const sums: Sums = { processes: 0, cpu: null, cpuUnknown: 0, rss: 0, vms: 0, threads: 0, read: null, write: null };
  let row: Row | null = top;
  while (row) {
    if (row.gone === 0) {
      const s = row.summary;
      sums.processes++;
      if (s.cpu_percent === null) sums.cpuUnknown++;
      else sums.cpu = (sums.cpu ?? 0) + s.cpu_percent;
      if (s.read_bytes_rate !== null) sums.read = (sums.read ?? 0) + s.read_bytes_rate;
      if (s.write_bytes_rate !== null) sums.write = (sums.write ?? 0) + s.write_bytes_rate;
      sums.rss += s.rss_bytes;
      sums.vms += s.vms_bytes;
      sums.threads += s.thread_count;
    }
    if (row.firstChild) {
      row = row.firstChild;
      continue;
    }
    while (row && row !== top && !row.next) row = row.parent;
    row = row === top || !row ? null : row.next;
  }
  return sums;
}

// Stacks as the page shows them: threads with equal stacks together, frames with
// what was inlined in them as rows of their own, and both as text. Pure.

import { clockMs, count, stateName } from '../format';
import type { Frame, SnapshotAnswer, SnapshotThread, StacksAnswer, StackThread, SystemCall } from '../wire.gen';
import { baseName } from './maps';

export interface StackGroup {
  readonly key: string;
  readonly threads: readonly StackThread[]; // by TID; equal in all but name, TID and arguments
  readonly first: StackThread;
  readonly sameArguments: boolean;
}

function keyOf(thread: StackThread): string {
  return JSON.stringify([
    thread.state,
    thread.syscall?.number ?? null,
    thread.wait_channel,
    thread.call_stack?.map((frame) => [frame.address, frame.unwound_by]) ?? null,
    thread.kernel_stack,
    thread.stable,
    thread.unwind_stop,
    thread.frames_may_be_missing,
    thread.error,
  ]);
}

// groupStacks puts threads together that stand in the same place for the same
// reason. Groups are in the order of their lowest TID, so that a refresh moves
// only what changed.
export function groupStacks(threads: readonly StackThread[]): StackGroup[] {
  const groups = new Map<string, StackThread[]>();
  for (const thread of [...threads].sort((a, b) => a.tid - b.tid)) {
    const key = keyOf(thread);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [thread]);
    else group.push(thread);
  }
  return [...groups].map(([key, list]) => {
    const first = list[0] as StackThread;
    const wanted = first.syscall?.arguments.join();
    return { key, threads: list, first, sameArguments: list.every((t) => t.syscall?.arguments.join() === wanted) };
  });
}

// callText is a system call as it would be written: "futex(0x7f3c…, 0x189, 0x0, …)".
export function callText(call: SystemCall): string {
  const list = call.arguments.map((argument) => argument.replace(/^0x0+(?=[0-9a-f])/, '0x'));
  return `${call.name ?? `call ${call.number}`}(${list.join(', ')})`;
}

// One row of a call stack. A frame with inlined functions has a row for each, the
// innermost first; only its last row is the function that the processor called.
export interface FrameRow {
  readonly frame: Frame;
  readonly depth: number; // of the frame, from 0
  readonly inlined: boolean;
  readonly name: string | null;
  readonly file: string | null;
  readonly line: number | null;
}

export function frameRows(stack: readonly Frame[]): FrameRow[] {
  return stack.flatMap((frame, depth): FrameRow[] => {
    const { inline_frames: inline } = frame;
    if (inline.length === 0) {
      return [{ frame, depth, inlined: false, name: frame.symbol, file: frame.source_file, line: frame.line }];
    }
    return inline.map((one, i) => {
      const last = i === inline.length - 1;
      return {
        frame,
        depth,
        inlined: !last,
        name: one.function ?? (last ? frame.symbol : null),
        file: one.file,
        line: one.line,
      };
    });
  });
}

const HOW: Readonly<Record<string, string>> = {
  cfi: '',
  registers: 'registers',
  frame_pointer: 'frame pointer',
  signal_frame: 'signal frame',
};

// howFound says how a frame was found, '' for call frame information, the usual way.
export function howFound(frame: Frame): string {
  return HOW[frame.unwound_by] ?? frame.unwound_by.replaceAll('_', ' ');
}

export function sourceText(file: string | null, line: number | null): string {
  if (file === null) return '';
  return line === null ? baseName(file) : `${baseName(file)}:${line}`;
}

// maxTextFrames of a thread are searched by the filter.
const maxTextFrames = 256;

// searchText is what the filter looks at.
export function searchText(group: StackGroup): string {
  const { first } = group;
  const names = frameRows(first.call_stack?.slice(0, maxTextFrames) ?? []).map(
    (row) => `${row.name ?? ''} ${row.file ?? ''} ${row.frame.module ?? ''}`,
  );
  const threads = group.threads.map((t) => `${t.tid} ${t.name}`);
  return [
    ...threads,
    stateName(first.state),
    first.syscall?.name ?? '',
    first.wait_channel ?? '',
    ...(first.kernel_stack ?? []),
    ...names,
  ].join(' ');
}

function frameLines(stack: readonly Frame[]): string[] {
  return frameRows(stack).map((row) => {
    const { frame } = row;
    const head = row.inlined ? `#${row.depth}  inlined            ` : `#${row.depth}  ${frame.address}`;
    const offset = row.inlined || frame.symbol_offset === null ? '' : `+${frame.symbol_offset}`;
    const name = row.name === null ? '??' : `${row.name}${offset}${!row.inlined && frame.guess ? ' (guess)' : ''}`;
    const source = row.file === null ? '' : ` at ${row.file}${row.line === null ? '' : `:${row.line}`}`;
    const module = frame.module === null || row.inlined ? '' : ` in ${frame.module}`;
    const how = row.inlined ? '' : howFound(frame);
    return `${head} ${name}${source}${module}${how === '' ? '' : ` [${how}]`}`;
  });
}

function ends(thread: { unwind_stop: string | null; frames_may_be_missing: boolean; error: string | null }): string[] {
  return [
    ...(thread.frames_may_be_missing ? ['frames may be missing'] : []),
    ...(thread.unwind_stop === null ? [] : [`the walk ended: ${thread.unwind_stop}`]),
    ...(thread.error === null ? [] : [`error: ${thread.error}`]),
  ];
}

// stacksText is the answer as text, one paragraph a group.
export function stacksText(answer: StacksAnswer): string {
  const { pid } = answer.process_id;
  const head = `pid ${pid}, ${count(answer.threads.length)} threads at ${clockMs(answer.captured_at)}, stopped nothing`;
  const groups = groupStacks(answer.threads).map((group) => {
    const { first, threads } = group;
    const names = threads.map((t) => {
      const own = group.sameArguments || t.syscall === null ? '' : ` ${callText(t.syscall)}`;
      return `${t.tid} ${t.name}${own}`;
    });
    const call = first.syscall !== null && group.sameArguments ? `, ${callText(first.syscall)}` : '';
    const wait = first.wait_channel === null ? '' : `, waits in ${first.wait_channel}`;
    const stack = first.call_stack === null ? ['no stack without a stop'] : frameLines(first.call_stack);
    return [
      ...names,
      `${first.state} ${stateName(first.state)}${call}${wait}${first.stable ? '' : ', it moved'}`,
      ...stack,
      ...ends(first),
      ...(first.kernel_stack ?? []).map((line) => `kernel ${line}`),
    ].join('\n');
  });
  return `${[head, ...answer.warnings.map((text) => `warning: ${text}`), ...groups.map((g) => `\n${g}`)].join('\n')}\n`;
}

function registerLines(thread: SnapshotThread): string[] {
  return thread.registers.map((r) => {
    const where = r.mapping === null ? r.decimal : `${r.mapping}${r.offset === null ? '' : `+${r.offset}`}`;
    return `${r.name.toLowerCase().padEnd(14)} ${r.value}  ${where}`;
  });
}

// threadText is one thread of a snapshot: registers as gdb prints them, stack and code.
export function threadText(thread: SnapshotThread): string {
  const code = thread.disassembly?.instructions.map((i) => `${i.current ? '=> ' : '   '}${i.address}  ${i.text}`) ?? [];
  return `${[
    `${thread.tid} ${thread.name}${thread.syscall === null ? '' : `, stands in ${thread.syscall}`}`,
    ...registerLines(thread),
    ...frameLines(thread.call_stack),
    ...ends(thread),
    ...code,
  ].join('\n')}\n`;
}

// snapshotText is a whole snapshot as text, without the code of each thread.
export function snapshotText(answer: SnapshotAnswer): string {
  const head = `pid ${answer.process_id.pid} at ${clockMs(answer.captured_at)}, ${costText(answer)}`;
  const threads = answer.threads.map(
    (t) =>
      `\n${[
        `${t.tid} ${t.name}${t.syscall === null ? '' : `, stands in ${t.syscall}`}`,
        ...frameLines(t.call_stack),
        ...ends(t),
      ].join('\n')}`,
  );
  const missed = answer.not_stopped.map((t) => `not stopped: ${t.tid}: ${t.reason}`);
  return `${[head, ...answer.warnings.map((text) => `warning: ${text}`), ...missed, ...threads].join('\n')}\n`;
}

// costText says what a snapshot did to its target: "stopped 6 threads for 1.8 ms".
export function costText(answer: SnapshotAnswer): string {
  const { stopped_threads: n } = answer.cost;
  return `stopped ${count(n)} ${n === 1 ? 'thread' : 'threads'} for ${pauseText(answer.paused_ms)}`;
}

export function pauseText(ms: number): string {
  if (ms < 0.995) return `${Math.round(ms * 1000)} µs`;
  return ms < 99.95 ? `${ms.toFixed(1)} ms` : `${count(Math.round(ms))} ms`;
}

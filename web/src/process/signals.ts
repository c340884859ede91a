// The signal sets of a process as rows: only signals that are anything but
// default. Pure.

import type { SignalMask, SignalState, SignalsAnswer } from '../wire.gen';

export const SETS = ['pending', 'shared_pending', 'blocked', 'ignored', 'caught'] as const;
export type SignalSet = (typeof SETS)[number];

export const SET_LETTER: Readonly<Record<SignalSet, string>> = {
  pending: 'P',
  shared_pending: 'S',
  blocked: 'B',
  ignored: 'I',
  caught: 'C',
};

export const SET_NAME: Readonly<Record<SignalSet, string>> = {
  pending: 'pending for the thread',
  shared_pending: 'pending for the process',
  blocked: 'blocked',
  ignored: 'ignored',
  caught: 'caught',
};

export interface SignalRow {
  readonly number: number;
  readonly name: string;
  // In how many threads the signal is in each set.
  readonly counts: Readonly<Record<SignalSet, number>>;
  readonly threads: readonly SignalState[]; // those with the signal in any set
}

// signalNumber reads the number at the end of "SIGUSR1 [10]"; 0 when there is none.
export function signalNumber(text: string): number {
  const found = /\[(\d{1,2})\]$/.exec(text);
  return found === null ? 0 : Number(found[1]);
}

// signalName is the text without its number.
export function signalName(text: string): string {
  return text.replace(/\s*\[\d+\]$/, '');
}

const has = (mask: SignalMask, signal: number): boolean =>
  !!((BigInt(`0x${mask.hex.replace(/^0x/, '') || '0'}`) >> BigInt(signal - 1)) & 1n);

// inSet says whether a thread has the signal in the set.
export function inSet(state: SignalState, set: SignalSet, signal: number): boolean {
  return has(state[set], signal);
}

// statesOf are the threads to look at: all of them, or the leader alone when no thread could be read.
export function statesOf(answer: SignalsAnswer): readonly SignalState[] {
  if (answer.threads.length > 0) return answer.threads;
  return answer.leader === null ? [] : [answer.leader];
}

// signalRows are the signals in any set of any thread, by number.
export function signalRows(states: readonly SignalState[]): SignalRow[] {
  const names = new Map<number, string>();
  for (const state of states) {
    for (const set of SETS) {
      for (const text of state[set].signals) {
        const number = signalNumber(text);
        if (number > 0) names.set(number, signalName(text));
      }
    }
  }
  return [...names]
    .sort((a, b) => a[0] - b[0])
    .map(([number, name]) => {
      const counts = { pending: 0, shared_pending: 0, blocked: 0, ignored: 0, caught: 0 };
      const threads = states.filter((state) => {
        let any = false;
        for (const set of SETS) {
          if (!inSet(state, set, number)) continue;
          counts[set]++;
          any = true;
        }
        return any;
      });
      return { number, name, counts, threads };
    });
}

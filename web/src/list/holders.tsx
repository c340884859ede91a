// Who holds what the filter names: asked once the filter has stood for a moment, and
// again every 10 s for as long as it does and somebody looks.

import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { keyOf } from '../deltas';
import { clock, visible } from '../format';
import { getJSON, HTTPError, Latest, reasonOf } from '../http';
import { store } from '../store';
import type { HoldersAnswer } from '../wire.gen';
import * as view from './state';

const TYPING_MS = 300;
const AGAIN_MS = 10_000;

interface State {
  at: number; // of the answer that is shown, 0 before the first
  warnings: readonly string[];
  error: string | null; // of what was asked last
}

const states = signal<ReadonlyMap<string, State>>(new Map());

const NONE: State = { at: 0, warnings: [], error: null };

function put(term: string, change: Partial<State>): void {
  states.value = new Map(states.peek()).set(term, { ...(states.peek().get(term) ?? NONE), ...change });
}

// Question asks for one term, such as "port:80".
class Question {
  private readonly latest = new Latest();
  private timer = 0;

  constructor(readonly term: string) {
    this.later(TYPING_MS);
  }

  private later(ms: number): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.ask(), ms);
  }

  async ask(): Promise<void> {
    const { term } = this;
    clearTimeout(this.timer);
    const away = document.visibilityState === 'hidden' || store.frame.peek().kind !== 'live';
    if (away && view.holders.peek().has(term)) {
      this.later(AGAIN_MS);
      return;
    }
    const at = term.indexOf(':');
    const name = term.slice(0, at) === 'file' ? 'path' : term.slice(0, at);
    try {
      const answer = await this.latest.run((signal) =>
        getJSON<HoldersAnswer>('/api/processes/holders', { params: { [name]: term.slice(at + 1) }, signal }),
      );
      if (!answer) return;
      put(term, { at: answer.captured_at, warnings: answer.warnings, error: null });
      const found = new Set(answer.holders.map((holder) => keyOf(holder.process_id)));
      view.holders.value = new Map(view.holders.peek()).set(term, found);
      this.later(AGAIN_MS);
    } catch (cause) {
      put(term, { error: reasonOf(cause) });
      if (!(cause instanceof HTTPError) || !cause.final) {
        const wait = cause instanceof HTTPError && cause.retryAfter !== null ? cause.retryAfter * 1000 : AGAIN_MS;
        this.later(wait);
      }
    }
  }

  retry(): void {
    put(this.term, { error: null });
    void this.ask();
  }

  close(): void {
    clearTimeout(this.timer);
    this.latest.cancel();
  }
}

const questions = new Map<string, Question>();

// follow asks for these terms and forgets all others.
function follow(terms: readonly string[]): void {
  for (const [term, question] of questions) {
    if (terms.includes(term)) continue;
    question.close();
    questions.delete(term);
  }
  const kept = <V,>(map: ReadonlyMap<string, V>) => new Map([...map].filter(([term]) => terms.includes(term)));
  if ([...states.peek().keys()].some((term) => !terms.includes(term))) states.value = kept(states.peek());
  if ([...view.holders.peek().keys()].some((term) => !terms.includes(term))) {
    view.holders.value = kept(view.holders.peek());
  }
  for (const term of terms) if (!questions.has(term)) questions.set(term, new Question(term));
}

function rest(): void {
  for (const question of questions.values()) question.close();
  questions.clear();
}

export function HoldersNote() {
  const asked = view.asked.value;
  useEffect(() => follow(asked), [asked]);
  // What was answered stays for whoever comes back to the list.
  useEffect(() => rest, []);
  const looking = asked.filter((term) => !view.holders.value.has(term) && !states.value.get(term)?.error);
  return (
    <>
      {looking.length > 0 && (
        <div class="note" role="status">
          <span class="note-text">Looking for who holds {looking.map(visible).join(', ')}…</span>
        </div>
      )}
      {asked.map((term) => {
        const { at, warnings, error } = states.value.get(term) ?? NONE;
        if (error !== null) {
          return (
            <div class="note note-bad" role="alert" key={term}>
              <span class="note-text">
                {visible(term)}: {error} {at > 0 ? `Showing who held it at ${clock(at)}.` : 'Nobody is shown for it.'}
              </span>
              <button type="button" class="button" onClick={() => questions.get(term)?.retry()}>
                Retry
              </button>
            </div>
          );
        }
        if (warnings.length === 0) return null;
        return (
          <div class="note note-warn" key={term}>
            <span class="note-text">
              {visible(term)}: {warnings.map(visible).join('; ')}.
            </span>
          </div>
        );
      })}
    </>
  );
}

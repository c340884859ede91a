// The filter line: whole key terms become chips, the rest is an input. Backspace at
// the start of the input opens the last chip.

import { type Signal, signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { type AnyGrammar, parseFilter, split } from './filter';
import { visible } from './format';
import { lazy } from './lazy';

// Filtered is the page that has the line: one at a time.
export interface Filtered {
  query: Signal<string>;
  open: Signal<boolean>; // narrow: the filter has its own row
  keys: AnyGrammar;
  example: string; // placeholder of the empty line
  enter?: () => void; // Enter in the line, after what was typed is taken
}

let page: Filtered | null = null;

const typed = signal('');
const chips = signal<readonly string[]>([]);
const focused = signal(false);

// joined is the query as chips and input stand.
const joined = () => [...chips.peek(), typed.peek()].filter((part) => part.trim() !== '').join(' ');

// take splits a whole query into chips and the words between and after them.
function take(text: string): void {
  const parts = parseFilter(text, page?.keys).terms;
  chips.value = parts.filter((t) => t.chip).map((t) => t.text);
  typed.value = parts
    .filter((t) => !t.chip)
    .map((t) => t.text)
    .join(' ');
}

const input = { element: null as HTMLInputElement | null };

export function focusFilter(): void {
  if (page) page.open.value = true;
  // On narrow screens the field is there only after the next paint.
  requestAnimationFrame(() => {
    input.element?.focus();
    input.element?.select();
  });
}

export function filterFocused(): boolean {
  return document.activeElement === input.element && input.element !== null;
}

export function setQuery(text: string): void {
  take(text);
  if (page) page.query.value = joined();
}

// settle makes chips of the whole key terms in the input; the last one only when it
// is finished, by a blank or by leaving.
function settle(text: string, all: boolean): void {
  const keep: string[] = [];
  const made: string[] = [];
  const parts = split(text);
  parts.forEach((part, i) => {
    // A blank between quotes ends nothing.
    const finished = all || i < parts.length - 1 || (/\s$/.test(text) && part.text.split('"').length % 2 === 1);
    const term = parseFilter(part.text, page?.keys).terms[0];
    if (finished && term?.chip) made.push(part.text);
    else keep.push(part.text);
  });
  if (made.length > 0) {
    chips.value = [...chips.value, ...made];
    typed.value = keep.join(' ');
  } else typed.value = text;
  if (page) page.query.value = joined();
}

function openChip(index: number): void {
  const text = chips.value[index];
  if (text === undefined) return;
  chips.value = chips.value.filter((_, i) => i !== index);
  typed.value = [typed.value.trim(), text].filter(Boolean).join(' ');
  if (page) page.query.value = joined();
  input.element?.focus();
}

function onKey(event: KeyboardEvent): void {
  const field = event.currentTarget as HTMLInputElement;
  if (event.key === 'Backspace' && field.selectionStart === 0 && field.selectionEnd === 0 && chips.value.length > 0) {
    event.preventDefault();
    const last = chips.value.at(-1) as string;
    chips.value = chips.value.slice(0, -1);
    const rest = typed.value;
    typed.value = rest ? `${last} ${rest}` : last;
    if (page) page.query.value = joined();
    requestAnimationFrame(() => field.setSelectionRange(last.length, last.length));
  } else if (event.key === 'Enter') {
    settle(field.value, true);
    page?.enter?.();
  } else if (event.key === 'Escape') {
    event.preventDefault();
    event.stopPropagation();
    if (joined() !== '') setQuery('');
    else {
      if (page) page.open.value = false;
      field.blur();
      document.querySelector<HTMLElement>('.row[tabindex="0"]')?.focus();
    }
  } else if (event.key === 'ArrowDown') {
    event.preventDefault();
    settle(field.value, true);
    document.querySelector<HTMLElement>('.row[tabindex="0"]')?.focus();
  }
}

const Wrong = lazy(async () => (await import('./filterhelp')).Wrong);
const Help = lazy(async () => (await import('./filterhelp')).Help);

export function FilterLine(props: { page: Filtered }) {
  const { query, open, keys, example } = props.page;
  const element = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const mine = props.page;
    page = mine;
    input.element = element.current;
    take(query.peek());
    return () => {
      if (page !== mine) return;
      page = null;
      input.element = null;
    };
  }, []);
  // A query set from elsewhere (a link, "Nearest") is taken over.
  useEffect(() => {
    if (query.value !== joined()) take(query.value);
  }, [query.value]);
  const wrong = parseFilter(typed.value, keys).terms.filter((term) => term.error !== null);
  // While the last term is being typed it is not yet wrong, unless its key is.
  const shown = wrong.filter(
    (term) =>
      !focused.value ||
      term.to < typed.value.length ||
      (term.key !== null && !Object.hasOwn(keys, term.key)) ||
      !/needs/.test(term.error ?? ''),
  );
  return (
    <div class={`filter${open.value ? ' filter-open' : ''}`} role="search">
      <div class={`filter-box${shown.length ? ' filter-box-bad' : ''}`}>
        <span class="filter-slash" aria-hidden="true">
          /
        </span>
        {chips.value.map((chip, i) => (
          <button type="button" class="chip" key={chip + String(i)} title="Edit" onClick={() => openChip(i)}>
            {visible(chip)}
          </button>
        ))}
        <input
          ref={element}
          class="filter-input"
          type="text"
          spellcheck={false}
          autocomplete="off"
          autocapitalize="off"
          aria-label="Filter"
          aria-keyshortcuts="/"
          aria-describedby={focused.value || shown.length ? 'filter-help' : undefined}
          aria-invalid={shown.length > 0}
          placeholder={chips.value.length ? '' : example}
          value={typed.value}
          onInput={(event) => settle(event.currentTarget.value, false)}
          onKeyDown={onKey}
          onFocus={() => {
            focused.value = true;
          }}
          onBlur={(event) => {
            focused.value = false;
            settle(event.currentTarget.value, true);
          }}
        />
        {(chips.value.length > 0 || typed.value !== '') && (
          <button
            type="button"
            class="filter-clear"
            onClick={() => {
              setQuery('');
              element.current?.focus();
            }}
          >
            Clear
          </button>
        )}
      </div>
      {shown.length > 0 ? <Wrong terms={shown} keys={keys} /> : focused.value ? <Help keys={keys} /> : null}
    </div>
  );
}

// FilterButton opens and closes the line where it has no room in the bar.
export function FilterButton(props: { open: Signal<boolean>; children: string }) {
  const { open } = props;
  return (
    <button
      type="button"
      class="button bar-filter"
      aria-expanded={open.value}
      onClick={() => {
        if (open.value) open.value = false;
        else focusFilter();
      }}
    >
      {props.children}
    </button>
  );
}

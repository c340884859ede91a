// The sheet that describes a new run. What it shows below is what it will send.

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { visible } from '../format';
import { errorFrom, reasonOf, sendJSON } from '../http';
import { Sheet } from '../sheet';
import type { Run } from '../wire.gen';
import { Equals } from './details';
import { type Draft, describe, EMPTY, type Field } from './draft';
import { isNewOpen, open } from './state';
import { store } from './store';

// The description outlives the sheet: a run that failed to start is corrected, not typed
// again.
const draft = signal<Draft>(EMPTY);

const set = (change: Partial<Draft>) => {
  draft.value = { ...draft.value, ...change };
};

const withItem = <T,>(list: readonly T[], index: number, item: T): T[] =>
  list.map((old, i) => (i === index ? item : old));
const without = <T,>(list: readonly T[], index: number): T[] => list.filter((_, i) => i !== index);

function Text(props: {
  label: string;
  value: string;
  change: (value: string) => void;
  hint?: string;
  problem?: string | undefined;
  wide?: boolean;
}) {
  return (
    <label class={`new-field${props.wide ? ' new-wide' : ''}`}>
      <span class="new-label">{props.label}</span>
      <input
        class="field"
        type="text"
        spellcheck={false}
        autocomplete="off"
        placeholder={props.hint ?? ''}
        value={props.value}
        aria-invalid={props.problem !== undefined}
        onInput={(event) => props.change(event.currentTarget.value)}
      />
      {props.problem !== undefined && <span class="new-problem">{props.problem}</span>}
    </label>
  );
}

function Check(props: { on: boolean; change: (on: boolean) => void; children: ComponentChildren }) {
  return (
    <label class="check">
      <input
        class="check-box"
        type="checkbox"
        checked={props.on}
        onChange={(event) => props.change(event.currentTarget.checked)}
      />
      {props.children}
    </label>
  );
}

function Words(props: { argv: readonly string[]; problem: string | undefined }) {
  const { argv } = props;
  const box = useRef<HTMLFieldSetElement>(null);
  const wantsFocus = useRef(false);
  // Before the next key: who types on finds it in the new box.
  useLayoutEffect(() => {
    if (!wantsFocus.current) return;
    wantsFocus.current = false;
    [...(box.current?.querySelectorAll<HTMLInputElement>('input') ?? [])].at(-1)?.focus();
  }, [argv.length]);
  const change = (next: readonly string[]) => {
    wantsFocus.current = true;
    set({ argv: next });
  };
  const add = () => change([...argv, '']);
  return (
    <fieldset class="choice" ref={box}>
      <legend class="caption">Program and arguments, one box each: no shell, no quotes</legend>
      {argv.map((word, i) => (
        <div class="new-word" key={String(i)}>
          <input
            class="field new-word-field"
            type="text"
            spellcheck={false}
            autocomplete="off"
            autocapitalize="off"
            aria-label={i === 0 ? 'Program' : `Argument ${i}`}
            placeholder={i === 0 ? 'program' : ''}
            value={word}
            onInput={(event) => set({ argv: withItem(argv, i, event.currentTarget.value) })}
            onKeyDown={(event) => {
              if (event.key === 'Enter' && !event.ctrlKey && !event.metaKey) {
                event.preventDefault();
                add();
              } else if (event.key === 'Backspace' && word === '' && argv.length > 1) {
                event.preventDefault();
                change(without(argv, i));
              }
            }}
          />
          {argv.length > 1 && (
            <button type="button" class="button button-text" onClick={() => set({ argv: without(argv, i) })}>
              Remove<span class="unseen"> {i === 0 ? 'program' : `argument ${i}`}</span>
            </button>
          )}
        </div>
      ))}
      <button type="button" class="button" onClick={add}>
        Add argument
      </button>
      {props.problem !== undefined && <p class="new-problem">{props.problem}</p>}
    </fieldset>
  );
}

function Shell(props: { text: string; problem: string | undefined }) {
  return (
    <div class="choice">
      <label class="new-field new-wide">
        <span class="caption">Text for sh -c, passed on byte for byte</span>
        <textarea
          class="field new-text"
          rows={4}
          spellcheck={false}
          value={props.text}
          aria-invalid={props.problem !== undefined}
          onInput={(event) => set({ text: event.currentTarget.value })}
        />
      </label>
      <p class="note note-warn">
        <span class="note-text">
          A shell reads this: $ ` * ; &amp; | &lt; &gt; ( ) quotes and blanks do what they do in a shell. Text that
          comes from elsewhere can run anything. Boxes cannot.
        </span>
      </p>
      {props.problem !== undefined && <p class="new-problem">{props.problem}</p>}
    </div>
  );
}

function Variables(props: { env: Draft['env']; problem: string | undefined }) {
  const { env } = props;
  return (
    <fieldset class="choice">
      <legend class="caption">Environment, beside PATH, HOME, LANG, TERM and the like</legend>
      {env.map(({ name, value }, i) => (
        <div class="new-word" key={String(i)}>
          <input
            class="field new-name"
            type="text"
            aria-label={`Name of variable ${i + 1}`}
            placeholder="NAME"
            spellcheck={false}
            value={name}
            onInput={(event) => set({ env: withItem(env, i, { name: event.currentTarget.value, value }) })}
          />
          <input
            class="field new-word-field"
            type="text"
            aria-label={`Value of variable ${i + 1}`}
            placeholder="value"
            spellcheck={false}
            value={value}
            onInput={(event) => set({ env: withItem(env, i, { name, value: event.currentTarget.value }) })}
          />
          <button type="button" class="button button-text" onClick={() => set({ env: without(env, i) })}>
            Remove<span class="unseen"> variable {i + 1}</span>
          </button>
        </div>
      ))}
      <button type="button" class="button" onClick={() => set({ env: [...env, { name: '', value: '' }] })}>
        Add variable
      </button>
      {props.problem !== undefined && <p class="new-problem">{props.problem}</p>}
    </fieldset>
  );
}

function Form() {
  const [refused, setRefused] = useState('');
  const [isSending, setSending] = useState(false);
  const [isTried, setTried] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  const d = draft.value;
  useEffect(() => {
    // The sheet opens after this and takes the focus to its first button.
    const frame = requestAnimationFrame(() =>
      form.current?.querySelector<HTMLElement>('.new-word-field, .new-text')?.focus(),
    );
    return () => cancelAnimationFrame(frame);
  }, []);
  const { body, problems } = describe(d);
  // An empty form is not wrong yet.
  const problem = (field: Field) => (isTried || field !== 'command' ? problems.get(field) : undefined);
  const start = async () => {
    setTried(true);
    setRefused('');
    if (problems.size > 0 || isSending) return;
    setSending(true);
    try {
      const answer = await sendJSON('POST', '/api/runs', body);
      if (!answer.ok) throw await errorFrom(answer);
      const run = (await answer.json()) as Run;
      store.put(run);
      isNewOpen.value = false;
      open(run.id);
    } catch (cause) {
      setRefused(reasonOf(cause));
    } finally {
      setSending(false);
    }
  };
  const roots = store.capabilities.value?.roots ?? [];
  return (
    <form
      class="new"
      ref={form}
      onSubmit={(event) => {
        event.preventDefault();
        void start();
      }}
      onKeyDown={(event) => {
        if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
          event.preventDefault();
          void start();
        }
      }}
    >
      <fieldset class="choice new-kinds">
        <legend class="caption">Command</legend>
        {(
          [
            [false, 'Program and arguments (no shell)'],
            [true, 'Shell text'],
          ] as const
        ).map(([isShell, label]) => (
          <label class="check" key={label}>
            <input
              class="check-box"
              type="radio"
              name="kind"
              checked={d.isShell === isShell}
              onChange={() => set({ isShell })}
            />
            {label}
          </label>
        ))}
      </fieldset>
      {d.isShell ? (
        <Shell text={d.text} problem={problem('command')} />
      ) : (
        <Words argv={d.argv} problem={problem('command')} />
      )}
      <fieldset class="choice new-grid">
        <legend class="caption">Where and as what</legend>
        <Text
          label="Working directory"
          value={d.cwd}
          change={(cwd) => set({ cwd })}
          hint={roots.length > 0 ? `@${visible(roots[0]?.name ?? '')}` : 'that of the server'}
          wide
        />
        <Text label="Id" value={d.id} change={(id) => set({ id })} hint="one is made" problem={problem('id')} />
        <Text label="Scope" value={d.scope} change={(scope) => set({ scope })} hint="none" problem={problem('scope')} />
        <Text
          label="User (only root may name one)"
          value={d.user}
          change={(user) => set({ user })}
          hint="the one who asks"
        />
        <Check on={d.isReplacing} change={(isReplacing) => set({ isReplacing })}>
          Stop the scope’s other runs first
        </Check>
      </fieldset>
      <fieldset class="choice new-grid">
        <legend class="caption">Input and output</legend>
        <Check on={d.hasTerminal} change={(hasTerminal) => set({ hasTerminal })}>
          On a terminal
        </Check>
        {d.hasTerminal ? (
          <>
            <Text label="Columns" value={d.columns} change={(columns) => set({ columns })} problem={problem('size')} />
            <Text label="Rows" value={d.rows} change={(rows) => set({ rows })} />
          </>
        ) : (
          <Check on={d.isInputOpen} change={(isInputOpen) => set({ isInputOpen })}>
            Keep standard input open
          </Check>
        )}
      </fieldset>
      <Variables env={d.env} problem={problem('env')} />
      <fieldset class="choice new-grid">
        <legend class="caption">How it ends</legend>
        <Text
          label="Time limit"
          value={d.timeout}
          change={(timeout) => set({ timeout })}
          hint="none"
          problem={problem('timeout')}
        />
        <Text
          label="Silence limit"
          value={d.silence}
          change={(silence) => set({ silence })}
          hint="none"
          problem={problem('silence')}
        />
        <Text label="Grace" value={d.grace} change={(grace) => set({ grace })} hint="3s" problem={problem('grace')} />
        <label class="new-field">
          <span class="new-label">What still lives when the command ends</span>
          <select class="field" value={d.leftovers} onChange={(event) => set({ leftovers: event.currentTarget.value })}>
            <option value="">is kept, unless said otherwise</option>
            <option value="keep">keep</option>
            <option value="kill">kill</option>
          </select>
        </label>
      </fieldset>
      <section class="equals" aria-label="The same as command lines">
        <Equals body={body} />
      </section>
      {refused !== '' && (
        <div class="note note-bad" role="alert">
          <span class="note-text">Not started: {visible(refused)}</span>
        </div>
      )}
      <div class="new-end">
        <button type="submit" class="button button-on" disabled={isSending} aria-keyshortcuts="Control+Enter">
          {isSending ? 'Starting' : 'Start'}
          <kbd class="key bar-key">Ctrl+Enter</kbd>
        </button>
        <button
          type="button"
          class="button"
          onClick={() => {
            draft.value = EMPTY;
            setTried(false);
            setRefused('');
          }}
        >
          Empty the form
        </button>
      </div>
    </form>
  );
}

export function NewRun() {
  return (
    <Sheet
      title="New run"
      class="sheet-side"
      open={isNewOpen.value}
      close={() => {
        isNewOpen.value = false;
      }}
    >
      <Form />
    </Sheet>
  );
}

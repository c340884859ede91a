// The terminal of a run: its screen, and what is typed into it.

import { effect } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { copyText } from '../clipboard';
import { bytes, count, visible } from '../format';
import { sendJSON } from '../http';
import { Lifetime } from '../life';
import { dark } from '../settings';
import type { Run, RunOutput } from '../wire.gen';
import { isOver } from './model';
import { Reader } from './reader';
import { screenReader } from './state';
import { store } from './store';
import type { Screen } from './terminal';
import { Typist } from './typist';

// maxPiece bytes of output are taken by the screen at a time.
const maxPiece = 65_536;
// maxReplay bytes that were written before the page came are read again.
const maxReplay = 524_288;
const RESIZE_MS = 120;

const KEYS: readonly [string, string][] = [
  ['Esc', 'escape'],
  ['Tab', 'tab'],
  ['↑', 'up'],
  ['↓', 'down'],
  ['←', 'left'],
  ['→', 'right'],
];

const NAMES: Record<string, string> = { '↑': 'Up', '↓': 'Down', '←': 'Left', '→': 'Right' };

export function TerminalView(props: { run: Run }) {
  const { id } = props.run;
  const host = useRef<HTMLDivElement>(null);
  const screen = useRef<Screen | null>(null);
  const typist = useRef<Typist | null>(null);
  const [problem, setProblem] = useState('');
  const [title, setTitle] = useState('');
  const [lost, setLost] = useState({ dropped: 0, skipped: 0 });
  const [ready, setReady] = useState(false);

  useEffect(() => {
    const element = host.current;
    const run = store.runs.peek().get(id);
    if (element === null || !run) return;
    const life = new Lifetime();
    const begin = async () => {
      const { Screen } = await import('./terminal');
      if (life.closed) return;
      const typing = new Typist(id, (text) => setProblem(`Not typed: ${text}`));
      typist.current = typing;
      life.add(() => typing.close());
      const size = { cols: run.pty?.cols ?? 120, rows: run.pty?.rows ?? 30 };
      const keyboard = {
        type: (text: string) => {
          setProblem('');
          typing.type(text);
          reader.nudge();
        },
        copy: (text: string) => void copyText(text, 'Selection'),
        title: setTitle,
      };
      const made = new Screen(element, keyboard, {
        screenReader: screenReader.peek(),
        columns: size.cols,
        rows: size.rows,
      });
      screen.current = made;
      life.add(() => {
        screen.current = null;
        made.close();
      });
      const reader = new Reader(id, run.output, {
        max: maxPiece,
        replay: maxReplay,
        async take(output: RunOutput) {
          if (output.dropped > 0) setLost((before) => ({ ...before, dropped: before.dropped + output.dropped }));
          for (const chunk of output.chunks) await made.write(chunk.text);
        },
        failed: (reason) => setProblem(`Could not read on: ${reason}`),
      });
      life.add(() => reader.close());
      setLost({ dropped: 0, skipped: reader.skipped });
      const isLive = () => {
        const now = store.runs.peek().get(id);
        return now !== undefined && !isOver(now) && !now.adopted;
      };
      const fit = () => {
        // What has ended keeps the size it had.
        if (!isLive()) return;
        const now = made.fitted();
        if (now === null || (now.cols === size.cols && now.rows === size.rows)) return;
        Object.assign(size, now);
        void sendJSON('POST', `/api/runs/${id}/resize`, now).catch(() => {}); // the next change tries again
      };
      let later: (() => void) | null = null;
      const sizes = new ResizeObserver(() => {
        later?.();
        later = life.timeout(RESIZE_MS, fit);
      });
      sizes.observe(element);
      life.add(() => sizes.disconnect());
      const hear = (of: string, next: number) => {
        if (of === id) reader.wake(next);
      };
      store.outputs.add(hear);
      life.add(() => store.outputs.delete(hear));
      life.add(
        effect(() => {
          const now = store.runs.value.get(id);
          made.allow(now !== undefined && !isOver(now), screenReader.value);
          if (!now) return;
          if (isOver(now)) reader.look();
          else reader.wake(now.output.next);
        }),
      );
      life.add(
        effect(() => {
          void dark.value;
          made.repaint();
        }),
      );
      fit();
      reader.look();
      setReady(true);
    };
    begin().catch(() => setProblem('The terminal could not be loaded. Is the server still running?'));
    return () => life.close();
  }, [id]);

  const press = (key: string) => {
    typist.current?.press(key);
    screen.current?.focus();
  };
  return (
    <div class="term">
      {problem && (
        <div class="note note-bad" role="alert">
          <span class="note-text">{visible(problem)}</span>
        </div>
      )}
      {lost.dropped + lost.skipped > 0 && (
        <p class="term-lost">
          {lost.dropped > 0 && `▨ ${count(lost.dropped)} bytes fell out before they were read. `}
          {lost.skipped > 0 && `The screen begins with the last ${bytes(maxReplay)}; the output has the rest.`}
        </p>
      )}
      <div class="term-host" ref={host} data-region="terminal" aria-busy={!ready} />
      <div class="term-keys" role="toolbar" aria-label="Keys of the terminal">
        <button type="button" class="button" onClick={() => screen.current?.holdCtrl()}>
          Ctrl
        </button>
        {KEYS.map(([label, key]) => (
          <button type="button" class="button" key={key} onClick={() => press(key)}>
            {NAMES[label] === undefined ? (
              label
            ) : (
              <>
                <span aria-hidden="true">{label}</span>
                <span class="unseen">{NAMES[label]}</span>
              </>
            )}
          </button>
        ))}
      </div>
      <div class="term-foot">
        <span class="term-title">{title === '' ? '' : `Title: ${visible(title)}`}</span>
        <label class="check">
          <input
            class="check-box"
            type="checkbox"
            checked={screenReader.value}
            onChange={(event) => {
              screenReader.value = event.currentTarget.checked;
            }}
          />
          Screen reader
        </label>
        <span class="term-leave">
          <kbd class="key">Ctrl+Shift+C</kbd> copies <kbd class="key">Shift+F6</kbd> leaves
        </span>
      </div>
    </div>
  );
}

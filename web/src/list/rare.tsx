// Parts of the list that most looks at it never need: loaded when they are first shown.

import { setQuery } from '../filterline';
import { clock, count, dateTime, visible } from '../format';
import { nearest } from '../nearest';
import { store } from '../store';
import { rewindLabel, SPAN_MS } from './gauges';
import * as view from './state';

export function HeldNote() {
  const frame = store.frame.value;
  const last = store.shownPoints.at(-1)?.at ?? store.capturedAt;
  return (
    <div class="note note-warn held">
      <span class="note-text">
        {frame.kind === 'held' &&
          `Held at ${clock(frame.at)}. +${frame.started} started −${frame.exited} exited since.`}
        {frame.kind === 'past' && `The list at ${rewindLabel(frame.at)}. CPU, RSS, I/O and state are of that second.`}
        {frame.kind === 'file' && `${visible(frame.name)}: a list saved ${dateTime(frame.at)}.`}
      </span>
      {frame.kind !== 'file' && (
        <label class="held-slider">
          <span class="caption">Rewind</span>
          <input
            class="held-range"
            type="range"
            min={-SPAN_MS / 1000 + 1}
            max={0}
            step={1}
            value={frame.kind === 'past' ? Math.round((frame.at - last) / 1000) : 0}
            aria-valuetext={frame.kind === 'past' ? rewindLabel(frame.at) : 'held'}
            onInput={(event) => {
              store.rewind(last + Number(event.currentTarget.value) * 1000);
            }}
          />
        </label>
      )}
      {frame.kind !== 'file' && (
        <button
          type="button"
          class="button"
          onClick={() => void import('./sheets').then((sheets) => sheets.saveList())}
        >
          Save as JSON
        </button>
      )}
      <button type="button" class="button held-live" onClick={() => store.release()}>
        Live
      </button>
    </div>
  );
}

export function Empty(props: { kernelHidden: number }) {
  const filter = view.filter.value;
  const found = nearest(filter, store.rows());
  return (
    <div class="grid-empty">
      <p>
        No process matches <span class="mono">{visible(filter.text.trim())}</span>.
        {found && (
          <>
            {' Nearest: '}
            <button
              type="button"
              class="button button-link mono"
              onClick={() => {
                const bad = filter.terms.find(
                  (term) => !term.negative && (term.key === 'user' || term.key === 'name' || term.key === null),
                );
                const rest = filter.terms.filter((term) => term !== bad).map((term) => term.text);
                setQuery([...rest, found.text].join(' '));
              }}
            >
              {visible(found.text)}
            </button>
            {` (${found.count}).`}
          </>
        )}
      </p>
      {!view.kernel.value && props.kernelHidden > 0 && (
        <p class="second">{count(props.kernelHidden)} kernel threads are hidden; k shows them.</p>
      )}
    </div>
  );
}

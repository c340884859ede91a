// "Which library does this address belong to?": a box that takes an address or a line of
// a log, and says what has it in this process.

import { useState } from 'preact/hooks';
import { visible } from '../format';
import type { Shared } from './context';
import { answerTo } from './crash';
import { regionAt } from './maps';

export function Finder(props: { shared: Shared }) {
  const { shared } = props;
  const [typed, setTyped] = useState('');
  const [asked, setAsked] = useState<string | null>(null);
  const { regions, error } = shared.model.view.value.space;
  const unread = { text: `The mappings of this process are not known${error === null ? '' : `: ${error}`}.`, at: null };
  const answer = asked === null ? null : regions.length === 0 ? unread : answerTo(asked, regions);
  const show = (at: bigint) => {
    shared.walk.value = regionAt(regions, at)?.index ?? -1;
    shared.openAddress(at);
  };
  return (
    <>
      <form
        class="finder"
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          setAsked(typed.trim() === '' ? null : typed);
        }}
      >
        <input
          class="field finder-field"
          type="text"
          value={typed}
          placeholder="Address or crash line"
          aria-label="Which library has an address, or a crash line of a log"
          spellcheck={false}
          autocomplete="off"
          onInput={(event) => setTyped(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== 'Escape') return;
            setTyped('');
            setAsked(null);
          }}
        />
        <button type="submit" class="button button-small">
          Find
        </button>
      </form>
      {answer !== null && (
        <div class="note note-info finder-answer" role="status">
          <span class="note-text">{visible(answer.text)}</span>
          {answer.at !== null && (
            <button type="button" class="button" onClick={() => show(answer.at as bigint)}>
              Open in Memory
            </button>
          )}
          <button type="button" class="button button-text" onClick={() => setAsked(null)}>
            Dismiss
          </button>
        </div>
      )}
    </>
  );
}

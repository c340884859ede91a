// What stands under the filter line: the grammar, and what of it was not understood.

import { type AnyGrammar, keyHelp, type Term } from './filter';
import { visible } from './format';

// Wrong names a term that cannot be understood, and what would be.
export function Wrong(props: { terms: readonly Term<never>[]; keys: AnyGrammar }) {
  return (
    <div class="filter-help filter-wrong" id="filter-help" role="alert">
      {props.terms.map((term) => (
        <p class="filter-line" key={term.from}>
          <span class="filter-bad">{visible(term.text)}</span> is not applied: {term.error}.
          {term.key !== null && !Object.hasOwn(props.keys, term.key) && (
            <span> To look for the text itself, put it in quotes: "{visible(term.text)}".</span>
          )}
        </p>
      ))}
    </div>
  );
}

export function Help(props: { keys: AnyGrammar }) {
  return (
    <div class="filter-help" id="filter-help">
      <p class="filter-line">
        <span class="mono">word</span> <span class="mono">"two words"</span> <span class="mono">/regex/</span> look in
        name and command; <span class="mono">-</span> excludes, <span class="mono">|</span> is or, a blank is and.
      </p>
      <p class="filter-line filter-keys">
        {Object.keys(props.keys).map((key) => (
          <span class="mono" key={key}>
            {keyHelp(key, props.keys)}
          </span>
        ))}
      </p>
    </div>
  );
}

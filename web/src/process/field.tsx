// The filter field of a section. Its text is in the address, so that a link finds
// the same rows.

import { useEffect, useRef } from 'preact/hooks';
import { announce } from '../announce';
import type { Shared } from './context';
import type { Matcher } from './match';

export function FilterField(props: { shared: Shared; label: string; match: Matcher; found: string; name?: string }) {
  const { shared, match } = props;
  const name = props.name ?? 'q';
  const line = shared.params.get(name) ?? '';
  const typed = useRef(line);
  const result = match.error ?? props.found;
  // Only what somebody typed is announced: in a live table the count moves by itself.
  useEffect(() => {
    if (typed.current === line) return;
    const timer = setTimeout(() => {
      typed.current = line;
      if (result !== '') announce(result);
    }, 600);
    return () => clearTimeout(timer);
  }, [line, result]);
  return (
    <span class="find">
      <input
        class="field find-field"
        type="search"
        data-filter=""
        aria-label={props.label}
        placeholder={`${props.label}  /`}
        value={line}
        spellcheck={false}
        autocomplete="off"
        onInput={(event) => shared.set({ [name]: event.currentTarget.value })}
        onKeyDown={(event) => {
          if (event.key !== 'Escape') return;
          if (event.currentTarget.value === '') event.currentTarget.blur();
          else shared.set({ [name]: undefined });
          event.preventDefault();
        }}
      />
      <span class={match.error === null ? 'find-found' : 'find-found ink-bad'}>{result}</span>
    </span>
  );
}

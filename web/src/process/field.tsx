// The filter field of a section. Its text is in the address, so that a link finds
// the same rows.

import type { Shared } from './context';
import type { Matcher } from './match';

export function FilterField(props: { shared: Shared; label: string; match: Matcher; found: string; name?: string }) {
  const { shared, match } = props;
  const name = props.name ?? 'q';
  return (
    <span class="find">
      <input
        class="field find-field"
        type="search"
        data-filter=""
        aria-label={props.label}
        placeholder={`${props.label}  /`}
        value={shared.params.get(name) ?? ''}
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
      <span class={match.error === null ? 'find-found' : 'find-found ink-bad'} role="status">
        {match.error ?? props.found}
      </span>
    </span>
  );
}

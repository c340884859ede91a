// A process or a host by its name, which selects it, and the state of one that is stuck.

import { stateName, visible } from '../format';
import type { Space } from './control';
import { HOSTS } from './structure';

export function Who(props: { space: Space; index: number }) {
  const { space, index } = props;
  const { data } = space;
  return (
    <button type="button" class="button button-link space-who" onClick={() => space.select(index)}>
      {visible(data.label(index))}
      {index >= HOSTS && <span class="mono space-pid"> {data.pid[index]}</span>}
    </button>
  );
}

export function State(props: { letter: string }) {
  const { letter } = props;
  if (letter === '') return null;
  return (
    <span class="tone-bad">
      <span class="mono">{letter}</span> {stateName(letter)}
    </span>
  );
}

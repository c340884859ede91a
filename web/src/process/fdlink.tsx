// The way from a system call to the descriptor it waits for or works on.

import { plainClick, processPath } from '../route';
import type { Shared } from './context';
import { placeHash } from './place';

export function FdLink(props: { shared: Shared; fd: number | null }) {
  const { shared, fd } = props;
  if (fd === null) return null;
  const params = { fd: String(fd) };
  return (
    <a
      class="link fd-link"
      href={`${processPath(shared.identity)}${placeHash('files', params)}`}
      onClick={(event) => {
        if (!plainClick(event)) return;
        event.preventDefault();
        shared.go('files', params);
      }}
    >
      fd {fd} in Files
    </a>
  );
}

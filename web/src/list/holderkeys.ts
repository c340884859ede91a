// Keys of the list's filter that the server answers: who holds a port, a file or a socket.

import { keyOf } from '../deltas';
import type { Grammar, Key } from '../filter';

// holderKeys are those keys; found gives who holds what a term such as "port:80" names.
export function holderKeys(found: (term: string) => ReadonlySet<string> | undefined): Grammar {
  const key = (name: string, fits: (value: string) => boolean, needs: string, help: string): Key => ({
    kind: 'asked',
    test: (value) => {
      if (!fits(value)) throw new Error(`${name} needs ${needs}`);
      return ({ identity }) => found(`${name}:${value}`)?.has(keyOf(identity)) === true;
    },
    help: `${name}:${help}`,
  });
  return {
    port: key('port', (v) => /^\d+$/.test(v) && +v > 0 && +v < 65536, 'a number from 1 to 65535', '5432'),
    file: key('file', (v) => v.startsWith('/'), 'a path that begins with /', '/var/log/syslog'),
    socket: key('socket', (v) => /^[1-9]\d{0,18}$/.test(v), 'the inode of a socket', '81234'),
  };
}

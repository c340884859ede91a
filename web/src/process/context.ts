// What every section is given.

import type { Signal } from '@preact/signals';
import type { Identity } from '../wire.gen';
import type { Region } from './maps';
import type { Memory } from './memory';
import type { Model } from './model';
import type { Section } from './place';

export interface Shared {
  readonly identity: Identity;
  readonly model: Model;
  readonly memory: Memory;
  readonly walk: Signal<number>; // index of the region walked on the strip, -1 before the first
  // params are those of the address; set rewrites some of them without a step in the history.
  readonly params: URLSearchParams;
  readonly set: (params: Readonly<Record<string, string | undefined>>) => void;
  // go opens a section with a step in the history.
  readonly go: (section: Section, params?: Readonly<Record<string, string | undefined>>) => void;
  readonly openRegion: (region: Region) => void;
  readonly openAddress: (address: bigint) => void;
}

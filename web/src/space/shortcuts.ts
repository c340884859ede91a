// The keys of the space.

import { copyText } from '../clipboard';
import { filterFocused, focusFilter, setQuery } from '../filterline';
import { bindKeys } from '../keys';
import type { ListHandle } from './aslist';
import type { Space } from './control';
import * as view from './state';

const STEP = 60;

/** onPicture: arrows are the picture's only when nothing else has the focus. */
const onPicture = (event: KeyboardEvent): boolean => {
  const target = event.target;
  return target === document.body || (target instanceof HTMLElement && target.classList.contains('space-canvas'));
};

const inList = (event: KeyboardEvent): boolean => {
  const target = event.target;
  return target === document.body || (target instanceof HTMLElement && target.closest('.grid-body') !== null);
};

export function bindSpaceKeys(space: Space, list: () => ListHandle | null): () => void {
  const bind = (
    keys: string,
    label: string,
    run: (event: KeyboardEvent) => unknown,
    more: { inFields?: boolean; hidden?: boolean } = {},
  ) => ({ keys, label, group: 'Space', run, ...more });
  const arrow = (key: string, label: string, dx: number, dy: number, inTree: (handle: ListHandle) => void) => [
    bind(key, label, (event) => {
      const handle = list();
      if (handle) {
        if (!inList(event)) return false;
        return inTree(handle);
      }
      if (!onPicture(event)) return false;
      return space.change((camera) => camera.orbit(dx, dy));
    }),
    bind(`Shift+${key}`, 'move the picture', (event) => {
      if (list() || !onPicture(event)) return false;
      return space.change((camera) => camera.pan(dx, dy));
    }),
  ];
  const tree = (keys: string, label: string, run: (handle: ListHandle) => void) =>
    bind(keys, label, (event) => {
      const handle = list();
      if (!handle || !inList(event)) return false;
      return run(handle);
    });
  return bindKeys([
    bind('/', 'search', () => focusFilter()),
    bind(
      'Ctrl+f',
      'search; once more: the browser’s own',
      () => {
        if (filterFocused()) return false;
        return focusFilter();
      },
      { inFields: true },
    ),
    bind('Escape', 'clear the selection, then the search', () => {
      if (view.selected.value !== null) space.select(-1);
      else if (view.query.value !== '') setQuery('');
      else return false;
      return true;
    }),
    bind('Space', 'hold / live', () => space.toggleHold()),
    ...arrow('ArrowLeft', 'turn the picture; in the list: collapse, parent', -STEP, 0, (h) => h.collapse()),
    ...arrow('ArrowRight', 'turn the picture; in the list: expand, child', STEP, 0, (h) => h.expand()),
    ...arrow('ArrowUp', 'tilt the picture; in the list: up', 0, -STEP / 2, (h) => h.move(-1)),
    ...arrow('ArrowDown', 'tilt the picture; in the list: down', 0, STEP / 2, (h) => h.move(1)),
    tree('PageDown', 'in the list: a page down', (h) => h.move(h.page())),
    tree('PageUp', 'in the list: a page up', (h) => h.move(-h.page())),
    tree('End', 'in the list: last row', (h) => h.move(Number.POSITIVE_INFINITY)),
    bind('+', 'nearer', () => space.change((camera) => camera.zoom(0.8))),
    bind('-', 'farther', () => space.change((camera) => camera.zoom(1.25))),
    bind('n', 'next that matches', () => space.walk(1)),
    bind('N', 'the one before', () => space.walk(-1)),
    bind('f', 'fit the selected', () => space.fitSelected()),
    bind('Home', 'all; in the list: first row', (event) => {
      const handle = list();
      if (handle && inList(event)) handle.move(Number.NEGATIVE_INFINITY);
      else if (onPicture(event)) space.fitAll();
      else return false;
      return true;
    }),
    bind('T', 'from above / from the side', () => space.toggleTop()),
    bind('R', 'rearrange: pack everything anew', () => space.rearrange()),
    bind('Enter', 'open the selected', (event) => {
      const handle = list();
      if (handle ? !inList(event) : !onPicture(event)) return false;
      return space.open(space.indexOf(view.selected.value));
    }),
    bind('Ctrl+Enter', 'open in a new tab', () => space.open(space.indexOf(view.selected.value), true)),
    bind('p', 'parent of the selected', () => {
      const i = space.indexOf(view.selected.value);
      const parent = i < 0 ? -1 : (space.data.parents[i] as number);
      if (parent < 0) return false;
      space.select(parent);
      return true;
    }),
    bind('y', 'copy a link to this view', () => void copyText(space.link(), 'Link')),
    bind('r', 'connect anew', () => space.retry()),
  ]);
}

// The keys of the runs. None of them ends or starts anything at once.

import { copyText } from '../clipboard';
import { filterFocused, focusFilter, setQuery } from '../filterline';
import { bindKeys } from '../keys';
import { isNewOpen, leave, openTab, query, selected, TABS, tabsOf } from './state';
import { store } from './store';

export function bindRunsKeys(): () => void {
  const bind = (keys: string, label: string, run: (event: KeyboardEvent) => unknown, inFields = false) => ({
    keys,
    label,
    group: 'Runs',
    inFields,
    run,
  });
  return bindKeys([
    bind('/', 'filter', () => focusFilter()),
    bind(
      'Ctrl+f',
      'filter; once more: the browser’s own',
      () => {
        if (filterFocused()) return false;
        return focusFilter();
      },
      true,
    ),
    bind('Escape', 'clear the filter, then leave the run', () => {
      if (query.value !== '') setQuery('');
      else if (selected.value !== null) leave();
      else return false;
      return true;
    }),
    bind('N', 'new run', () => {
      if (store.live.state.value.kind === 'refused') return false;
      isNewOpen.value = true;
      return true;
    }),
    ...TABS.map((tab, i) =>
      bind(String(i + 1), tab, () => {
        const run = store.runs.value.get(selected.value ?? '');
        if (!run || !tabsOf(run).includes(tab)) return false;
        openTab(run.id, tab);
        return true;
      }),
    ),
    bind('y', 'copy a link to this view', () => void copyText(location.href, 'Link')),
    bind('r', 'ask anew', () => {
      if (store.live.state.value.kind !== 'live') store.live.restart();
      else void store.refresh();
    }),
  ]);
}

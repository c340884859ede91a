// The foot of the list: counts, switches, legend; and the sorter of narrow screens.

import { computed } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { KeysLink } from '../bar';
import { COLUMNS, columnById } from '../columns';
import { bytes, count, percent, UNKNOWN } from '../format';
import { allCores } from '../settings';
import { store } from '../store';
import { KIND_LETTER, KIND_NAME, type Kind } from '../striprow';
import { counts } from './control';
import * as view from './state';

const LEGEND: readonly Kind[] = ['code', 'readonly', 'data', 'heap', 'anonymous', 'shared', 'stack'];
const LEGEND_SHORT: Partial<Record<Kind, string>> = { anonymous: 'anon' };

// Own is what this tool takes itself.
function Own() {
  const self = store.totals.value?.self;
  if (!self) return null;
  return (
    <span class="foot-self" title="What procinsh itself takes: CPU of one core, resident memory">
      this tool{' '}
      <span class="mono">
        {self.cpu_percent === null ? UNKNOWN : `${percent(self.cpu_percent)} %`} {bytes(self.rss_bytes)}
      </span>
    </span>
  );
}

const coreCount = computed(() => store.totals.value?.cores ?? 0);

export function Foot() {
  const { matches, total, kernelHidden } = counts.value;
  const toggle = (label: ComponentChildren, held: { value: boolean }, key: string, title: string) => (
    <button
      type="button"
      class="button button-text foot-toggle"
      aria-pressed={held.value}
      aria-keyshortcuts={key}
      title={title}
      onClick={() => {
        held.value = !held.value;
      }}
    >
      {label}
    </button>
  );
  const auto =
    !view.locked.value && store.frame.value.kind === 'live' && (view.hovered.value || view.cursorMoved.value);
  const cores = coreCount.value;
  return (
    <footer class="foot list-foot" data-region="foot">
      <span class="mono foot-count">
        {count(matches)} of {count(total)} shown
      </span>
      {toggle(
        <>
          Tree <b>{view.tree.value ? 'on' : 'off'}</b>
        </>,
        view.tree,
        't',
        'Tree or flat (t)',
      )}
      {toggle(
        <>
          <span class="foot-word">Kernel threads </span>
          <span class="foot-short">Kernel </span>
          <b>{view.kernel.value ? 'shown' : `hidden (${count(kernelHidden)})`}</b>
        </>,
        view.kernel,
        'k',
        'Kernel threads (k)',
      )}
      {toggle(
        <>
          <span class="foot-word">CPU </span>100 % = <b>{allCores.value ? `all ${cores || ''} cores` : 'one core'}</b>
        </>,
        allCores,
        '%',
        'What 100 % means (%)',
      )}
      {toggle(
        <>
          Order <b>{view.locked.value ? 'locked' : auto ? 'held a moment' : 'moves'}</b>
        </>,
        view.locked,
        'L',
        'Lock the order (L). It is held by itself while the pointer is in the table and for 3 s after a cursor key.',
      )}
      <Own />
      <span class="foot-legend">
        {LEGEND.map((kind) => (
          <span class="legend" key={kind}>
            <span class={`legend-square kind-${kind}`} aria-hidden="true" />
            {KIND_LETTER[kind]} {LEGEND_SHORT[kind] ?? KIND_NAME[kind]}
          </span>
        ))}
      </span>
      <span class="foot-end">
        <button
          type="button"
          class="button button-text"
          aria-haspopup="dialog"
          aria-keyshortcuts="Shift+Y"
          onClick={() => {
            view.copyOpen.value = true;
          }}
        >
          Copy
        </button>
        <KeysLink />
      </span>
    </footer>
  );
}

export function SortSelect() {
  const { column, descending } = view.sort.value;
  return (
    <div class="sorter" data-region="sort">
      <label class="sorter-label">
        <span class="caption">Sort</span>
        <select
          class="field sorter-field"
          value={column}
          onChange={(event) => {
            const chosen = columnById(event.currentTarget.value);
            if (chosen) view.setSort(chosen.id, chosen.downFirst);
          }}
        >
          {COLUMNS.filter((c) => c.sortable).map((c) => (
            <option key={c.id} value={c.id}>
              {c.label}
            </option>
          ))}
        </select>
      </label>
      <button type="button" class="button" onClick={() => view.setSort(column, !descending)}>
        {descending ? '▼ down' : '▲ up'}
      </button>
      <button
        type="button"
        class="button button-text sorter-end"
        aria-expanded={view.gaugesOpen.value}
        onClick={() => {
          view.gaugesOpen.value = !view.gaugesOpen.value;
        }}
      >
        Gauges
      </button>
      <button
        type="button"
        class="button button-text"
        aria-haspopup="dialog"
        onClick={() => {
          view.columnsOpen.value = true;
        }}
      >
        Columns
      </button>
    </div>
  );
}

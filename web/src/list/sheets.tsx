// Sheets of the list: which columns, and what to copy.

import { signal } from '@preact/signals';
import { copied, copyText } from '../clipboard';
import { COLUMNS, type Column, type ColumnId, columnById, SETS } from '../columns';
import type { Row } from '../deltas';
import { curlOf, open, rowsAsJSON, rowsAsTSV, save } from '../exports';
import { clock, count, visible } from '../format';
import { processPath } from '../route';
import { Sheet } from '../sheet';
import { store } from '../store';
import { columns, columnsOpen, columnText, copyOpen, listPath, ownSets, widths } from './state';

const newName = signal('');

function put(list: readonly ColumnId[]): void {
  columnText.value = list.join(',');
}

function move(id: ColumnId, step: number): void {
  const list = [...columns.value];
  const at = list.indexOf(id);
  const to = at + step;
  if (at < 0 || to < 0 || to >= list.length) return;
  list.splice(at, 1);
  list.splice(to, 0, id);
  put(list);
}

export function ColumnsSheet() {
  const shown = columns.value;
  const rest = COLUMNS.filter((column) => !shown.includes(column.id));
  const own = ownSets.value;
  const entry = (column: Column, on: boolean) => (
    <li class="chooser-row" key={column.id}>
      <label class="check chooser-label">
        <input
          class="check-box"
          type="checkbox"
          checked={on}
          disabled={column.id === 'name'}
          onChange={() => put(on ? shown.filter((id) => id !== column.id) : [...shown, column.id])}
        />
        <span>
          {column.label} <span class="second chooser-title">{column.title}</span>
        </span>
      </label>
      {on && (
        <span class="chooser-move">
          <button type="button" class="button" disabled={shown[0] === column.id} onClick={() => move(column.id, -1)}>
            ↑<span class="unseen"> {column.label} earlier</span>
          </button>
          <button type="button" class="button" disabled={shown.at(-1) === column.id} onClick={() => move(column.id, 1)}>
            ↓<span class="unseen"> {column.label} later</span>
          </button>
        </span>
      )}
    </li>
  );
  return (
    <Sheet
      title="Columns"
      open={columnsOpen.value}
      close={() => {
        columnsOpen.value = false;
      }}
    >
      <div class="chooser-sets">
        {Object.entries(SETS).map(([name, list]) => (
          <button
            type="button"
            key={name}
            class={`button${list.join(',') === columnText.value ? ' button-on' : ''}`}
            aria-pressed={list.join(',') === columnText.value}
            onClick={() => put(list)}
          >
            {name}
          </button>
        ))}
        {Object.entries(own).map(([name, list]) => (
          <span class="chooser-own" key={name}>
            <button
              type="button"
              class={`button${list === columnText.value ? ' button-on' : ''}`}
              aria-pressed={list === columnText.value}
              onClick={() => {
                columnText.value = list;
              }}
            >
              {name}
            </button>
            <button
              type="button"
              class="button"
              onClick={() => {
                const { [name]: _, ...others } = own;
                ownSets.value = others;
              }}
            >
              ×<span class="unseen"> forget set {name}</span>
            </button>
          </span>
        ))}
        <form
          class="chooser-save"
          onSubmit={(event) => {
            event.preventDefault();
            const name = newName.value.trim();
            if (name === '' || name in SETS) return;
            ownSets.value = { ...own, [name]: columnText.value };
            newName.value = '';
          }}
        >
          <input
            class="field"
            aria-label="Name of a new set"
            placeholder="save as"
            maxLength={24}
            value={newName.value}
            onInput={(event) => {
              newName.value = event.currentTarget.value;
            }}
          />
          <button type="submit" class="button">
            Save set
          </button>
        </form>
        <button
          type="button"
          class="button"
          disabled={Object.keys(widths.value).length === 0}
          onClick={() => {
            widths.value = {};
          }}
        >
          Reset widths
        </button>
      </div>
      <ul class="chooser">
        {shown.map((id) => {
          const column = columnById(id);
          return column ? entry(column, true) : null;
        })}
        {rest.map((column) => entry(column, false))}
      </ul>
    </Sheet>
  );
}

function download(text: string, name: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export function saveList(): void {
  const frame = store.frame.value;
  const at = frame.kind === 'live' ? store.capturedAt : frame.at;
  download(save(store.rows(), at), `procinsh-list-${new Date(at).toISOString().replace(/[:.]/g, '-')}.json`);
}

const problem = signal('');

async function openFile(file: File): Promise<void> {
  const saved = open(await file.text());
  if (typeof saved === 'string') {
    problem.value = saved;
    return;
  }
  problem.value = '';
  store.openSaved(saved, file.name);
  copyOpen.value = false;
}

export function CopySheet(props: { row: Row | null; rows: () => readonly Row[]; columns: readonly Column[] }) {
  const { row } = props;
  const button = (label: string, run: () => void) => (
    <button type="button" class="button" onClick={run}>
      {label}
    </button>
  );
  return (
    <Sheet
      title="Copy and save"
      open={copyOpen.value}
      close={() => {
        copyOpen.value = false;
        copied.value = '';
        problem.value = '';
      }}
    >
      {row && (
        <section class="copies">
          <h3 class="caption">
            Row {row.pid} {visible(row.summary.name)}
          </h3>
          <div class="copies-row">
            {button('Row as TSV', () => void copyText(rowsAsTSV([row], props.columns), 'Row as TSV'))}
            {button('Row as JSON', () => void copyText(rowsAsJSON([row]), 'Row as JSON'))}
            {button('Row as curl', () => {
              const { pid, start_time_ticks } = row.summary.identity;
              const path = `/api/processes/observation?pid=${pid}&start_time_ticks=${start_time_ticks}`;
              void copyText(curlOf(location.origin, path), 'curl command');
            })}
            {button(
              'Link to process',
              () => void copyText(location.origin + processPath(row.summary.identity), 'Link'),
            )}
          </div>
        </section>
      )}
      <section class="copies">
        <h3 class="caption">Table, {count(props.rows().length)} rows</h3>
        <div class="copies-row">
          {button('Table as TSV', () => void copyText(rowsAsTSV(props.rows(), props.columns), 'Table as TSV'))}
          {button('Table as JSON', () => void copyText(rowsAsJSON(props.rows()), 'Table as JSON'))}
          {button(
            'Table as curl',
            () => void copyText(curlOf(location.origin, '/api/processes?maps=summary&io=1'), 'curl command'),
          )}
          {button('Link to this view', () => void copyText(location.origin + listPath(), 'Link'))}
        </div>
      </section>
      <section class="copies">
        <h3 class="caption">File</h3>
        <div class="copies-row">
          {button('Save as JSON', saveList)}
          <label class="button copies-file">
            Open a saved list
            <input
              class="unseen"
              type="file"
              accept="application/json,.json"
              onChange={(event) => {
                const file = event.currentTarget.files?.[0];
                if (file) void openFile(file);
              }}
            />
          </label>
        </div>
      </section>
      <p class="sheet-note" role="status">
        {copied.value || problem.value || `The list is of ${clock(store.capturedAt || Date.now())}.`}
      </p>
    </Sheet>
  );
}

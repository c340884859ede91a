// Environment: the strings the program was started with. Values whose name looks
// secret are blurred until clicked.

import { useEffect, useMemo, useState } from 'preact/hooks';
import { count, visible } from '../format';
import type { EnvironmentAnswer } from '../wire.gen';
import type { Shared } from './context';
import { CopyAs, copyText, curlOf, tsvOf } from './copy';
import { FilterField } from './field';
import { type Column, Grid } from './grid';
import { matcher } from './match';
import { parseSort, sortText } from './order';
import type { Panel } from './panel';
import { FetchedBody, PanelBox, Provenance, Refresh, Warnings } from './parts';
import { looksSecret } from './secrets';

interface Row {
  readonly index: number;
  readonly name: string;
  readonly value: string | null;
  readonly secret: boolean;
}

function columnsOf(shown: ReadonlySet<number>, toggle: (index: number) => void): Column<Row>[] {
  return [
    {
      id: 'n',
      title: '#',
      width: '48px',
      figure: true,
      sort: (r) => r.index,
      cell: (r) => r.index + 1,
      narrow: 'hide',
    },
    {
      id: 'name',
      title: 'Name',
      width: 'minmax(130px, .5fr)',
      sort: (r) => r.name,
      hint: (r) => visible(r.name),
      cell: (r) => visible(r.name),
    },
    {
      id: 'value',
      title: 'Value',
      width: 'minmax(180px, 1.5fr)',
      sort: (r) => (r.secret && !shown.has(r.index) ? null : r.value),
      hint: (r) => (r.value === null || (r.secret && !shown.has(r.index)) ? undefined : visible(r.value)),
      cell: (r) => {
        if (r.value === null) return <span class="quiet-text">no “=”</span>;
        if (!r.secret) return r.value === '' ? <span class="quiet-text">empty</span> : visible(r.value);
        const open = shown.has(r.index);
        return (
          <button type="button" class="secret" aria-pressed={open} onClick={() => toggle(r.index)}>
            {open ? visible(r.value) : <span class="secret-blur">●●●●●●●●</span>}
            <span class="secret-word">{open ? 'hide' : 'show'}</span>
          </button>
        );
      },
    },
    {
      id: 'copy',
      title: 'Copy',
      width: '56px',
      cell: (r) => (
        <button
          type="button"
          class="button button-text"
          aria-label={`copy ${visible(r.name)}`}
          onClick={() => void copyText(r.value ?? r.name, visible(r.name))}
        >
          copy
        </button>
      ),
      narrow: 'hide',
    },
  ];
}

export function Environment(props: { shared: Shared; panel: Panel<EnvironmentAnswer> }) {
  const { shared, panel } = props;
  const state = panel.state.value;
  const ended = shared.model.ended.value !== null;
  const [shown, setShown] = useState<ReadonlySet<number>>(new Set());
  const { data } = state;
  // Another answer may have another secret at the same place.
  useEffect(() => setShown(new Set()), [data]);
  const all = useMemo<Row[]>(
    () =>
      (data?.entries ?? []).map((entry, index) => ({ index, ...entry, secret: looksSecret(entry.name, entry.value) })),
    [data],
  );
  const line = shared.params.get('q') ?? '';
  const match = useMemo(() => matcher(line), [line]);
  // A blurred value is not searched: a match would tell what it is.
  const rows = useMemo(
    () => all.filter((r) => match.test(r.secret && !shown.has(r.index) ? r.name : `${r.name}=${r.value ?? ''}`)),
    [all, match, shown],
  );
  const columns = useMemo(
    () =>
      columnsOf(shown, (index) =>
        setShown((now) => {
          const next = new Set(now);
          if (!next.delete(index)) next.add(index);
          return next;
        }),
      ),
    [shown],
  );
  const sort = parseSort(shared.params.get('sort'), ['n', 'name', 'value'], { column: 'n', down: false });
  const secrets = all.filter((r) => r.secret).length;
  const { identity } = shared;
  const warnings = [
    ...(data?.truncated ? ['Cut at 1 MiB: only the first entries are shown.'] : []),
    ...(data?.lossy_utf8 ? ['Some bytes are no UTF-8; they are shown as U+FFFD.'] : []),
  ];
  const value = (r: Row) => (r.secret && !shown.has(r.index) ? '(blurred)' : r.value);
  return (
    <PanelBox
      id="environment"
      title="Environment"
      class="panel-fill"
      note={
        <>
          <FilterField
            shared={shared}
            label="Filter names and values"
            match={match}
            found={match.empty ? '' : `${count(rows.length)} of ${count(all.length)}`}
          />
          {secrets > 0 && <span class="panel-hint">{count(secrets)} blurred: press one to see it</span>}
        </>
      }
      actions={
        <>
          <Refresh
            onPress={() => void panel.refresh()}
            loading={state.loading}
            disabled={ended ? 'The process has ended.' : null}
          />
          <CopyAs
            what="environment"
            items={[
              { name: 'curl', text: () => curlOf('/api/processes/environment', identity) },
              {
                name: 'JSON',
                text: () =>
                  JSON.stringify(
                    rows.map((r) => ({ name: r.name, value: value(r) })),
                    null,
                    2,
                  ),
              },
              {
                name: 'TSV',
                text: () =>
                  tsvOf(
                    ['name', 'value'],
                    rows.map((r) => [r.name, value(r)]),
                  ),
              },
            ]}
          />
        </>
      }
      foot={
        <>
          <Provenance source={`/proc/${identity.pid}/environ`} at={data?.captured_at ?? null} took={state.took} />
          <span class="provenance">as at exec; later changes are mostly not in it</span>
        </>
      }
    >
      <FetchedBody panel={panel} what="environment" ended={ended}>
        {(answer) => (
          <>
            <Warnings list={warnings} />
            <Grid
              label="Environment"
              columns={columns}
              rows={rows}
              rowKey={(r) => r.index}
              sort={sort}
              onSort={(next) => shared.set({ sort: sortText(next) })}
              empty={answer.entries.length === 0 ? 'No environment.' : `Nothing matches ${visible(line)}.`}
            />
          </>
        )}
      </FetchedBody>
    </PanelBox>
  );
}

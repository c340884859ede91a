// Auxv: what the kernel told the program at start.

import { useMemo } from 'preact/hooks';
import { count, visible } from '../format';
import { fullAddress } from '../hex';
import type { AuxvAnswer, AuxvEntry } from '../wire.gen';
import type { Shared } from './context';
import { CopyAs, curlOf, tsvOf } from './copy';
import { FilterField } from './field';
import { type Column, Grid } from './grid';
import { pointsTo } from './hexview';
import { matcher } from './match';
import { parseSort, sortText } from './order';
import type { Panel } from './panel';
import { FetchedBody, PanelBox, Provenance, Refresh } from './parts';

interface Row extends AuxvEntry {
  readonly index: number; // a tag may come more than once
}

function columnsOf(shared: Shared): Column<Row>[] {
  const { regions } = shared.model.view.value.space;
  return [
    { id: 'tag', title: 'Tag', width: '56px', figure: true, sort: (e) => BigInt(e.tag), cell: (e) => e.tag },
    { id: 'name', title: 'Name', width: 'minmax(150px, .6fr)', sort: (e) => e.name, cell: (e) => e.name },
    {
      id: 'value',
      title: 'Value',
      width: '160px',
      sort: (e) => BigInt(e.decimal),
      hint: (e) => e.value,
      cell: (e) =>
        e.kind === 'address' && e.decimal !== '0' ? (
          <button type="button" class="address" onClick={() => shared.openAddress(BigInt(e.decimal))}>
            {fullAddress(BigInt(e.decimal))}
          </button>
        ) : e.kind === 'bitmask' ? (
          `0x${BigInt(e.decimal).toString(16)}`
        ) : (
          e.decimal
        ),
    },
    {
      id: 'points',
      title: 'Text or place',
      width: 'minmax(150px, 1fr)',
      hint: (e) => (e.text === null ? (e.text_error ?? undefined) : visible(e.text)),
      cell: (e) => {
        if (e.text !== null) return `“${visible(e.text)}”`;
        if (e.text_error !== null) return <span class="ink-bad">{visible(e.text_error)}</span>;
        const target = e.kind === 'address' ? pointsTo(BigInt(e.decimal), regions) : null;
        return target === null ? '' : <span class={`kind-text kind-text-${target.region.kind}`}>{target.text}</span>;
      },
    },
    {
      id: 'description',
      title: 'Meaning',
      width: 'minmax(200px, 1.4fr)',
      hint: (e) => e.description,
      cell: (e) => <span class="quiet-text">{e.description}</span>,
      narrow: 'hide',
    },
  ];
}

export function Auxv(props: { shared: Shared; panel: Panel<AuxvAnswer> }) {
  const { shared, panel } = props;
  const state = panel.state.value;
  const ended = shared.model.ended.value !== null;
  const { data } = state;
  const all = useMemo<Row[]>(() => (data?.entries ?? []).map((entry, index) => ({ ...entry, index })), [data]);
  const line = shared.params.get('q') ?? '';
  const match = useMemo(() => matcher(line), [line]);
  const rows = useMemo(
    () => all.filter((e) => match.test(`${e.name} ${e.value} ${e.decimal} ${e.description} ${e.text ?? ''}`)),
    [all, match],
  );
  const columns = columnsOf(shared);
  const sort = parseSort(shared.params.get('sort'), ['tag', 'name', 'value', 'n'], { column: 'n', down: false });
  const { identity } = shared;
  return (
    <PanelBox
      id="auxv"
      title="Auxiliary vector"
      class="panel-fill"
      note={
        <FilterField
          shared={shared}
          label="Filter auxv"
          match={match}
          found={match.empty ? '' : `${count(rows.length)} of ${count(all.length)}`}
        />
      }
      actions={
        <>
          <Refresh
            onPress={() => void panel.refresh()}
            loading={state.loading}
            disabled={ended ? 'The process has ended.' : null}
          />
          <CopyAs
            what="auxv"
            items={[
              { name: 'curl', text: () => curlOf('/api/processes/auxv', identity) },
              { name: 'JSON', text: () => JSON.stringify(data?.entries ?? [], null, 2) },
              {
                name: 'TSV',
                text: () =>
                  tsvOf(
                    ['tag', 'name', 'value', 'decimal', 'text'],
                    rows.map((e) => [e.tag, e.name, e.value, e.decimal, e.text]),
                  ),
              },
            ]}
          />
        </>
      }
      foot={
        <>
          <Provenance source={`/proc/${identity.pid}/auxv`} at={data?.captured_at ?? null} took={state.took} />
          {typeof data?.word_bits === 'number' && <span class="provenance">{data.word_bits}-bit words</span>}
        </>
      }
    >
      <FetchedBody panel={panel} what="auxiliary vector" ended={ended}>
        {(answer) => (
          <Grid
            label="Auxiliary vector"
            columns={columns}
            rows={rows}
            rowKey={(e) => e.index}
            sort={sort}
            onSort={(next) => shared.set({ sort: sortText(next) })}
            empty={answer.entries.length === 0 ? 'No auxiliary vector.' : `Nothing matches ${visible(line)}.`}
          />
        )}
      </FetchedBody>
    </PanelBox>
  );
}

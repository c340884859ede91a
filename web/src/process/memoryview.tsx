// Memory: what kinds there are, which mappings, and their bytes.

import { useEffect, useMemo, useState } from 'preact/hooks';
import { announce } from '../announce';
import { bytesFull, clockMs, count, bytes as sizeText, UNKNOWN, visible } from '../format';
import { COPY_FORMS, type CopyForm, copyBytes, fullAddress, inspect, shortAddress } from '../hex';
import { KIND_LETTER, KIND_NAME, KINDS, type Kind } from '../strip';
import type { Shared } from './context';
import { CopyAs, curlOf, tsvOf } from './copy';
import { crashIn, fileOffset } from './crash';
import { FilterField } from './field';
import { type Column, Grid } from './grid';
import { type HexSelection, HexView, pointerAt, pointsTo } from './hexview';
import { findPlace, type KindTotal, type Region, regionAt, totalsByKind } from './maps';
import { matcher } from './match';
import { parseSort, sortText } from './order';
import { PanelBox, Provenance, Waiting } from './parts';
import { LENGTHS, lengthFrom } from './place';

export function KindChip(props: { kind: Kind; wx?: boolean }) {
  return (
    <span class={`kind-chip kind-chip-${props.kind}${props.wx ? ' kind-chip-wx' : ''}`} aria-hidden="true">
      {KIND_LETTER[props.kind]}
    </span>
  );
}

function TypeTable(props: { shared: Shared; totals: readonly KindTotal[] }) {
  const { shared, totals } = props;
  const picked = shared.params.get('kind');
  const most = Math.max(1, ...totals.map((t) => t.rss ?? t.size));
  const sum = (of: (t: KindTotal) => number | null) =>
    totals.reduce<number | null>((all, t) => {
      const more = of(t);
      return all === null || more === null ? null : all + more;
    }, 0);
  return (
    <table class="plain types">
      <thead>
        <tr>
          <th scope="col">Kind</th>
          <th scope="col" class="num">
            Maps
          </th>
          <th scope="col" class="num">
            Size
          </th>
          <th scope="col" class="num">
            RSS
          </th>
          <th scope="col" class="num">
            PSS
          </th>
        </tr>
      </thead>
      <tbody>
        {totals.map((total) => (
          <tr key={total.kind} class={picked === total.kind ? 'types-on' : ''}>
            <td>
              <button
                type="button"
                class="types-pick"
                aria-pressed={picked === total.kind}
                onClick={() => shared.set({ kind: picked === total.kind ? undefined : total.kind })}
              >
                <KindChip kind={total.kind} /> {KIND_NAME[total.kind]}
              </button>
            </td>
            <td class="num">{count(total.count)}</td>
            <td class="num" title={bytesFull(total.size)}>
              {sizeText(total.size)}
            </td>
            <td class="num types-rss" title={bytesFull(total.rss)}>
              {sizeText(total.rss)}
              <span
                class={`types-bar kind-chip-${total.kind}`}
                style={{ width: `${Math.round(((total.rss ?? total.size) / most) * 100)}%` }}
              />
            </td>
            <td class="num" title={bytesFull(total.pss)}>
              {sizeText(total.pss)}
            </td>
          </tr>
        ))}
      </tbody>
      <tfoot>
        <tr>
          <th scope="row">all</th>
          <td class="num">{count(sum((t) => t.count))}</td>
          <td class="num">{sizeText(sum((t) => t.size))}</td>
          <td class="num">{sizeText(sum((t) => t.rss))}</td>
          <td class="num">{sizeText(sum((t) => t.pss))}</td>
        </tr>
      </tfoot>
    </table>
  );
}

const figure = (of: (r: Region) => number | null): Partial<Column<Region>> => ({
  figure: true,
  down: true,
  sort: of,
  hint: (r) => bytesFull(of(r)),
  cell: (r) => {
    const n = of(r);
    return n === 0 ? <span class="zero">0</span> : sizeText(n);
  },
});

function mapColumns(open: (region: Region) => void): Column<Region>[] {
  return [
    {
      id: 'start',
      title: 'Start',
      width: '116px',
      sort: (r) => r.start,
      hint: (r) => `${r.map.start}–${r.map.end}`,
      cell: (r) => (
        <button type="button" class="address" tabIndex={-1} onClick={() => open(r)}>
          {shortAddress(r.start)}
        </button>
      ),
    },
    {
      id: 'kind',
      title: 'Kind',
      width: '40px',
      sort: (r) => KINDS.indexOf(r.kind),
      hint: (r) => KIND_NAME[r.kind],
      cell: (r) => (
        <>
          <KindChip kind={r.kind} wx={r.wx} />
          <span class="unseen">{KIND_NAME[r.kind]}</span>
        </>
      ),
    },
    {
      id: 'perms',
      title: 'Perms',
      width: '56px',
      sort: (r) => r.map.permissions,
      cell: (r) => r.map.permissions,
    },
    { id: 'size', title: 'Size', width: '68px', ...figure((r) => r.size) } as Column<Region>,
    { id: 'rss', title: 'RSS', width: '68px', ...figure((r) => r.map.rss_bytes) } as Column<Region>,
    { id: 'pss', title: 'PSS', width: '68px', ...figure((r) => r.map.pss_bytes), narrow: 'hide' } as Column<Region>,
    {
      id: 'dirty',
      title: 'Dirty',
      width: '68px',
      ...figure((r) => r.map.dirty_bytes),
      narrow: 'hide',
    } as Column<Region>,
    { id: 'swap', title: 'Swap', width: '60px', ...figure((r) => r.map.swap_bytes), narrow: 'hide' } as Column<Region>,
    {
      id: 'path',
      title: 'Path',
      width: 'minmax(150px, 1fr)',
      sort: (r) => r.map.pathname,
      hint: (r) =>
        `${visible(r.map.pathname ?? 'no path')}${r.map.inode === '0' ? '' : ` · offset ${r.map.file_offset} · dev ${r.map.device} inode ${r.map.inode}`}`,
      cell: (r) => (
        <>
          {r.wx && <span class="mark ink-bad">W+X </span>}
          {r.map.pathname === null ? <span class="quiet-text">{KIND_NAME[r.kind]}</span> : visible(r.map.pathname)}
          {r.map.deleted === true && !r.map.pathname?.endsWith('(deleted)') && (
            <span class="mark ink-bad"> deleted</span>
          )}
        </>
      ),
    },
  ];
}

const MAP_HEAD = [
  'start',
  'end',
  'permissions',
  'kind',
  'size',
  'rss',
  'pss',
  'dirty',
  'swap',
  'offset',
  'inode',
  'path',
];

function Maps(props: { shared: Shared }) {
  const { shared } = props;
  const { space } = shared.model.view.value;
  const { regions } = space;
  const line = shared.params.get('q') ?? '';
  const kind = shared.params.get('kind');
  const match = useMemo(() => matcher(line), [line]);
  const inside = useMemo(() => (line.trim() === '' ? undefined : crashIn(line)?.address), [line]);
  const rows = useMemo(
    () =>
      regions.filter(
        (r) =>
          (kind === null || r.kind === kind) &&
          (match.empty ||
            (inside !== undefined && inside >= r.start && inside < r.end) ||
            match.test(`${r.map.pathname ?? r.name} ${r.map.permissions} ${r.map.start} ${r.wx ? 'w+x' : ''}`)),
      ),
    [regions, match, inside, kind],
  );
  const columns = useMemo(() => mapColumns(shared.openRegion), [shared.openRegion]);
  const sort = parseSort(
    shared.params.get('sort'),
    columns.map((c) => c.id),
    { column: 'start', down: false },
  );
  const { address } = shared.memory.state.value;
  const here = address === null ? null : regionAt(regions, address);
  const wx = regions.filter((r) => r.wx).length;
  const { identity } = shared;
  return (
    <PanelBox
      id="maps"
      title="Mappings"
      note={
        <FilterField
          shared={shared}
          label="Filter mappings"
          match={match}
          found={match.empty && kind === null ? '' : `${count(rows.length)} of ${count(regions.length)}`}
        />
      }
      actions={
        <CopyAs
          what="mappings"
          items={[
            { name: 'curl', text: () => curlOf('/api/processes/maps', identity) },
            {
              name: 'JSON',
              text: () =>
                JSON.stringify(
                  rows.map((r) => r.map),
                  null,
                  2,
                ),
            },
            {
              name: 'TSV',
              text: () =>
                tsvOf(
                  MAP_HEAD,
                  rows.map((r) => [
                    r.map.start,
                    r.map.end,
                    r.map.permissions,
                    r.kind,
                    r.size,
                    r.map.rss_bytes,
                    r.map.pss_bytes,
                    r.map.dirty_bytes,
                    r.map.swap_bytes,
                    r.map.file_offset,
                    r.map.inode,
                    r.map.pathname,
                  ]),
                ),
            },
          ]}
        />
      }
      foot={
        <>
          <Provenance source={`/proc/${identity.pid}/smaps`} at={space.capturedAt} />
          {wx > 0 && <span class="ink-bad">{count(wx)} W+X</span>}
          {space.truncated && (
            <span class="ink-bad">
              <span class="hatch" aria-hidden="true" /> cut: the first {count(regions.length)} mappings
            </span>
          )}
        </>
      }
    >
      {space.error !== null && (
        <div class={regions.length === 0 ? 'state state-bad' : 'line line-bad'} role="note">
          <span class="line-text">
            {regions.length === 0 ? 'Maps are not readable: ' : 'Could not read the maps again: '}
            {visible(space.error)}
          </span>
        </div>
      )}
      {space.capturedAt === null && space.error === null ? (
        <Waiting since={shared.model.view.value.end} what="maps" />
      ) : (
        (regions.length > 0 || space.error === null) && (
          <Grid
            label="Mappings"
            columns={columns}
            rows={rows}
            rowKey={(r) => r.map.start}
            sort={sort}
            onSort={(next) => shared.set({ sort: sortText(next) })}
            selected={here?.map.start ?? null}
            onOpen={shared.openRegion}
            rowClass={(r) => (r.wx ? 'edge-bad' : '')}
            empty={regions.length === 0 ? 'No mappings: a kernel thread, or a zombie.' : 'Nothing matches.'}
            live
          />
        )
      )}
    </PanelBox>
  );
}

// reasonAt says why memory past what was read is not readable, from the mapping there.
export function reasonAt(address: bigint, regions: readonly Region[]): string {
  if (regions.length === 0) return 'the kernel gave no more';
  const region = regionAt(regions, address);
  if (region === null) return 'nothing is mapped there';
  if (region.kind === 'guard') return 'a guard page (---)';
  if (!region.map.readable) return `the mapping is ${region.map.permissions}`;
  return `the kernel gave no more of ${visible(region.name)}`;
}

function Inspector(props: { shared: Shared; selection: HexSelection; little: boolean; flip: () => void }) {
  const { shared, selection, little } = props;
  const { block } = shared.memory.state.value;
  const { regions } = shared.model.view.value.space;
  if (block === null) return null;
  const at = block.address + BigInt(selection.cursor);
  const readings = inspect(block.bytes, selection.cursor, little);
  const target = pointsTo(pointerAt(block, selection.cursor, little), regions);
  const span = Math.abs(selection.cursor - selection.anchor) + 1;
  return (
    <div class="inspector" role="group" aria-label="Value inspector" data-region="inspector">
      <div class="inspector-head">
        <span class="inspector-at">
          {shortAddress(at)}
          {span > 1 ? ` · ${count(span)} bytes` : ''}
        </span>
        <button type="button" class="button button-text" aria-keyshortcuts="e" onClick={props.flip}>
          {little ? 'little-endian' : 'big-endian'}
        </button>
      </div>
      <dl class="readings">
        {readings.map((reading) => (
          <div class="reading" key={reading.name}>
            <dt class="reading-name">{reading.name}</dt>
            <dd class="reading-value">
              {reading.text === null ? UNKNOWN : reading.name === 'string' ? visible(reading.text) : reading.text}
            </dd>
          </div>
        ))}
        <div class="reading">
          <dt class="reading-name">points to</dt>
          <dd class="reading-value">
            {target === null ? (
              'no mapping'
            ) : (
              <>
                <span class={`kind-text kind-text-${target.region.kind}`}>{target.text}</span>{' '}
                <button
                  type="button"
                  class="button button-text"
                  onClick={() => {
                    const to = pointerAt(block, selection.cursor, little);
                    if (to !== null) shared.openAddress(to);
                  }}
                >
                  Go to pointer
                </button>
              </>
            )}
          </dd>
        </div>
      </dl>
    </div>
  );
}

export function Hex(props: { shared: Shared }) {
  const { shared } = props;
  const { memory, model } = shared;
  const { address, block, length, failure, loading, changed, changes, capturedAt, took } = memory.state.value;
  const { regions } = model.view.value.space;
  const history = memory.history.value;
  const ended = model.ended.value !== null;
  const [typed, setTyped] = useState<string | null>(null);
  const [problem, setWords] = useState<string | null>(null);
  const setProblem = (words: string | null) => {
    setWords(words);
    if (words !== null) announce(words);
  };
  const [little, setLittle] = useState(true);
  const words = shared.params.get('view') === 'words';
  const [selection, setSelection] = useState<HexSelection>({ cursor: 0, anchor: 0 });
  const narrow = matchMedia('(max-width: 699px)').matches;

  useEffect(() => setSelection({ cursor: 0, anchor: 0 }), [address]);

  const go = (text: string) => {
    const place = findPlace(text, regions, address);
    if ('error' in place) {
      setProblem(place.error);
      return;
    }
    setProblem(null);
    setTyped(null);
    shared.openAddress(place.address);
  };
  const flip = () => {
    setLittle(!little);
    announce(little ? 'big-endian' : 'little-endian');
  };
  const follow = () => {
    if (block === null) return;
    const to = pointerAt(block, selection.cursor, little);
    if (to === null) setProblem('Fewer than 8 bytes are left here.');
    else if (regionAt(regions, to) === null) setProblem(`${fullAddress(to)} points to no mapping.`);
    else {
      setProblem(null);
      shared.openAddress(to);
    }
  };
  const picked = (): { bytes: Uint8Array; at: bigint } => {
    if (block === null) return { bytes: new Uint8Array(0), at: 0n };
    const low = Math.min(selection.cursor, selection.anchor);
    const high = Math.max(selection.cursor, selection.anchor);
    if (low === high) return { bytes: block.bytes, at: block.address };
    return { bytes: block.bytes.subarray(low, high + 1), at: block.address + BigInt(low) };
  };
  const here = address === null ? null : regionAt(regions, address);
  const byte = here === null || address === null ? null : fileOffset(here, address);
  const off = ended ? 'The process has ended.' : null;
  return (
    <section class="panel panel-hex" aria-labelledby="hex-title" data-region="hex">
      <div class="panel-head hex-head">
        <h2 class="panel-title" id="hex-title">
          Bytes
        </h2>
        <button
          type="button"
          class="button button-small"
          aria-label="◂ back"
          title="back (Alt+←)"
          disabled={history.at <= 0}
          onClick={() => memory.step(-1)}
        >
          ◂
        </button>
        <button
          type="button"
          class="button button-small"
          aria-label="▸ forward"
          title="forward (Alt+→)"
          disabled={history.at >= history.places.length - 1}
          onClick={() => memory.step(1)}
        >
          ▸
        </button>
        <form
          class="goto"
          onSubmit={(event) => {
            event.preventDefault();
            go(typed ?? (address === null ? '' : fullAddress(address)));
          }}
        >
          <input
            class="field goto-field"
            aria-label="Address"
            aria-invalid={problem !== null}
            aria-describedby={problem === null ? undefined : 'goto-problem'}
            data-address=""
            spellcheck={false}
            autocomplete="off"
            placeholder="address, mapping, +0x40"
            value={typed ?? (address === null ? '' : fullAddress(address))}
            onInput={(event) => setTyped(event.currentTarget.value)}
            onBlur={() => {
              if (typed === '') setTyped(null);
            }}
          />
          <button type="submit" class="button button-small" disabled={ended}>
            Go
          </button>
        </form>
        <select
          class="field"
          aria-label="Length"
          value={String(length)}
          onChange={(event) => {
            const next = lengthFrom(event.currentTarget.value);
            shared.set({ len: next === 256 ? undefined : String(next) });
          }}
        >
          {[...new Set([...LENGTHS, length])]
            .sort((a, b) => a - b)
            .map((n) => (
              <option key={n} value={String(n)}>
                {n < 1024 ? `${n} B` : n % 1024 === 0 ? `${n / 1024} KiB` : `${n} B`}
              </option>
            ))}
        </select>
        <button
          type="button"
          class="button button-text"
          aria-pressed={words}
          aria-keyshortcuts="w"
          onClick={() => shared.set({ view: words ? undefined : 'words' })}
        >
          words
        </button>
        <label class="check switch">
          <input
            class="check-box"
            type="checkbox"
            checked={memory.auto.value}
            disabled={ended}
            onChange={(event) => memory.setAuto(event.currentTarget.checked)}
          />
          refresh 1 s
        </label>
        <button
          type="button"
          class="button button-text"
          aria-keyshortcuts="r"
          disabled={ended || address === null}
          title={off ?? undefined}
          onClick={() => void memory.read()}
        >
          {loading ? 'Reading…' : 'Refresh'}
        </button>
        <CopyAs
          what="memory"
          disabled={block === null}
          items={[
            {
              name: 'curl',
              text: () =>
                curlOf('/api/processes/memory', shared.identity, {
                  address: fullAddress(address ?? 0n),
                  length,
                }),
            },
            ...COPY_FORMS.map((form: CopyForm) => ({
              name: form === 'gdb' ? 'gdb x/gx' : form,
              text: () => {
                const { bytes, at } = picked();
                return copyBytes(form, bytes, at);
              },
            })),
          ]}
        />
      </div>
      {problem !== null && (
        <div class="line line-bad" id="goto-problem">
          <span class="line-text">{visible(problem)}</span>
        </div>
      )}
      {failure !== null && (
        <div class={block === null ? 'state state-bad' : 'line line-bad'} role="note">
          <span class="line-text">
            {block === null && <span class="hatch" aria-hidden="true" />} {visible(failure.text)}
            {block === null && address !== null && ` (${reasonAt(address, regions)})`}
          </span>
        </div>
      )}
      <div class="hex-split">
        {block === null ? (
          failure === null && (
            <p class="state">
              {address === null ? 'Choose a mapping, press Enter on the strip, or type an address.' : '····'}
            </p>
          )
        ) : (
          <>
            <HexView
              block={block}
              changed={changed}
              columns={narrow ? 8 : 16}
              little={little}
              words={words}
              regions={regions}
              selection={selection}
              onSelect={setSelection}
              onFollow={follow}
              onEndian={flip}
              reason={reasonAt(block.address + BigInt(block.bytes.length), regions)}
            />
            <Inspector shared={shared} selection={selection} little={little} flip={flip} />
          </>
        )}
      </div>
      <div class="panel-foot">
        <Provenance source={`process_vm_readv(${shared.identity.pid})`} at={capturedAt} took={took} />
        <span class="provenance">
          {here !== null && `${KIND_LETTER[here.kind]} ${visible(here.name)} ${here.map.permissions}`}
          {byte !== null && ` · byte 0x${byte.toString(16)} of the file`}
          {capturedAt !== null && ` · ${clockMs(capturedAt)}`}
          {changes > 0 && ' · '}
          {changes > 0 && <span class="ink-cpu">{count(changes)} bytes changed</span>}
        </span>
      </div>
    </section>
  );
}

export function MemorySection(props: { shared: Shared }) {
  const { shared } = props;
  const { space } = shared.model.view.value;
  const { regions } = space;
  const totals = useMemo(() => totalsByKind(regions), [regions]);
  const { memory } = shared;
  const addr = shared.params.get('addr');
  const len = shared.params.get('len');

  useEffect(() => {
    memory.resume();
    return () => memory.suspend();
  }, [memory]);
  useEffect(() => memory.setLength(lengthFrom(len)), [memory, len]);
  // The address bar leads: a link, a step back, or what was just gone to.
  useEffect(() => {
    if (addr !== null && /^0x[0-9a-f]{1,16}$/i.test(addr)) {
      if (memory.state.value.address !== BigInt(addr)) memory.go(BigInt(addr));
      return;
    }
    const first = regions.find((r) => r.map.readable);
    if (memory.state.value.address === null && first !== undefined) memory.go(first.start);
  }, [memory, addr, regions]);
  // Steps of the history are written back to the address bar.
  const { address } = memory.state.value;
  useEffect(() => {
    if (address !== null && (addr === null || BigInt(/^0x[0-9a-f]{1,16}$/i.test(addr) ? addr : '0x0') !== address)) {
      shared.set({ addr: fullAddress(address) });
    }
  }, [address]);

  return (
    <div class="memory">
      <PanelBox
        id="types"
        title="Kinds"
        note={shared.params.get('kind') === null ? '' : 'press again for all'}
        foot={<Provenance source={`/proc/${shared.identity.pid}/smaps`} at={space.capturedAt} />}
      >
        {totals.length === 0 ? <p class="state">No mappings.</p> : <TypeTable shared={shared} totals={totals} />}
      </PanelBox>
      <Maps shared={shared} />
      <Hex shared={shared} />
    </div>
  );
}

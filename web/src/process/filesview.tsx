// Files: the descriptor table, and a picture of what they connect this process to.

import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { count, UNKNOWN, visible } from '../format';
import { navigate, plainClick, processPath } from '../route';
import type { Descriptor, DescriptorsAnswer, Endpoint } from '../wire.gen';
import type { Shared } from './context';
import { CopyAs, curlOf, tsvOf } from './copy';
import { FilterField } from './field';
import { type Column, Grid } from './grid';
import { matcher } from './match';
import { parseSort, sortText } from './order';
import type { Panel } from './panel';
import { FetchedBody, PanelBox, ProcessLink, Provenance, Refresh, Warnings } from './parts';
import { endsText, type Picture, type PictureLink, pictureOf, textOf } from './peers';

const ARROW: Readonly<Record<string, string>> = { read: '◂', write: '▸', 'read/write': '◂▸', none: '·' };
const maxEndsInCell = 3;

// CANDIDATE says how much is known of a peer that only its addresses tell of.
const CANDIDATE = 'candidate: its addresses are the right ones; the kernel does not say whose the other end is';

function Ends(props: { list: readonly Endpoint[]; word: string; why?: string }) {
  return (
    <span class="ends">
      <span class="ends-word" title={props.why}>
        {props.word}{' '}
      </span>
      {props.list.slice(0, maxEndsInCell).map((end, i) => (
        <span key={`${end.process_id.pid} ${end.fd}`}>
          {i > 0 && ', '}
          <ProcessLink identity={end.process_id} name={end.name} hash="#files" /> fd {end.fd}
        </span>
      ))}
      {props.list.length > maxEndsInCell && ` +${count(props.list.length - maxEndsInCell)}`}
    </span>
  );
}

// NoteText makes links of the processes that a note names: who took a lock, whom a pidfd means.
function NoteText(props: { text: string }) {
  const parts = props.text.split(/\bprocess (\d+)/);
  return (
    <span class="quiet-text">
      {' '}
      {parts.map((part, i) =>
        i % 2 === 0 ? (
          visible(part)
        ) : (
          <PidLink key={part} pid={part}>
            process {part}
          </PidLink>
        ),
      )}
    </span>
  );
}

// PidLink leads to who has a number now: its start time is not known.
function PidLink(props: { pid: string; children: ComponentChildren }) {
  const href = `/process/${props.pid}`;
  return (
    <a
      class="link"
      href={href}
      tabIndex={-1}
      onClick={(event) => {
        if (!plainClick(event)) return;
        event.preventDefault();
        navigate(href);
      }}
    >
      {props.children}
    </a>
  );
}

function Other(props: { entry: Descriptor }) {
  const { entry } = props;
  const sure = entry.peers.filter((p) => p.relation !== 'address_candidate');
  const possible = entry.peers.filter((p) => p.relation === 'address_candidate');
  return (
    <>
      {sure.length > 0 && <Ends list={sure} word={entry.kind === 'socket' ? 'peer' : 'other end'} />}
      {possible.length > 0 && sure.length > 0 && '; '}
      {possible.length > 0 && <Ends list={possible} word="candidate" why={CANDIDATE} />}
      {entry.holders.length > 0 && entry.peers.length > 0 && '; '}
      {entry.holders.length > 0 && <Ends list={entry.holders} word="shared with" />}
      {entry.note !== null && <NoteText text={entry.note} />}
    </>
  );
}

const queue = (n: number | null) => (n === null || n === 0 ? '' : count(n));

const COLUMNS: readonly Column<Descriptor>[] = [
  { id: 'fd', title: 'FD', width: '56px', figure: true, sort: (d) => d.fd, cell: (d) => d.fd },
  { id: 'kind', title: 'Kind', width: '80px', sort: (d) => d.kind, cell: (d) => d.kind },
  {
    id: 'access',
    title: 'Access',
    width: '110px',
    sort: (d) => d.access,
    hint: (d) => d.flags?.join(' ') ?? 'flags unknown',
    cell: (d) =>
      d.access === null ? (
        UNKNOWN
      ) : (
        <>
          <span class="ink-read" aria-hidden="true">
            {ARROW[d.access] ?? ''}
          </span>{' '}
          {d.access}
        </>
      ),
    narrow: 'hide',
  },
  {
    id: 'target',
    title: 'Target',
    width: 'minmax(150px, 1.5fr)',
    sort: (d) => textOf(d),
    hint: (d) => visible(`${d.target}${d.flags === null ? '' : ` · ${d.flags.join(' ')}`}`),
    cell: (d) => (
      <>
        {visible(textOf(d))}
        {d.deleted && !d.target.endsWith('(deleted)') && <span class="mark ink-bad"> deleted</span>}
        {d.tids !== null && <span class="mark ink-cpu"> own table of {d.tids.join(', ')}</span>}
      </>
    ),
  },
  {
    id: 'local',
    title: 'Local',
    width: 'minmax(120px, .55fr)',
    sort: (d) => d.local,
    hint: (d) => (d.local === null ? undefined : visible(d.local)),
    cell: (d) => (d.local === null ? '' : d.local === '' ? (d.local_kind ?? '') : visible(d.local)),
    narrow: 'hide',
  },
  {
    id: 'state',
    title: 'State',
    width: '92px',
    sort: (d) => d.state,
    cell: (d) => d.state ?? '',
    narrow: 'hide',
  },
  {
    id: 'queues',
    title: 'Queue in/out',
    width: '88px',
    figure: true,
    down: true,
    sort: (d) =>
      d.receive_queue === null && d.send_queue === null ? null : (d.receive_queue ?? 0) + (d.send_queue ?? 0),
    cell: (d) => {
      const text = `${queue(d.receive_queue)}/${queue(d.send_queue)}`;
      return text === '/' ? '' : text;
    },
    narrow: 'hide',
  },
  {
    id: 'position',
    title: 'Position',
    width: '80px',
    figure: true,
    down: true,
    sort: (d) => d.position,
    cell: (d) => (d.position === null ? '' : count(d.position)),
    narrow: 'hide',
  },
  {
    id: 'other',
    title: 'Other side',
    width: 'minmax(190px, 1.7fr)',
    hint: (d) =>
      visible(
        [endsText(d.peers, 8), d.holders.length > 0 ? `shared with ${endsText(d.holders, 8)}` : '', d.note ?? '']
          .filter((t) => t !== '')
          .join('; '),
      ) || undefined,
    sort: (d) => (d.peers.length + d.holders.length === 0 ? null : endsText([...d.peers, ...d.holders], 1)),
    cell: (d) => <Other entry={d} />,
  },
];

// The picture: its own units are CSS px, 0 0 at the top left.
const WIDE = 760;
const ROW = 30;
const HEAD = 22; // the name, above the descriptors
const MIDDLE_X = 310;
const MIDDLE_W = 140;

function Arrow(props: { x1: number; x2: number; y: number; link: PictureLink }) {
  const { x1, x2, y, link } = props;
  // x1 is at this process: an arrow head there means bytes come in.
  const toMe = link.direction === 'in' || link.direction === 'both';
  const away = link.direction === 'out' || link.direction === 'both';
  const inward = x1 > x2 ? 1 : -1;
  const head = (x: number, side: number) => `M${x} ${y}l${-8 * side} -4v8z`;
  const tone = link.direction === 'in' ? 'read' : link.direction === 'out' ? 'write' : 'both';
  return (
    <>
      <line class={`peer-line peer-${tone}${link.candidate ? ' peer-dashed' : ''}`} x1={x1} x2={x2} y1={y} y2={y} />
      {toMe && <path class={`peer-head peer-head-${tone}`} d={head(x1, inward)} />}
      {away && <path class={`peer-head peer-head-${tone}`} d={head(x2, -inward)} />}
    </>
  );
}

const cut = (text: string, most: number) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function Side(props: { links: readonly PictureLink[]; side: 'left' | 'right'; y0: number }) {
  const right = props.side === 'right';
  const me = right ? MIDDLE_X + MIDDLE_W : MIDDLE_X;
  const far = right ? me + 96 : me - 96;
  const text = right ? far + 8 : far - 8;
  const anchor = right ? 'start' : 'end';
  return (
    <>
      {props.links.map((link, i) => {
        const y = props.y0 + i * ROW + ROW / 2;
        const peer = link.peers[0];
        const name = peer === undefined ? link.text : `${peer.name} ${peer.process_id.pid} fd ${peer.fd}`;
        const more = link.peers.length > 1 ? ` +${link.peers.length - 1}` : '';
        const second = [
          link.candidate ? 'candidate' : '',
          link.owners.length > 0 ? `shared: ${endsText(link.owners, 2)}` : '',
        ]
          .filter((t) => t !== '')
          .join(' · ');
        const diamond = (me + far) / 2;
        const label = (
          <text class="peer-text" x={text} y={second === '' ? y + 4 : y - 1} text-anchor={anchor}>
            {visible(cut(name + more, 32))}
          </text>
        );
        return (
          <g key={link.fds[0]}>
            <title>{visible(`fd ${link.fds.join(', ')} ${link.kind} ${link.text} ${name}`)}</title>
            <Arrow x1={me} x2={far} y={y} link={link} />
            {link.owners.length > 0 && <path class="peer-diamond" d={`M${diamond} ${y - 7}l7 7l-7 7l-7 -7z`} />}
            <text class="peer-fd" x={right ? me - 6 : me + 6} y={y + 4} text-anchor={right ? 'end' : 'start'}>
              {cut(`fd ${link.fds.join(' ')}`, 10)}
            </text>
            {peer === undefined ? (
              label
            ) : (
              <a
                class="peer-link"
                href={`${processPath(peer.process_id)}#files`}
                onClick={(event) => {
                  if (!plainClick(event)) return;
                  event.preventDefault();
                  navigate(`${processPath(peer.process_id)}#files`);
                }}
              >
                {label}
              </a>
            )}
            {second !== '' && (
              <text class="peer-second" x={text} y={y + 11} text-anchor={anchor}>
                {visible(cut(second, 32))}
              </text>
            )}
          </g>
        );
      })}
    </>
  );
}

function sentenceOf(picture: Picture): string {
  const say = (links: readonly PictureLink[]) =>
    links
      .map((l) => {
        const to = l.peers.length > 0 ? endsText(l.peers, 2) : l.text;
        const way = { in: 'from', out: 'to', both: 'to and from', none: 'with' }[l.direction];
        return `fd ${l.fds.join(' ')} ${way} ${visible(to)}${l.candidate ? ' (candidate)' : ''}${
          l.owners.length > 0 ? `, shared with ${visible(endsText(l.owners, 2))}` : ''
        }`;
      })
      .join('; ');
  return `Pipes: ${say(picture.left) || 'none'}. Sockets: ${say(picture.right) || 'none'}. Files: ${say(picture.below) || 'none'}.`;
}

export function PeerPicture(props: { picture: Picture; name: string; pid: number }) {
  const { picture } = props;
  const sides = Math.max(picture.left.length, picture.right.length, 2);
  const belowRows = Math.ceil(picture.below.length / 2);
  const bodyHeight = HEAD + sides * ROW;
  const height = 24 + bodyHeight + (belowRows > 0 ? 26 + belowRows * 22 : 8) + 8;
  const offset = (n: number) => 24 + HEAD + ((sides - n) * ROW) / 2;
  const more = (side: 'left' | 'right' | 'below', word: string) =>
    picture.more[side] > 0 ? ` · ${count(picture.more[side])} more in the table` : word;
  return (
    <div class="peers" tabIndex={0} role="group" aria-label="Connections" data-scroll="">
      <svg
        class="peers-svg"
        role="group"
        viewBox={`0 0 ${WIDE} ${height}`}
        width={WIDE}
        height={height}
        aria-label={sentenceOf(picture)}
      >
        <text class="peer-caption" x={8} y={13}>
          pipes{more('left', '')}
        </text>
        <text class="peer-caption" x={WIDE - 8} y={13} text-anchor="end">
          sockets{more('right', '')}
        </text>
        <rect class="peer-me" x={MIDDLE_X} y={24} width={MIDDLE_W} height={bodyHeight} />
        <text class="peer-name" x={MIDDLE_X + MIDDLE_W / 2} y={24 + 17} text-anchor="middle">
          {visible(cut(props.name, 16))}
        </text>
        <Side links={picture.left} side="left" y0={offset(picture.left.length)} />
        <Side links={picture.right} side="right" y0={offset(picture.right.length)} />
        {picture.below.length > 0 && (
          <>
            <line
              class="peer-line peer-both"
              x1={WIDE / 2}
              x2={WIDE / 2}
              y1={24 + bodyHeight}
              y2={24 + bodyHeight + 12}
            />
            <text class="peer-caption" x={WIDE / 2 + 8} y={24 + bodyHeight + 15}>
              files{more('below', '')}
            </text>
            {picture.below.map((link, i) => {
              const x = i % 2 === 0 ? 8 : WIDE / 2 + 8;
              const y = 24 + bodyHeight + 38 + Math.floor(i / 2) * 22;
              const arrow = { in: '◂', out: '▸', both: '◂▸', none: '·' }[link.direction];
              return (
                <g key={link.fds[0]}>
                  <title>{visible(`fd ${link.fds.join(', ')} ${link.text}`)}</title>
                  <text class={`peer-text peer-tone-${link.direction}`} x={x} y={y}>
                    {arrow}
                  </text>
                  <text class="peer-text" x={x + 22} y={y}>
                    {visible(cut(`fd ${cut(link.fds.join(' '), 8)} ${shortPath(link.text, 34)}`, 46))}
                  </text>
                  {link.owners.length > 0 && (
                    <text class="peer-second" x={x + 350} y={y} text-anchor="end">
                      {`◇ ${visible(cut(endsText(link.owners, 1), 18))}`}
                    </text>
                  )}
                </g>
              );
            })}
          </>
        )}
      </svg>
    </div>
  );
}

// shortPath keeps the end of a path, which says more than its beginning.
function shortPath(text: string, most: number): string {
  return text.length > most ? `…${text.slice(text.length - most + 1)}` : text;
}

const ends = (list: readonly Endpoint[]) => list.map((e) => `${e.name} ${e.process_id.pid} fd ${e.fd}`).join('; ');
const FIELDS = ['fd', 'kind', 'access', 'target', 'inode', 'protocol', 'state', 'local', 'remote', 'peers', 'holders'];

export function Files(props: { shared: Shared; panel: Panel<DescriptorsAnswer> }) {
  const { shared, panel } = props;
  const state = panel.state.value;
  const ended = shared.model.ended.value !== null;
  const entries = state.data?.entries;
  const line = shared.params.get('q') ?? '';
  const match = useMemo(() => matcher(line), [line]);
  const rows = useMemo(
    () =>
      (entries ?? []).filter(
        (d) =>
          match.empty ||
          match.test(
            `${d.fd} ${d.kind} ${textOf(d)} ${d.target} ${d.local ?? ''} ${d.remote ?? ''} ${d.state ?? ''} ${ends(
              d.peers,
            )} ${ends(d.holders)} ${d.deleted ? 'deleted' : ''}`,
          ),
      ),
    [entries, match],
  );
  const picture = useMemo(() => pictureOf(entries ?? []), [entries]);
  const sort = parseSort(
    shared.params.get('sort'),
    COLUMNS.map((c) => c.id),
    { column: 'fd', down: false },
  );
  const fd = Number(shared.params.get('fd') ?? Number.NaN);
  const { identity } = shared;
  return (
    <PanelBox
      id="files"
      title="File descriptors"
      class="panel-fill"
      note={
        <FilterField
          shared={shared}
          label="Filter descriptors"
          match={match}
          found={match.empty ? '' : `${count(rows.length)} of ${count(entries?.length)}`}
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
            what="descriptors"
            items={[
              { name: 'curl', text: () => curlOf('/api/processes/fds', identity) },
              { name: 'JSON', text: () => JSON.stringify(rows, null, 2) },
              {
                name: 'TSV',
                text: () =>
                  tsvOf(
                    FIELDS,
                    rows.map((d) => [
                      d.fd,
                      d.kind,
                      d.access,
                      d.target,
                      d.inode,
                      d.protocol,
                      d.state,
                      d.local,
                      d.remote,
                      ends(d.peers),
                      ends(d.holders),
                    ]),
                  ),
              },
            ]}
          />
        </>
      }
      foot={
        <Provenance
          source={`/proc/${identity.pid}/fd, fdinfo, locks and sock_diag`}
          at={state.data?.captured_at ?? null}
          took={state.took}
          cost="stopped nothing, read from no descriptor"
        />
      }
    >
      <FetchedBody panel={panel} what="file descriptors" ended={ended}>
        {(data) => (
          <>
            <Warnings list={data.warnings} />
            <div class="files">
              <Grid
                label="File descriptors"
                columns={COLUMNS}
                rows={rows}
                rowKey={(d) => `${d.fd} ${d.tids?.[0] ?? ''}`}
                sort={sort}
                onSort={(next) => shared.set({ sort: sortText(next) })}
                selected={Number.isNaN(fd) ? null : `${fd} `}
                onSelect={(d) => shared.set({ fd: String(d.fd) })}
                empty={data.entries.length === 0 ? 'No file descriptors.' : `Nothing matches ${visible(line)}.`}
              />
              {data.entries.length > 0 && (
                <PeerPicture
                  picture={picture}
                  name={shared.model.view.value.summary?.name ?? String(identity.pid)}
                  pid={identity.pid}
                />
              )}
            </div>
          </>
        )}
      </FetchedBody>
    </PanelBox>
  );
}

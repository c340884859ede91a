// Disassembly of a snapshot: the instructions from RIP on, what a branch leads to as
// a link, and an arrow beside the code for each jump inside of it.

import { useMemo, useRef, useState } from 'preact/hooks';
import { count, visible } from '../format';
import type { Instruction, SnapshotThread } from '../wire.gen';
import type { Shared } from './context';
import { Address, walkAddresses } from './framesview';
import { type Arrow, arrowsOf, branchOf, type Piece, piecesOf } from './jumps';

const LANE = 7; // CSS px
const HEAD = 9;

function Gutter(props: { pieces: readonly Piece[]; width: number }) {
  const { pieces, width } = props;
  if (pieces.length === 0) return null;
  return (
    <svg class="jumps" width={width} aria-hidden="true">
      {pieces.map((piece) => {
        const x = width - HEAD - piece.lane * LANE + 0.5;
        const ink = piece.conditional ? 'jump jump-maybe' : 'jump';
        return (
          <g key={`${piece.lane} ${piece.end}`}>
            {piece.up && <line class={ink} x1={x} x2={x} y1="0" y2="50%" />}
            {piece.down && <line class={ink} x1={x} x2={x} y1="50%" y2="100%" />}
            {piece.end !== '' && <line class={ink} x1={x} x2={width - 1} y1="50%" y2="50%" />}
            {piece.end === 'to' && (
              <text class="jump-head" x={width} y="50%" dy="4" text-anchor="end">
                ▸
              </text>
            )}
          </g>
        );
      })}
    </svg>
  );
}

function Text(props: {
  shared: Shared;
  one: Instruction;
  row: number;
  to: number | undefined;
  go: (row: number) => void;
}) {
  const branch = branchOf(props.one.text);
  if (branch === null) return <>{visible(props.one.text)}</>;
  const { to } = props;
  return (
    <>
      {visible(branch.before)}
      {to === undefined ? (
        <Address shared={props.shared} value={branch.address} text={branch.address} walked />
      ) : (
        <button
          type="button"
          class="address"
          title="go to this instruction; m opens it in Memory"
          data-to={branch.address}
          tabIndex={-1}
          onClick={() => props.go(to)}
        >
          <span aria-hidden="true">{to > props.row ? '↓' : '↑'} </span>
          {branch.address}
        </button>
      )}
      {visible(branch.after)}
    </>
  );
}

export function Code(props: { shared: Shared; thread: SnapshotThread }) {
  const { disassembly: code } = props.thread;
  const box = useRef<HTMLDivElement>(null);
  const [picked, setPicked] = useState(-1);
  const list = code?.instructions ?? [];
  const { rows, pieces, width, jumps } = useMemo(() => {
    const arrows: Arrow[] = arrowsOf(list);
    const lanes = arrows.reduce((most, arrow) => Math.max(most, arrow.lane + 1), 0);
    return {
      rows: new Map(list.map((one, i) => [BigInt(one.address), i])),
      pieces: piecesOf(arrows, list.length),
      width: lanes === 0 ? 0 : HEAD + lanes * LANE,
      jumps: arrows.length,
    };
  }, [code]);
  const go = (row: number) => {
    setPicked(row);
    const line = box.current?.querySelectorAll<HTMLElement>('[data-line]')[row];
    line?.scrollIntoView({ block: 'nearest' });
    line?.querySelector<HTMLElement>('[data-to]')?.focus({ preventScroll: true });
  };
  return (
    <section class="panel snap-code" aria-label="Disassembly" data-region="snap-code">
      <h3 class="snap-title">
        Disassembly
        {list.length > 0 && (
          <span class="snap-note">
            {count(list.length)} instructions from rip
            {jumps > 0 && ` · ${count(jumps)} ${jumps === 1 ? 'jump' : 'jumps'} inside, dashed: conditional`}
          </span>
        )}
      </h3>
      <div
        class="snap-scroll"
        tabIndex={0}
        role="group"
        aria-label="Disassembly"
        data-scroll=""
        ref={box}
        onKeyDown={walkAddresses}
      >
        {code === null && <p class="state">No code without registers.</p>}
        {code !== null && code.error !== null && (
          <p class="walk-end ink-bad">
            {visible(code.error)}
            {list.length === 0 && code.bytes !== '' && <span class="mono code-raw"> {code.bytes}</span>}
          </p>
        )}
        {code !== null && list.length > 0 && (
          <table class="plain code">
            <caption class="unseen">Instructions from {code.address}</caption>
            <thead class="unseen-head">
              <tr>
                <th scope="col">Current</th>
                <th scope="col">Address</th>
                <th scope="col" class="code-bytes">
                  Bytes
                </th>
                <th scope="col">Jumps</th>
                <th scope="col">Instruction</th>
              </tr>
            </thead>
            <tbody>
              {list.map((one, i) => (
                <tr
                  key={one.address}
                  class={`${one.current ? 'code-current' : ''}${picked === i ? ' code-picked' : ''}`}
                  aria-current={one.current || undefined}
                  data-line=""
                >
                  <td class="code-mark">
                    {one.current && <span title="the next instruction">▶</span>}
                    {!one.current && picked === i && <span title="the jump leads here">▸</span>}
                  </td>
                  <td>
                    <Address shared={props.shared} value={one.address} walked />
                  </td>
                  <td class="code-bytes">{one.bytes}</td>
                  <td class="code-jumps">
                    <div style={{ width: `${width}px` }} />
                    <Gutter pieces={pieces[i] ?? []} width={width} />
                  </td>
                  <td class="code-text">
                    <Text
                      shared={props.shared}
                      one={one}
                      row={i}
                      to={rows.get(branchOf(one.text)?.target ?? -1n)}
                      go={go}
                    />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </div>
    </section>
  );
}

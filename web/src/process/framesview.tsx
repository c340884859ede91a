// A call stack as a table: what was called, where its source is, and how each frame
// was found when that is not call frame information.

import { useEffect, useState } from 'preact/hooks';
import { count, visible } from '../format';
import { bindKeys } from '../keys';
import type { Frame } from '../wire.gen';
import type { Shared } from './context';
import { baseName } from './maps';
import { type FrameRow, frameRows, howFound, sourceText } from './stacks';

// maxFramesShown rows of a stack are mounted at first; a button shows the rest.
export const maxFramesShown = 48;

// Address is an address that opens in the memory section, by a click or by "m". In a
// part that is walked with the arrow keys it is no tab stop of its own.
export function Address(props: { shared: Shared; value: string; text?: string; walked?: boolean | undefined }) {
  return (
    <button
      type="button"
      class="address"
      title="open in Memory"
      data-to={props.value}
      tabIndex={props.walked ? -1 : undefined}
      onClick={() => props.shared.openAddress(BigInt(props.value))}
    >
      {props.text ?? props.value.replace(/^0x0{0,4}/, '')}
    </button>
  );
}

// useAddressKey lets "m" open the address that has the focus.
export function useAddressKey(shared: Shared): void {
  useEffect(
    () =>
      bindKeys([
        {
          keys: 'm',
          label: 'open the address in Memory',
          group: 'Memory',
          hidden: true,
          run: () => {
            const to = document.activeElement?.getAttribute('data-to');
            if (to === null || to === undefined) return false;
            shared.openAddress(BigInt(to));
            return undefined;
          },
        },
      ]),
    [shared],
  );
}

// walkAddresses moves the focus between the addresses of a part: its box is the tab
// stop, the arrow keys go on from there.
export function walkAddresses(event: KeyboardEvent): void {
  const box = event.currentTarget as HTMLElement;
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const list = [...box.querySelectorAll<HTMLElement>('[data-to]')];
  const at = list.indexOf(document.activeElement as HTMLElement);
  const to: Record<string, number> = {
    ArrowDown: at + 1,
    ArrowUp: at < 0 ? -1 : Math.max(0, at - 1),
    Home: 0,
    End: list.length - 1,
  };
  const next = list[to[event.key] ?? -1];
  if (next === undefined) return;
  event.preventDefault();
  next.focus();
}

function Row(props: { shared: Shared; row: FrameRow; walked: boolean | undefined }) {
  const { row } = props;
  const { frame } = row;
  const how = row.inlined ? '' : howFound(frame);
  const name = row.name === null ? null : visible(row.name);
  const module = frame.module === null ? null : visible(frame.module);
  const source = visible(sourceText(row.file, row.line));
  const whole = row.file === null ? undefined : `${visible(row.file)}${row.line === null ? '' : `:${row.line}`}`;
  return (
    <tr class={row.inlined ? 'frame frame-inlined' : 'frame'}>
      <td class="num frame-n">{row.inlined ? '' : row.depth}</td>
      <td>
        <div class="frame-name">
          <span class="frame-text" title={name ?? undefined}>
            {name ?? <span class="quiet-text">no symbol</span>}
            {!row.inlined && frame.symbol !== null && frame.symbol_offset !== null && (
              <span class="frame-offset">+{frame.symbol_offset}</span>
            )}
          </span>
          {row.inlined && <span class="tag">inlined</span>}
          {!row.inlined && frame.guess && (
            <span class="tag tag-warn" title="outside of every sized symbol: this is only the nearest name">
              guess
            </span>
          )}
          {how !== '' && (
            <span class="tag" title="how this frame was found">
              {how}
            </span>
          )}
          {source !== '' && <span class="frame-under">{source}</span>}
        </div>
      </td>
      <td class="frame-source" title={whole}>
        {source}
      </td>
      <td class="frame-module" title={module === null ? undefined : `${module}+${frame.module_offset ?? '?'}`}>
        {row.inlined ? '' : module === null ? <span class="quiet-text">no file</span> : baseName(module)}
      </td>
      <td class="frame-address">
        {!row.inlined && <Address shared={props.shared} value={frame.address} walked={props.walked} />}
      </td>
    </tr>
  );
}

export interface Walk {
  readonly call_stack: readonly Frame[] | null;
  readonly unwind_stop: string | null;
  readonly frames_may_be_missing: boolean;
}

// Frames is the stack of one thread with how its walk ended.
export function Frames(props: { shared: Shared; walk: Walk; label: string; walked?: boolean }) {
  const { walk } = props;
  const [all, setAll] = useState(false);
  const rows = frameRows(walk.call_stack ?? []);
  const shown = all ? rows : rows.slice(0, maxFramesShown);
  return (
    <>
      {rows.length > 0 && (
        <table class="plain frames">
          <caption class="unseen">{props.label}</caption>
          <thead>
            <tr>
              <th scope="col" class="num">
                #
              </th>
              <th scope="col">Function</th>
              <th scope="col" class="frame-source">
                Source
              </th>
              <th scope="col" class="frame-module">
                Module
              </th>
              <th scope="col" class="frame-address">
                Address
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map((row, i) => (
              <Row key={i} shared={props.shared} row={row} walked={props.walked} />
            ))}
          </tbody>
        </table>
      )}
      {shown.length < rows.length && (
        <button type="button" class="button button-small frames-more" onClick={() => setAll(true)}>
          Show all {count(rows.length)} rows
        </button>
      )}
      {(walk.frames_may_be_missing || walk.unwind_stop !== null) && (
        <p class="walk-end">
          {walk.frames_may_be_missing && <span class="tag tag-warn">frames may be missing</span>}
          {walk.unwind_stop !== null && `The walk ended: ${visible(walk.unwind_stop)}`}
        </p>
      )}
    </>
  );
}

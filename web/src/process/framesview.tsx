// A call stack as a table: what was called, where its source is, and how each frame
// was found when that is not call frame information.

import { useState } from 'preact/hooks';
import { count, visible } from '../format';
import type { Frame } from '../wire.gen';
import type { Shared } from './context';
import { baseName } from './maps';
import { type FrameRow, frameRows, howFound, sourceText } from './stacks';

// maxFramesShown rows of a stack are mounted at first; a button shows the rest.
export const maxFramesShown = 48;

// Address is an address that opens in the memory section.
export function Address(props: { shared: Shared; value: string; text?: string }) {
  return (
    <button
      type="button"
      class="address"
      title="open in Memory"
      onClick={() => props.shared.openAddress(BigInt(props.value))}
    >
      {props.text ?? props.value.replace(/^0x0{0,4}/, '')}
    </button>
  );
}

function Row(props: { shared: Shared; row: FrameRow }) {
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
      <td class="frame-address">{!row.inlined && <Address shared={props.shared} value={frame.address} />}</td>
    </tr>
  );
}

export interface Walk {
  readonly call_stack: readonly Frame[] | null;
  readonly unwind_stop: string | null;
  readonly frames_may_be_missing: boolean;
}

// Frames is the stack of one thread with how its walk ended.
export function Frames(props: { shared: Shared; walk: Walk; label: string }) {
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
              <Row key={i} shared={props.shared} row={row} />
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

// The output of a run as lines: numbers, offsets, stderr with an edge bar, marks where
// bytes fell out; follows the end until somebody scrolls up; searched in the page.

import { effect } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { announce } from '../announce';
import { count, visible } from '../format';
import { Lifetime } from '../life';
import type { Run, RunOutput } from '../wire.gen';
import { type Line, Lines, maxLines, Search } from './lines';
import { isOver } from './model';
import { Reader } from './reader';
import { store } from './store';
import { useWindow } from './window';

const ROW = 18; // CSS px, as in runs.css
// maxPiece bytes of output are taken at a time.
const maxPiece = 262_144;
// maxShown characters of a line are drawn.
export const maxShown = 2_000;

// marked cuts a text at what is searched for.
function marked(text: string, wanted: string) {
  if (wanted === '') return visible(text);
  const lower = text.toLowerCase();
  const parts = [];
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, from)) {
    parts.push(visible(text.slice(from, at)));
    parts.push(
      <mark class="out-mark" key={at}>
        {visible(text.slice(at, at + wanted.length))}
      </mark>,
    );
    from = at + wanted.length;
  }
  parts.push(visible(text.slice(from)));
  return parts;
}

function Row(props: { line: Line; index: number; wanted: string; isCurrent: boolean }) {
  const { line, index } = props;
  const isLong = line.text.length > maxShown;
  return (
    <div
      class={`out-row${line.stream === 'stderr' ? ' out-stderr' : ''}${props.isCurrent ? ' out-current' : ''}`}
      style={{ top: `${index * ROW}px` }}
    >
      <span class="out-number">{count(line.number)}</span>
      <span class="out-offset" title="Offset of its first byte">
        {line.exact ? '' : '~'}
        {count(line.offset)}
      </span>
      <span class="out-text">
        {line.gap > 0 && <span class="out-gap">▨ {count(line.gap)} bytes dropped here </span>}
        {line.stream === 'stderr' && <span class="unseen">stderr: </span>}
        {marked(isLong ? line.text.slice(0, maxShown) : line.text, props.wanted)}
        {isLong && <span class="out-gap"> … {count(line.text.length - maxShown)} more characters</span>}
      </span>
    </div>
  );
}

export function OutputView(props: { run: Run }) {
  const { id } = props.run;
  const lines = useMemo(() => new Lines(), [id]);
  const scroller = useRef<HTMLDivElement>(null);
  const [version, setVersion] = useState(0);
  const [isFollowing, setFollowing] = useState(true);
  const [seen, setSeen] = useState(0); // number of the last line when following ended
  const [text, setText] = useState('');
  const [current, setCurrent] = useState(0); // number of the line that was found
  const [problem, setProblem] = useState('');
  const [isDone, setDone] = useState(false);
  const window_ = useWindow(scroller, lines.length, ROW);
  const wanted = text.toLowerCase();
  const search = useMemo(() => (wanted === '' ? null : new Search(lines, wanted)), [lines, wanted]);
  search?.look();
  const found = search?.found ?? [];

  useEffect(() => {
    const run = store.runs.peek().get(id);
    if (!run) return;
    const life = new Lifetime();
    let frame = 0;
    const show = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        setVersion(lines.version);
      });
    };
    life.add(() => cancelAnimationFrame(frame));
    const reader = new Reader(id, run.output, {
      max: maxPiece,
      replay: Number.POSITIVE_INFINITY,
      take(output: RunOutput) {
        lines.lost(output.dropped);
        output.chunks.forEach((chunk, i) => {
          lines.add(chunk, output.chunks[i + 1]?.from ?? output.next);
        });
        setProblem('');
        if (output.eof) setDone(true);
        show();
      },
      failed: setProblem,
    });
    life.add(() => reader.close());
    const hear = (of: string, next: number) => {
      if (of === id) reader.wake(next);
    };
    store.outputs.add(hear);
    life.add(() => store.outputs.delete(hear));
    life.add(
      effect(() => {
        const now = store.runs.value.get(id);
        if (!now) return;
        if (isOver(now)) reader.look();
        else reader.wake(now.output.next);
      }),
    );
    reader.look();
    return () => life.close();
  }, [id]);

  // The end stays in sight while it is followed; what stands still keeps its place when
  // the oldest lines are left out.
  const dropped = useRef(0);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    if (isFollowing) element.scrollTop = element.scrollHeight;
    else if (lines.dropped > dropped.current) element.scrollTop -= (lines.dropped - dropped.current) * ROW;
    dropped.current = lines.dropped;
    window_.scrolled();
  }, [version, isFollowing, window_.height]);

  const last = lines.dropped + lines.length;
  const follow = (on: boolean) => {
    setFollowing(on);
    if (!on) setSeen(last);
  };
  const onScroll = () => {
    const element = scroller.current;
    if (element === null) return;
    const isAtEnd = element.scrollTop + element.clientHeight >= element.scrollHeight - ROW;
    if (!isAtEnd && isFollowing && element.scrollTop < window_.top) follow(false);
    else if (isAtEnd && !isFollowing) follow(true);
    window_.scrolled();
  };
  const go = (step: 1 | -1) => {
    if (found.length === 0) return;
    const at = found.findIndex((n) => n >= current);
    let next = 0;
    if (step > 0) next = current === 0 ? found.length - 1 : found[at] === current ? at + 1 : at;
    else next = at < 0 ? found.length - 1 : at - 1;
    const number = found[(next + found.length) % found.length] as number;
    setCurrent(number);
    follow(false);
    const element = scroller.current;
    if (element !== null)
      element.scrollTop = Math.max(0, (number - lines.dropped - 1) * ROW - element.clientHeight / 2);
    window_.scrolled();
    announce(`Line ${number}, ${((next + found.length) % found.length) + 1} of ${found.length}`);
  };
  const rows = [];
  for (let i = window_.first; i < window_.last; i++) {
    const line = lines.at(i);
    if (line === undefined) continue;
    rows.push(<Row key={line.number} line={line} index={i} wanted={wanted} isCurrent={line.number === current} />);
  }
  const fresh = isFollowing ? 0 : Math.max(0, last - seen);
  const place = found.indexOf(current);
  return (
    <div class="out">
      <div class="out-tools" role="toolbar" aria-label="Output">
        <input
          class="field out-search"
          type="search"
          aria-label="Search in the output"
          placeholder="Search"
          spellcheck={false}
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setCurrent(0);
          }}
          onKeyDown={(event) => {
            if (event.key === 'Enter') go(event.shiftKey ? -1 : 1);
            else if (event.key === 'Escape' && text !== '') {
              setText('');
              event.stopPropagation();
            }
          }}
        />
        {text !== '' && (
          <>
            <span class="out-found" role="status">
              {place >= 0 ? `${count(place + 1)} of ${count(found.length)}` : `${count(found.length)} lines`}
            </span>
            <button type="button" class="button" disabled={found.length === 0} onClick={() => go(-1)}>
              Previous
            </button>
            <button type="button" class="button" disabled={found.length === 0} onClick={() => go(1)}>
              Next
            </button>
          </>
        )}
        <label class="check out-follow">
          <input
            class="check-box"
            type="checkbox"
            checked={isFollowing}
            onChange={(event) => follow(event.currentTarget.checked)}
          />
          Follow
        </label>
        <a class="link" href={`/api/runs/${id}/output?format=text`} download={`${id}.txt`}>
          Download
        </a>
      </div>
      {problem && (
        <div class="note note-bad" role="alert">
          <span class="note-text">Could not read on: {visible(problem)}</span>
        </div>
      )}
      {lines.lostBytes > 0 && (
        <p class="out-left">▨ {count(lines.lostBytes)} bytes fell out before they were read; ▨ marks where.</p>
      )}
      {lines.dropped > 0 && (
        <p class="out-left">
          ▨ {count(lines.dropped)} earlier lines are left out here: the page keeps {count(maxLines)}.
        </p>
      )}
      <div class="out-box">
        <div
          class="out-scroll"
          ref={scroller}
          role="log"
          aria-live="off"
          aria-label="Output"
          tabIndex={0}
          data-region="output"
          onScroll={onScroll}
        >
          {lines.length === 0 ? (
            <p class="out-empty">
              {isDone ? 'It printed nothing.' : isOver(props.run) ? '····' : 'Nothing printed yet.'}
            </p>
          ) : (
            <div class="out-space" style={{ height: `${lines.length * ROW}px` }}>
              {rows}
            </div>
          )}
        </div>
        {fresh > 0 && (
          <button type="button" class="button out-fresh" onClick={() => follow(true)}>
            {count(fresh)} new {fresh === 1 ? 'line' : 'lines'} ↓
          </button>
        )}
      </div>
    </div>
  );
}

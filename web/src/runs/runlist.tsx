// The list of runs: what the filter leaves, the newest first.

import { useEffect, useRef } from 'preact/hooks';
import { count, dateTime, duration, visible } from '../format';
import { Lamp } from '../lamps';
import { plainClick } from '../route';
import type { Run } from '../wire.gen';
import { exitText, isOver, nameOf, soughtRun, spanOf, stateLook } from './model';
import { filter, linkOf, now, open, query, selected } from './state';
import { store } from './store';
import { useWindow } from './window';

const ROW = 48; // CSS px, as in runs.css

// matching are the runs that the filter leaves; the selected one stays, dimmed.
export function matching(): { run: Run; isDim: boolean }[] {
  const { test } = filter.value;
  const at = now.peek();
  const out: { run: Run; isDim: boolean }[] = [];
  for (const run of store.runs.value.values()) {
    const isDim = test !== null && !test({ summary: soughtRun(run), lower: '' }, at);
    if (!isDim || run.id === selected.value) out.push({ run, isDim });
  }
  return out;
}

function Row(props: {
  run: Run;
  isDim: boolean;
  index: number;
  isStop: boolean;
  move: (event: KeyboardEvent) => void;
}) {
  const { run, index } = props;
  const look = stateLook(run);
  const { counts } = store.keptOf(run.id);
  const isSelected = run.id === selected.value;
  const left = counts !== null && !isOver(run) && counts.left > 0 ? `${count(counts.left)} left over` : '';
  const end = isOver(run) ? exitText(run) : '';
  const says = [run.scope === null ? run.id : `${run.id} in ${visible(run.scope)}`, end, left]
    .filter(Boolean)
    .join(' · ');
  return (
    <li class="runs-item" style={{ top: `${index * ROW}px` }}>
      <a
        class={`runs-row${isSelected ? ' runs-selected' : ''}${props.isDim ? ' runs-dim' : ''}`}
        href={linkOf(run.id)}
        aria-current={isSelected ? 'true' : undefined}
        tabIndex={props.isStop ? 0 : -1}
        data-run={run.id}
        title={`created ${dateTime(run.created_at)}`}
        onKeyDown={props.move}
        onClick={(event) => {
          if (!plainClick(event)) return;
          event.preventDefault();
          open(run.id);
        }}
      >
        <span class="runs-line">
          <span class="runs-name mono">{nameOf(run)}</span>
          <span class="runs-span mono">{duration(spanOf(run, now.value))}</span>
        </span>
        <span class="runs-line">
          <Lamp word={look.word} tone={look.tone} fill={look.fill} />
          <span class="runs-says">{says}</span>
        </span>
      </a>
    </li>
  );
}

export function RunList() {
  const scroller = useRef<HTMLDivElement>(null);
  void store.changed.value;
  const list = matching();
  const view = useWindow(scroller, list.length, ROW);
  const at = Math.max(
    0,
    list.findIndex(({ run }) => run.id === selected.value),
  );
  // What a link or a key chose is scrolled to.
  useEffect(() => {
    const element = scroller.current;
    if (element === null || selected.value === null) return;
    const y = at * ROW;
    if (y < element.scrollTop) element.scrollTop = y;
    else if (y + ROW > element.scrollTop + element.clientHeight) element.scrollTop = y + ROW - element.clientHeight;
    view.scrolled();
  }, [selected.value, store.loaded.value]);
  const move = (event: KeyboardEvent) => {
    const steps: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: list.length - 1 };
    const to = steps[event.key];
    if (to === undefined || list.length === 0) return;
    event.preventDefault();
    event.stopPropagation();
    const next = selected.value === null ? 0 : Math.max(0, Math.min(list.length - 1, to));
    const id = list[next]?.run.id;
    if (id === undefined) return;
    open(id);
    requestAnimationFrame(() => scroller.current?.querySelector<HTMLElement>(`[data-run="${id}"]`)?.focus());
  };
  const shown = new Set([at]);
  for (let i = view.first; i < view.last; i++) shown.add(i);
  const rows = [...shown].filter((i) => i < list.length).sort((a, b) => a - b);
  return (
    <nav class="runs-list" aria-label="Runs" data-region="runs">
      <div class="runs-scroll" ref={scroller} onScroll={view.scrolled}>
        {list.length === 0 ? (
          <p class="runs-quiet">
            {!store.loaded.value
              ? '····'
              : store.runs.value.size === 0
                ? 'No runs yet. New run starts one; so do procinsh run --server and curl.'
                : `No run matches ${visible(query.value.trim())}.`}
          </p>
        ) : (
          <ul class="runs-space" style={{ height: `${list.length * ROW}px` }}>
            {rows.map((i) => {
              const { run, isDim } = list[i] as { run: Run; isDim: boolean };
              return <Row key={run.id} run={run} isDim={isDim} index={i} isStop={i === at} move={move} />;
            })}
          </ul>
        )}
      </div>
    </nav>
  );
}

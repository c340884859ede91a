// Two runs side by side: time, cost, end.

import { signal } from '@preact/signals';
import { bytes, count, duration, UNKNOWN } from '../format';
import type { Run } from '../wire.gen';
import { exitText, nameOf, spanOf, stateLook } from './model';
import { now } from './state';
import { store } from './store';

const other = signal('');

interface Fact {
  title: string;
  number: number | null; // for the difference
  text: string;
}

function facts(run: Run): Fact[] {
  const took = spanOf(run, now.value);
  const cpu = run.cpu_usec === null ? null : run.cpu_usec / 1000;
  const peak = store.keptOf(run.id).peakBytes;
  return [
    { title: 'End', number: null, text: exitText(run) || stateLook(run).word.toLowerCase() },
    { title: 'Time', number: took, text: duration(took) },
    { title: 'CPU time', number: cpu, text: duration(cpu) },
    {
      title: 'Cores busy',
      number: null,
      text: cpu === null || took === null || took === 0 ? UNKNOWN : (cpu / took).toFixed(2),
    },
    { title: 'Most memory seen by this page', number: peak, text: bytes(peak) },
    { title: 'Output', number: run.output.bytes, text: bytes(run.output.bytes) },
  ];
}

// ratio is the second against the first: "1.25 ×".
function ratio(a: number | null, b: number | null): string {
  return a === null || b === null || a === 0 ? UNKNOWN : `${(b / a).toFixed(2)} ×`;
}

export function Compare(props: { run: Run }) {
  void store.changed.value;
  const { run } = props;
  const runs = [...store.runs.value.values()].filter(({ id }) => id !== run.id);
  const chosen = runs.find(({ id }) => id === other.value) ?? runs.find((r) => nameOf(r) === nameOf(run)) ?? runs[0];
  if (!chosen) return <p class="runs-quiet">There is no other run to compare with.</p>;
  const a = facts(run);
  const b = facts(chosen);
  return (
    <div class="compare" data-region="compare">
      <label class="compare-with">
        Compare with{' '}
        <select
          class="field"
          value={chosen.id}
          onChange={(event) => {
            other.value = event.currentTarget.value;
          }}
        >
          {runs.map((r) => (
            <option key={r.id} value={r.id}>
              {`${r.id}: ${nameOf(r).slice(0, 60)}`}
            </option>
          ))}
        </select>
      </label>
      <table class="compare-table">
        <thead>
          <tr>
            <th scope="col">
              <span class="unseen">What</span>
            </th>
            <th scope="col">{run.id}</th>
            <th scope="col">{chosen.id}</th>
            <th scope="col">second / first</th>
          </tr>
        </thead>
        <tbody>
          {a.map((fact, i) => (
            <tr key={fact.title}>
              <th scope="row">{fact.title}</th>
              <td>{fact.text}</td>
              <td>{b[i]?.text}</td>
              <td>{ratio(fact.number, b[i]?.number ?? null)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="runs-quiet">
        {count(runs.length)} other {runs.length === 1 ? 'run' : 'runs'}. Memory is what this page saw while a run was
        open here; – where it was not.
      </p>
    </div>
  );
}

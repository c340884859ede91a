// What may have been meant by a filter that matches nothing. Pure.

import { type Filter, type Subject, unquote } from './filter';

// distance is the number of single edits between two short words.
export function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(
        (row[j] as number) + 1,
        (next[j - 1] as number) + 1,
        (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1),
      );
    }
    row = next;
  }
  return row[b.length] as number;
}

// nearest offers a value that does exist for the first user: or name: term, or word,
// that matches nothing: {text: "user:mika", count: 14}.
export function nearest(filter: Filter, subjects: Iterable<Subject>): { text: string; count: number } | null {
  const all = [...subjects];
  for (const term of filter.terms) {
    if (term.negative || term.error || (term.key !== null && term.key !== 'user' && term.key !== 'name')) continue;
    if (all.some((subject) => term.matches(subject, 0))) continue;
    const typed = unquote(term.key === null ? term.text : term.text.slice(term.key.length + 1)).toLowerCase();
    if (typed.length > 40) continue;
    const counts = new Map<string, number>();
    for (const { summary } of all) {
      const value = term.key === 'user' ? summary.username : summary.name;
      if (value !== null && value.length <= 40) counts.set(value, (counts.get(value) ?? 0) + 1);
    }
    let best: { text: string; count: number } | null = null;
    let least = Math.max(2, Math.ceil(typed.length / 2)) + 1;
    for (const [value, count] of counts) {
      const d = distance(typed, value.toLowerCase());
      if (d >= least) continue;
      least = d;
      const quoted = /\s/.test(value) ? `"${value}"` : value;
      best = { text: term.key === null ? quoted : `${term.key}:${quoted}`, count };
    }
    if (best) return best;
  }
  return null;
}

// The filter of a section: words that must all be found, "two words" in quotes,
// /regex/, and - before anything that must not be. Pure.

export interface Matcher {
  readonly test: (text: string) => boolean;
  readonly error: string | null; // why a part could not be understood
  readonly empty: boolean;
}

interface Term {
  readonly not: boolean;
  readonly test: (text: string) => boolean;
}

function termOf(part: string): Term | string {
  const not = part.length > 1 && part.startsWith('-');
  const body = not ? part.slice(1) : part;
  const regex = /^\/(.+)\/$/.exec(body);
  if (regex !== null) {
    try {
      const found = new RegExp(regex[1] as string, 'i');
      return { not, test: (text) => found.test(text) };
    } catch {
      return `${body} is not a regular expression`;
    }
  }
  const word = body.replace(/^"|"$/g, '').toLowerCase();
  return { not, test: (text) => text.toLowerCase().includes(word) };
}

// matcher reads a filter line. What cannot be understood matches nothing away.
export function matcher(line: string): Matcher {
  const parts = line.match(/-?"[^"]*"?|-?\/(?:\\.|[^/\\])+\/|\S+/g) ?? [];
  const terms: Term[] = [];
  let error: string | null = null;
  for (const part of parts) {
    const term = termOf(part);
    if (typeof term === 'string') error = term;
    else terms.push(term);
  }
  return {
    test: (text) => terms.every((term) => term.test(text) !== term.not),
    error,
    empty: terms.length === 0,
  };
}

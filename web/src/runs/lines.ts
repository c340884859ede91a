// The output of a run as lines of plain text, as far as a page keeps them. Escape
// sequences and control characters but tab are left out, a line that a carriage return
// wrote over is what stood there last (the rules of the server's log), and every line
// knows its stream and the offset where it begins. Pure.

import type { RunChunk } from '../wire.gen';

// maxLines lines are kept in the page; the oldest are left out.
export const maxLines = 100_000;
// maxLineLength characters make a line; a longer one goes on in the next row.
export const maxLineLength = 16_384;
const MAX_ARGUMENTS = 64; // characters of a control sequence that are looked at

export interface Line {
  readonly number: number; // from 1; of what this page read
  readonly offset: number; // of its first byte
  readonly exact: boolean; // offset is known for sure
  readonly stream: string;
  readonly text: string;
  readonly gap: number; // bytes that fell out before it
}

type State = 'text' | 'escape' | 'charset' | 'csi' | 'string' | 'stringEscape';

interface Parser {
  state: State;
  arg: string;
}

interface Open {
  offset: number;
  exact: boolean;
  stream: string;
  text: string;
  column: number;
  gap: number;
}

const ASCII = /^[\u0000-\u007f]*$/;

// byteLength is how many bytes a text has as UTF-8.
export function byteLength(text: string): number {
  if (ASCII.test(text)) return text.length;
  let n = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    n += c < 0x80 ? 1 : c < 0x800 ? 2 : c >= 0xd800 && c < 0xdc00 ? 4 : c >= 0xdc00 && c < 0xe000 ? 0 : 3;
  }
  return n;
}

// PLAIN is the longest piece of text without anything that acts.
const PLAIN = /[^\u0000-\u0008\u000a-\u001f\u007f-\u009f]+/y;

export class Lines {
  // version moves with every change.
  version = 0;
  // dropped is how many lines are not kept any more.
  dropped = 0;
  // lostBytes fell out in all, in gaps.
  lostBytes = 0;
  private list: Line[] = [];
  private head = 0;
  private open: Open | null = null;
  private parsers = new Map<string, Parser>();
  private missing = 0; // bytes of a gap that no line stands behind yet

  get length(): number {
    return this.list.length - this.head + (this.open === null ? 0 : 1);
  }

  at(index: number): Line | undefined {
    const line = this.list[this.head + index];
    if (line !== undefined) return line;
    const { open } = this;
    if (open === null || this.head + index !== this.list.length) return undefined;
    return this.closed(open);
  }

  // lost notes that bytes fell out before what comes next.
  lost(bytes: number): void {
    if (bytes <= 0) return;
    this.finish();
    this.parsers.clear();
    this.missing += bytes;
    this.lostBytes += bytes;
    this.version++;
  }

  // add takes a piece of one stream; end is the offset behind it.
  add(chunk: RunChunk, end: number): void {
    let parser = this.parsers.get(chunk.stream);
    if (!parser) {
      parser = { state: 'text', arg: '' };
      this.parsers.set(chunk.stream, parser);
    }
    // A line that another stream cut in two is two lines.
    if (this.open !== null && this.open.stream !== chunk.stream) this.finish();
    // Bytes that are no UTF-8 came as U+FFFD: behind the first of those the offsets are
    // not sure.
    const isExact = byteLength(chunk.text) === end - chunk.from;
    this.take(chunk, parser, isExact ? Number.POSITIVE_INFINITY : chunk.text.indexOf('\ufffd'));
    this.version++;
  }

  private take(chunk: RunChunk, parser: Parser, sure: number): void {
    const { text, stream } = chunk;
    let at = 0;
    let offset = chunk.from;
    while (at < text.length) {
      const exact = at <= sure;
      if (parser.state === 'text') {
        PLAIN.lastIndex = at;
        const piece = PLAIN.exec(text)?.[0];
        if (piece !== undefined) {
          this.put(piece, offset, exact, stream);
          at += piece.length;
          offset += byteLength(piece);
          continue;
        }
      }
      const c = String.fromCodePoint(text.codePointAt(at) as number);
      this.step(parser, c, offset, exact, stream);
      at += c.length;
      offset += byteLength(c);
    }
  }

  private step(parser: Parser, c: string, offset: number, exact: boolean, stream: string): void {
    switch (parser.state) {
      case 'escape':
        if (c === '[') {
          parser.state = 'csi';
          parser.arg = '';
        } else if (c === ']' || c === 'P' || c === 'X' || c === '^' || c === '_') parser.state = 'string';
        else if (c >= ' ' && c <= '/') parser.state = 'charset';
        else {
          parser.state = 'text';
          if (c === '\n') this.control(c, offset, exact, stream);
        }
        return;
      case 'charset':
        if (c < ' ' || c > '/') parser.state = 'text';
        return;
      case 'csi':
        if (c >= '@' && c <= '~') {
          parser.state = 'text';
          if (c === 'K') this.erase(parser.arg);
        } else if (c === '\u001b') parser.state = 'escape';
        else if (c === '\n' || c === '\r') this.control(c, offset, exact, stream);
        else if (c >= ' ' && c < '@' && parser.arg.length < MAX_ARGUMENTS) parser.arg += c;
        return;
      case 'string':
        if (c === '\u0007' || c === '\u009c') parser.state = 'text';
        else if (c === '\u001b') parser.state = 'stringEscape';
        return;
      case 'stringEscape':
        parser.state = c === '\\' ? 'text' : 'string';
        return;
      default:
        if (c === '\u001b') parser.state = 'escape';
        else this.control(c, offset, exact, stream);
    }
  }

  private control(c: string, offset: number, exact: boolean, stream: string): void {
    if (c === '\n') {
      this.begin(offset, exact, stream);
      this.finish();
    } else if (c === '\r' && this.open !== null) this.open.column = 0;
  }

  private begin(offset: number, exact: boolean, stream: string): Open {
    if (this.open === null) {
      this.open = { offset, exact, stream, text: '', column: 0, gap: this.missing };
      this.missing = 0;
    }
    return this.open;
  }

  private put(piece: string, offset: number, exact: boolean, stream: string): void {
    let rest = piece;
    let at = offset;
    while (rest !== '') {
      const open = this.begin(at, exact, stream);
      const room = maxLineLength - open.column;
      if (room <= 0) {
        this.finish();
        continue;
      }
      // A pair of surrogates is not cut.
      let end = Math.min(room, rest.length);
      if (end < rest.length && end > 1 && /[\ud800-\udbff]/.test(rest[end - 1] as string)) end--;
      const part = end === rest.length ? rest : rest.slice(0, end);
      open.text =
        open.column === open.text.length
          ? open.text + part
          : open.text.slice(0, open.column) + part + open.text.slice(open.column + part.length);
      open.column += part.length;
      at += byteLength(part);
      rest = rest.slice(end);
    }
  }

  private erase(arg: string): void {
    const { open } = this;
    if (open === null) return;
    const before = ' '.repeat(Math.min(open.column, open.text.length));
    if (arg === '' || arg === '0') open.text = open.text.slice(0, open.column);
    else if (arg === '1') open.text = before + open.text.slice(open.column);
    else if (arg === '2') open.text = before;
  }

  private closed(open: Open): Line {
    const { offset, exact, stream, text, gap } = open;
    return { number: this.dropped + this.list.length - this.head + 1, offset, exact, stream, text, gap };
  }

  private finish(): void {
    if (this.open === null) return;
    this.list.push(this.closed(this.open));
    this.open = null;
    if (this.list.length - this.head > maxLines) {
      this.head++;
      this.dropped++;
      if (this.head >= maxLines) {
        this.list = this.list.slice(this.head);
        this.head = 0;
      }
    }
  }
}

// Search finds the lines that hold a text, whatever its case, and looks at no line twice.
export class Search {
  readonly found: number[] = []; // line numbers
  private next = 1; // number of the first line not looked at
  private readonly wanted: string;

  constructor(
    private readonly lines: Lines,
    text: string,
  ) {
    this.wanted = text.toLowerCase();
  }

  // look goes on to the end. The last line may still grow: it is looked at anew.
  look(): void {
    const { lines, found } = this;
    const first = lines.dropped + 1;
    while (found.length > 0 && (found.at(-1) as number) >= this.next) found.pop();
    let gone = 0;
    while (gone < found.length && (found[gone] as number) < first) gone++;
    found.splice(0, gone);
    const end = lines.dropped + lines.length;
    for (let n = Math.max(first, this.next); n <= end; n++) {
      if (
        lines
          .at(n - first)
          ?.text.toLowerCase()
          .includes(this.wanted)
      )
        found.push(n);
    }
    this.next = Math.max(first, end);
  }
}

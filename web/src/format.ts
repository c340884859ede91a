// Pure text for figures, times and names. Unknown is shown as "–", never as 0.

export const UNKNOWN = '–';

const LETTERS = ['', 'K', 'M', 'G', 'T', 'P', 'E'];

// bytes is a size with one letter (1024 steps): "0", "812", "7.1K", "391.8M".
export function bytes(n: number | null | undefined): string {
  if (n === null || n === undefined) return UNKNOWN;
  let step = 0;
  let value = n;
  while (value >= 1023.95 && step < LETTERS.length - 1) {
    value /= 1024;
    step++;
  }
  return step === 0 ? String(Math.round(value)) : `${value.toFixed(1)}${LETTERS[step]}`;
}

// bytesUnit splits a size for a big figure: ["11.3", "GiB"].
export function bytesUnit(n: number | null | undefined): [string, string] {
  if (n === null || n === undefined) return [UNKNOWN, ''];
  let step = 0;
  let value = n;
  while (value >= 1023.95 && step < LETTERS.length - 1) {
    value /= 1024;
    step++;
  }
  return step === 0 ? [String(Math.round(value)), 'B'] : [value.toFixed(1), `${LETTERS[step]}iB`];
}

// bytesFull is a size for a title or a copy: "96.7 MiB (101,397,299 bytes)".
export function bytesFull(n: number | null | undefined): string {
  if (n === null || n === undefined) return UNKNOWN;
  if (n < 1024) return `${count(n)} bytes`;
  const [value, unit] = bytesUnit(n);
  return `${value} ${unit} (${count(Math.round(n))} bytes)`;
}

// rate is bytes per second without decimals below M: "0", "786K", "1.5M".
export function rate(n: number | null | undefined): string {
  if (n === null || n === undefined) return UNKNOWN;
  if (n < 0.5) return '0';
  if (n < 1023.5) return String(Math.round(n));
  if (n < 1023.5 * 1024) return `${Math.round(n / 1024)}K`;
  return bytes(Math.max(n, 1024 * 1024));
}

// perSecond is a plain rate: "0", "0.4", "12", "1,204".
export function perSecond(n: number | null | undefined): string {
  if (n === null || n === undefined) return UNKNOWN;
  if (n === 0) return '0';
  return n < 9.95 ? n.toFixed(1) : count(Math.round(n));
}

// percent has one decimal: "0.0", "212.4".
export function percent(n: number | null | undefined): string {
  return n === null || n === undefined ? UNKNOWN : n.toFixed(1);
}

// count groups thousands: "20,104".
export function count(n: number | null | undefined): string {
  if (n === null || n === undefined) return UNKNOWN;
  const text = String(Math.trunc(Math.abs(n)));
  let out = '';
  for (let i = 0; i < text.length; i++) {
    if (i > 0 && (text.length - i) % 3 === 0) out += ',';
    out += text[i];
  }
  return n < 0 ? `−${out}` : out;
}

const two = (n: number) => String(n).padStart(2, '0');

// clock is local time of day: "12:31:07".
export function clock(ms: number): string {
  const d = new Date(ms);
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

// clockMs adds milliseconds: "12:31:07.214".
export function clockMs(ms: number): string {
  return `${clock(ms)}.${String(Math.floor(((ms % 1000) + 1000) % 1000)).padStart(3, '0')}`;
}

// dateTime is a whole local time: "2026-11-30 12:31:07".
export function dateTime(ms: number): string {
  const d = new Date(ms);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${clock(ms)}`;
}

// duration is a span in its two largest units: "4.2 s", "2 m 05 s", "3 h 12 m", "12 d 4 h".
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return UNKNOWN;
  const s = Math.max(0, ms) / 1000;
  if (s < 59.95) return `${s.toFixed(1)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${two(Math.floor(s % 60))} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor((s % 3600) / 60))} m`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// shortAge is a span in one unit for a narrow cell: "4s", "12m", "3h", "12d".
export function shortAge(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return UNKNOWN;
  const s = Math.floor(Math.max(0, ms) / 1000);
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m`;
  if (s < 86400) return `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86400)}d`;
}

// ago is an age in words: "just now", "3 s ago".
export function ago(ms: number): string {
  if (ms < 1000) return 'just now';
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} m ago`;
  return `${Math.floor(s / 3600)} h ago`;
}

// HOSTILE is what could change how the text around it looks: control characters,
// line and paragraph separators, direction marks, and marks without width.
const HOSTILE =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

function picture(char: string): string {
  const code = char.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCharCode(0x2400 + code); // ␀ … ␛ … ␟
  if (code === 0x7f) return '\u2421'; // ␡
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, '0')}⟩`;
}

// visible makes text from a process safe to look at: what would act on the screen
// is shown as a picture of itself, ␛ or ⟨U+202E⟩.
export function visible(text: string): string {
  HOSTILE.lastIndex = 0;
  return HOSTILE.test(text) ? text.replace(HOSTILE, picture) : text;
}

// commandText joins an argument vector for reading; null when it could not be read.
export function commandText(argv: readonly string[] | null, name: string, kernel: boolean): string {
  if (argv === null) return UNKNOWN;
  if (argv.length === 0) return kernel ? `[${visible(name)}]` : `[${visible(name)}]`;
  return visible(argv.map((arg) => (arg === '' ? "''" : arg)).join(' '));
}

// shellQuote makes one argument of a POSIX shell command line.
export function shellQuote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

// STATES names the letters of /proc/PID/stat.
const STATES: Record<string, string> = {
  R: 'running',
  S: 'sleeping',
  D: 'disk wait',
  Z: 'zombie',
  T: 'stopped',
  t: 'traced',
  X: 'dead',
  I: 'idle',
  P: 'parked',
  W: 'waking',
};

export function stateName(letter: string): string {
  return STATES[letter] ?? 'unknown state';
}

// tsvField keeps one field in one cell.
export function tsvField(text: string): string {
  return text.replace(/[\t\r\n]/g, ' ');
}

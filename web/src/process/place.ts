// The part of the address after '#': "#memory?addr=0x7f…&len=256". Pure.

export const SECTIONS = [
  'overview',
  'threads',
  'memory',
  'files',
  'environment',
  'auxv',
  'signals',
  'context',
  'stacks',
  'snapshot',
] as const;
export type Section = (typeof SECTIONS)[number];

export const SECTION_NAME: Readonly<Record<Section, string>> = {
  overview: 'Overview',
  threads: 'Threads',
  memory: 'Memory',
  files: 'Files & sockets',
  environment: 'Environment',
  auxv: 'Auxv',
  signals: 'Signals',
  context: 'Context',
  stacks: 'Stacks',
  snapshot: 'Snapshot',
};

// sectionKey is the number key of a section: 1 to 9, then 0.
export function sectionKey(section: Section): string {
  return String((SECTIONS.indexOf(section) + 1) % 10);
}

export interface Place {
  readonly section: Section;
  readonly params: URLSearchParams;
}

export function isSection(text: string): text is Section {
  return (SECTIONS as readonly string[]).includes(text);
}

// parsePlace reads the hash without its '#'; a section that does not exist here is the overview.
export function parsePlace(hash: string): Place {
  const cut = hash.indexOf('?');
  const name = cut < 0 ? hash : hash.slice(0, cut);
  return {
    section: isSection(name) ? name : 'overview',
    params: new URLSearchParams(cut < 0 ? '' : hash.slice(cut + 1)),
  };
}

// placeHash is the hash with its '#'. Parameters that are empty or undefined are left out.
export function placeHash(section: Section, params: Readonly<Record<string, string | undefined>> = {}): string {
  const query = Object.entries(params)
    .filter(([, value]) => value !== undefined && value !== '')
    .map(
      ([name, value]) =>
        `${name}=${encodeURIComponent(value ?? '')
          .replaceAll('%2F', '/')
          .replaceAll('%3A', ':')}`,
    )
    .join('&');
  return `#${section}${query === '' ? '' : `?${query}`}`;
}

// LENGTHS are the lengths the memory view offers, within the contract's 1..65536.
export const LENGTHS = [256, 1024, 4096, 16384, 65536] as const;

// lengthFrom reads a length of the address bar; anything but 1..65536 is the default.
export function lengthFrom(text: string | null): number {
  const n = text !== null && /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  return n >= 1 && n <= 65536 ? n : 256;
}

// CPU lists of the kernel ("0-3,8") as sets. Pure.

// maxBitmapCPUs is how many CPUs are drawn as squares; a wider machine gets the list.
export const maxBitmapCPUs = 16;

// maxCPU bounds a list that is broken: the kernel's own limit is 8,192 CPUs.
const maxCPU = 8192;

// parseCPUs reads a CPU list; null when it is none.
export function parseCPUs(text: string): Set<number> | null {
  const out = new Set<number>();
  for (const part of text.trim().split(',')) {
    const range = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(part.trim());
    if (range === null) return null;
    const from = Number(range[1]);
    const to = Number(range[2] ?? range[1]);
    if (to < from || to >= maxCPU) return null;
    for (let cpu = from; cpu <= to; cpu++) out.add(cpu);
  }
  return out;
}

// widest is one more than the highest CPU in any of the lists.
export function widest(lists: Iterable<string | null>): number {
  let most = 0;
  for (const text of new Set(lists)) {
    const cpus = text === null ? null : parseCPUs(text);
    if (cpus !== null) for (const cpu of cpus) most = Math.max(most, cpu + 1);
  }
  return most;
}

// affinityText draws a list as squares, one a CPU; wide machines and broken lists keep the text.
export function affinityText(text: string | null, cpus: number): string {
  if (text === null) return '–';
  const set = parseCPUs(text);
  if (set === null || cpus === 0) return text;
  if (cpus > maxBitmapCPUs) return set.size === cpus ? 'all' : text;
  let out = '';
  for (let cpu = 0; cpu < cpus; cpu++) out += set.has(cpu) ? '■' : '□';
  return out;
}

// The files processes touched in the last half minute: a card each. Pure.

/** A card counts from the last access. */
export const CARD_MS = 30_000;
/** Cards of one process; the one that was touched longest ago makes room. */
export const maxCards = 32;
/** Cards of all processes together. */
export const maxAllCards = 512;

export interface Card {
  readonly index: number;
  readonly resource: string;
  /** slot is its place beside the tower. */
  slot: number;
  path: string | null;
  read: number;
  write: number;
  last: number;
  lastWrite: boolean;
}

export class FileCards {
  private readonly byIndex = new Map<number, Map<string, Card>>();
  count = 0;

  of(index: number): Card[] {
    return [...(this.byIndex.get(index)?.values() ?? [])];
  }

  all(): Card[] {
    return [...this.byIndex.values()].flatMap((cards) => [...cards.values()]);
  }

  /** touch notes an access. */
  touch(index: number, resource: string, path: string | null, write: boolean, bytes: number, now: number): void {
    let cards = this.byIndex.get(index);
    if (!cards) {
      cards = new Map();
      this.byIndex.set(index, cards);
    }
    let card = cards.get(resource);
    if (!card) {
      if (cards.size >= maxCards) this.drop(oldest([...cards.values()]));
      else if (this.count >= maxAllCards) this.drop(oldest(this.all()));
      this.byIndex.set(index, cards); // it may have lost its last card just now
      const taken = new Set([...cards.values()].map((c) => c.slot));
      let slot = 0;
      while (taken.has(slot)) slot++;
      card = { index, resource, slot, path, read: 0, write: 0, last: now, lastWrite: write };
      cards.set(resource, card);
      this.count++;
    }
    card.path = path ?? card.path;
    if (write) card.write += bytes;
    else card.read += bytes;
    card.last = now;
    card.lastWrite = write;
  }

  /** expire drops what was not touched for long, and tells whether there was any. */
  expire(now: number): boolean {
    const before = this.count;
    for (const card of this.all()) if (now - card.last > CARD_MS) this.drop(card);
    return this.count !== before;
  }

  forget(index: number): void {
    this.count -= this.byIndex.get(index)?.size ?? 0;
    this.byIndex.delete(index);
  }

  clear(): void {
    this.byIndex.clear();
    this.count = 0;
  }

  private drop(card: Card | null): void {
    if (!card) return;
    const cards = this.byIndex.get(card.index);
    if (!cards?.delete(card.resource)) return;
    this.count--;
    if (cards.size === 0) this.byIndex.delete(card.index);
  }
}

function oldest(cards: readonly Card[]): Card | null {
  let found: Card | null = null;
  for (const card of cards) if (!found || card.last < found.last) found = card;
  return found;
}

/** fileText is what a card is called: its path, or what the kernel calls it. */
export function fileText(path: string | null, resource: string): string {
  if (path !== null) return path;
  const match = /^file:(\d+):(\d+):(\d+)/.exec(resource);
  return match ? `dev ${match[1]}:${match[2]} inode ${match[3]}` : resource;
}

// What the worker needs of a signal, in place of the library: nothing is drawn there,
// so nothing has to be worked out again by itself. The build puts it in.

export interface Signal<T> {
  value: T;
  subscribe(told: (value: T) => void): () => void;
}

class Cell<T> implements Signal<T> {
  private readonly told = new Set<(value: T) => void>();

  constructor(private held: T) {}

  get value(): T {
    return this.held;
  }

  set value(value: T) {
    if (Object.is(value, this.held)) return;
    this.held = value;
    for (const told of [...this.told]) told(value);
  }

  subscribe(told: (value: T) => void): () => void {
    this.told.add(told);
    told(this.held);
    return () => this.told.delete(told);
  }
}

export function signal<T>(value: T): Signal<T> {
  return new Cell(value);
}

// A Lifetime owns what must end together: listeners, timers, observers, locks.
// Close it once and everything it was given is undone, newest first.

export class Lifetime {
  private undo: (() => void)[] = [];
  private over = false;

  get closed(): boolean {
    return this.over;
  }

  // add keeps undo until the end; on a lifetime already over it runs at once.
  add(undo: () => void): void {
    if (this.over) undo();
    else this.undo.push(undo);
  }

  listen<E extends Event>(
    target: EventTarget,
    type: string,
    handler: (event: E) => void,
    options?: AddEventListenerOptions,
  ): void {
    if (this.over) return;
    const call = handler as EventListener;
    target.addEventListener(type, call, options);
    this.add(() => target.removeEventListener(type, call, options));
  }

  timeout(ms: number, run: () => void): () => void {
    if (this.over) return () => {};
    const id = setTimeout(run, ms);
    const stop = () => clearTimeout(id);
    this.add(stop);
    return stop;
  }

  interval(ms: number, run: () => void): () => void {
    if (this.over) return () => {};
    const id = setInterval(run, ms);
    const stop = () => clearInterval(id);
    this.add(stop);
    return stop;
  }

  close(): void {
    if (this.over) return;
    this.over = true;
    const undo = this.undo;
    this.undo = [];
    for (let i = undo.length - 1; i >= 0; i--) undo[i]?.();
  }
}

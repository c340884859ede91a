// The sections that are fetched or opened on demand: one chunk, loaded when the
// first of them is wanted.

export { Auxv } from './auxv';
export { Context } from './contextview';
export { Environment } from './environment';
export { Files } from './filesview';
export { Finder } from './finder';
export { MemorySection } from './memoryview';
export { Signals } from './signalsview';
export { Snapshot, takeSnapshot } from './snapshotview';
export { Stacks } from './stacksview';
export { Threads } from './threads';

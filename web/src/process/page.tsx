import type { Identity } from '../wire.gen';

export interface ProcessPageProps {
  identity: Identity;
  // shown is false while the list stays on screen until the first observation.
  shown: boolean;
  onReady(): void;
  // onRefused: the stream was refused before the first observation (403, 410, 429).
  onRefused(status: number, text: string): void;
}

export function ProcessPage(_props: ProcessPageProps) {
  return null;
}

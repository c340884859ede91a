// Parts that few need at once: loaded when they are first wanted, kept from then on.

import { type Signal, signal } from '@preact/signals';
import type { ComponentType } from 'preact';

// lazy gives a component that shows nothing until its module is here. A module that
// cannot be loaded is asked for again the next time.
export function lazy<P>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  const loaded: Signal<ComponentType<P> | null> = signal(null);
  let asked = false;
  return function Lazy(props: P) {
    const Part = loaded.value;
    if (Part) return <Part {...(props as P & object)} />;
    if (!asked) {
      asked = true;
      load().then(
        (part) => {
          loaded.value = part;
        },
        () => {
          asked = false;
        },
      );
    }
    return null;
  };
}

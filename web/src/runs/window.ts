// Rows of one height of which only those in sight are mounted.

import type { RefObject } from 'preact';
import { useLayoutEffect, useState } from 'preact/hooks';

const OVERSCAN = 6;

export interface Window {
  first: number;
  last: number; // exclusive
  top: number; // CSS px
  height: number; // of what is seen, CSS px
  // scrolled takes the place from the scroller; call it on its scroll event.
  scrolled: () => void;
}

export function useWindow(scroller: RefObject<HTMLElement | null>, count: number, rowHeight: number): Window {
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    const sizes = new ResizeObserver(() => setHeight(element.clientHeight));
    sizes.observe(element);
    setHeight(element.clientHeight);
    return () => sizes.disconnect();
  }, []);
  return {
    first: Math.min(Math.max(0, Math.floor(top / rowHeight) - OVERSCAN), Math.max(0, count - 1)),
    last: Math.min(count, Math.ceil((top + height) / rowHeight) + OVERSCAN),
    top,
    height,
    scrolled: () => setTop(scroller.current?.scrollTop ?? 0),
  };
}

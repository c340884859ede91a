// "Copy as": the same facts as text for elsewhere. Every panel has one.

import { useEffect, useRef, useState } from 'preact/hooks';
import { announce } from '../announce';
import { shellQuote, tsvField } from '../format';
import { address, loopback, type Params } from '../http';
import type { Identity } from '../wire.gen';

// copyText puts text on the clipboard; a page without the permission uses a field of its own.
export async function copyText(text: string, what: string): Promise<boolean> {
  let done = false;
  try {
    await navigator.clipboard.writeText(text);
    done = true;
  } catch {
    const field = document.createElement('textarea');
    field.className = 'unseen';
    field.value = text;
    document.body.append(field);
    field.select();
    done = document.execCommand('copy');
    field.remove();
  }
  announce(done ? `Copied ${what}` : `The browser did not let ${what} be copied`);
  return done;
}

// curlOf is a command line for the same answer.
export function curlOf(path: string, identity: Identity | null, params: Params = {}): string {
  return `curl -s ${shellQuote(loopback() + address(path, identity, params))}`;
}

export function tsvOf(head: readonly string[], rows: readonly (readonly (string | number | null)[])[]): string {
  const line = (cells: readonly (string | number | null)[]) =>
    cells.map((cell) => (cell === null ? '' : tsvField(String(cell)))).join('\t');
  return `${[head, ...rows].map(line).join('\n')}\n`;
}

export interface CopyItem {
  readonly name: string;
  readonly text: () => string;
}

// openCopyMenu opens the menu of the section on screen, for the key Y.
export function openCopyMenu(): boolean {
  const button = document.querySelector<HTMLButtonElement>('.section [data-copy]:not([disabled])');
  button?.click();
  button?.focus();
  return button !== null;
}

export function CopyAs(props: { what: string; items: readonly CopyItem[]; disabled?: boolean }) {
  const [open, setOpen] = useState(false);
  const [done, setDone] = useState('');
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    const outside = (event: Event) => {
      if (event.target instanceof Node && !box.current?.contains(event.target)) setOpen(false);
    };
    document.addEventListener('pointerdown', outside);
    document.addEventListener('focusin', outside);
    box.current?.querySelector<HTMLElement>('[role="menuitem"]')?.focus();
    return () => {
      document.removeEventListener('pointerdown', outside);
      document.removeEventListener('focusin', outside);
    };
  }, [open]);
  useEffect(() => {
    if (done === '') return;
    const timer = setTimeout(() => setDone(''), 2000);
    return () => clearTimeout(timer);
  }, [done]);

  const keys = (event: KeyboardEvent) => {
    const items = [...(box.current?.querySelectorAll<HTMLElement>('[role="menuitem"]') ?? [])];
    const at = items.indexOf(document.activeElement as HTMLElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && open) {
      items[(at + step + items.length) % items.length]?.focus();
      event.preventDefault();
      event.stopPropagation();
    } else if (event.key === 'Escape' && open) {
      setOpen(false);
      box.current?.querySelector<HTMLElement>('[data-copy]')?.focus();
      event.preventDefault();
      event.stopPropagation();
    }
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the keys belong to the button and the menu inside.
    <div class="copy" ref={box} onKeyDown={keys}>
      <button
        type="button"
        class="button button-text"
        data-copy=""
        aria-haspopup="menu"
        aria-expanded={open}
        aria-keyshortcuts="Y"
        disabled={props.disabled}
        onClick={() => setOpen(!open)}
      >
        {done === '' ? 'Copy as ▾' : done}
      </button>
      {open && (
        <div class="copy-menu" role="menu" aria-label={`Copy ${props.what} as`}>
          {props.items.map((item) => (
            <button
              type="button"
              class="copy-item"
              role="menuitem"
              key={item.name}
              onClick={() => {
                setOpen(false);
                box.current?.querySelector<HTMLElement>('[data-copy]')?.focus();
                void copyText(item.text(), `${props.what} as ${item.name}`).then((ok) =>
                  setDone(ok ? 'Copied' : 'Not copied'),
                );
              }}
            >
              {item.name}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}

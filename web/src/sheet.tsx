import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

// Sheet is a modal dialog for what is not live: keys, settings, columns.
export function Sheet(props: {
  title: string;
  open: boolean;
  close: () => void;
  class?: string;
  children: ComponentChildren;
}) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    if (!dialog) return;
    if (props.open && !dialog.open) dialog.showModal();
    if (!props.open && dialog.open) dialog.close();
  }, [props.open]);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: a press beside the sheet closes it; the key for that is Escape.
    <dialog
      class={props.class === undefined ? 'sheet' : `sheet ${props.class}`}
      ref={element}
      aria-label={props.title}
      onClose={props.close}
      onClick={(event) => {
        if (event.target === element.current) element.current?.close();
      }}
    >
      {props.open && (
        <div class="sheet-body">
          <div class="sheet-head">
            <h2 class="sheet-title">{props.title}</h2>
            <button type="button" class="button" onClick={() => element.current?.close()}>
              Close
            </button>
          </div>
          {props.children}
        </div>
      )}
    </dialog>
  );
}

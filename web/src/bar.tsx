// The top bar: title, places, what the page puts in, settings and keys. Its height
// never changes.

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { bindings } from './keys';
import { navigate, plainClick } from './route';
import { comfortable, keysOn, type Theme, theme } from './settings';

export const helpOpen = signal(false);
export const settingsOpen = signal(false);

export function PlaceLink(props: { href: string; current?: boolean; children: ComponentChildren }) {
  return (
    <a
      class={props.current ? 'place place-current' : 'place'}
      href={props.href}
      aria-current={props.current ? 'page' : undefined}
      onClick={(event) => {
        if (!plainClick(event)) return;
        event.preventDefault();
        if (!props.current) navigate(props.href);
      }}
    >
      {props.children}
    </a>
  );
}

// TopBar is the bar of every page. title is the text after "procinsh /"; children
// stand after the places (the list's filter), lamps and actions at the right end.
export function TopBar(props: {
  title: string;
  page: 'list' | 'process';
  children?: ComponentChildren;
  lamps?: ComponentChildren;
  actions?: ComponentChildren;
}) {
  return (
    <header class={`bar bar-${props.page}`} data-region="bar">
      <h1 class="bar-title">
        <span class="bar-brand">procinsh</span>
        <span class="bar-slash"> / </span>
        <span class="bar-name">{props.title}</span>
      </h1>
      <nav class="bar-places" aria-label="Places">
        <PlaceLink href="/" current={props.page === 'list'}>
          List
        </PlaceLink>
      </nav>
      {props.children}
      <div class="bar-lamps">{props.lamps}</div>
      <div class="bar-actions">
        {props.actions}
        <button
          type="button"
          class="button button-quiet bar-settings"
          aria-haspopup="dialog"
          onClick={() => {
            settingsOpen.value = true;
          }}
        >
          Settings
        </button>
      </div>
    </header>
  );
}

// KeysLink opens the sheet of keys; it stands in each page's footer.
export function KeysLink() {
  return (
    <button
      type="button"
      class="button button-text foot-keys"
      aria-haspopup="dialog"
      aria-keyshortcuts="?"
      onClick={() => {
        helpOpen.value = true;
      }}
    >
      ? keys
    </button>
  );
}

// Sheet is a modal dialog for what is not live: keys, settings, columns.
export function Sheet(props: { title: string; open: boolean; close: () => void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    if (!dialog) return;
    if (props.open && !dialog.open) dialog.showModal();
    if (!props.open && dialog.open) dialog.close();
  }, [props.open]);
  return (
    <dialog
      class="sheet"
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

function KeysSheet() {
  const groups = new Map<string, { keys: string; label: string }[]>();
  for (const { keys, label, group } of bindings.value) {
    const list = groups.get(group) ?? [];
    if (!list.some((entry) => entry.label === label && entry.keys === keys)) list.push({ keys, label });
    groups.set(group, list);
  }
  return (
    <Sheet
      title="Keys"
      open={helpOpen.value}
      close={() => {
        helpOpen.value = false;
      }}
    >
      {!keysOn.value && <p class="sheet-note">Single-letter keys are switched off in Settings.</p>}
      <div class="keys">
        {[...groups].map(([group, list]) => (
          <section class="keys-group" key={group}>
            <h3 class="caption">{group}</h3>
            <dl class="keys-list">
              {list.map(({ keys, label }) => (
                <div class="keys-row" key={keys + label}>
                  <dt class="keys-key">
                    {keys.split(' ').map((part) => (
                      <kbd class="key" key={part}>
                        {part}
                      </kbd>
                    ))}
                  </dt>
                  <dd class="keys-label">{label}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Sheet>
  );
}

const THEMES: readonly [Theme, string][] = [
  ['auto', 'Auto'],
  ['dark', 'Dark'],
  ['light', 'Light'],
];

function SettingsSheet() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const licenses = document.querySelector<HTMLMetaElement>('meta[name="procinsh-licenses"]')?.content;
  return (
    <Sheet
      title="Settings"
      open={settingsOpen.value}
      close={() => {
        settingsOpen.value = false;
      }}
    >
      <fieldset class="choice">
        <legend class="caption">Theme</legend>
        {THEMES.map(([value, label]) => (
          <label class="check" key={value}>
            <input
              class="check-box"
              type="radio"
              name="theme"
              checked={theme.value === value}
              onChange={() => {
                theme.value = value;
              }}
            />
            {label}
          </label>
        ))}
      </fieldset>
      <fieldset class="choice">
        <legend class="caption">Rows and keys</legend>
        <label class="check">
          <input
            class="check-box"
            type="checkbox"
            checked={comfortable.value}
            onChange={(event) => {
              comfortable.value = event.currentTarget.checked;
            }}
          />
          Comfortable rows (28 px)
        </label>
        <label class="check">
          <input
            class="check-box"
            type="checkbox"
            checked={keysOn.value}
            onChange={(event) => {
              keysOn.value = event.currentTarget.checked;
            }}
          />
          Single-letter keys
        </label>
      </fieldset>
      <p class="sheet-note">Times are local: {zone}. Sizes count in 1024: K, M, G.</p>
      {licenses && (
        <p class="sheet-note">
          <a class="link" href={licenses}>
            Licences of what this page is made of
          </a>
        </p>
      )}
    </Sheet>
  );
}

export function Sheets() {
  return (
    <>
      <KeysSheet />
      <SettingsSheet />
    </>
  );
}

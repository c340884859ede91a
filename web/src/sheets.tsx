// The sheets every page has: keys and settings. Loaded when first opened.

import { helpOpen, settingsOpen } from './bar';
import { bindings } from './keys';
import { batterySaver, comfortable, keysOn, type Theme, theme } from './settings';
import { Sheet } from './sheet';

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
      <fieldset class="choice">
        <legend class="caption">Space</legend>
        <label class="check">
          <input
            class="check-box"
            type="checkbox"
            checked={batterySaver.value}
            onChange={(event) => {
              batterySaver.value = event.currentTarget.checked;
            }}
          />
          Battery saver: at most 30 frames a second instead of 60
        </label>
      </fieldset>
      <p class="sheet-note">Times are local: {zone}. Sizes count in 1024: K, M, G.</p>
      <p class="sheet-note">
        <a class="link" href="/licenses">
          Licences of what procinsh is made of
        </a>
      </p>
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

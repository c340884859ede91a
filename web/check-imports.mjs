// Holds the direction of imports between the TypeScript sources and keeps the pure
// ones pure. Prints each breach with the reason for its rule; exits 1 on any.

import { readdir, readFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const source = join(dirname(fileURLToPath(import.meta.url)), 'src');

// A file may import only files of a lower layer, or of its own where `within` says so.
const LAYERS = [
  { name: 'wire', files: /^wire\.gen\.ts$/, why: 'the contract depends on nothing' },
  {
    name: 'pure',
    files: /^(format|kinds|filter|nearest|hex|tree|deltas|history|columns|exports)\.ts$/,
    within: true,
    pure: true,
    why: 'pure modules run under Node and are tested there',
  },
  {
    name: 'base',
    files: /^(life|http|stream|loading|settings|route|keys|announce|notice|palette|clipboard)\.ts$/,
    within: true,
    why: 'requests, streams and settings know no page and no component',
  },
  { name: 'store', files: /^store\.ts$/, why: 'the store knows what the server said, not how it looks' },
  {
    name: 'parts',
    files:
      /^(table|paint|rowline|strip|striprow|chart|hexview|spark)\.tsx?$|^(lamps|bar|sheet|sheets|lazy|filterline|filterhelp|runlink)\.tsx$/,
    within: true,
    why: 'parts are shared by pages and know none of them',
  },
  {
    name: 'pages',
    files: /^(list|process|space|runs)\//,
    within: true,
    why: 'pages know the parts, never the app that shows them',
  },
  { name: 'app', files: /^(app\.tsx|theme\.ts)$/, why: 'the app knows the pages' },
];

// Names of the browser that a pure module may not use.
const DOM =
  /\b(document|window|navigator|localStorage|sessionStorage|location|history|fetch|EventSource|HTMLElement|requestAnimationFrame|getComputedStyle)\b/;

// A library that only one file, or few of one purpose, may import, so that it can be replaced.
const ONLY = [
  { module: /^uplot(\/|$)/, file: /^chart\.tsx?$/, why: 'uPlot is wrapped in one file so that it can be replaced' },
  {
    module: /^three(\/|$)/,
    file: /^space\/(scene|lines|digits|wiring)\.ts$/,
    why: 'three is wrapped in the files of the scene so that it can be replaced',
  },
  {
    module: /^@xterm\//,
    file: /^runs\/terminal\.ts$/,
    why: 'xterm is wrapped in one file so that it can be replaced',
  },
];

async function* walk(folder) {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* walk(path);
    else if (/\.tsx?$/.test(entry.name)) yield relative(source, path);
  }
}

const files = [];
for await (const file of walk(source)) files.push(file);
files.sort();

const layerOf = (file) => LAYERS.findIndex((layer) => layer.files.test(file));
const stripped = (text) => text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|[^:'"`])\/\/.*$/gm, '$1');
const withoutStrings = (text) => text.replace(/'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"/g, "''");

const breaches = [];
for (const file of files) {
  const at = layerOf(file);
  const layer = LAYERS[at];
  if (!layer) {
    breaches.push(`${file}: belongs to no layer (add it to a layer in check-imports.mjs)`);
    continue;
  }
  const text = stripped(await readFile(join(source, file), 'utf8'));
  for (const match of text.matchAll(/\b(?:from|import)\s*\(?\s*['"]([^'"]+)['"]/g)) {
    const name = match[1];
    if (!name.startsWith('.')) {
      for (const rule of ONLY) {
        if (rule.module.test(name) && !rule.file.test(file)) breaches.push(`${file} imports ${name}: ${rule.why}`);
      }
      if (layer.pure) breaches.push(`${file} imports ${name}: ${layer.why}`);
      continue;
    }
    const path = join(dirname(file), name);
    const other = files.find((f) => f === path || f === `${path}.ts` || f === `${path}.tsx`);
    if (!other) {
      if (!path.endsWith('.css')) breaches.push(`${file} imports ${name}: there is no such file`);
      continue;
    }
    const to = layerOf(other);
    if (to > at || (to === at && !layer.within)) {
      breaches.push(`${file} (${layer.name}) imports ${other} (${LAYERS[to]?.name}): ${layer.why}`);
    }
    const page = (f) => f.split('/')[0];
    if (layer.name === 'pages' && to === at && page(file) !== page(other)) {
      breaches.push(`${file} imports ${other}: one page does not know another; shared parts go beside app.tsx`);
    }
  }
  if (layer.pure) {
    withoutStrings(text)
      .split('\n')
      .forEach((line, i) => {
        const found = DOM.exec(line);
        if (found) breaches.push(`${file}:${i + 1} uses ${found[1]}: ${layer.why}`);
      });
  }
}

for (const breach of breaches) console.error(breach);
if (breaches.length > 0) process.exit(1);
console.log(`imports of ${files.length} files follow the layers`);

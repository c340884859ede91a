// Builds dist/: one HTML file for every page and content-hashed files beside their
// gzip copies. Prints what a browser will load and fails over a budget.
//
//   node build.mjs [--no-budget]

import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import * as esbuild from 'esbuild';

const root = dirname(fileURLToPath(import.meta.url));
const dist = join(root, 'dist');
const assets = join(dist, 'assets');

// Kilobytes after gzip -9.
const BUDGETS = {
  core: 40,
  process: 45,
  space: 175,
  runs: 110,
  'process/sections': 36,
  'process/flameview': 9,
  'list/preview': 3,
  'list/holders': 2,
  'list/rare': 2,
  'list/sheets': 4,
  filterhelp: 1,
  sheets: 3,
  'runs/terminal': 90,
  'first load of /': 220,
  'first load of /process': 220,
  'first load of /space': 220,
  'first load of /runs': 220,
};

// sweep removes what older builds left, last of all: a page that is open keeps working
// while this runs.
async function sweep(keep) {
  for (const name of await readdir(assets)) if (!keep.has(name)) await rm(join(assets, name));
}

// licenses joins the licence of every package that is in the bundles to those of what
// is linked into the binary, which tests/bom writes.
async function licenses(inputs) {
  const packages = new Set();
  for (const path of inputs) {
    const match = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path);
    if (match) packages.add(match[1]);
  }
  let text = await readFile(join(root, 'third_party/go.txt'), 'utf8');
  text += '\nIts pages are built with:\n';
  for (const name of [...packages].sort()) {
    const folder = join(root, 'node_modules', name);
    const { version, license } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
    const file = (await readdir(folder)).find((entry) => /^licen[cs]e/i.test(entry));
    if (!file) throw new Error(`${name} has no licence file`);
    text += `\n${'='.repeat(72)}\n${name} ${version} (${license})\n\n${(await readFile(join(folder, file), 'utf8')).trim()}\n`;
  }
  return text;
}

const common = {
  absWorkingDir: root,
  bundle: true,
  minify: true,
  target: 'es2022',
  legalComments: 'linked',
  metafile: true,
  outdir: assets,
  logLevel: 'warning',
};

await mkdir(assets, { recursive: true });
// esbuild puts modules into one chunk when the same entries reach them. Left alone, each
// lazy part would cut what it shares with the core into a chunk of its own, and small
// chunks pack badly; so every lazy part reaches all of the core, and every lazy part of
// the process page all of that page.
const wholeCore = {
  name: 'whole-core',
  setup(build) {
    const lazy = new Set();
    const shared = JSON.stringify(join(root, 'src/list/page.tsx'));
    const detail = join(root, 'src/process');
    const whole = join(detail, 'page.tsx');
    build.onResolve({ filter: /^\./ }, async (args) => {
      if (args.kind !== 'dynamic-import' || args.pluginData === 'seen') return undefined;
      const found = await build.resolve(args.path, {
        kind: args.kind,
        resolveDir: args.resolveDir,
        pluginData: 'seen',
      });
      lazy.add(found.path);
      return found;
    });
    build.onLoad({ filter: /\.tsx?$/ }, async (args) => {
      if (!lazy.has(args.path)) return undefined;
      const text = await readFile(args.path, 'utf8');
      const inDetail = dirname(args.path) === detail && args.path !== whole;
      const more = inDetail ? `import ${JSON.stringify(whole)};\n` : '';
      return { contents: `${text}\nimport ${shared};\n${more}`, loader: args.path.endsWith('x') ? 'tsx' : 'ts' };
    });
  },
};

// three carries the programs of all its materials. The scene brings its own and includes
// none of them, so they need not be loaded.
const ownShaders = {
  name: 'own-shaders',
  setup(build) {
    build.onLoad({ filter: /three\.module\.js$/ }, async (args) => {
      let found = 0;
      const contents = (await readFile(args.path, 'utf8')).replace(
        /^((?:var|const) [\w$]+ = )"((?:[^"\\]|\\.)*)";$/gm,
        (whole, head, text) => {
          if (!text.includes('\\n')) return whole;
          found++;
          return `${head}"";`;
        },
      );
      if (found < 100) throw new Error(`three has ${found} programs to leave out: did it change?`);
      return { contents, loader: 'js' };
    });
  },
};

// The worker has no page: a few lines stand for the library of signals.
const worker = await esbuild.build({
  ...common,
  entryPoints: { worker: 'src/space/worker.ts' },
  format: 'iife',
  alias: { '@preact/signals': join(root, 'src/space/cell.ts') },
  entryNames: '[name]-[hash]',
});
const workerFile = Object.keys(worker.metafile.outputs).find((file) => file.endsWith('.js'));

const modules = await esbuild.build({
  ...common,
  define: { WORKER_URL: JSON.stringify(`/assets/${basename(workerFile)}`) },
  plugins: [wholeCore, ownShaders],
  entryPoints: { app: 'src/app.tsx' },
  format: 'esm',
  splitting: true,
  jsx: 'automatic',
  jsxImportSource: 'preact',
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
});
const others = await esbuild.build({
  ...common,
  entryPoints: {
    theme: 'src/theme.ts',
    style: 'src/style.css',
    process: 'src/process/process.css',
    space: 'src/space/space.css',
    runs: 'src/runs/runs.css',
  },
  format: 'iife',
  entryNames: '[name]-[hash]',
});

const outputs = { ...modules.metafile.outputs, ...others.metafile.outputs, ...worker.metafile.outputs };
const output = (entry) => {
  const found = Object.entries(outputs).find(([, o]) => o.entryPoint === entry);
  if (!found) throw new Error(`no output for ${entry}`);
  return found[0];
};

const notices = await licenses([modules, others, worker].flatMap((built) => Object.keys(built.metafile.inputs)));

let html = await readFile(join(root, 'src/index.html'), 'utf8');
const replace = {
  '@theme.js@': output('src/theme.ts'),
  '@style.css@': output('src/style.css'),
  '@process.css@': output('src/process/process.css'),
  '@space.css@': output('src/space/space.css'),
  '@runs.css@': output('src/runs/runs.css'),
  '@app.js@': output('src/app.tsx'),
};
for (const [mark, file] of Object.entries(replace)) html = html.replace(mark, `/assets/${basename(file)}`);

const built = new Set(Object.keys(outputs).map((file) => basename(file)));
const sizes = new Map();
async function put(folder, name, data) {
  const packed = gzipSync(data, { level: 9 });
  for (const [file, content] of [
    [name, data],
    [`${name}.gz`, packed],
  ]) {
    await writeFile(join(folder, `.${file}.new`), content);
    await rename(join(folder, `.${file}.new`), join(folder, file));
  }
  sizes.set(name, { raw: data.length, gz: packed.length });
}
for (const name of built) await put(assets, name, await readFile(join(assets, name)));
await put(dist, 'index.html', Buffer.from(html));
await put(dist, 'licenses.txt', Buffer.from(notices));
await sweep(new Set([...built].flatMap((name) => [name, `${name}.gz`])));

// closure is a module with everything it imports at once.
function closure(file, seen = new Set()) {
  if (seen.has(file)) return seen;
  seen.add(file);
  for (const next of outputs[file].imports) {
    if (next.kind === 'import-statement') closure(next.path, seen);
  }
  return seen;
}
const weigh = (files) => [...files].reduce((sum, file) => sum + (sizes.get(basename(file))?.gz ?? 0), 0);

const core = closure(output('src/app.tsx'));
const process_ = new Set([...closure(output('src/process/page.tsx'))].filter((file) => !core.has(file)));
const space = new Set([...closure(output('src/space/page.tsx')), workerFile].filter((file) => !core.has(file)));
// All of the page of the runs, its terminal too.
const runs = new Set(
  ['src/runs/page.tsx', 'src/runs/terminal.ts']
    .flatMap((entry) => [...closure(output(entry))])
    .filter((file) => !core.has(file)),
);
const styles = ['src/style.css', 'src/process/process.css', 'src/space/space.css', 'src/runs/runs.css'].map(output);
const always = ['index.html', output('src/theme.ts'), ...styles];
// What is loaded later, each by itself: its name is the path of its source.
const later = Object.entries(modules.metafile.outputs).flatMap(([file, { entryPoint }]) => {
  const name = entryPoint?.replace(/^src\/(.*)\.tsx?$/, '$1');
  return name === undefined || name === 'app' || name.endsWith('/page') ? [] : [[name, file]];
});
const seen = new Set([...core, ...process_, ...space]);
const totals = {
  ...Object.fromEntries(later.map(([name, file]) => [name, weigh([...closure(file)].filter((f) => !seen.has(f)))])),
  core: weigh(core),
  process: weigh(process_),
  space: weigh(space),
  runs: weigh(runs),
  'first load of /': weigh([...always, ...core]),
  'first load of /process': weigh([...always, ...core, ...process_]),
  'first load of /space': weigh([...always, ...core, ...space]),
  'first load of /runs': weigh([...always, ...core, ...runs]),
};

for (const [name, { raw, gz }] of [...sizes].sort()) {
  console.log(`${name.padEnd(34)} ${String(raw).padStart(9)} ${String(gz).padStart(8)} gz`);
}
let over = false;
for (const name of new Set([...Object.keys(BUDGETS), ...Object.keys(totals)])) {
  if (!(name in totals) || !(name in BUDGETS)) throw new Error(`${name} has no ${name in totals ? 'budget' : 'file'}`);
  const limit = BUDGETS[name];
  const kb = totals[name] / 1024;
  const bad = kb > limit;
  over ||= bad;
  console.log(`${name.padEnd(34)} ${kb.toFixed(1).padStart(9)} KB gz of ${limit}${bad ? '  OVER BUDGET' : ''}`);
}
if (over && !process.argv.includes('--no-budget')) process.exit(1);

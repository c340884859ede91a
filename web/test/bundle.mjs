// Loads a TypeScript module of src under Node: bundled by esbuild, so that what is
// tested is what the browser gets.

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import * as esbuild from 'esbuild';

const source = join(dirname(fileURLToPath(import.meta.url)), '../src');

// load imports src/<file> with everything it needs.
export async function load(file) {
  const built = await esbuild.build({
    entryPoints: [join(source, file)],
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    write: false,
    logLevel: 'silent',
  });
  const folder = await mkdtemp(join(tmpdir(), 'procinsh-web-'));
  const path = join(folder, 'module.mjs');
  await writeFile(path, built.outputFiles[0].text);
  try {
    return await import(pathToFileURL(path).href);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

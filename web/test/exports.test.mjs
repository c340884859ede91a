import assert from 'node:assert/strict';
import test from 'node:test';
import { World } from '../../tests/browser/fixture/world.mjs';
import { load } from './bundle.mjs';

const { rowsAsTSV, rowsAsJSON, curlOf, save, open } = await load('exports.ts');
const { COLUMNS, DEFAULT_COLUMNS, SETS, columnById, parseColumns, parseSort } = await load('columns.ts');
const { Row } = await load('deltas.ts');

const world = new World({ count: 40 });
const rows = world.list().map((summary) => new Row(summary));
const shown = DEFAULT_COLUMNS.map(columnById);

test('TSV: one line a row, full figures, no drawn columns', () => {
  const evil = new Row({ ...rows[0].summary, name: 'a\tb\nc', command_line: ['x\ty'] });
  const lines = rowsAsTSV([evil, rows[1]], shown).split('\n');
  assert.equal(lines.length, 4);
  assert.equal(lines[3], '');
  assert.deepEqual(lines[0].split('\t'), [
    'PID',
    'Name',
    'User',
    'St',
    'CPU %',
    'RSS',
    'Thr',
    'Read/s',
    'Write/s',
    'Command',
  ]);
  for (const line of lines.slice(0, 3)) assert.equal(line.split('\t').length, 10);
  assert.equal(lines[1].split('\t')[1], 'a␉b␊c');
  assert.equal(lines[1].split('\t')[5], String(evil.summary.rss_bytes));
});

test('JSON: a list, or one object for one row', () => {
  assert.deepEqual(JSON.parse(rowsAsJSON(rows)), world.list());
  assert.equal(JSON.parse(rowsAsJSON([rows[0]])).identity.pid, rows[0].pid);
});

test('curl is quoted for a shell', () => {
  assert.equal(curlOf('http://127.0.0.1:9090', '/api/x?a=1&b=2'), "curl -s 'http://127.0.0.1:9090/api/x?a=1&b=2'");
});

test('a saved list opens again, anything else says why', () => {
  const gone = new Row(rows[3].summary);
  gone.gone = 5;
  const saved = open(save([rows[0], rows[1], gone], 123));
  assert.equal(saved.captured_at, 123);
  assert.deepEqual(
    saved.processes.map((p) => p.identity),
    [rows[0], rows[1]].map((r) => r.summary.identity),
  );
  for (const [text, want] of [
    ['', /no JSON/],
    ['{}', /no list saved/],
    ['[1]', /no list saved/],
    ['null', /no list saved/],
    ['{"procinsh":"list"}', /not whole/],
    ['{"procinsh":"list","captured_at":1,"processes":[{}]}', /process in this file is not whole/],
    ['{"procinsh":"list","captured_at":1,"processes":[null]}', /process in this file is not whole/],
  ]) {
    assert.match(String(open(text)), want, text);
  }
});

test('columns: letters are unique, sets name columns that exist', () => {
  const letters = COLUMNS.map((c) => c.letter).filter(Boolean);
  assert.equal(new Set(letters).size, letters.length);
  for (const column of COLUMNS) assert.equal(column.sortable, column.letter !== '', column.id);
  for (const set of Object.values(SETS)) for (const id of set) assert.ok(columnById(id), id);
});

test('columns: an unknown figure has a dash and a reason', () => {
  const show = { now: world.now, cores: 1, past: false };
  const row = new Row({
    ...rows[0].summary,
    cpu_percent: null,
    read_bytes_rate: null,
    write_bytes_rate: null,
    executable: null,
    command_line: null,
    tty: null,
    parent_id: null,
    container: null,
    cgroup: null,
    map_summary: null,
  });
  for (const id of ['cpu', 'read', 'write', 'exe', 'command', 'tty', 'ppid', 'container', 'cgroup', 'maps']) {
    const column = columnById(id);
    assert.equal(column.text(row, show), '–', id);
    assert.notEqual(column.hint(row, show), '', id);
  }
  assert.equal(columnById('cpu').hint(row, show), 'needs two samples');
});

test('columns and sort of a link', () => {
  assert.deepEqual(parseColumns('cpu,name,bogus,cpu'), ['cpu', 'name']);
  assert.deepEqual(parseColumns('cpu'), ['name', 'cpu']);
  assert.deepEqual(parseColumns(''), [...DEFAULT_COLUMNS]);
  assert.deepEqual(parseSort('-cpu'), { column: 'cpu', descending: true });
  assert.deepEqual(parseSort('name'), { column: 'name', descending: false });
  for (const text of ['', '-', 'spark', '-maps', 'bogus']) assert.equal(parseSort(text), null, text);
});

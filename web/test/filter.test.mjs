import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './bundle.mjs';

const { parseFilter, split, amount, kernelNamed, KNOWN_KEYS, keyHelp } = await load('filter.ts');
const { KEYS } = await load('filter.ts');
const { holderKeys } = await load('list/holderkeys.ts');
const { nearest, distance } = await load('nearest.ts');

const NOW = 1_800_000_000_000;
const MiB = 1024 * 1024;

function subject(fields = {}) {
  return {
    lower: '',
    summary: {
      identity: { pid: 3310, start_time_ticks: 5 },
      parent_id: { pid: 902, start_time_ticks: 1 },
      name: 'postgres',
      executable: '/usr/lib/postgresql/17/bin/postgres',
      command_line: ['postgres:', 'app', 'SELECT two words'],
      kernel_thread: false,
      uid: 113,
      euid: 113,
      username: 'postgres',
      effective_username: 'postgres',
      state: 'S',
      cpu_percent: 6.8,
      rss_bytes: 97 * MiB,
      vms_bytes: 400 * MiB,
      thread_count: 6,
      started_at: NOW - 90_000,
      tty: null,
      run_id: 'web-1',
      read_bytes_rate: 1000,
      write_bytes_rate: null,
      ...fields,
    },
  };
}

const matches = (text, fields) => {
  const filter = parseFilter(text);
  return filter.test === null ? null : filter.test(subject(fields), NOW);
};

test('what a term matches', () => {
  const rows = [
    // words look in name and command, without regard to case
    ['post', true],
    ['POST', true],
    ['select', true],
    ['nothing', false],
    ['"two words"', true],
    ['"words two"', false],
    ['two words', true],
    ['two nothing', false],
    ['nothing|app', true],
    ['nothing|other', false],
    // regex
    ['/^post/', true],
    ['/^gres/', false],
    ['/SEL.CT two/', true],
    ['/a b|two w/', true],
    // a path is no regex
    ['/usr/lib', false],
    ['exe:/usr/lib', true],
    // keys
    ['pid:3310', true],
    ['pid:331', false],
    ['pid:1|3310', true],
    ['ppid:902', true],
    ['name:gres', true],
    ['name:"post"', true],
    ['name:/^post.*s$/', true],
    ['name:/^gres$/', false],
    ['cmd:app', true],
    ['run:web-1', true],
    ['run:web', false],
    ['user:postgres', true],
    ['user:POSTGRES', true],
    ['user:postgre', false],
    ['user:113', true],
    ['user:root|postgres', true],
    ['state:S', true],
    ['state:s', true],
    ['state:sleeping', true],
    ['state:R|D', false],
    ['kernel:no', true],
    ['kernel:yes', false],
    // figures
    ['cpu>5', true],
    ['cpu>6.8', false],
    ['cpu>=6.8', true],
    ['cpu<7%', true],
    ['cpu:6.8', true],
    ['rss>90M', true],
    ['rss>97M', false],
    ['rss>=97M', true],
    ['rss<0.1G', true],
    ['rss>99000K', true],
    ['rss>1', true],
    ['vms>1G', false],
    ['thr:6', true],
    ['thr>6', false],
    ['age>1m', true],
    ['age<2m', true],
    ['age<80', false],
    ['age>1h', false],
    ['read>0.5K', true],
    // exclusion
    ['-post', false],
    ['-nothing', true],
    ['-user:root', true],
    ['-cpu>5', false],
    ['post -app', false],
    // and
    ['user:postgres cpu>5 app', true],
    ['user:postgres cpu>50', false],
  ];
  for (const [text, want] of rows) {
    const filter = parseFilter(text);
    assert.deepEqual(filter.terms.map((term) => term.error).filter(Boolean), [], `${text} is understood`);
    assert.equal(matches(text), want, text);
  }
});

test('unknown figures match no comparison', () => {
  for (const text of ['write>0', 'write<1G', 'write:0']) assert.equal(matches(text), false, text);
  assert.equal(matches('-write>0'), true);
  assert.equal(matches('cpu>0', { cpu_percent: null }), false);
  assert.equal(matches('cpu<1', { cpu_percent: null }), false);
  assert.equal(matches('exe:postgres', { executable: null }), false);
  assert.equal(matches('cmd:app', { command_line: null }), false);
  assert.equal(matches('user:postgres', { username: null, effective_username: null }), false);
});

test('T and t are two states, other letters are one', () => {
  assert.equal(matches('state:t', { state: 't' }), true);
  assert.equal(matches('state:t', { state: 'T' }), false);
  assert.equal(matches('state:T', { state: 't' }), false);
  assert.equal(matches('state:stopped', { state: 'T' }), true);
});

test('set-uid: the effective user counts as well', () => {
  const fields = { uid: 1000, euid: 0, username: 'mika', effective_username: 'root' };
  assert.equal(matches('user:mika', fields), true);
  assert.equal(matches('user:root', fields), true);
});

test('a term that cannot be understood says why, and hides nothing', () => {
  const rows = [
    ['usr:root', /unknown key usr: known are pid ppid name/],
    ['port:80', /unknown key port/],
    ['cpu>', /needs a value, as in cpu>0\.5/],
    ['cpu>lots', /“lots” is no number/],
    ['rss>5X', /“X” is no unit here \(B K M G T\)/],
    ['age>5M5', /is no number/],
    ['age>5w', /is no unit here \(s m h d\)/],
    ['user>root', /user cannot be compared, use user:root/],
    ['user:', /user needs a value/],
    ['kernel:maybe', /kernel is yes or no/],
    ['state:QQ', /“QQ” is no state/],
    ['name:/(/', /no pattern: Unterminated group/],
  ];
  for (const [text, want] of rows) {
    const { terms, test: active } = parseFilter(text);
    assert.match(terms[0].error ?? '', want, text);
    assert.equal(terms[0].chip, false, text);
    assert.equal(active, null, `${text} is not applied`);
  }
  // The others on the line still hold.
  assert.equal(matches('usr:root nothing'), false);
  assert.equal(matches('usr:root post'), true);
});

test('pieces keep quotes, regexes and their place', () => {
  assert.deepEqual(
    split('  a "b c" -user:"x y"  name:/p q/ /r s/ /usr/bin "open ').map((p) => p.text),
    ['a', '"b c"', '-user:"x y"', 'name:/p q/', '/r s/', '/usr/bin', '"open '],
  );
  for (const piece of split(' one  two ')) assert.equal(' one  two '.slice(piece.from, piece.to), piece.text);
});

test('chips are the whole key terms', () => {
  const chips = (text) => parseFilter(text).terms.map((term) => term.chip);
  assert.deepEqual(chips('user:mika -cpu>0.5 comp "a b"'), [true, true, false, false]);
});

test('blank and half-typed lines match everything', () => {
  for (const text of ['', '   ', '"', '|']) assert.equal(parseFilter(text).test, null, JSON.stringify(text));
});

test('amounts', () => {
  assert.equal(amount('1.5K', 'bytes'), 1536);
  assert.equal(amount('2MiB', 'bytes'), 2 * MiB);
  assert.equal(amount('.5', 'percent'), 0.5);
  assert.equal(amount('2d', 'age'), 172800_000);
  assert.equal(typeof amount('1e3', 'count'), 'string');
  assert.equal(typeof amount('-1', 'count'), 'string');
});

test('any text parses, and its pieces are of the text', () => {
  // A small deterministic fuzz: the alphabet is the grammar's own.
  const alphabet = [
    'a',
    'user',
    'cpu',
    ':',
    '>',
    '<',
    '=',
    '"',
    '/',
    '\\',
    '|',
    '-',
    ' ',
    '1',
    'M',
    '%',
    '(',
    '[',
    '\u202e',
  ];
  let seed = 1;
  const next = () => {
    seed = (seed * 1103515245 + 12345) & 0x7fffffff;
    return seed;
  };
  for (let i = 0; i < 5000; i++) {
    let text = '';
    for (let k = next() % 12; k > 0; k--) text += alphabet[next() % alphabet.length];
    const filter = parseFilter(text);
    for (const term of filter.terms) assert.equal(text.slice(term.from, term.to), term.text, JSON.stringify(text));
    if (filter.test) assert.equal(typeof filter.test(subject(), NOW), 'boolean');
  }
});

test('kernel: in the filter decides about kernel threads', () => {
  assert.equal(kernelNamed(parseFilter('kernel:yes')), true);
  assert.equal(kernelNamed(parseFilter('kernel:x')), false);
  assert.equal(kernelNamed(parseFilter('kernel')), false);
});

test('the help of each key is a valid term', () => {
  for (const key of KNOWN_KEYS) assert.equal(parseFilter(keyHelp(key)).terms[0].error, null, key);
});

test('nearest offers what exists', () => {
  const hosts = [
    subject({ username: 'mika' }),
    subject({ username: 'mika' }),
    subject({ username: 'root', name: 'sshd' }),
  ];
  assert.deepEqual(nearest(parseFilter('user:mikaa'), hosts), { text: 'user:mika', count: 2 });
  assert.deepEqual(nearest(parseFilter('postgers'), hosts), { text: 'postgres', count: 2 });
  assert.deepEqual(nearest(parseFilter('name:ssdh'), hosts), { text: 'name:sshd', count: 1 });
  assert.equal(nearest(parseFilter('user:zzzzzzzzzz'), hosts), null);
  assert.equal(nearest(parseFilter('cpu>900'), hosts), null);
  assert.equal(distance('kitten', 'sitting'), 3);
  assert.equal(distance('', 'abc'), 3);
});

test('port, file and socket are what the server answered', () => {
  const answers = new Map([
    ['port:5432', new Set(['3310@5'])],
    ['port:80', new Set(['1@1'])],
    ['file:/a b|c/', new Set(['3310@5'])],
    ['file:/x/', new Set(['3310@5'])],
    ['socket:9', new Set(['3310@6'])],
  ]);
  const keys = { ...KEYS, ...holderKeys((term) => answers.get(term)) };
  const look = (text) => {
    const { terms, test: matches } = parseFilter(text, keys);
    return terms[0].error ?? matches(subject(), NOW);
  };
  assert.equal(look('port:5432'), true);
  assert.equal(look('port:80'), false);
  assert.equal(look('-port:80'), true);
  assert.equal(look('port:80|5432'), true);
  assert.equal(look('port:81'), false, 'nothing was answered');
  assert.equal(look('file:"/a b|c/"'), true);
  assert.equal(look('file:/x/'), true, 'a path is no pattern');
  assert.equal(look('socket:9'), false, 'another process with that number');
  for (const text of ['port:0', 'port:65536', 'port:x', 'port:80|x', 'port:8.1'])
    assert.equal(look(text), 'port needs a number from 1 to 65535', text);
  assert.equal(look('port>80'), 'port cannot be compared, use port:5432');
  assert.equal(look('port:'), 'port needs a value, as in port:5432');
  assert.equal(look('file:x'), 'file needs a path that begins with /');
  assert.equal(look('socket:0'), 'socket needs the inode of a socket');
  for (const key of Object.keys(keys)) assert.equal(parseFilter(keyHelp(key, keys), keys).terms[0].error, null, key);
});

// The space without a browser: differences applied, slabs, links, cards, the engine's
// arrays, the camera and the pick.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './bundle.mjs';

const { Structure, HOSTS } = await load('space/structure.ts');
const { slabs, mainKind, towerHeight, DENIED_MAPS, UNKNOWN_MAPS, MIDDLE_SLABS } = await load('space/slabs.ts');
const { Links, linkKind, hostOf, chooseLinks, maxArcs } = await load('space/links.ts');
const { FileCards, fileText, maxCards, maxAllCards, CARD_MS } = await load('space/files.ts');
const { Engine, maxWindowPulses } = await load('space/engine.ts');
const { Camera, pick } = await load('space/camera.ts');
const { SPACE_KEYS } = await load('space/grammar.ts');
const { parseFilter } = await load('filter.ts');

const id = (pid, start = pid) => ({ pid, start_time_ticks: start });
const summary = (size = 1 << 20) => ({
  boxes: [
    { kind: 'code', start: '0x1', end: '0x2', size, count: 1 },
    { kind: 'heap', start: '0x2', end: '0x3', size: size * 4, count: 2 },
    { kind: 'guard', start: '0x3', end: '0x4', size: 4096, count: 1 },
    { kind: 'stack', start: '0x4', end: '0x5', size: 8192, count: 1 },
  ],
  totals: { code: size, heap: size * 4, stack: 8192, guard: 4096 },
});
const node = (pid, parent, more = {}) => ({
  identity: id(pid),
  parent_id: parent === null ? null : id(parent),
  name: `p${pid}`,
  uid: 0,
  username: 'root',
  euid: 0,
  effective_username: 'root',
  cpu_percent: 1,
  rss_bytes: 1 << 20,
  thread_count: 1,
  container: null,
  run_id: null,
  state: null,
  map_summary: summary(),
  maps_epoch: 1,
  maps_error: null,
  ...more,
});
const port = (pid, resource) => ({
  process_id: id(pid),
  fd: 3,
  fd_count: 1,
  resource,
  kind: resource.split(':')[0],
  access: 'read/write',
});
const edge = (name, a, b, more = {}) => ({
  id: name,
  a,
  b,
  label: name,
  socket: null,
  candidate: false,
  shared: false,
  ...more,
});
const network = (name, pid, remote, host = null) =>
  edge(name, port(pid, `socket:8:${name}`), null, {
    socket: {
      protocol: 'TCP',
      state: 'ESTABLISHED',
      local: '10.0.0.1:5000',
      remote,
      network_peer: true,
      remote_hostname: host,
    },
  });
const topology = (nodes, edges = [], sequence = 1) => ({
  sequence,
  captured_at: 1000 + sequence,
  nodes,
  edges,
  warnings: [],
  inspected_processes: nodes.length,
  inspected_fds: 0,
});
const delta = (base, more = {}) => ({
  sequence: base + 1,
  base_sequence: base,
  captured_at: 2000 + base,
  nodes_changed: [],
  nodes_removed: [],
  maps_changed: [],
  edges_changed: [],
  edges_removed: [],
  warnings: [],
  inspected_processes: 0,
  inspected_fds: 0,
  ...more,
});
const bare = ({ map_summary: _maps, ...rest }) => rest;

// state is a structure without its indices, as the whole one would have it.
const state = (s) => ({
  sequence: s.sequence,
  nodes: [...s.nodes.values()]
    .map((n) => ({ ...bare(n.wire), summary: n.summary, error: n.mapsError }))
    .sort((a, b) => a.identity.pid - b.identity.pid),
  edges: [...s.edges.keys()].sort(),
});

test('a difference on its base gives what the whole would', () => {
  const byDelta = new Structure();
  byDelta.whole(
    topology([node(1, null), node(5, 1), node(6, 1)], [edge('a', port(5, 'pipe:1:1'), port(6, 'pipe:1:1'))]),
  );
  const fresh = summary(1 << 22);
  const changes = byDelta.delta(
    delta(1, {
      nodes_removed: [id(6)],
      nodes_changed: [bare(node(7, 5)), bare(node(5, 1, { name: 'other', rss_bytes: 9 }))],
      maps_changed: [
        { identity: id(7), map_summary: fresh, maps_epoch: 1, maps_error: null },
        { identity: id(1), map_summary: null, maps_epoch: 0, maps_error: 'no' },
      ],
      edges_changed: [edge('b', port(5, 'pipe:1:2'), port(7, 'pipe:1:2'))],
      edges_removed: ['a'],
    }),
  );
  assert.deepEqual([changes.started, changes.exited, changes.edges], [1, 1, true]);
  assert.deepEqual(
    changes.named.map((n) => n.key),
    ['7@7', '5@5'],
  );
  const whole = new Structure();
  whole.whole(
    topology(
      [
        node(1, null, { map_summary: null, maps_error: 'no' }),
        node(5, 1, { name: 'other', rss_bytes: 9 }),
        node(7, 5, { map_summary: fresh }),
      ],
      [edge('b', port(5, 'pipe:1:2'), port(7, 'pipe:1:2'))],
      2,
    ),
  );
  const withoutErrors = (s) => JSON.stringify(state(s)).replaceAll(/"maps_error":[^,}]*/g, '"maps_error":0');
  assert.equal(withoutErrors(byDelta), withoutErrors(whole));
});

test('a difference on another base is refused and changes nothing', () => {
  const s = new Structure();
  assert.equal(s.delta(delta(0)), null, 'before the first');
  s.whole(topology([node(1, null)]));
  const before = JSON.stringify(state(s));
  assert.equal(s.delta(delta(3, { nodes_removed: [id(1)] })), null);
  assert.equal(JSON.stringify(state(s)), before);
});

test('a process keeps its index as long as it runs; a pid used again is another one', () => {
  const s = new Structure();
  s.whole(topology([node(1, null), node(5, 1), node(6, 1)]));
  const at = (pid, start = pid) => s.find(id(pid, start))?.index;
  const [one, five, six] = [at(1), at(5), at(6)];
  assert.ok(Math.min(one, five, six) >= HOSTS);
  s.delta(delta(1, { nodes_removed: [id(5)], nodes_changed: [bare(node(5, 1, { identity: id(5, 99) }))] }));
  assert.equal(at(1), one);
  assert.equal(at(6), six);
  assert.equal(at(5), undefined);
  assert.equal(at(5, 99), five, 'a free index is used again');
  assert.equal(s.at.length, HOSTS + 3);
});

test('slabs fill the tower in address order, without guards, and no more than asked for', () => {
  const list = slabs(summary(), 64);
  assert.deepEqual(
    list.map((slab) => slab.kind),
    [0, 3, 5],
    'code, heap, stack',
  );
  assert.equal(list[0].from, 0);
  assert.equal(list.at(-1).to, 1);
  for (let i = 1; i < list.length; i++) assert.ok(Math.abs(list[i].from - list[i - 1].to) < 1e-9);
  const many = { boxes: [], totals: {} };
  for (let i = 0; i < 64; i++) {
    many.boxes.push({
      kind: ['code', 'data', 'heap', 'shared'][i % 4],
      start: '0',
      end: '0',
      size: (i + 1) * 4096,
      count: 1,
    });
  }
  assert.ok(slabs(many, MIDDLE_SLABS).length <= MIDDLE_SLABS);
  assert.equal(slabs(many, 64).length, 64);
  assert.deepEqual(slabs({ boxes: [], totals: {} }, 8), []);
});

test('a tower is coloured by what it has most of; unknown and refused are their own', () => {
  assert.equal(mainKind(summary(), null), 3);
  assert.equal(mainKind(null, null), UNKNOWN_MAPS);
  assert.equal(mainKind(null, 'EPERM'), DENIED_MAPS);
  assert.ok(towerHeight(0) > 0);
  const step = towerHeight(64 << 20) - towerHeight(32 << 20);
  assert.ok(Math.abs(step - (towerHeight(128 << 20) - towerHeight(64 << 20))) < 0.01, 'a step a doubling');
});

test('what is known of the other end is told apart', () => {
  const p = port(1, 'pipe:1:1');
  assert.equal(linkKind(edge('x', p, p)), 'sure');
  assert.equal(linkKind(edge('x', p, p, { candidate: true })), 'candidate');
  assert.equal(linkKind(edge('x', p, p, { shared: true })), 'shared');
  assert.equal(linkKind(network('x', 1, '1.2.3.4:5')), 'network');
  assert.equal(linkKind(edge('x', p, null)), 'open');
  assert.equal(hostOf('1.2.3.4:443'), '1.2.3.4');
  assert.equal(hostOf('[2001:db8::7]:443'), '2001:db8::7');
});

test('the arcs drawn: the selected’s first, then the most recent, never more than the limit', () => {
  const s = new Structure();
  const nodes = [node(1, null)];
  const edges = [];
  for (let i = 0; i < 600; i++) {
    nodes.push(node(100 + i, 1));
    edges.push(edge(`e${i}`, port(100 + i, `pipe:1:${i}`), port(i < 5 ? 1 : 100 + ((i + 1) % 600), `pipe:1:${i}`)));
  }
  s.whole(topology(nodes, edges));
  const links = new Links();
  links.rebuild(s);
  const own = s.find(id(1)).index;
  assert.equal(chooseLinks(links, own, true, 1e6).length, 5);
  for (const link of links.links.values()) link.active = 1e6 - (link.edge.id === 'e77' ? 0 : 500);
  const chosen = chooseLinks(links, own, true, 1e6);
  assert.equal(chosen.length, maxArcs);
  assert.ok(['e0', 'e1', 'e2', 'e3', 'e4', 'e77'].every((name) => chosen.some((link) => link.edge.id === name)));
  assert.equal(chooseLinks(links, own, false, 1e6).length, 5, 'only the selected’s');
  assert.equal(chooseLinks(links, own, true, 1e6 + 5000).length, 5, 'silent for long');
});

test('remote hosts keep their places; one that nobody talks to gives its own away', () => {
  const s = new Structure();
  const links = new Links();
  const edges = [];
  for (let i = 0; i < HOSTS + 6; i++) edges.push(network(`n${i}`, 1, `10.0.0.${i}:80`));
  edges.push(network('twice', 1, '10.0.0.3:81', 'three.example'));
  s.whole(topology([node(1, null)], edges));
  links.rebuild(s);
  assert.equal(links.hosts.filter(Boolean).length, HOSTS);
  assert.equal(links.hostsHidden, 6);
  const three = links.hosts.findIndex((host) => host?.address === '10.0.0.3');
  assert.deepEqual(links.hosts[three], { address: '10.0.0.3', name: 'three.example', links: 2 });
  s.whole(topology([node(1, null)], edges.slice(1), 2));
  links.rebuild(s);
  assert.equal(
    links.hosts.findIndex((host) => host?.address === '10.0.0.3'),
    three,
  );
  assert.equal(links.hostsHidden, 5, 'the place of 10.0.0.0 went to another');
});

test('file cards: 32 a process, 512 in all, half a minute after the last access', () => {
  const cards = new FileCards();
  for (let i = 0; i < 40; i++) cards.touch(70, `file:8:1:${i}:0`, `/f${i}`, i % 2 === 0, 10, i);
  assert.equal(cards.of(70).length, maxCards);
  assert.ok(!cards.of(70).some((card) => card.path === '/f0'), 'the oldest made room');
  const slots = new Set(cards.of(70).map((card) => card.slot));
  assert.equal(slots.size, maxCards);
  assert.ok(Math.max(...slots) < maxCards);
  for (let i = 0; i < 100; i++) for (let k = 0; k < 10; k++) cards.touch(100 + i, `f${k}`, null, false, 1, 100 + i);
  assert.equal(cards.count, maxAllCards);
  assert.equal(cards.all().length, maxAllCards);
  cards.touch(199, 'f0', '/seen', true, 5, CARD_MS + 120);
  assert.equal(cards.expire(CARD_MS + 200), true);
  assert.deepEqual(
    cards.all().map(({ index, path, read, write }) => [index, path, read, write]),
    [[199, '/seen', 1, 5]],
  );
  assert.equal(fileText(null, 'file:8:1:4711:0'), 'dev 8:1 inode 4711');
  assert.equal(fileText('/x', 'file:8:1:4711:0'), '/x');
});

// drive makes an engine and keeps what it posts.
function drive() {
  const posted = [];
  const clock = { now: 1000 };
  const engine = new Engine(
    (message) => posted.push(message),
    () => clock.now,
  );
  const last = (kind) => posted.findLast((m) => m.kind === kind);
  return { engine, posted, clock, last };
}
const status = {
  active: true,
  cpu: { state: 'observing', reason: null },
  ipc: { state: 'observing', reason: null },
  files: { state: 'observing', reason: null },
  coverage: [],
  files_coverage: [],
  lost: 0,
  unresolved: 0,
  files_lost: 0,
};
const activity = (more) => ({ captured_at: 1, window_ms: 100, cpu: [], ipc: [], files: [], status, ...more });

test('the engine: a layout in arrays, kernel threads folded, maps that are refused', () => {
  const { engine, last } = drive();
  engine.event(
    'topology',
    topology([
      node(1, null),
      node(2, null, { name: 'kthreadd', map_summary: null }),
      node(3, 2, { map_summary: null }),
      node(4, 2, { map_summary: null }),
      node(10, 1, { map_summary: null, maps_error: 'EPERM' }),
      node(11, 1),
    ]),
  );
  const layout = last('layout');
  assert.equal(layout.processes, 3);
  assert.equal(layout.kernelThreads, 3);
  const index = (pid) => layout.names.index[layout.names.pid.indexOf(pid)];
  const height = (pid) => layout.place[index(pid) * 4 + 3];
  assert.ok(height(1) > 0 && height(2) > 0 && height(10) > 0);
  assert.equal(height(3), 0, 'a kernel thread has no place of its own');
  assert.equal(layout.main[index(10)], DENIED_MAPS);
  assert.deepEqual([...layout.plateOwner], [index(1)], 'kthreadd is one tower');
  assert.equal(layout.parents[index(10)], index(1));
  assert.equal(layout.children[index(1)], 2);
  for (let i = 4; i < layout.near.length; i += 4) assert.ok(layout.near[i] >= layout.near[i - 4], 'by index');
});

test('the engine: bytes become pulses on the right connection, in the direction they go', () => {
  const { engine, last, clock } = drive();
  engine.event(
    'topology',
    topology(
      [node(1, null), node(5, 1), node(6, 1)],
      [
        edge('pipe', port(5, 'pipe:1:1'), port(6, 'pipe:1:1')),
        edge('unix', port(5, 'socket:8:1'), port(6, 'socket:8:2')),
        network('net', 6, '9.9.9.9:53', 'nine.example'),
      ],
    ),
  );
  const { names } = last('layout');
  const index = (pid) => names.index[names.pid.indexOf(pid)];
  engine.select(index(6));
  engine.event(
    'activity',
    activity({
      cpu: [{ process_id: id(5), runtime_ns: 5e7, switches: 1, running_threads: 1, cpus: [] }],
      ipc: [
        { process_id: id(5), resource: 'pipe:1:1', write: true, bytes: 100, count: 1 },
        { process_id: id(6), resource: 'pipe:1:1', write: false, bytes: 100, count: 1 },
        { process_id: id(6), resource: 'socket:8:2', write: true, bytes: 7, count: 1 },
        { process_id: id(6), resource: 'socket:8:net', write: true, bytes: 50, count: 1 },
        { process_id: id(6), resource: 'socket:8:unheard', write: true, bytes: 50, count: 1 },
      ],
    }),
  );
  const sent = last('activity');
  assert.deepEqual([...sent.cpuIndex], [index(5)]);
  assert.equal(sent.cpuShare[0], 0.5);
  const pulses = [];
  for (let i = 0; i < sent.pulses.length; i += 4) pulses.push([...sent.pulses.slice(i, i + 4)]);
  const host = last('layout').hosts.findIndex((h) => h?.address === '9.9.9.9');
  assert.deepEqual(pulses, [
    [index(5), index(6), 1, 100],
    [index(5), index(6), 0, 100],
    [index(6), index(5), 1, 7],
    [index(6), host, 1, 50],
  ]);
  clock.now += 500;
  engine.tick();
  const facts = last('facts');
  assert.equal(facts.connectionsTotal, 3);
  assert.equal(facts.connectionsActive, 3);
  const of = (name) => facts.connections.find((fact) => fact.id === name);
  assert.deepEqual([of('pipe').read, of('pipe').write], [100, 0], 'both ends told of the same bytes');
  assert.deepEqual([of('unix').read, of('unix').write], [0, 7]);
  assert.equal(of('net').peer, host);
  const arcs = last('arcs');
  assert.equal(arcs.arcs.length / 4, 3);
  clock.now += 5000;
  engine.tick();
  assert.equal(last('facts').connectionsActive, 0);
});

test('the engine: owners of one object meet at a hub, a line each', () => {
  const { engine, last } = drive();
  const shared = (to) => edge(`s${to}`, port(5, 'socket:8:9'), port(to, 'socket:8:9'), { shared: true });
  engine.event(
    'topology',
    topology([node(1, null), node(5, 1), node(6, 1), node(7, 1), node(8, 1)], [shared(6), shared(7), shared(8)]),
  );
  const { names } = last('layout');
  engine.select(names.index[names.pid.indexOf(5)]);
  const { arcs, hubs } = last('arcs');
  assert.equal(arcs.length, 0);
  assert.equal(hubs.length / 2, 4, 'four owners, four lines');
  assert.deepEqual(new Set([...hubs].filter((_, i) => i % 2 === 1)), new Set([0]));
});

test('the engine: a window with too many transfers shows the largest', () => {
  const { engine, last } = drive();
  const nodes = [node(1, null)];
  const edges = [];
  for (let i = 0; i < 900; i++) {
    nodes.push(node(100 + i, 1));
    edges.push(edge(`e${i}`, port(100 + i, `pipe:1:${i}`), port(1, `pipe:1:${i}`)));
  }
  engine.event('topology', topology(nodes, edges));
  engine.event(
    'activity',
    activity({
      ipc: edges.map((_, i) => ({
        process_id: id(100 + i),
        resource: `pipe:1:${i}`,
        write: true,
        bytes: i + 1,
        count: 1,
      })),
    }),
  );
  const { pulses } = last('activity');
  assert.equal(pulses.length / 4, maxWindowPulses);
  for (let i = 3; i < pulses.length; i += 4) assert.ok(pulses[i] > 900 - maxWindowPulses);
});

test('the engine: held, everything stands and stays explorable; let go, it catches up', () => {
  const { engine, last, posted } = drive();
  engine.event('topology', topology([node(1, null), node(5, 1)]));
  engine.hold(true);
  const layouts = () => posted.filter((m) => m.kind === 'layout').length;
  const before = layouts();
  engine.event('topology_delta', delta(1, { nodes_removed: [id(5)], nodes_changed: [bare(node(9, 1))] }));
  engine.event('topology_delta', delta(2, { nodes_changed: [bare(node(9, 1, { rss_bytes: 5 })), bare(node(10, 1))] }));
  engine.event('metrics', [{ identity: id(1), cpu_percent: 50, rss_bytes: 1 }]);
  assert.equal(layouts(), before);
  assert.equal(last('metrics'), undefined);
  assert.deepEqual([last('held').started, last('held').exited], [2, 1]);
  engine.query('p5');
  assert.equal(last('matches').count, 1, 'who was there when it was held is still found');
  assert.equal(engine.hold(false), true);
  assert.equal(last('layout').processes, 3);
  engine.query('p5');
  assert.equal(last('matches').count, 0);
});

test('the engine: a difference that does not follow asks for a new connection; a gap empties and counts', () => {
  const { engine, last } = drive();
  engine.event('topology', topology([node(1, null)]));
  engine.event(
    'activity',
    activity({ files: [{ process_id: id(1), resource: 'file:8:1:5:0', path: '/a', write: true, bytes: 3, count: 1 }] }),
  );
  engine.tick();
  assert.equal(last('cards').total, 1);
  assert.equal(engine.event('gap', { dropped_frames: 37 }), true);
  assert.deepEqual(last('gap'), { kind: 'gap', gaps: 1, frames: 37 });
  assert.equal(last('cards').total, 0);
  assert.equal(engine.event('topology_delta', delta(8)), false);
});

test('the filter of the space: connections and files, with the grammar of the list', () => {
  const { engine, last } = drive();
  engine.event(
    'topology',
    topology(
      [node(1, null), node(5, 1, { name: 'nginx' }), node(6, 1), node(7, 1)],
      [
        network('net', 5, '9.9.9.9:443', 'nine.example'),
        edge('unix', port(6, 'socket:8:1'), port(7, 'socket:8:2'), { label: '/run/app.sock' }),
      ],
    ),
  );
  engine.event(
    'activity',
    activity({
      files: [{ process_id: id(7), resource: 'f', path: '/var/log/x.log', write: true, bytes: 3, count: 1 }],
    }),
  );
  const { names } = last('layout');
  const found = (text) => {
    engine.query(text);
    const { match } = last('matches');
    return [...names.pid].filter((_, k) => match[names.index[k]] === 1);
  };
  assert.deepEqual(found('port:443'), [5]);
  assert.deepEqual(found('host:nine'), [5]);
  assert.deepEqual(found('sock:app.sock'), [6, 7]);
  assert.deepEqual(found('file:/var/log'), [7]);
  assert.deepEqual(found('-nginx ppid:1'), [6, 7]);
  assert.deepEqual(found('nginx|p6'), [5, 6]);
  for (const key of Object.keys(SPACE_KEYS)) {
    assert.equal(parseFilter(SPACE_KEYS[key].help, SPACE_KEYS).terms[0].error, null, key);
  }
  assert.match(parseFilter('state:R', SPACE_KEYS).terms[0].error, /of the states only D Z T t/);
});

test('the camera: what is projected is what is picked', () => {
  const camera = new Camera();
  camera.width = 1200;
  camera.height = 800;
  const count = 64 + 400;
  const place = new Float32Array(count * 4);
  for (let i = 64; i < count; i++) place.set([(i % 20) + 0.5, Math.floor((i - 64) / 20) + 0.5, 0.1, 1], i * 4);
  const out = new Float64Array(3);
  const ray = { ox: 0, oy: 0, oz: 0, dx: 0, dy: 0, dz: 0 };
  for (const top of [false, true]) {
    if (top) camera.turn(true, null);
    camera.fit(0, 0, 20, 20, 1, null);
    camera.update();
    for (let i = 64; i < count; i += 7) {
      camera.project(place[i * 4], 1.09, place[i * 4 + 1], out);
      assert.ok(out[2] > 0 && out[0] > 0 && out[0] < 1200 && out[1] > 0 && out[1] < 800, 'all of it is on screen');
      camera.ray(out[0], out[1], ray);
      assert.equal(pick(ray, place, count), i);
    }
  }
  camera.ray(0, 0, ray);
  assert.equal(pick(ray, place, count), -1);
});

test('the camera: a fit shows all of any rectangle from anywhere, and no smaller than need be', () => {
  const out = new Float64Array(3);
  for (const [width, height] of [
    [1120, 790],
    [390, 420],
    [900, 300],
  ]) {
    for (const [w, d] of [
      [10, 10],
      [40, 30],
      [120, 120],
      [300, 20],
      [20, 300],
    ]) {
      for (const phi of [0.95, 1.4, 0.0015, 0.4]) {
        const camera = new Camera();
        Object.assign(camera, { width, height, phi, farthest: 4 * Math.hypot(w, d) });
        camera.fit(0, -3, w, d + 3, 2.5, null);
        camera.update();
        let [left, right, top, bottom] = [1e9, -1e9, 1e9, -1e9];
        for (let corner = 0; corner < 8; corner++) {
          camera.project(corner & 1 ? w : 0, corner & 4 ? 2.5 : 0, corner & 2 ? d : -3, out);
          assert.ok(out[2] > 0);
          left = Math.min(left, out[0]);
          right = Math.max(right, out[0]);
          top = Math.min(top, out[1]);
          bottom = Math.max(bottom, out[1]);
        }
        const what = `${w}×${d} at ${phi} in ${width}×${height}: ${[left, right, top, bottom].map(Math.round)}`;
        assert.ok(left >= 0 && right <= width && top >= 0 && bottom <= height, what);
        assert.ok(right - left > 0.8 * width || bottom - top > 0.8 * height, what);
      }
    }
  }
});

test('the camera: a link gives the same view, nonsense gives none', () => {
  const a = new Camera();
  a.width = 900;
  a.height = 600;
  a.orbit(40, -20);
  a.pan(10, 30);
  a.zoom(0.7, 100, 500);
  const b = new Camera();
  assert.equal(b.read(a.text()), true);
  assert.equal(b.text(), a.text());
  for (const text of ['', '1,2', 'a,b,c,d,e', '1,2,3,4,Infinity', '1,2,3,4,1e9'])
    assert.equal(b.read(text), false, text);
  assert.equal(b.text(), a.text());
});

test('pick takes the nearest of those in a row, and 100 picks among 5,000 are quick', (t) => {
  const count = 64 + 5000;
  const place = new Float32Array(count * 4);
  for (let i = 64; i < count; i++) place.set([((i - 64) % 71) + 0.5, Math.floor((i - 64) / 71) + 0.5, 0, 1], i * 4);
  const ray = { ox: 0.5, oy: 0.5, oz: 100, dx: 1e-9, dy: 1e-9, dz: -1 };
  assert.equal(pick(ray, place, count), 64 + 70 * 71, 'the front one');
  const from = process.cpuUsage();
  for (let k = 0; k < 100; k++) pick(ray, place, count);
  const used = process.cpuUsage(from);
  const each = (used.user + used.system) / 1000 / 100;
  t.diagnostic(`${each.toFixed(3)} ms CPU a pick`);
  assert.ok(each <= 1, `${each} ms`);
});

// Context: who and where the process is: family, paths, control groups,
// namespaces, credentials, limits.

import { useEffect, useState } from 'preact/hooks';
import { count, dateTime, UNKNOWN, visible } from '../format';
import { getJSON } from '../http';
import { RunLink } from '../runlink';
import type { Capabilities, ContextAnswer, IDSet, Identity, ProcessSummary } from '../wire.gen';
import type { Shared } from './context';
import { CopyAs, curlOf, tsvOf } from './copy';
import type { Panel } from './panel';
import { type Fact, Facts, FetchedBody, PanelBox, ProcessLink, Provenance, Refresh, Warnings } from './parts';

// maxChildrenShown links; the copy as JSON has all.
const maxChildrenShown = 200;
const maxCapabilityNames = 3;

const keyOf = (id: Identity) => `${id.pid}@${id.start_time_ticks}`;

// useNames asks the list once for each answer: relatives are identities only.
function useNames(answer: ContextAnswer | null): ReadonlyMap<string, string> {
  const [names, setNames] = useState<ReadonlyMap<string, string>>(new Map());
  useEffect(() => {
    if (answer === null || (answer.parent_id === null && (answer.children ?? []).length === 0)) return;
    const abort = new AbortController();
    getJSON<ProcessSummary[]>('/api/processes', { signal: abort.signal }).then(
      (list) => setNames(new Map(list.map((p) => [keyOf(p.identity), p.name]))),
      () => {
        // Without names the links still have their pids.
      },
    );
    return () => abort.abort();
  }, [answer]);
  return names;
}

function text(value: string | null): string | null {
  return value === null ? null : visible(value);
}

function ids(set: IDSet | null): string | null {
  if (set === null) return null;
  const { real, effective, saved, filesystem } = set;
  if (real === effective && real === saved && real === filesystem) return String(real);
  return `real ${real} · effective ${effective} · saved ${saved} · filesystem ${filesystem}`;
}

function Caps(props: { set: Capabilities }) {
  const { names, hex } = props.set;
  if (names.length === 0) return <span class="zero">none</span>;
  const shown = names.slice(0, maxCapabilityNames).map((n) => n.replace(/^CAP_/i, '').toLowerCase());
  const rest = names.length - shown.length;
  return (
    <details class="more">
      <summary class="more-head">
        {count(names.length)}: {shown.join(', ')}
        {rest > 0 ? ` +${rest}` : ''}
      </summary>
      <p class="more-text">
        {hex} {names.join(' ')}
      </p>
    </details>
  );
}

function Family(props: { answer: ContextAnswer; names: ReadonlyMap<string, string> }) {
  const { answer, names } = props;
  const children = answer.children;
  const list: Fact[] = [
    {
      name: 'Parent',
      value:
        answer.parent_id === null ? (
          'none'
        ) : (
          <ProcessLink identity={answer.parent_id} name={names.get(keyOf(answer.parent_id)) ?? null} hash="#context" />
        ),
    },
    {
      name: 'Children',
      value:
        children === null ? null : children.length === 0 ? (
          'none'
        ) : (
          <span class="links">
            {children.slice(0, maxChildrenShown).map((id) => (
              <ProcessLink identity={id} name={names.get(keyOf(id)) ?? null} hash="#context" key={keyOf(id)} />
            ))}
            {children.length > maxChildrenShown && (
              <span>
                <span class="hatch" aria-hidden="true" /> first {maxChildrenShown} of {count(children.length)}
              </span>
            )}
          </span>
        ),
    },
    { name: 'Process group', value: answer.process_group },
    { name: 'Session', value: answer.session },
    { name: 'Terminal', value: answer.tty === null ? 'none' : visible(answer.tty) },
    { name: 'Started', value: dateTime(answer.started_at) },
    {
      name: 'PID in namespaces',
      value: answer.ns_pids === null ? null : answer.ns_pids.join(' → '),
      title: 'outermost first',
    },
  ];
  return <Facts list={list} label="Family" />;
}

function Place(props: { answer: ContextAnswer }) {
  const { answer } = props;
  const list: Fact[] = [
    {
      name: 'Executable',
      value: (
        <>
          {answer.executable === null ? UNKNOWN : visible(answer.executable)}
          {answer.executable_state !== 'present' && <span class="mark ink-bad"> {answer.executable_state}</span>}
        </>
      ),
    },
    {
      name: 'Command line',
      value:
        answer.command_line === null ? null : answer.command_line.length === 0 ? (
          'empty'
        ) : (
          <ol class="argv" start={0}>
            {answer.command_line.map((arg, i) => (
              <li class="argv-one" key={i}>
                {arg === '' ? <span class="zero">empty</span> : visible(arg)}
              </li>
            ))}
          </ol>
        ),
    },
    { name: 'Working directory', value: text(answer.cwd) },
    { name: 'Root', value: text(answer.root) },
    { name: 'Container', value: answer.container === null ? 'none' : visible(answer.container) },
    ...(answer.run_id === null ? [] : [{ name: 'Run', value: <RunLink id={answer.run_id} /> }]),
    {
      name: 'Control groups',
      value:
        answer.cgroups === null
          ? null
          : Object.entries(answer.cgroups)
              .sort(([a], [b]) => (a < b ? -1 : 1))
              .map(([controller, path]) => (
                <div key={controller}>
                  {controller === '' ? 'v2' : controller} {visible(path)}
                </div>
              )),
    },
  ];
  return <Facts list={list} label="Place" />;
}

function Rights(props: { answer: ContextAnswer }) {
  const { answer } = props;
  const caps = answer.capabilities;
  const list: Fact[] = [
    { name: 'User ids', value: ids(answer.uids) },
    { name: 'Group ids', value: ids(answer.gids) },
    {
      name: 'Groups',
      value: answer.groups === null ? null : answer.groups.length === 0 ? 'none' : answer.groups.join(' '),
    },
    ...(caps === null
      ? [{ name: 'Capabilities', value: null }]
      : (['effective', 'permitted', 'inheritable', 'bounding', 'ambient'] as const).map((set) => ({
          name: `Caps ${set}`,
          value: <Caps set={caps[set]} />,
        }))),
    { name: 'Seccomp', value: text(answer.seccomp) },
    { name: 'No new privileges', value: answer.no_new_privs === null ? null : answer.no_new_privs ? 'yes' : 'no' },
    { name: 'Security label', value: text(answer.security_label) },
    {
      name: 'OOM score',
      value: answer.oom_score === null ? null : `${answer.oom_score}, adjusted by ${answer.oom_score_adj ?? UNKNOWN}`,
    },
    { name: 'Personality', value: text(answer.personality) },
  ];
  return <Facts list={list} label="Rights" />;
}

function Namespaces(props: { answer: ContextAnswer }) {
  const { namespaces } = props.answer;
  if (namespaces === null) return <p class="state">Not readable.</p>;
  return (
    <table class="plain">
      <thead>
        <tr>
          <th scope="col">Namespace</th>
          <th scope="col" class="num">
            Inode
          </th>
          <th scope="col">Ours</th>
        </tr>
      </thead>
      <tbody>
        {Object.entries(namespaces)
          .sort(([a], [b]) => (a < b ? -1 : 1))
          .map(([type, ns]) => (
            <tr key={type}>
              <th scope="row">{type}</th>
              <td class="num">{ns.inode}</td>
              <td>
                {ns.own === null ? (
                  UNKNOWN
                ) : ns.own ? (
                  <span class="quiet-text">same as procinsh</span>
                ) : (
                  <span class="mark ink-cpu">its own</span>
                )}
              </td>
            </tr>
          ))}
      </tbody>
    </table>
  );
}

function Limits(props: { answer: ContextAnswer }) {
  const { limits } = props.answer;
  if (limits === null) return <p class="state">Not readable.</p>;
  const amount = (n: string | null) => (n === null ? <span class="quiet-text">unlimited</span> : count(Number(n)));
  return (
    <table class="plain">
      <thead>
        <tr>
          <th scope="col">Limit</th>
          <th scope="col" class="num">
            Soft
          </th>
          <th scope="col" class="num">
            Hard
          </th>
          <th scope="col">Unit</th>
        </tr>
      </thead>
      <tbody>
        {limits.map((limit) => (
          <tr key={limit.name}>
            <th scope="row">{limit.name}</th>
            <td class="num" title={limit.soft ?? undefined}>
              {amount(limit.soft)}
            </td>
            <td class="num" title={limit.hard ?? undefined}>
              {amount(limit.hard)}
            </td>
            <td>{limit.unit}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function Context(props: { shared: Shared; panel: Panel<ContextAnswer> }) {
  const { shared, panel } = props;
  const state = panel.state.value;
  const ended = shared.model.ended.value !== null;
  const { data } = state;
  const names = useNames(data);
  const { pid } = shared.identity;
  const from = (files: string) => (
    <Provenance source={`/proc/${pid}/${files}`} at={data?.captured_at ?? null} took={state.took} />
  );
  const actions = (
    <>
      <Refresh
        onPress={() => void panel.refresh()}
        loading={state.loading}
        disabled={ended ? 'The process has ended.' : null}
      />
      <CopyAs
        what="context"
        items={[
          { name: 'curl', text: () => curlOf('/api/processes/context', shared.identity) },
          { name: 'JSON', text: () => JSON.stringify(data, null, 2) },
          {
            name: 'TSV of limits',
            text: () =>
              tsvOf(
                ['limit', 'soft', 'hard', 'unit'],
                (data?.limits ?? []).map((l) => [l.name, l.soft ?? 'unlimited', l.hard ?? 'unlimited', l.unit]),
              ),
          },
        ]}
      />
    </>
  );
  return (
    <div class="context">
      <PanelBox
        class="panel-tile"
        id="family"
        title="Family"
        actions={actions}
        foot={from('stat, status, task/TID/children')}
      >
        <FetchedBody panel={panel} what="context" ended={ended}>
          {(answer) => (
            <>
              <Warnings list={answer.warnings} />
              <Family answer={answer} names={names} />
            </>
          )}
        </FetchedBody>
      </PanelBox>
      {data !== null && (
        <>
          <PanelBox class="panel-tile" id="where" title="Place" foot={from('exe, cmdline, cwd, root, cgroup')}>
            <Place answer={data} />
          </PanelBox>
          <PanelBox class="panel-tile" id="rights" title="Rights" foot={from('status, attr/current, oom_score')}>
            <Rights answer={data} />
          </PanelBox>
          <PanelBox class="panel-tile" id="namespaces" title="Namespaces" foot={from('ns')}>
            <Namespaces answer={data} />
          </PanelBox>
          <PanelBox class="panel-tile" id="limits" title="Limits" foot={from('limits')}>
            <Limits answer={data} />
          </PanelBox>
        </>
      )}
    </div>
  );
}

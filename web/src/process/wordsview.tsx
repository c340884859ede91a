// Registers and stack of a stopped thread: what changed since the snapshot before,
// what each value means, and where it leads, hop by hop.

import { useMemo } from 'preact/hooks';
import { clockMs, count, visible } from '../format';
import { KIND_LETTER } from '../strip';
import type { Register, SnapshotThread } from '../wire.gen';
import type { Shared } from './context';
import { FdLink } from './fdlink';
import { Address, walkAddresses } from './framesview';
import { pointsTo } from './hexview';
import { regionAt } from './maps';
import { errnoName, fdOf, flagsText } from './registers';
import { changedRegisters, type Followed, maxFollowed, stackWords } from './snapshot';
import { type Hop, type Source, telescope } from './telescope';

function Quoted(props: { text: string }) {
  return (
    <>
      {' '}
      <span class="hop-text">"{visible(props.text)}"</span>
    </>
  );
}

function Name(props: { name: string | null }) {
  if (props.name === null) return null;
  return (
    <>
      {' '}
      <span class="hop-name">{visible(props.name)}</span>
    </>
  );
}

// Hops is the chain behind a value whose own place is written already.
function Hops(props: { shared: Shared; hops: readonly Hop[] }) {
  const [first, ...rest] = props.hops;
  if (first === undefined) return null;
  return (
    <>
      <Name name={first.name} />
      {first.text !== null && <Quoted text={first.text} />}
      {rest.map((hop, i) => {
        const hex = `0x${hop.value.toString(16)}`;
        const to = pointsTo(hop.value, hop.region === null ? [] : [hop.region]);
        return (
          <>
            {' '}
            <span
              class={hop.stood ? 'hop' : 'hop hop-later'}
              key={i}
              title={hop.stood ? undefined : 'read after the stop'}
            >
              → {hop.region === null ? hex : <Address shared={props.shared} value={hex} text={hex.slice(2)} walked />}
              {to !== null && (
                <>
                  {' '}
                  <span class={`kind-text kind-text-${to.region.kind}`}>{to.text}</span>
                </>
              )}
              <Name name={hop.name} />
              {hop.text !== null && <Quoted text={hop.text} />}
            </span>
          </>
        );
      })}
    </>
  );
}

// Plain says what a register that points nowhere means.
function Plain(props: { shared: Shared; register: Register; thread: SnapshotThread }) {
  const { shared, register: r, thread } = props;
  const value = BigInt(r.value);
  if (r.name === 'RFLAGS') return <span class="where-text">{flagsText(value)}</span>;
  if (r.name === 'RAX' && thread.syscall !== null) return <span class="where-text">restart code, no result</span>;
  const error = r.name === 'RAX' ? errnoName(value) : null;
  const fd = r.name === 'RDI' ? fdOf(thread) : null;
  return (
    <span class="where-text">
      {r.decimal}
      {error !== null && ` ${error}`}
      {fd !== null && ' '}
      <FdLink shared={shared} fd={fd} />
    </span>
  );
}

function RegisterRow(props: {
  shared: Shared;
  register: Register;
  thread: SnapshotThread;
  source: Source;
  was: string | undefined;
}) {
  const { register: r, was, source, shared } = props;
  const region = r.mapping === null ? null : regionAt(source.regions, BigInt(r.value));
  return (
    <tr class={was === undefined ? '' : 'reg-changed'}>
      <th scope="row" class="reg-name">
        {r.name.toLowerCase()}
      </th>
      <td class="reg-value" title={was === undefined ? undefined : `changed, was ${was}`}>
        {region === null ? (
          r.value.slice(2)
        ) : (
          <Address shared={shared} value={r.value} text={r.value.slice(2)} walked />
        )}
      </td>
      <td class="reg-where" title={r.mapping === null ? undefined : `${visible(r.mapping)}+${r.offset ?? '?'}`}>
        <div class="where">
          {region === null ? (
            <Plain shared={shared} register={r} thread={props.thread} />
          ) : (
            <span class="where-text">
              <span class={`kind-text kind-text-${region.kind}`}>
                {KIND_LETTER[region.kind]} {visible(region.name)}
                {r.offset === null ? '' : `+${r.offset}`}
              </span>
              <Hops shared={shared} hops={telescope(BigInt(r.value), source)} />
            </span>
          )}
          {was !== undefined && <span class="tag tag-warn">changed</span>}
        </div>
      </td>
    </tr>
  );
}

export function Registers(props: {
  shared: Shared;
  thread: SnapshotThread;
  before: SnapshotThread | undefined;
  source: Source;
}) {
  const { thread, before } = props;
  const changed = changedRegisters(before?.registers, thread.registers);
  return (
    <section class="panel snap-registers" aria-label="Registers" data-region="snap-registers">
      <h3 class="snap-title">
        Registers
        {before !== undefined && (
          <span class="snap-note">
            {changed.size === 0 ? 'as in the snapshot before' : `${changed.size} changed since the one before`}
          </span>
        )}
      </h3>
      <div
        class="snap-scroll"
        tabIndex={0}
        role="group"
        aria-label="Registers"
        data-scroll=""
        onKeyDown={walkAddresses}
      >
        {thread.registers.length === 0 ? (
          <p class="state">No registers.</p>
        ) : (
          <table class="plain regs">
            <caption class="unseen">Registers of thread {thread.tid}</caption>
            <colgroup>
              <col class="reg-name" />
              <col class="reg-value" />
              <col class="reg-where" />
            </colgroup>
            <thead class="unseen-head">
              <tr>
                <th scope="col">Register</th>
                <th scope="col">Value</th>
                <th scope="col">Points to, or decimal</th>
              </tr>
            </thead>
            <tbody>
              {thread.registers.map((register) => (
                <RegisterRow
                  key={register.name}
                  shared={props.shared}
                  register={register}
                  thread={thread}
                  source={props.source}
                  was={changed.get(register.name)}
                />
              ))}
            </tbody>
          </table>
        )}
      </div>
    </section>
  );
}

function followText(followed: Followed): string {
  if (followed.at === null) return 'reading…';
  const read = followed.blocks.length;
  const parts = [`${count(read)} ${read === 1 ? 'block' : 'blocks'} read ${clockMs(followed.at)}, after the stop`];
  if (followed.failed > 0) parts.push(`${count(followed.failed)} not readable`);
  if (followed.left > 0) parts.push(`first ${maxFollowed}, ${count(followed.left)} more left`);
  return parts.join(' · ');
}

export function StackMemory(props: {
  shared: Shared;
  thread: SnapshotThread;
  before: SnapshotThread | undefined;
  source: Source;
  followed: Followed | undefined;
  follow: () => void;
}) {
  const { thread, followed, source } = props;
  const { stack_bytes: stack } = thread;
  const old = props.before?.stack_bytes ?? null;
  const words = useMemo(() => (stack === null ? [] : stackWords(stack, old)), [stack, old]);
  const changed = words.reduce((sum, word) => sum + (word.was === null ? 0 : 1), 0);
  const ended = props.shared.model.ended.value !== null;
  return (
    <section class="panel snap-stack" aria-label="Stack memory" data-region="snap-stack">
      <h3 class="snap-title">
        Stack
        {stack !== null && <span class="snap-note">{stack.bytes.length / 2} bytes from rsp, as they stood</span>}
        {old !== null && changed > 0 && <span class="snap-note">{count(changed)} words changed</span>}
      </h3>
      <p class="snap-line">
        <button
          type="button"
          class="button button-small"
          disabled={followed !== undefined || ended}
          title={ended ? 'The process has ended.' : 'plain reads of what registers and stack point to; stops nothing'}
          onClick={props.follow}
        >
          Follow pointers
        </button>
        {followed !== undefined && <span class="snap-note">{followText(followed)}</span>}
      </p>
      <div
        class="snap-scroll"
        tabIndex={0}
        role="group"
        aria-label="Stack memory"
        data-scroll=""
        onKeyDown={walkAddresses}
      >
        {words.length === 0 ? (
          <p class="state">The stack could not be read.</p>
        ) : (
          <table class="plain words">
            <caption class="unseen">Words from the stack pointer on</caption>
            <colgroup>
              <col class="word-offset" />
              <col class="word-value" />
              <col class="word-to" />
            </colgroup>
            <thead class="unseen-head">
              <tr>
                <th scope="col">Offset</th>
                <th scope="col">Value</th>
                <th scope="col">Points to</th>
              </tr>
            </thead>
            <tbody>
              {words.map((word) => {
                const to = pointsTo(word.value, source.regions);
                const value = word.value.toString(16).padStart(16, '0');
                return (
                  <tr key={word.offset} class={word.was === null ? '' : 'reg-changed'}>
                    <th scope="row" class="word-offset reg-name" title={`0x${word.address.toString(16)}`}>
                      +{word.offset.toString(16)}
                    </th>
                    <td
                      class={`reg-value${word.value === 0n ? ' zero' : ''}`}
                      title={
                        word.was === null ? undefined : `changed, was 0x${word.was.toString(16).padStart(16, '0')}`
                      }
                    >
                      {to === null ? value : <Address shared={props.shared} value={`0x${value}`} text={value} walked />}
                    </td>
                    <td class="word-to">
                      {to !== null && (
                        <span class="where-text">
                          <span class={`kind-text kind-text-${to.region.kind}`}>{to.text}</span>
                          <Hops shared={props.shared} hops={telescope(word.value, source)} />
                        </span>
                      )}
                      {word.was !== null && <span class="tag tag-warn">changed</span>}
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        )}
      </div>
    </section>
  );
}

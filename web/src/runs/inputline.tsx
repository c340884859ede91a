// A line to type into the standard input of a run without a terminal.

import { useEffect, useRef, useState } from 'preact/hooks';
import { visible } from '../format';
import { Typist } from './typist';

export function InputLine(props: { id: string }) {
  const [text, setText] = useState('');
  const [problem, setProblem] = useState('');
  const typist = useRef<Typist | null>(null);
  useEffect(() => {
    const typing = new Typist(props.id, setProblem);
    typist.current = typing;
    return () => typing.close();
  }, [props.id]);
  return (
    <form
      class="input-line"
      onSubmit={(event) => {
        event.preventDefault();
        setProblem('');
        typist.current?.type(`${text}\n`);
        setText('');
      }}
    >
      <input
        class="field input-field"
        type="text"
        aria-label="A line for standard input"
        placeholder="A line for standard input"
        spellcheck={false}
        autocomplete="off"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <button type="submit" class="button">
        Send
      </button>
      <button type="button" class="button" onClick={() => typist.current?.end()}>
        End input
      </button>
      {problem !== '' && (
        <span class="new-problem" role="alert">
          {visible(problem)}
        </span>
      )}
    </form>
  );
}

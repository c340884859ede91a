// RunLink is the run that a process belongs to. The runs have a content policy of their
// own, so that the page is loaded anew: a plain link does that.

import { runPath } from './route';

export function RunLink(props: { id: string }) {
  return (
    <a class="link" href={runPath(props.id)}>
      {props.id}
    </a>
  );
}

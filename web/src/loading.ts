// The page counts as loaded when it shows its first data: until then a picture that
// the server keeps back holds the load event. So a browser that prints, pictures or
// dumps a page when it is loaded prints what the page is about. The picture takes one
// of the browser's six connections: of all tabs one at a time may have it, so that
// beside the streams one connection is always free for what is asked once.

import { effect } from '@preact/signals';
import { answered, takeLock } from './stream';

const EMPTY = 'data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw==';

export function holdLoad(): void {
  if (document.visibilityState === 'hidden') return; // draws nothing
  const picture = new Image();
  picture.src = '/api/loading'; // at once: the load event does not wait for a lock
  let release: (() => void) | null = null;
  let over = false;
  const end = () => {
    over = true;
    picture.src = EMPTY;
    release?.();
  };
  void takeLock('loading').then((taken) => {
    release = taken;
    if (over) taken?.();
    else if (!taken) end();
  });
  const stop = effect(() => {
    if (!answered.value) return;
    // Data comes in one frame, and what depends on it is measured in the next.
    requestAnimationFrame(() =>
      requestAnimationFrame(() =>
        requestAnimationFrame(() => {
          stop();
          end();
        }),
      ),
    );
  });
}

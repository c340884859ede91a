// The page counts as loaded when it shows its first data: until then a picture that
// the server keeps back holds the load event. So a browser that prints, pictures or
// dumps a page when it is loaded prints what the page is about.

import { effect } from '@preact/signals';
import { answered } from './stream';

const EMPTY = 'data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw==';

export function holdLoad(): void {
  if (document.visibilityState === 'hidden') return; // draws nothing
  const picture = new Image();
  picture.src = '/api/loading';
  const stop = effect(() => {
    if (!answered.value) return;
    // Data comes in one frame, and what depends on it is measured in the next.
    requestAnimationFrame(() =>
      requestAnimationFrame(() =>
        requestAnimationFrame(() => {
          stop();
          picture.src = EMPTY;
        }),
      ),
    );
  });
}

// The one file that knows xterm: a screen for the bytes of a run's terminal. What a
// program may do to it is bounded: links, clipboard, questions and window commands in the
// output do nothing here. Questions are the server's to answer: two pages would answer
// twice, and what is read again was answered long ago.

import { FitAddon } from '@xterm/addon-fit';
import { type ITheme, Terminal } from '@xterm/xterm';
import { palette } from '../palette';

// maxScrollback lines above the screen are kept.
export const maxScrollback = 5_000;
// maxTitle characters of the title that a program gives its terminal are shown.
export const maxTitle = 200;

export interface Keyboard {
  type: (text: string) => void;
  copy: (text: string) => void;
  title: (text: string) => void;
}

function colours(): ITheme {
  const { role } = palette();
  return {
    background: role('bg0'),
    foreground: role('fg0'),
    cursor: role('cpu'),
    cursorAccent: role('bg0'),
    selectionBackground: role('bg3'),
    selectionForeground: role('fg0'),
    black: role('line2'),
    red: role('bad'),
    green: role('ok'),
    yellow: role('cpu'),
    blue: role('read'),
    magenta: role('write'),
    cyan: role('mem'),
    white: role('fg1'),
    brightBlack: role('fg2'),
    brightRed: role('kind-code'),
    brightGreen: role('kind-shared'),
    brightYellow: role('kind-stack'),
    brightBlue: role('kind-anonymous'),
    brightMagenta: role('kind-data'),
    brightCyan: role('kind-heap'),
    brightWhite: role('fg0'),
  };
}

export class Screen {
  private readonly term: Terminal;
  private readonly fit = new FitAddon();
  private isCtrl = false;

  constructor(
    private readonly host: HTMLElement,
    private readonly keyboard: Keyboard,
    options: { screenReader: boolean; columns: number; rows: number },
  ) {
    this.term = new Terminal({
      cols: options.columns,
      rows: options.rows,
      scrollback: maxScrollback,
      minimumContrastRatio: 4.5,
      screenReaderMode: options.screenReader,
      fontFamily: getComputedStyle(document.documentElement).getPropertyValue('--mono'),
      fontSize: 13,
      theme: colours(),
      linkHandler: null,
      windowOptions: {},
    });
    this.silence();
    this.term.loadAddon(this.fit);
    this.term.attachCustomKeyEventHandler((event) => this.isForProgram(event));
    this.term.onData((text) => this.typed(text));
    this.term.onBinary((text) => keyboard.type(text));
    this.term.onTitleChange((text) => keyboard.title(text.slice(0, maxTitle)));
    this.term.open(host);
  }

  // silence takes what programs send to terminals to make them act or answer.
  private silence(): void {
    const { parser } = this.term;
    const nothing = () => true;
    for (const code of [8, 52]) parser.registerOscHandler(code, nothing); // links, clipboard
    for (const code of [4, 10, 11, 12]) parser.registerOscHandler(code, (text) => text.includes('?')); // colours asked for
    for (const id of [
      { final: 'c' }, // what are you
      { prefix: '>', final: 'c' },
      { prefix: '=', final: 'c' },
      { final: 'n' }, // how are you, where is the cursor
      { prefix: '?', final: 'n' },
      { intermediates: '$', final: 'p' }, // is this mode on
      { prefix: '?', intermediates: '$', final: 'p' },
      { prefix: '>', final: 'q' }, // which version
      { final: 't' }, // window commands and questions
      { final: 'x' },
    ])
      parser.registerCsiHandler(id, nothing);
    parser.registerDcsHandler({ intermediates: '$', final: 'q' }, nothing); // what is set
    parser.registerDcsHandler({ intermediates: '+', final: 'q' }, nothing);
  }

  // isForProgram leaves to the page what leaves the terminal, copies and pastes.
  private isForProgram(event: KeyboardEvent): boolean {
    if (event.key === 'F6' && event.shiftKey) return false;
    if (event.ctrlKey && event.shiftKey && event.code === 'KeyV') return false;
    if (event.ctrlKey && event.shiftKey && event.code === 'KeyC') {
      if (event.type === 'keydown') {
        event.preventDefault();
        if (this.term.hasSelection()) this.keyboard.copy(this.term.getSelection());
      }
      return false;
    }
    return true;
  }

  private typed(text: string): void {
    if (this.isCtrl && /^[@-_a-z]$/i.test(text)) {
      this.isCtrl = false;
      this.keyboard.type(String.fromCharCode(text.toUpperCase().charCodeAt(0) & 0x1f));
    } else this.keyboard.type(text);
  }

  // holdCtrl makes the next letter a control character, for keyboards without the key.
  holdCtrl(): void {
    this.isCtrl = true;
    this.focus();
  }

  // write is done when the screen has taken the text.
  write(text: string): Promise<void> {
    return new Promise((done) => this.term.write(text, done));
  }

  clear(): void {
    this.term.reset();
  }

  // fitted makes the screen as large as its place, and gives the new size.
  fitted(): { cols: number; rows: number } | null {
    if (this.host.clientWidth === 0 || this.host.clientHeight === 0) return null;
    this.fit.fit();
    return { cols: this.term.cols, rows: this.term.rows };
  }

  repaint(): void {
    this.term.options.theme = colours();
  }

  // allow says whether keys are taken, and what is read aloud.
  allow(input: boolean, screenReader: boolean): void {
    this.term.options.disableStdin = !input;
    this.term.options.screenReaderMode = screenReader;
  }

  focus(): void {
    this.term.focus();
  }

  close(): void {
    this.term.dispose();
  }
}

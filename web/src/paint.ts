// What is drawn in the cells of the list: sparklines, address strips, and the bars
// under figures, all on one canvas over the mounted rows.
//
// y on the canvas counts from the first mounted row, in CSS px.

import type { Column } from './columns';
import type { Row } from './deltas';
import { type History, TICKS } from './history';
import { palette } from './palette';
import type { Layout } from './rowline';
import { dark } from './settings';
import { drawRow, layoutRow, type Segment, type StripPalette, stripPalette } from './striprow';
import type { Order } from './tree';

export class Painter {
  readonly canvas: HTMLCanvasElement;
  private readonly buffer = new Float32Array(TICKS);
  private history: History | null = null;
  private layout: Layout = { columns: [], widths: [], rowHeight: 24, narrow: false };
  private palette: StripPalette | null = null;
  private paletteDark = false;

  constructor() {
    this.canvas = document.createElement('canvas');
    this.canvas.className = 'grid-canvas';
    this.canvas.setAttribute('aria-hidden', 'true');
  }

  // forget makes the colours be read again: high contrast may have been asked for.
  forget(): void {
    this.palette = null;
  }

  // draw paints sparklines, strips and bars of the mounted rows.
  draw(history: History, order: Order, layout: Layout, first: number, last: number): void {
    this.history = history;
    this.layout = layout;
    const scale = Math.min(2, window.devicePixelRatio || 1);
    const width = Math.max(
      1,
      layout.widths.reduce((a, b) => a + b, 0),
    );
    const height = Math.max(1, (last - first) * layout.rowHeight);
    const w = Math.round(width * scale);
    const h = Math.round(height * scale);
    const canvas = this.canvas;
    if (canvas.width !== w || canvas.height !== h) {
      canvas.width = w;
      canvas.height = h;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    const top = `translateY(${first * layout.rowHeight}px)`;
    if (canvas.style.transform !== top) canvas.style.transform = top;
    const ctx = canvas.getContext('2d');
    if (!ctx) return;
    ctx.setTransform(scale, 0, 0, scale, 0, 0);
    ctx.clearRect(0, 0, width, height);
    const rows = order.rows;
    const { role } = palette();
    let x = 0;
    for (let i = 0; i < layout.columns.length; i++) {
      const column = layout.columns[i] as Column;
      const wide = layout.widths[i] as number;
      if (column.id === 'spark') this.drawSparks(ctx, rows, first, last, x + 6, wide - 12, role('cpu'));
      else if (column.id === 'maps') this.drawStrips(ctx, rows, first, last, x + 6, wide - 12);
      else if (column.id === 'cpu') {
        this.drawBars(ctx, rows, first, last, i, x, wide, role('cpu'), (row) => {
          const cpu = row.sums ? row.sums.cpu : row.summary.cpu_percent;
          return cpu === null || row.gone || cpu < 1 ? 0 : (cpu / 100) * 24;
        });
      } else if (column.id === 'rss') {
        const most = largest(rows);
        this.drawBars(ctx, rows, first, last, i, x, wide, role('mem'), (row) => {
          const share = row.gone || row.sums || most === 0 ? 0 : row.summary.rss_bytes / most;
          return share < 0.01 ? 0 : share * (wide - 14);
        });
      }
      if (!layout.narrow) x += wide;
    }
  }

  private drawSparks(
    ctx: CanvasRenderingContext2D,
    rows: readonly Row[],
    first: number,
    last: number,
    x: number,
    width: number,
    colour: string,
  ): void {
    const { rowHeight } = this.layout;
    const line = this.buffer;
    const step = width / (TICKS - 1);
    const tall = Math.min(16, rowHeight - 8);
    ctx.beginPath();
    for (let i = first; i < last; i++) {
      const row = rows[i] as Row;
      if (row.slot < 0) continue;
      this.history?.line(row.slot, line);
      let most = 100;
      for (let k = 0; k < TICKS; k++) if ((line[k] as number) > most) most = line[k] as number;
      const base = (i - first) * rowHeight + (rowHeight + tall) / 2;
      // A level stretch is one line, however many samples it has.
      let level = Number.NaN;
      for (let k = 0; k < TICKS; k++) {
        const value = line[k] as number;
        if (Number.isNaN(value)) {
          if (!Number.isNaN(level)) ctx.lineTo(x + (k - 1) * step, level);
          level = Number.NaN;
          continue;
        }
        const y = base - Math.sqrt(value / most) * tall;
        if (y === level) continue;
        if (!Number.isNaN(level)) {
          ctx.lineTo(x + (k - 1) * step, level);
          ctx.lineTo(x + k * step, y);
        } else ctx.moveTo(x + (k - 0.5) * step, y); // a single sample is a mark of half a step
        level = y;
      }
      if (!Number.isNaN(level)) ctx.lineTo(x + width, level);
    }
    ctx.strokeStyle = colour;
    ctx.lineWidth = 1;
    ctx.stroke();
  }

  private colours(): StripPalette {
    if (this.palette === null || this.paletteDark !== dark.value) {
      this.palette = stripPalette();
      this.paletteDark = dark.value;
    }
    return this.palette;
  }

  private drawStrips(
    ctx: CanvasRenderingContext2D,
    rows: readonly Row[],
    first: number,
    last: number,
    x: number,
    width: number,
  ): void {
    const { rowHeight } = this.layout;
    const colours = this.colours();
    const y = Math.floor((rowHeight - 10) / 2);
    for (let i = first; i < last; i++) {
      const row = rows[i] as Row;
      if (row.maps === null || row.maps.boxes.length === 0 || row.gone) continue;
      if (row.stripOf !== row.maps || row.stripWidth !== width) {
        row.strip = layoutRow(row.maps, width);
        row.stripOf = row.maps;
        row.stripWidth = width;
      }
      if (!row.match) ctx.globalAlpha = 0.5;
      drawRow(ctx, row.strip as Segment[], x, (i - first) * rowHeight + y, 10, colours);
      ctx.globalAlpha = 1;
    }
  }

  // drawBars underlines a figure by its size: 2 px, from the right edge of its cell.
  private drawBars(
    ctx: CanvasRenderingContext2D,
    rows: readonly Row[],
    first: number,
    last: number,
    index: number,
    x: number,
    wide: number,
    colour: string,
    size: (row: Row) => number,
  ): void {
    const { rowHeight, narrow, widths, columns } = this.layout;
    let right = x + wide - 6;
    let foot = rowHeight - 3;
    if (narrow) {
      // Two lines: CPU over RSS at the right edge of the row.
      right = widths.reduce((a, b) => a + b, 0) - 14;
      foot = (columns[index] as Column).id === 'cpu' ? 20 : 41;
    }
    ctx.fillStyle = colour;
    ctx.beginPath();
    for (let i = first; i < last; i++) {
      const row = rows[i] as Row;
      const length = Math.min(wide - 8, size(row));
      if (length < 2) continue;
      ctx.rect(right - length, (i - first) * rowHeight + foot, length, 2);
    }
    ctx.fill();
  }
}

function largest(rows: readonly Row[]): number {
  let most = 0;
  for (const row of rows) {
    if (!row.gone && row.summary.rss_bytes > most) most = row.summary.rss_bytes;
  }
  return most;
}

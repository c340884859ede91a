// Which columns fit, and how wide each is.

import { type Column, type ColumnId, columnById, NARROW_COLUMNS } from '../columns';
import type { Layout } from '../rowline';

// Below these widths (CSS px) the list takes another shape.
export const NARROW = 700;
export const MIDDLE = 1100;

const REST_LEAST = 140;
const NAME_LEAST = 140;
const WIDTH_LEAST = 28;
const WIDTH_MOST = 900;

// What goes first when the columns do not fit, after the command column.
const DROP: readonly ColumnId[] = ['spark', 'maps', 'write', 'read', 'thr', 'container', 'user'];

export function clampWidth(width: number): number {
  return Math.round(Math.min(WIDTH_MOST, Math.max(WIDTH_LEAST, width)));
}

export function layoutFor(
  width: number,
  wanted: readonly ColumnId[],
  own: Readonly<Record<string, number>>,
  rowHeight: number,
  coarse: boolean,
): Layout {
  if (width < NARROW) {
    const columns = NARROW_COLUMNS.map((id) => columnById(id) as Column);
    return { columns, widths: [width - 104, 104, 0, 0], rowHeight: 44, narrow: true };
  }
  const height = coarse ? 44 : rowHeight;
  const widthOf = (column: Column) => own[column.id] ?? (column.width === 0 ? REST_LEAST : column.width);
  let columns = wanted.map((id) => columnById(id) as Column);
  if (width < MIDDLE) columns = columns.filter((column) => column.id !== 'command');
  const sum = () => columns.reduce((total, column) => total + widthOf(column), 0);
  const nameSpare = () => {
    const name = columns.find((column) => column.id === 'name');
    return name && own.name === undefined ? name.width - NAME_LEAST : 0;
  };
  for (const id of DROP) {
    if (sum() - nameSpare() <= width) break;
    columns = columns.filter((column) => column.id !== id);
  }
  const widths = columns.map(widthOf);
  const grow = (id: ColumnId, by: number, least: number) => {
    const at = columns.findIndex((column) => column.id === id);
    if (at >= 0) widths[at] = Math.max(least, (widths[at] as number) + by);
  };
  const left = width - widths.reduce((a, b) => a + b, 0);
  if (left < 0) grow('name', left, NAME_LEAST);
  else grow(columns.some((column) => column.id === 'command') ? 'command' : 'name', left, 0);
  return { columns, widths, rowHeight: height, narrow: false };
}

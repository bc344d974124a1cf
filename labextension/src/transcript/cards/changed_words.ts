/** The words by which a changed line differs from what it was. */

/** A piece of a line, from one position to another. */
export type Piece = { from: number; to: number };

/** Lines of one change: what was removed and what stands there now. */
type Pair = { removed: number; added: number };

const MAX_WORDS = 250;
const MAX_PAIRS = 900;
/** Of two lines that have less in common, the one is not the other, changed. */
const MIN_ALIKE = 0.25;

/** For each line of `removed` and of `added` the pieces that changed; nothing for a line that is new as a whole. */
export function changedWords(removed: readonly string[], added: readonly string[]): { removed: Map<number, Piece[]>; added: Map<number, Piece[]> } {
  const found = { removed: new Map<number, Piece[]>(), added: new Map<number, Piece[]>() };
  const words = { removed: removed.map(wordsOf), added: added.map(wordsOf) };
  for (const pair of pairs(words.removed, words.added)) {
    const [before, now] = [words.removed[pair.removed] ?? [], words.added[pair.added] ?? []];
    const kept = commonWords(before, now);
    found.removed.set(pair.removed, piecesBetween(before, new Set(kept.map(([index]) => index))));
    found.added.set(pair.added, piecesBetween(now, new Set(kept.map(([, index]) => index))));
  }
  return found;
}

/** Names and numbers, white space, and each sign for itself; characters that belong together stay together. */
function wordsOf(line: string): string[] {
  return line.match(/[\p{L}\p{N}_\p{M}]+|\s+|[!-~]|[^\p{L}\p{N}_\s!-~]+/gu) ?? [];
}

/** The lines that became each other, in order: those that together have most in common. */
function pairs(removed: readonly string[][], added: readonly string[][]): Pair[] {
  if (removed.length * added.length > MAX_PAIRS) return [];
  const alike = removed.map((before) => added.map((now) => likeness(before, now)));
  const weight = (row: number, column: number): number => {
    const value = alike[row]?.[column] ?? 0;
    return value > MIN_ALIKE ? value : 0;
  };
  return aligned(removed.length, added.length, weight).map(([before, now]) => ({ removed: before, added: now }));
}

/** Pairs of rows and columns, both in order, whose weights have the greatest sum; a weight of 0 is no pair. */
export function aligned(rows: number, columns: number, weight: (row: number, column: number) => number): [number, number][] {
  const width = columns + 1;
  // the best sum from here on
  const best = new Float32Array((rows + 1) * width);
  const sum = (row: number, column: number): number => best[row * width + column] ?? 0;
  for (let row = rows - 1; row >= 0; row--) {
    for (let column = columns - 1; column >= 0; column--) {
      const own = weight(row, column);
      const paired = own > 0 ? own + sum(row + 1, column + 1) : 0;
      best[row * width + column] = Math.max(paired, sum(row + 1, column), sum(row, column + 1));
    }
  }
  const found: [number, number][] = [];
  let [row, column] = [0, 0];
  while (row < rows && column < columns) {
    if (sum(row, column) === sum(row + 1, column)) row++;
    else if (sum(row, column) === sum(row, column + 1)) column++;
    else found.push([row++, column++]);
  }
  return found;
}

/** How much of two lines' ink is the same, from 0 to 1. */
function likeness(before: readonly string[], now: readonly string[]): number {
  const ink = (words: readonly string[]): number => words.reduce((sum, word) => sum + word.trim().length, 0);
  const all = ink(before) + ink(now);
  if (all === 0) return 0;
  const left = new Map<string, number>();
  for (const word of before) left.set(word, (left.get(word) ?? 0) + 1);
  let same = 0;
  for (const word of now) {
    const count = left.get(word) ?? 0;
    if (count === 0) continue;
    left.set(word, count - 1);
    same += word.trim().length;
  }
  return (2 * same) / all;
}

/** The words that stay, as pairs of their numbers: the beginning, the end, and the longest common sequence between them. */
function commonWords(before: readonly string[], now: readonly string[]): [number, number][] {
  const shorter = Math.min(before.length, now.length);
  let start = 0;
  while (start < shorter && before[start] === now[start]) start++;
  let end = 0;
  while (end < shorter - start && before.at(-1 - end) === now.at(-1 - end)) end++;
  const kept: [number, number][] = [];
  for (let index = 0; index < start; index++) kept.push([index, index]);
  for (let index = 1; index <= end; index++) kept.push([before.length - index, now.length - index]);
  const [rows, columns] = [before.length - start - end, now.length - start - end];
  if (rows > MAX_WORDS || columns > MAX_WORDS) return kept;
  const between = aligned(rows, columns, (row, column) => Number(before[start + row] === now[start + column]));
  return [...kept, ...between.map(([row, column]): [number, number] => [start + row, start + column])];
}

/** What is not `kept` of a line; a single blank between two changes belongs to them. */
function piecesBetween(words: readonly string[], kept: ReadonlySet<number>): Piece[] {
  const pieces: Piece[] = [];
  let at = 0;
  words.forEach((word, index) => {
    const last = pieces.at(-1);
    const blank = word === " " && last?.to === at && index + 1 < words.length && !kept.has(index + 1);
    if (!kept.has(index) || blank) {
      if (last?.to === at) last.to += word.length;
      else pieces.push({ from: at, to: at + word.length });
    }
    at += word.length;
  });
  return pieces;
}

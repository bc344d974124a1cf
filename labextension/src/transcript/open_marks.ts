/** While text streams: the marks of its last block that are still open are closed, so that `**bol` is bold, not asterisks. */

const FENCE = /^ {0,3}(?:```|~~~)/gm;
const MARK = /\\.|`+|\*{1,3}|~~/g;
const HALF_A_LINK = /!?\[([^[\]\n]*)\]\([^()\s]*$/;

/** `source` as it will read once the marks at its end are complete; only its end differs. */
export function closeOpenMarks(source: string): string {
  if ((source.match(FENCE)?.length ?? 0) % 2 === 1) return source;
  const from = source.lastIndexOf("\n\n") + 1;
  const block = source.slice(from).replace(HALF_A_LINK, "$1");
  return source.slice(0, from) + closed(block);
}

function closed(block: string): string {
  const open: string[] = [];
  let text = block;
  for (const { 0: mark, index } of block.matchAll(MARK)) {
    const last = open.at(-1) ?? "";
    const after = block.charAt(index + mark.length);
    if (isLiteral(mark, last)) continue;
    if (mark === last && isInk(block.charAt(index - 1))) open.pop();
    // the very last mark opens something that is not there yet
    else if (after === "") text = block.slice(0, index);
    else if (isInk(after) || mark.startsWith("`")) open.push(mark);
  }
  // a mark closes only what ends without a space
  return open.length > 0 ? text.trimEnd() + open.reverse().join("") : text;
}

/** Whether `mark` is escaped, or stands in code that `last` opened. */
function isLiteral(mark: string, last: string): boolean {
  return mark.startsWith("\\") || (last.startsWith("`") && mark !== last);
}

function isInk(character: string): boolean {
  return character.trim() !== "";
}

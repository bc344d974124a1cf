/** What a program wrote for a terminal, as the text that would be seen there. */

// eslint-disable-next-line no-control-regex -- escape sequences are made of control characters
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;
// eslint-disable-next-line no-control-regex -- bells, nulls and the like: a terminal shows nothing for them
const SILENT = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;

/** Colours and other escape sequences removed; a progress bar's line is its latest state. */
export function terminalText(text: string): string {
  const plain = text.replace(ESCAPES, "").replaceAll("\r\n", "\n");
  const lines = plain.includes("\r") ? plain.split("\n").map(overwritten).join("\n") : plain;
  return lines.replace(SILENT, "");
}

function overwritten(line: string): string {
  return line.split("\r").findLast((part) => part !== "") ?? "";
}

/** The context menu of outputs: what it offers where it was opened, and what that does. */

import { CommandRegistry } from "@lumino/commands";
import { Signal } from "@lumino/signaling";
import { afterEach, expect, it } from "vitest";

import { askingWays } from "../../../src/notebook/outputs/asking";
import { marks } from "../../../src/notebook/outputs/marks";
import { outputActionsPlugin } from "../../../src/notebook/outputs/output_actions";
import type { CellRequest } from "../../../src/notebook/cell_asks/cell_requests";
import { standIn } from "../../support/stand_in";

const ANSWER = "application/vnd.cellwright.transcript+json";
const MENU = { of: "menu" };

/** A notebook with two cells; the first has a text, an answer of Claude's and an error as its outputs. */
function scene() {
  const outputs = [
    { type: "execute_result", data: { "text/plain": "42" } },
    { type: "display_data", data: { [ANSWER]: {} } },
    { type: "error", data: { "application/vnd.jupyter.error": "KeyError" } },
  ].map((output) => ({ ...output, toJSON: () => ({ ename: "KeyError", evalue: "'a'" }) }));
  const source = "42";
  const widgets = outputs.map(() => {
    const node = document.createElement("div");
    node.className = "jp-OutputArea-child";
    node.innerHTML = '<div class="jp-OutputArea-output"></div>';
    return { node };
  });
  const changed = new Signal<object, unknown>({});
  const cellOf = (id: string, executionCount: number | null, drawn: typeof widgets): object => {
    const node = document.body.appendChild(document.createElement("div"));
    node.className = "jp-Cell";
    node.append(...drawn.map((each) => each.node));
    const model = { length: drawn.length, get: (index: number) => outputs[index], changed };
    return { node, isDisposed: false, model: { id, executionCount, sharedModel: { getSource: () => source } }, outputArea: { model, widgets: drawn } };
  };
  const cells = [cellOf("a", 3, widgets), cellOf("b", null, [])];
  const content = { node: document.createElement("div"), widgets: cells, activeCell: cells[0], model: { cells: { changed } }, activeCellIndex: 0 };
  const context = { path: "study.ipynb", pathChanged: new Signal<object, string>({}), ready: Promise.resolve() };
  const panel = { content, context };
  const tracker = {
    currentWidget: panel, activeCell: cells[0], activeCellChanged: new Signal<object, unknown>({}), widgetAdded: new Signal<object, unknown>({}),
    forEach: (call: (each: unknown) => void) => { call(panel); },
    find: (fits: (each: typeof panel) => boolean) => (fits(panel) ? panel : undefined),
  };
  const commands = new CommandRegistry();
  const opened: { at: HTMLElement | undefined } = { at: undefined };
  const hit = (fits: (node: HTMLElement) => boolean): HTMLElement | undefined => {
    for (let node: HTMLElement | null | undefined = opened.at; node; node = node.parentElement) if (fits(node)) return node;
    return undefined;
  };
  void outputActionsPlugin.activate(standIn({ commands, contextMenuHitTest: hit }), tracker, null, null, null);
  return {
    /** Opens the menu at an output of the first cell, or at the second cell. */
    openAt: (index: number | null): void => { opened.at = index === null ? (cells[1] as { node: HTMLElement }).node : widgets[index]?.node; },
    offered: (): string[] => ["explain-output", "ask-about-output", "mark-output"].filter((id) => commands.isVisible(`cellwright:${id}`, MENU)),
    choose: (id: string): Promise<unknown> => commands.execute(`cellwright:${id}`, MENU),
    isEnabled: (id: string): boolean => commands.isEnabled(`cellwright:${id}`, MENU),
  };
}

afterEach(() => {
  marks.remove(marks.list.map(({ id }) => id));
  document.body.replaceChildren();
  delete askingWays.ask;
  delete askingWays.compose;
});

it("offers what can be done at an output, and nothing at Claude's own answer or beside outputs", () => {
  const menu = scene();
  const all = ["explain-output", "ask-about-output", "mark-output"];
  const found = [0, 1, 2, null].map((index) => {
    menu.openAt(index);
    return menu.offered();
  });
  expect(found).toEqual([all, [], all, []]);
});

it("explains the output that it was opened at, with the output", async () => {
  const menu = scene();
  const asked: CellRequest[] = [];
  askingWays.ask = (request) => Promise.resolve(void asked.push(request));
  for (const index of [0, 2]) {
    menu.openAt(index);
    await menu.choose("explain-output");
  }
  expect(asked.map(({ action }) => action.label)).toEqual(["the output of cell [3]", "the error in cell [3]"]);
  expect(asked[0]?.attachments).toMatchObject([{ kind: "marked", cell: "a", notebook: "study.ipynb", name: "Output of cell [3]", source: "42", output: "42" }]);
});

it("marks an output, and a cell as a whole, for the next prompt", async () => {
  const menu = scene();
  let composed = 0;
  askingWays.compose = () => {
    composed += 1;
    return Promise.resolve();
  };
  menu.openAt(0);
  await menu.choose("ask-about-output");
  menu.openAt(2);
  await menu.choose("mark-output");
  menu.openAt(null);
  expect(menu.isEnabled("mark-cell")).toBe(true);
  await menu.choose("mark-cell");
  expect(composed).toBe(1);
  expect(marks.list.map(({ cell, index, attachment }) => [cell, index, attachment.name])).toEqual([
    ["a", 0, "Output of cell [3]"], ["a", 2, "Error in cell [3]"], ["b", null, "Cell 2"],
  ]);
});

/** A changed cell runs as its user wants it, when the change that was shown is in the document, and at no other time. */

import type { NotebookPanel } from "@jupyterlab/notebook";
import { beforeEach, expect, it } from "vitest";

import type { ProposalRequest } from "../../../src/notebook/proposals/proposals";
import { CellRunner } from "../../../src/notebook/proposals/changed_cell_runs";
import type { AskOp } from "../../../src/transcript/protocol";
import { standIn } from "../../support/stand_in";
import { ask } from "../../transcript/scene";

type FakeCell = { source: string; node: HTMLElement; model: { id: string; type: string; sharedModel: { getSource(): string } } };

let cells: FakeCell[];
let listeners: Set<() => void>;
let ran: string[];
let status: string;
let finish: () => void;

function cell(id: string, source: string, type = "code"): FakeCell {
  const made: FakeCell = { source, node: document.createElement("div"), model: { id, type, sharedModel: { getSource: () => made.source } } };
  return made;
}

function change(input: Record<string, string>): AskOp {
  return ask("q", { name: "NotebookEdit", input });
}

function runner(request: Partial<ProposalRequest> = {}): CellRunner {
  const contentChanged = { connect: (slot: () => void) => listeners.add(slot), disconnect: (slot: () => void) => listeners.delete(slot) };
  const panel: NotebookPanel = standIn({
    content: { get widgets() { return cells; }, model: { contentChanged } },
    sessionContext: { session: { kernel: { get status() { return status; } } } },
  });
  const at = { path: "a.ipynb", where: "on", cell: "b", ask: change({}), ...request } satisfies ProposalRequest;
  return new CellRunner((question) => (question === "q" ? { panel, request: at } : undefined), (_panel, { model }) => {
    ran.push(model.id);
    return new Promise<void>((resolve) => { finish = resolve; });
  });
}

async function say(): Promise<void> {
  for (const listener of [...listeners]) listener();
  await Promise.resolve();
  await Promise.resolve();
}

function at(index: number): FakeCell {
  return cells[index] ?? expect.fail("no cell");
}

beforeEach(() => {
  cells = [cell("a", "x"), cell("b", "old"), cell("m", "words", "markdown")];
  [listeners, ran, status] = [new Set(), [], "busy"];
});

it.each([
  [{ cell_id: "b", new_source: "new" }, "b", "run"],
  [{ cell_id: "m", new_source: "new" }, "m", "accept"],
  [{ cell_id: "m", new_source: "new", cell_type: "code" }, "m", "run"],
  [{ cell_id: "b", new_source: "%%claude\nask" }, "b", "accept"],
  [{ cell_id: "b", edit_mode: "delete" }, "b", null],
  [{ cell_id: "b", edit_mode: "move", position: "start" }, "b", null],
])("%j is offered as %s", (input, id, offered) => {
  expect(runner({ cell: id }).offers(change(input as Record<string, string>))).toBe(offered);
});

it("runs once, when the cell has the new source, and says that it waits for the kernel", async () => {
  const asked = change({ cell_id: "b", new_source: "new" });
  runner().runWhenChanged(asked, "new");
  at(0).source = "new";
  await say();
  at(1).source = "typed meanwhile";
  await say();
  expect(ran).toEqual([]);
  at(1).source = "new\n";
  await say();
  await say();
  expect(ran).toEqual(["b"]);
  expect(at(1).node.textContent).toBe("Accepted. Runs when the kernel is free.");
  finish();
  await new Promise((resolve) => { setTimeout(resolve); });
  expect(at(1).node.childElementCount).toBe(0);
});

it("runs the new cell, not one that says the same already", async () => {
  const asked = change({ edit_mode: "insert", cell_type: "code", new_source: "old" });
  runner({ where: "after" }).runWhenChanged(asked, "old");
  await say();
  expect(ran).toEqual([]);
  cells.push(cell("new", "old"));
  await say();
  expect(ran).toEqual(["new"]);
});

it("runs nothing that was only accepted, or rejected after all", async () => {
  const runs = runner();
  const asked = change({ cell_id: "b", new_source: "new" });
  runs.runWhenChanged(asked, "new");
  runs.runWhenChanged(asked, null);
  at(1).source = "new";
  await say();
  expect(ran).toEqual([]);
  expect(listeners.size).toBe(0);
});

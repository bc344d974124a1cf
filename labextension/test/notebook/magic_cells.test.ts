import { Notification } from "@jupyterlab/apputils";
import { NotebookActions } from "@jupyterlab/notebook";
import { beforeEach, expect, it, vi } from "vitest";

import { asksClaude, magicCellsPlugin } from "../../src/notebook/magic_cells";
import { standIn } from "../support/stand_in";

const LOADS = 'get_ipython().extension_manager.load_extension("cellwright") silently';
const LACKING = { status: "error", ename: "ModuleNotFoundError", evalue: "No module named 'cellwright'" };

let executed: string[] = [];
let reply: object = {};
let language = "python";

const kernel = {
  requestExecute: ({ code, silent }: { code: string; silent: boolean }) => {
    executed.push(`${code}${silent ? " silently" : ""}`);
    return { done: Promise.resolve({ content: reply }) };
  },
};
const notebook = { model: { getMetadata: () => ({ name: language }) } };
const panel = { content: notebook, sessionContext: { session: { kernel } } };
const tracker = { find: (fits: (panel: unknown) => boolean) => (fits(panel) ? panel : undefined) };
void magicCellsPlugin.activate(standIn({}), standIn(tracker));

/** A failed cell in a kernel without the package, run to its end; its outputs. */
async function runLacking(): Promise<{ text: string }[]> {
  const outputs: { text: string }[] = [];
  const cell = {
    isDisposed: false,
    model: { type: "code", sharedModel: { getSource: () => "%%claude\ngo" }, outputs: { add: (output: { text: string }) => outputs.push(output) } },
  };
  const { executionScheduled, executed: ended } = standIn<Record<string, { emit(args: object): void }>>(NotebookActions);
  reply = LACKING;
  executionScheduled?.emit({ notebook, cell });
  await new Promise((resolve) => { setTimeout(resolve); });
  const expressions = { installed: { status: "ok", data: { "text/plain": "False" } }, executable: { status: "ok", data: { "text/plain": "'/opt/py/bin/python'" } } };
  reply = { status: "ok", user_expressions: expressions };
  ended?.emit({ notebook, cell });
  await new Promise((resolve) => { setTimeout(resolve); });
  return outputs;
}

it("says in the cell what the panel says of a kernel without the package", async () => {
  const [output] = await runLacking();
  expect(output?.text).toContain("This kernel has no Cellwright");
  expect(output?.text).toContain("/opt/py/bin/python -m pip install cellwright");
});

/** A cell that JupyterLab is about to send. */
function schedule(source: string, type = "code"): void {
  const { executionScheduled } = standIn<{ executionScheduled: { emit(args: object): void } }>(NotebookActions);
  executionScheduled.emit({ notebook, cell: { model: { type, sharedModel: { getSource: () => source } } } });
}

beforeEach(() => {
  executed = [];
  reply = { status: "ok" };
  language = "python";
});

it("knows the cells that ask Claude", () => {
  const asking = ["%%claude", "%%claude --resume\ngo", "\n%%claude x", "%claude explain", "x = 1\n%claude explain", "  %claude fix"];
  const others = ["%%claudette", "print('%%claude')", "# %claude", "x = '''\n%%claude'''", "", "%%bash\nclaude"];
  expect(asking.filter(asksClaude)).toEqual(asking);
  expect(others.filter(asksClaude)).toEqual([]);
});

it("has the kernel load the package before such a cell, and before no other", () => {
  schedule("%%claude\nHow is the tide?");
  expect(executed).toEqual([LOADS]);
  schedule("x = 1");
  schedule("%%claude", "markdown");
  language = "R";
  schedule("%%claude");
  expect(executed).toEqual([LOADS]);
});

it("says what keeps a kernel from it, and nothing where the kernel did not come to it", async () => {
  const warn = vi.spyOn(Notification, "warning");
  reply = { status: "aborted" }; // a cell before it has failed
  schedule("%%claude\nHow is the tide?");
  await new Promise((resolve) => { setTimeout(resolve); });
  expect(warn).not.toHaveBeenCalled();
  reply = LACKING;
  schedule("%%claude\nHow is the tide?");
  await vi.waitFor(() => { expect(warn).toHaveBeenCalledWith(expect.stringContaining("Run %pip install cellwright"), expect.anything()); });
});

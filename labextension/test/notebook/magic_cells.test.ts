import type { Kernel } from "@jupyterlab/services";
import { Signal } from "@lumino/signaling";
import { expect, it } from "vitest";

import { asksClaude, LoadedKernels } from "../../src/notebook/magic_cells";
import { standIn } from "../support/stand_in";

class TestKernel {
  readonly statusChanged = new Signal<this, string>(this);
  readonly executed: string[] = [];
  reply: object = { status: "ok" };

  requestExecute({ code, silent }: { code: string; silent: boolean }): { done: Promise<object> } {
    this.executed.push(`${code}${silent ? " silently" : ""}`);
    return { done: Promise.resolve({ content: this.reply }) };
  }

  get asKernel(): Kernel.IKernelConnection {
    return standIn<Kernel.IKernelConnection>(this);
  }
}

it("knows the cells that ask Claude", () => {
  const asking = ["%%claude", "%%claude --resume\ngo", "\n%%claude x", "%claude explain", "x = 1\n%claude explain", "  %claude fix"];
  const others = ["%%claudette", "print('%%claude')", "# %claude", "x = '''\n%%claude'''", "", "%%bash\nclaude"];
  expect(asking.filter(asksClaude)).toEqual(asking);
  expect(others.filter(asksClaude)).toEqual([]);
});

it("loads the package once, and again after a restart", async () => {
  const kernel = new TestKernel();
  const kernels = new LoadedKernels(() => { throw new Error("nothing is wrong"); });
  await kernels.load(kernel.asKernel);
  await kernels.load(kernel.asKernel);
  expect(kernel.executed).toEqual(['get_ipython().extension_manager.load_extension("cellwright") silently']);
  kernel.statusChanged.emit("busy");
  await kernels.load(kernel.asKernel);
  expect(kernel.executed).toHaveLength(1);
  kernel.statusChanged.emit("restarting");
  await kernels.load(kernel.asKernel);
  expect(kernel.executed).toHaveLength(2);
});

it("says what keeps a kernel from it, and tries again with the next cell", async () => {
  const kernel = new TestKernel();
  const said: string[] = [];
  const kernels = new LoadedKernels((problem) => { said.push(problem); });
  kernel.reply = { status: "error", ename: "ModuleNotFoundError", evalue: "No module named 'cellwright'" };
  await kernels.load(kernel.asKernel);
  expect(said).toEqual([expect.stringContaining("Run %pip install cellwright")]);
  kernel.reply = { status: "ok" };
  await kernels.load(kernel.asKernel);
  expect(said).toHaveLength(1);
  expect(kernel.executed).toHaveLength(2);
});

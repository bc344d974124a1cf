/** Having a kernel load the package, unseen: without history or output, and while it is busy where it has subshells. */

import type { Kernel, KernelMessage } from "@jupyterlab/services";

import type { ConnectionProblem } from "./chat";
import { withSubshell } from "./subshells";

const LOAD = 'get_ipython().extension_manager.load_extension("cellwright")';
const PACKAGE_INFO = { executable: '__import__("sys").executable', version: '__import__("cellwright").__version__' };
type Expression = { status: string; data?: Record<string, string> };

const NOT_INSTALLED = /^No module named ['"]cellwright['"]/;

export const NO_PROBLEM: ConnectionProblem = { executable: "", version: "", protocol: 0, message: "" };

/** Loads the package; null, or what keeps the kernel from it. Waits for the cell that runs where `subshell` is null. */
export async function loadExtension(kernel: Kernel.IKernelConnection, subshell: string | null): Promise<ConnectionProblem | null> {
  const reply = await execute(kernel, subshell, LOAD, {});
  if (reply.status === "ok") return null;
  const { ename, evalue } = reply.status === "error" ? reply : { ename: "", evalue: "" };
  const { executable } = await packageInfo(kernel, subshell);
  const lacking = ename === "ModuleNotFoundError" && NOT_INSTALLED.test(evalue);
  return { ...NO_PROBLEM, executable, message: lacking ? "" : `${ename}: ${evalue}` };
}

/** Loads the package before the cell that is sent next; null, or what keeps the kernel from it, with what to do.
 * `dropped` is told where the kernel did not try: a cell before it failed in Run All, and the next cell is not run, either. */
export async function loadForCell(
  kernel: Pick<Kernel.IKernelConnection, "requestExecute">,
  dropped: string | null = null,
): Promise<string | null> {
  // what is loaded already stays as it is
  const request = { code: LOAD, silent: true, store_history: false, allow_stdin: false, stop_on_error: false };
  const { content } = await kernel.requestExecute(request).done;
  if (content.status === "ok") return null;
  if (content.status !== "error") return dropped;
  const { ename, evalue } = content;
  if (ename === "ModuleNotFoundError") {
    return "Cellwright is not installed in this notebook's kernel. Run %pip install cellwright in a cell, then ask again.";
  }
  return `Cellwright could not be loaded into this notebook's kernel (${ename}: ${evalue}). Run %load_ext cellwright to see why.`;
}

/** The kernel's Python and the version of the package in it, empty where it does not say. */
export async function packageInfo(kernel: Kernel.IKernelConnection, subshell: string | null): Promise<{ executable: string; version: string }> {
  const reply = await execute(kernel, subshell, "", PACKAGE_INFO);
  const found = (reply.status === "ok" ? reply.user_expressions : {}) as Record<string, Expression | undefined>;
  return { executable: textOf(found.executable), version: textOf(found.version) };
}

async function execute(
  kernel: Kernel.IKernelConnection, subshell: string | null, code: string, expressions: Record<string, string>,
): Promise<KernelMessage.IExecuteReplyMsg["content"]> {
  const request = { code, silent: true, store_history: false, allow_stdin: false, stop_on_error: false, user_expressions: expressions };
  return (await withSubshell(kernel, subshell, () => kernel.requestExecute(request)).done).content;
}

/** A string from its `repr`, as user expressions come. */
function textOf(expression: Expression | undefined): string {
  const text = expression?.status === "ok" ? (expression.data?.["text/plain"] ?? "") : "";
  return text.replace(/^(['"])(.*)\1$/s, "$2").replaceAll("\\\\", "\\");
}

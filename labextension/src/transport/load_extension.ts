/**
 * Having a kernel load the package, unseen: without history or output, and while it is busy where it has subshells.
 *
 * Nothing is executed on a subshell: code fires the user's hooks on the subshell's thread, and the figures of the cell that
 * runs come out torn. A completion fires none.
 */

import type { Kernel, KernelMessage } from "@jupyterlab/services";

import type { ConnectionProblem } from "./chat";
import { withSubshell } from "./subshells";

/** Completed, not executed: `cellwright/kernel/pages/load_on_completion.py`. */
const LOAD_WHILE_BUSY = "from cellwright.kernel.pages.load_on_completion import LOADED";
const LOADED = "LOADED";
const LOAD = 'get_ipython().extension_manager.load_extension("cellwright")';
const PACKAGE_INFO = { executable: '__import__("sys").executable', version: '__import__("cellwright").__version__' };
type Expression = { status: string; data?: Record<string, string> };

const NOT_INSTALLED = /^No module named ['"]cellwright['"]/;

export const NO_PROBLEM: ConnectionProblem = { executable: "", version: "", protocol: 0, message: "" };

/** Loads the package by the subshell: true, false where it has to be executed, or undefined where nobody answers there. */
export async function loadOnSubshell(kernel: Kernel.IKernelConnection, subshell: string): Promise<boolean | undefined> {
  const request = { code: LOAD_WHILE_BUSY, cursor_pos: LOAD_WHILE_BUSY.length };
  const { content } = await withSubshell(kernel, subshell, () => kernel.requestComplete(request));
  return content.status === "ok" ? content.matches.includes(LOADED) : undefined;
}

/** Loads the package when the cell that runs has ended; null, or what keeps the kernel from it. */
export async function loadExtension(kernel: Kernel.IKernelConnection): Promise<ConnectionProblem | null> {
  const reply = await execute(kernel, LOAD, {});
  if (reply.status === "ok") return null;
  const { ename, evalue } = reply.status === "error" ? reply : { ename: "", evalue: "" };
  const { executable } = await packageInfo(kernel);
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

/** The kernel's Python and the version of the package in it, empty where it does not say; when its cell has ended. */
export async function packageInfo(kernel: Kernel.IKernelConnection): Promise<{ executable: string; version: string }> {
  const reply = await execute(kernel, "", PACKAGE_INFO);
  const found = (reply.status === "ok" ? reply.user_expressions : {}) as Record<string, Expression | undefined>;
  return { executable: textOf(found.executable), version: textOf(found.version) };
}

async function execute(
  kernel: Kernel.IKernelConnection, code: string, expressions: Record<string, string>,
): Promise<KernelMessage.IExecuteReplyMsg["content"]> {
  const request = { code, silent: true, store_history: false, allow_stdin: false, stop_on_error: false, user_expressions: expressions };
  return (await withSubshell(kernel, null, () => kernel.requestExecute(request)).done).content;
}

/** A string from its `repr`, as user expressions come. */
function textOf(expression: Expression | undefined): string {
  const text = expression?.status === "ok" ? (expression.data?.["text/plain"] ?? "") : "";
  return text.replace(/^(['"])(.*)\1$/s, "$2").replaceAll("\\\\", "\\");
}

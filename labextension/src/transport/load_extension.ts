/** Having a kernel load the package, unseen: without history or output, and while it is busy where it has subshells. */

import type { ConnectionProblem } from "./chat";
import type { ChatKernel, ExecuteReply } from "./kernel_types";
import { withSubshell } from "./subshells";

const LOAD = 'get_ipython().extension_manager.load_extension("cellwright")';
const PACKAGE_INFO = { executable: '__import__("sys").executable', version: '__import__("cellwright").__version__' };
const NOT_INSTALLED = /^No module named ['"]cellwright['"]/;

export const NO_PROBLEM: ConnectionProblem = { executable: "", version: "", protocol: 0, message: "" };

/** Loads the package; null, or what keeps the kernel from it. Waits for the cell that runs where `subshell` is null. */
export async function loadExtension(kernel: ChatKernel, subshell: string | null): Promise<ConnectionProblem | null> {
  const { status, ename = "", evalue = "" } = await execute(kernel, subshell, LOAD, {});
  if (status === "ok") return null;
  const { executable } = await packageInfo(kernel, subshell);
  const lacking = ename === "ModuleNotFoundError" && NOT_INSTALLED.test(evalue);
  return { ...NO_PROBLEM, executable, message: lacking ? "" : `${ename}: ${evalue}` };
}

/** The kernel's Python and the version of the package in it, empty where it does not say. */
export async function packageInfo(kernel: ChatKernel, subshell: string | null): Promise<{ executable: string; version: string }> {
  const { user_expressions: found } = await execute(kernel, subshell, "", PACKAGE_INFO);
  return { executable: textOf(found?.executable), version: textOf(found?.version) };
}

async function execute(
  kernel: ChatKernel, subshell: string | null, code: string, expressions: Record<string, string>,
): Promise<ExecuteReply> {
  const request = { code, silent: true, store_history: false, allow_stdin: false, stop_on_error: false, user_expressions: expressions };
  return (await withSubshell(kernel, subshell, () => kernel.requestExecute(request)).done).content;
}

/** A string from its `repr`, as user expressions come. */
function textOf(expression: { status: string; data?: Record<string, string> } | undefined): string {
  const text = expression?.status === "ok" ? (expression.data?.["text/plain"] ?? "") : "";
  return text.replace(/^(['"])(.*)\1$/s, "$2").replaceAll("\\\\", "\\");
}

/** Having a kernel load the package, unseen: without history or output, and while it is busy where it has subshells. */

import type { Trouble } from "./chat";
import type { ChatKernel, ExecuteReply } from "./kernel_types";
import { through } from "./subshells";

const LOAD = 'get_ipython().extension_manager.load_extension("cellwright")';
const ABOUT = { executable: '__import__("sys").executable', version: '__import__("cellwright").__version__' };
const LACKING = /^No module named ['"]cellwright['"]/;

export const NO_TROUBLE: Trouble = { executable: "", version: "", protocol: 0, message: "" };

/** Loads the package; null, or what keeps the kernel from it. Waits for the cell that runs where `subshell` is null. */
export async function load(kernel: ChatKernel, subshell: string | null): Promise<Trouble | null> {
  const { status, ename = "", evalue = "" } = await execute(kernel, subshell, LOAD, {});
  if (status === "ok") return null;
  const { executable } = await about(kernel, subshell);
  const lacking = ename === "ModuleNotFoundError" && LACKING.test(evalue);
  return { ...NO_TROUBLE, executable, message: lacking ? "" : `${ename}: ${evalue}` };
}

/** The kernel's Python and the version of the package in it, empty where it does not say. */
export async function about(kernel: ChatKernel, subshell: string | null): Promise<{ executable: string; version: string }> {
  const { user_expressions: found } = await execute(kernel, subshell, "", ABOUT);
  return { executable: textOf(found?.executable), version: textOf(found?.version) };
}

async function execute(
  kernel: ChatKernel, subshell: string | null, code: string, expressions: Record<string, string>,
): Promise<ExecuteReply> {
  const request = { code, silent: true, store_history: false, allow_stdin: false, stop_on_error: false, user_expressions: expressions };
  return (await through(kernel, subshell, () => kernel.requestExecute(request)).done).content;
}

/** A string from its `repr`, as user expressions come. */
function textOf(expression: { status: string; data?: Record<string, string> } | undefined): string {
  const text = expression?.status === "ok" ? (expression.data?.["text/plain"] ?? "") : "";
  return text.replace(/^(['"])(.*)\1$/s, "$2").replaceAll("\\\\", "\\");
}

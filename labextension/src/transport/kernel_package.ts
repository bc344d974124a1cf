/** Whether a kernel's Python has the package, without loading it, and the command that installs it there. */

import type { Kernel } from "@jupyterlab/services";

export type KernelPackage = { installed: boolean; executable: string };

type Expression = { data?: Record<string, string> };

const EXPRESSIONS = {
  installed: '__import__("importlib.util").util.find_spec("cellwright") is not None',
  executable: '__import__("sys").executable',
};

/** What was found stays so while the kernel lives; what lacks may be installed. */
const found = new WeakMap<object, KernelPackage>();

/** Asks the kernel, unseen, once the cells before it have run; null where it does not say. */
export async function kernelPackage(kernel: Pick<Kernel.IKernelConnection, "requestExecute">): Promise<KernelPackage | null> {
  const known = found.get(kernel);
  if (known) return known;
  const request = { code: "", silent: true, store_history: false, allow_stdin: false, stop_on_error: false, user_expressions: EXPRESSIONS };
  const { content } = await kernel.requestExecute(request).done;
  const said = (content.status === "ok" ? content.user_expressions : {}) as Record<string, Expression | undefined> | undefined;
  const installed = textOf(said?.installed);
  if (installed !== "True" && installed !== "False") return null;
  const answer = { installed: installed === "True", executable: textOf(said?.executable).slice(1, -1).replaceAll("\\\\", "\\") };
  if (answer.installed) found.set(kernel, answer);
  return answer;
}

function textOf(expression: Expression | undefined): string {
  return expression?.data?.["text/plain"] ?? "";
}

/** The command for a shell that installs the package for the Python at `executable`. */
export function installCommand(executable: string): string {
  const python = executable === "" ? "python" : executable;
  return `${/[\s'"$&;()]/.test(python) ? `"${python}"` : python} -m pip install cellwright`;
}

/** A way into a kernel that is busy: subshells, as JupyterLab's connections offer them. */

import type { CommsOverSubshells, Kernel, KernelMessage } from "@jupyterlab/services";

import type { JsonObject } from "../json";
import { randomName } from "../page";

/** The time to wait for a kernel's info; a busy one sends it when its cell has ended. */
export const INFO_TIMEOUT_MS = 1_500;
export const SUBSHELL_TIMEOUT_MS = 2_000;
const SUBSHELL_TRIES = 2;

/** JupyterLab's comms have these; its interface does not declare them. */
export type SubshellComm = Kernel.IComm & { readonly subshellId?: string | null; readonly subshellStarted?: Promise<void> };

/** The subshell that a comm's messages go to, once it is there; null: there is none, messages wait for the cell that runs. */
export async function subshellOf(kernel: Kernel.IKernelConnection, comm: SubshellComm, own: boolean): Promise<string | null> {
  if (kernel.supportsSubshells) {
    await withTimeout(SUBSHELL_TIMEOUT_MS, comm.subshellStarted);
    if (!own && comm.subshellId) return comm.subshellId;
    // what the page thinks is there may have gone with the process before
    Object.assign(comm, { commsOverSubshells: "disabled" satisfies `${CommsOverSubshells}` });
    return createSubshell(kernel);
  }
  // it has said that it has none, or it is too busy to say anything: one that can, can do that while it is busy
  return (await hasKernelInfo(kernel)) ? null : createSubshell(kernel);
}

/** Waits until a kernel has said what it can; whether it has. */
export async function hasKernelInfo(kernel: Kernel.IKernelConnection): Promise<boolean> {
  const known = kernel.info.then(() => true, () => false);
  return (await withTimeout(INFO_TIMEOUT_MS, known)) ?? false;
}

/** Does what sends messages such that they go to `subshell`. */
export function withSubshell<Result>(kernel: Kernel.IKernelConnection, subshell: string | null, work: () => Result): Result {
  if (subshell === null) return work();
  const before = kernel.subshellId ?? null;
  kernel.subshellId = subshell;
  try {
    return work();
  } finally {
    kernel.subshellId = before;
  }
}

/**
 * A subshell of the page's own; null where the kernel gives none. By hand: JupyterLab refuses it while it does not know what the
 * kernel can. One that has just started may lose the request, and is asked again.
 */
export async function createSubshell(kernel: Kernel.IKernelConnection): Promise<string | null> {
  for (let tries = 0; tries < SUBSHELL_TRIES; tries++) {
    const reply = control(kernel, "create_subshell_request", {}).catch(() => null);
    const answer = await withTimeout(SUBSHELL_TIMEOUT_MS, reply);
    if (answer !== undefined) return answer?.content.subshell_id ?? null;
    // one that comes late is nobody's
    void reply.then((late) => { if (late?.content.subshell_id) endSubshell(kernel, late.content.subshell_id); });
  }
  return null;
}

/** Ends a subshell that was made here. */
export function endSubshell(kernel: Kernel.IKernelConnection, subshell: string): void {
  // a kernel that is gone has no subshells
  void control(kernel, "delete_subshell_request", { subshell_id: subshell }).catch(() => undefined);
}

async function control(kernel: Kernel.IKernelConnection, type: "create_subshell_request" | "delete_subshell_request", content: JsonObject): Promise<{ content: { subshell_id?: string } }> {
  const header = { date: new Date().toISOString(), msg_id: randomName(), msg_type: type, session: kernel.clientId, username: "", version: "5.5" };
  const message = { channel: "control", header, parent_header: {}, metadata: {}, content, buffers: [] } as KernelMessage.IControlMessage;
  return (await kernel.sendControlMessage(message, true).done) as { content: { subshell_id?: string } };
}

/** The value of `promise`, or undefined when it takes longer or fails. */
export function withTimeout<Value>(ms: number, promise: Promise<Value> | undefined): Promise<Value | undefined> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms, undefined);
    const done = (value?: Value): void => {
      clearTimeout(timer);
      resolve(value);
    };
    promise?.then(done, () => { done(); });
  });
}

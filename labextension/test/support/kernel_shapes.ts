/** What the stand-in for a kernel's connection consists of. */

import type { JsonObject } from "../../src/json";
import type { Comm, Kernel } from "./notebook_shapes";

export type Slot<Value> = (sender: unknown, value: Value) => void;
export type Emits<Value = unknown> = { connect(slot: Slot<Value>): boolean; disconnect(slot: Slot<Value>): boolean };

/** A comm that may have a subshell of the kernel to itself. */
export type ChatComm = Comm & {
  readonly isDisposed: boolean;
  readonly subshellId?: string | null;
  commsOverSubshells?: string;
  dispose(): void;
};

export type ExecuteReply = {
  readonly status: string;
  readonly ename?: string;
  readonly evalue?: string;
  readonly user_expressions?: Record<string, { status: string; data?: Record<string, string> }>;
};

type Future<Content> = { readonly done: Promise<{ readonly content: Content }> };

export type IopubMessage = { readonly header: { readonly msg_type: string }; readonly content: Record<string, unknown> };

export type ChatKernel = Omit<Kernel, "createComm" | "disposed" | "statusChanged" | "iopubMessage"> & {
  readonly name: string;
  readonly disposed: Emits;
  readonly statusChanged: Emits<string>;
  readonly iopubMessage: Emits<IopubMessage>;
  /** connected, connecting or disconnected. */
  readonly connectionStatus: string;
  readonly connectionStatusChanged: Emits<string>;
  readonly info: Promise<unknown>;
  /** The subshell that the next message goes to; null: the main shell. */
  subshellId?: string | null;
  createComm(target: string): ChatComm;
  requestExecute(content: JsonObject): Future<ExecuteReply>;
  requestComplete(content: JsonObject): Promise<{ content: JsonObject }>;
  sendControlMessage(message: unknown, expectReply: boolean): Future<{ status: string; subshell_id?: string }>;
  restart(): Promise<void>;
};

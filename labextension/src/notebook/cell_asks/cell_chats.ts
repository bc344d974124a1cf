/** Connections to the conversations of kernels whose cells ask something while no panel shows them: one for each kernel, as long as it is used. */

import type { Kernel } from "@jupyterlab/services";

import type { KernelInfo } from "../../transport/chat";
import { ChatStore } from "../../transport/chat_store";
import { RequestError } from "../../transport/rpc";

type Open = { readonly chat: ChatStore; users: number };

/** A connection that is in use until `release`. */
export type UsedChat = { readonly chat: ChatStore; release(): void };

export class CellChats {
  private readonly open = new Map<Kernel.IKernelConnection, Open>();

  /** `client`: this page's program and version. */
  constructor(private readonly client: string) {}

  use(kernel: Kernel.IKernelConnection, about: KernelInfo): UsedChat {
    const open = this.open.get(kernel) ?? { chat: this.connect(kernel, about), users: 0 };
    this.open.set(kernel, open);
    open.users += 1;
    let released = false;
    return {
      chat: open.chat,
      release: () => {
        if (released) return;
        released = true;
        open.users -= 1;
        if (open.users > 0) return;
        this.open.delete(kernel);
        open.chat.connect(null, null);
      },
    };
  }

  private connect(kernel: Kernel.IKernelConnection, about: KernelInfo): ChatStore {
    const chat = new ChatStore(this.client, () => Promise.reject(new RequestError("gone", "The kernel is gone.")));
    chat.connect(kernel, about);
    return chat;
  }
}

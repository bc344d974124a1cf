/** Has a notebook's kernel load Cellwright, where its user said that this may be done. */

import { isPython } from "../cell_toolbar/cell_actions";
import type { NotebookModel } from "../notebook/cell_toolbar_types";
import type { ChatKernel } from "../transport/kernel_types";
import type { CodePanel } from "./types";

export class Loading {
  /** Each kernel is asked once: where it lacks the package, it lacks it at the next key as well. */
  private readonly tried = new WeakSet();

  /** `load` gives null, or what kept the kernel from it. */
  constructor(private readonly load: (kernel: ChatKernel) => Promise<unknown>) {}

  /** Begins it for the kernel of a Python notebook; the page connects when the kernel says that it holds us. */
  begin({ context, content }: CodePanel): void {
    const kernel = context.sessionContext.session?.kernel;
    if (!kernel || this.tried.has(kernel) || !content.model || !isPython(content.model as NotebookModel)) return;
    this.tried.add(kernel);
    this.load(kernel as unknown as ChatKernel).catch(() => undefined); // the kernel went away
  }
}

/** Requests about cells: answered in the panel if it is in sight, else in a strip below the cell. */

import type { Cell as CellWidget } from "@jupyterlab/cells";
import type { NotebookPanel } from "@jupyterlab/notebook";
import type { Kernel } from "@jupyterlab/services";

import { addPageStyle } from "../../page";
import { element } from "../../transcript/dom";
import type { Trans } from "../../translation";
import type { Attachment, CellActionRequest, PromptParams, Run } from "../../transport/chat_protocol";
import { PROVENANCE_KEY } from "../change_cells";
import type { CellModel } from "../cell_language";
import { AnswerStrip } from "./answer_strip";
import { CellChats } from "./cell_chats";
import css from "./strip.css";
import type { VisiblePanel } from "./visible_panel";
import { askedAtCells, visiblePanel } from "./visible_panel";

/** A cell's widget: its model has outputs if it is a code cell. */
export type Cell = CellWidget & { readonly model: CellModel };

/** A request about `cell`, of which `selection` is selected; `attachments` go along, such as its output. */
export type CellRequest = {
  readonly panel: NotebookPanel;
  readonly cell: Cell;
  readonly action: CellActionRequest;
  readonly selection: string;
  readonly attachments?: readonly Attachment[];
};

/** An action in a few words, as the kernel names it to people. */
export function titleOf({ name, label, error, words }: CellActionRequest): string {
  const what = name === "fix" ? `Fix the ${error || "error"} in ${label}` : `${name.charAt(0).toUpperCase()}${name.slice(1)} ${label}`;
  return words ? `${what}: ${words}` : what;
}

/** The strips of one notebook, by the ids of their cells. */
type Strips = Map<string, { readonly strip: AnswerStrip; readonly action: string }>;

export class CellRequests {
  private readonly chats: CellChats;
  private readonly strips = new WeakMap<NotebookPanel, Strips>();
  private announcer: HTMLElement | null = null;

  /** `client`: this page's program and version. `tell` shows a warning. */
  constructor(
    client: string,
    private readonly trans: Trans,
    private readonly tell: (message: string) => void,
  ) {
    addPageStyle(css);
    this.chats = new CellChats(client);
  }

  /** Asks; goes to the answer if the same is being asked already. */
  async ask(request: CellRequest): Promise<void> {
    const { panel } = request;
    const strip = this.sameStrip(request);
    if (strip && (strip.isOpen || !strip.hasFocus)) {
      strip.focus();
      return;
    }
    await panel.sessionContext.ready;
    const kernel = panel.sessionContext.session?.kernel;
    if (!kernel) {
      this.tell(this.trans.__("This notebook has no kernel. Start one, then ask Claude again."));
      return;
    }
    const shown = visiblePanel.of(kernel.id);
    if (shown) await this.askInPanel(shown, request);
    else if (!request.cell.isDisposed) this.openStrip(request, kernel);
  }

  /** The strip that answers the same; null if it was asked with other words. */
  private sameStrip({ panel, cell, action }: CellRequest): AnswerStrip | null {
    const known = this.strips.get(panel)?.get(cell.model.id);
    return known?.action === `${action.name} ${action.label}` && action.words === "" ? known.strip : null;
  }

  private async askInPanel(panel: VisiblePanel, request: CellRequest): Promise<void> {
    panel.follow();
    if (panel.chat.runs.some(({ run }) => isSame(run, request))) return;
    try {
      await panel.chat.prompt(paramsOf(request));
      panel.follow();
    } catch (error) {
      this.tell(error instanceof Error ? error.message : String(error));
    }
  }

  private openStrip(request: CellRequest, kernel: Kernel.IKernelConnection): void {
    const { panel, cell, action } = request;
    const strips = this.stripsOf(panel);
    const { id } = cell.model;
    strips.get(id)?.strip.close();
    const used = this.chats.use(kernel, { kernelId: kernel.id, name: kernel.name, notebook: panel.context.path });
    const { chat } = used;
    const strip = new AnswerStrip({
      trans: this.trans, chat,
      title: titleOf(action),
      count: Number(/\[(\d+)\]/.exec(action.label)?.[1]) || null,
      changes: action.name !== "explain",
      draw: async () => (await import("../../transcript/view")).view,
      send: async () => {
        if (chat.connection === "missing" || chat.connection === "lost") chat.reconnect();
        const run = await chat.prompt(paramsOf(request));
        askedAtCells.add(`${kernel.id} ${run}`);
        return run;
      },
      keep: async (run) => { keepAnswer(panel, id, await chat.request("answer_markdown", { run }) as KeptAnswer); },
      leave: () => { if (!panel.isDisposed) panel.content.activate(); },
      announce: (text) => { this.announce(text); },
      closed: () => {
        if (strips.get(id)?.strip === strip) strips.delete(id);
        used.release();
      },
    });
    strips.set(id, { strip, action: `${action.name} ${action.label}` });
    place(panel, strips);
    strip.node.scrollIntoView({ block: "nearest" });
  }

  /** A cell that is moved gets another widget: its strip goes along. */
  private stripsOf(panel: NotebookPanel): Strips {
    const known = this.strips.get(panel);
    if (known) return known;
    const strips: Strips = new Map();
    this.strips.set(panel, strips);
    // the widgets are there when the change is over
    panel.content.model?.cells.changed.connect(() => { queueMicrotask(() => { place(panel, strips); }); });
    panel.disposed.connect(() => { for (const { strip } of [...strips.values()]) strip.close(); });
    return strips;
  }

  private announce(text: string): void {
    if (!this.announcer) {
      this.announcer = element("p", { class: "cellwright-announcer", role: "status", "aria-live": "polite" });
      document.body.append(this.announcer);
    }
    this.announcer.textContent = text;
  }
}

function isSame({ state, action }: Run, { cell, action: asked }: CellRequest): boolean {
  const goesOn = state === "waiting" || state === "running" || state === "asking";
  return goesOn && action?.id === cell.model.id && action.name === asked.name && action.label === asked.label && action.words === asked.words;
}

function paramsOf({ panel, cell, action, selection, attachments = [] }: CellRequest): PromptParams {
  return { text: "", attachments: [...attachments], context: "auto", cell: { path: panel.context.path, id: cell.model.id, selection }, options: {}, action };
}

/** Puts each strip where its cell is. */
function place(panel: NotebookPanel, strips: Strips): void {
  if (panel.isDisposed) return;
  for (const [id, { strip }] of strips) {
    const node = panel.content.widgets.find(({ model }) => model.id === id)?.node;
    // at its end in the DOM, since JupyterLab counts a cell's first children
    if (node && strip.node.parentElement !== node) node.append(strip.node);
  }
}

type KeptAnswer = { markdown: string; asked: string; session: string };

/** Inserts the answer below its cell as a Markdown cell: running the notebook passes over it, and every reader shows it. */
function keepAnswer({ content }: NotebookPanel, id: string, { markdown, asked, session }: KeptAnswer): void {
  const at = content.widgets.findIndex(({ model }) => model.id === id);
  if (!content.model || at < 0) throw new Error("The cell is gone.");
  const metadata = { [PROVENANCE_KEY]: { asked, at: new Date().toISOString().replace(/\.\d+/, ""), session } };
  content.model.sharedModel.insertCell(at + 1, { cell_type: "markdown", source: markdown, metadata });
  const kept = content.widgets[at + 1];
  if (kept && "rendered" in kept) (kept as { rendered: boolean }).rendered = true;
  content.activeCellIndex = at + 1;
  content.mode = "command";
  content.activate();
}

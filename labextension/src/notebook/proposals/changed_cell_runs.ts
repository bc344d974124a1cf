/** Runs a cell that its user has accepted a change of and wants to run, once the change is in the document. */

import type { NotebookPanel } from "@jupyterlab/notebook";
import { NotebookActions } from "@jupyterlab/notebook";

import type { ChangeRunner } from "../../transcript/items/page_actions";
import type { AskOp } from "../../transcript/protocol";
import type { ProposalRequest } from "./proposals";

/** A change that was not made by then is not made any more, or was made otherwise than it was shown. */
const WAIT_MS = 60_000;
const NOTE_CLASS = "cellwright-run-note";
/** A prompt is asked, not run: that is an act of its own. */
const ASKS_CLAUDE = /^\s*%{1,2}claude\b/;

type Place = { panel: NotebookPanel; request: ProposalRequest };
type RunCells = (panel: NotebookPanel, cell: NotebookPanel["content"]["widgets"][number]) => Promise<unknown>;

export class CellRunner implements ChangeRunner {
  /** A function for each question that stops waiting for its change. */
  private readonly waiting = new Map<string, () => void>();

  /** `placeOf` gives the notebook of an open question. */
  constructor(
    private readonly placeOf: (question: string) => Place | undefined,
    private readonly run: RunCells = (panel, cell) => NotebookActions.runCells(panel.content, [cell], panel.sessionContext),
  ) {}

  offers = (ask: AskOp): "run" | "accept" | null => {
    const place = this.placeOf(ask.question);
    const { new_source: source, edit_mode: mode = "replace", cell_type: type } = ask.input ?? {};
    if (!place || typeof source !== "string" || (mode !== "replace" && mode !== "insert")) return null;
    return (type ?? typeNow(place)) === "code" && !ASKS_CLAUDE.test(source) ? "run" : "accept";
  };

  runWhenChanged = (ask: AskOp, source: string | null): void => {
    this.waiting.get(ask.question)?.();
    const place = this.placeOf(ask.question);
    if (source === null || !place || this.offers(ask) !== "run" || ASKS_CLAUDE.test(source)) return;
    const { content } = place.panel;
    const { model } = content;
    if (!model) return;
    const before = new Map(content.widgets.map((cell) => [cell.model.id, cell.model.sharedModel.getSource()]));
    const isNew = place.request.where !== "on";
    const look = (): void => {
      const cell = content.widgets.find(({ model: { id, type, sharedModel } }) => {
        const now = sharedModel.getSource();
        return type === "code" && isSame(now, source) && (isNew ? !before.has(id) : id === place.request.cell && now !== before.get(id));
      });
      if (!cell || !this.waiting.has(ask.question)) return;
      stop();
      this.start(place.panel, cell);
    };
    // the notebook draws a new cell when all have heard of it
    const lookSoon = (): void => { queueMicrotask(look); };
    const timer = setTimeout(() => { stop(); }, WAIT_MS);
    const stop = (): void => {
      clearTimeout(timer);
      model.contentChanged.disconnect(lookSoon);
      this.waiting.delete(ask.question);
    };
    this.waiting.set(ask.question, stop);
    model.contentChanged.connect(lookSoon);
  };

  private start(panel: NotebookPanel, cell: NotebookPanel["content"]["widgets"][number]): void {
    const waits = panel.sessionContext.session?.kernel?.status === "busy";
    const note = document.createElement("p");
    note.className = NOTE_CLASS;
    note.setAttribute("role", "status");
    cell.node.append(note);
    // a status is read aloud when it changes, not when it comes
    if (waits) note.textContent = "Accepted. Runs when the kernel is free.";
    void this.run(panel, cell).finally(() => { note.remove(); });
  }
}

function typeNow({ panel, request }: Place): string | undefined {
  return request.where === "on" ? panel.content.widgets.find(({ model }) => model.id === request.cell)?.model.type : undefined;
}

function isSame(one: string, other: string): boolean {
  return one.replace(/\n$/, "") === other.replace(/\n$/, "");
}

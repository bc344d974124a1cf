/** The words that were said to the run that goes on and are not delivered yet: they can be taken back. Prompts that wait stand among the runs. */

import { button, element } from "../transcript/dom";
import type { TranscriptStore } from "../transcript/store";
import { revealed, visibleText } from "../transcript/visible_text";
import type { Trans } from "../translation";
import type { Chat, RunTranscript } from "../transport/chat";

const SHOWN_CHARS = 300;

/** Words on their way: the kernel has not said yet that it has them. */
type SentMessage = { readonly run: string; readonly text: string };

type PendingRow = { readonly id: string; readonly label: string; readonly text: string; readonly takeBack: (() => void) | null };

export class PendingMessages {
  readonly node: HTMLElement;
  private readonly sent = new Map<string, SentMessage>();
  /** This panel's own words, until they are delivered or given back. */
  private readonly own = new Map<string, SentMessage>();
  private shown = "";
  private watched: RunTranscript | null = null;
  private unwatch: () => void = () => undefined;

  /** `giveBack` is called with words that were not delivered (`late`: the run was over), `focus` after some were taken back. */
  constructor(
    private readonly chat: Chat,
    private readonly trans: Trans,
    private readonly giveBack: (text: string, late: boolean) => void,
    private readonly focus: () => void,
  ) {
    this.node = element("ul", { class: "cellwright-waiting", "aria-label": trans.__("Not delivered yet"), hidden: "" });
  }

  /** Words for the run that goes on were sent under `id`. */
  add(id: string, run: string, text: string): void {
    this.sent.set(id, { run, text });
    this.own.set(id, { run, text });
    this.update();
  }

  update(): void {
    this.watch();
    this.settle();
    const rows = this.rows();
    const shown = JSON.stringify(rows.map(({ id, label, takeBack }) => [id, label, takeBack !== null]));
    if (shown === this.shown) return;
    this.shown = shown;
    this.node.replaceChildren(...rows.map((row) => this.row(row)));
    this.node.hidden = rows.length === 0;
  }

  dispose(): void {
    this.unwatch();
  }

  /** Follow the current run's store, which has the pending messages. */
  private watch(): void {
    const current = this.current();
    if (current === this.watched) return;
    this.unwatch();
    this.watched = current;
    this.unwatch = current?.transcript.subscribe(() => { this.update(); }) ?? (() => undefined);
  }

  private current(): RunTranscript | null {
    const id = this.chat.state?.current ?? null;
    return this.chat.runs.find(({ run }) => run.id === id) ?? null;
  }

  /** Words that were taken back, or whose run was over before, go back to who wrote them. */
  private settle(): void {
    const left: string[] = [];
    let late = false;
    for (const [id, { run, text }] of this.own) {
      const transcript = this.chat.runs.find((shown) => shown.run.id === run)?.transcript;
      if (transcript?.knownMessages.has(id)) this.sent.delete(id);
      const fate = transcript ? deliveryState(id, transcript) : "waits";
      if (fate === "waits") continue;
      this.own.delete(id);
      this.sent.delete(id);
      if (fate !== "delivered") left.push(text);
      late ||= fate === "late";
    }
    if (left.length > 0) this.giveBack(left.join("\n\n"), late);
  }

  private rows(): PendingRow[] {
    const { trans, chat } = this;
    const words = { steer: trans.__("Next step"), queue: trans.__("When done") };
    const current = this.watched;
    const waiting = current?.transcript.end === null ? [...current.transcript.pendingMessages.values()] : [];
    return [
      ...waiting.map(({ id, text, how }) => ({
        id, label: words[how], text, takeBack: () => { chat.send({ type: "withdraw", id }); },
      })),
      ...[...this.sent].map(([id, { text }]) => ({ id, label: trans.__("sending…"), text, takeBack: null })),
    ];
  }

  private row({ label, text, takeBack }: PendingRow): HTMLElement {
    const begin = revealed(text.slice(0, SHOWN_CHARS));
    const words = this.trans.__("Edit again: %1", begin);
    const back = takeBack && button("×", () => {
      takeBack();
      this.focus();
    }, { class: "cellwright-back", title: this.trans.__("Edit again"), "aria-label": words });
    return element(
      "li",
      {},
      element("span", { class: "cellwright-when" }, label),
      element("span", { class: "cellwright-words", title: begin }, visibleText(text.slice(0, SHOWN_CHARS))),
      ...(back ? [back] : []),
    );
  }
}

/** The state of a message: a `late` one was not delivered when its run ended. */
function deliveryState(id: string, transcript: TranscriptStore): "waits" | "delivered" | "withdrawn" | "late" {
  if (transcript.pendingMessages.has(id) || !transcript.knownMessages.has(id)) return transcript.end === null ? "waits" : "late";
  return transcript.withdrawnMessages.has(id) ? "withdrawn" : "delivered";
}

/** The line below the prompt: what the keys do; while a run goes on, how words reach it. Its height never changes. */

import type { SteerHow } from "../transcript/protocol";
import { button, element, setText } from "../transcript/dom";
import type { ComposerDeps } from "./composer_deps";

/** `about` is said instead of the keys, where it is not empty. `goesAlong`: more than words would be sent, and words alone steer. */
export type RunNow = {
  readonly isRunning: boolean; readonly steers: boolean; readonly goesAlong: boolean; readonly isStopping: boolean; readonly about: string;
};

export class RunBar {
  readonly node: HTMLElement;
  private readonly hint: HTMLElement;
  private readonly ways: HTMLElement;
  private readonly buttons: Record<SteerHow, HTMLButtonElement>;

  /** `choose` is called when the user wants the other way. */
  constructor(
    private readonly deps: ComposerDeps,
    choose: (how: SteerHow) => void,
  ) {
    const { trans } = deps;
    const way = (how: SteerHow, label: string, title: string): HTMLButtonElement =>
      button(label, () => { choose(how); }, { title, "aria-pressed": "false" });
    this.buttons = {
      steer: way("steer", trans.__("Steer"), trans.__("Claude reads it with its next step")),
      queue: way("queue", trans.__("Queue"), trans.__("Claude is asked when this run is over")),
    };
    this.ways = element("span", { class: "cellwright-ways", role: "group", "aria-label": trans.__("While Claude works") });
    this.ways.append(this.buttons.steer, this.buttons.queue);
    this.hint = element("span", { class: "cellwright-hint" });
    this.node = element("div", { class: "cellwright-run-bar" }, this.ways, this.hint);
  }

  update(now: RunNow): void {
    this.ways.hidden = !now.isRunning;
    this.buttons.steer.setAttribute("aria-pressed", String(now.steers));
    this.buttons.queue.setAttribute("aria-pressed", String(!now.steers));
    const words = this.words(now);
    setText(this.hint, words);
    this.hint.title = words;
  }

  private words({ isRunning, steers, goesAlong, isStopping, about }: RunNow): string {
    const { trans } = this.deps;
    if (isStopping) return trans.__("Esc once more stops Claude");
    if (about) return about;
    if (!isRunning) {
      const newLine = this.deps.settings().sendKey === "Enter" ? "Shift+Enter" : "Enter";
      return trans.__("/ commands · @ files, cells · $ variables · ↑ history · %1 new line", newLine);
    }
    if (goesAlong) return trans.__("With a cell or files it is asked when this is done: words alone steer · Esc Esc stops");
    return steers
      ? trans.__("Claude reads it with its next step · Alt+Enter queues · Esc Esc stops")
      : trans.__("Claude is asked when this is done · Alt+Enter steers · Esc Esc stops");
  }
}

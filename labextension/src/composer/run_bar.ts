/** The line below the prompt: what the keys do; while a run goes on, how words reach it. Its height never changes. */

import type { SteerHow } from "../transcript/protocol";
import { button, element, setText } from "../transcript/dom";
import type { Trans } from "./deps";

export class RunBar {
  readonly node: HTMLElement;
  private readonly hint: HTMLElement;
  private readonly ways: HTMLElement;
  private readonly buttons: Record<SteerHow, HTMLButtonElement>;

  /** `choose` is called when the user wants the other way. */
  constructor(
    private readonly trans: Trans,
    choose: (how: SteerHow) => void,
  ) {
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

  /** `about` is said instead of the keys, where it is not empty. */
  update(isRunning: boolean, how: SteerHow, isStopping: boolean, newLine: string, about: string): void {
    const { trans } = this;
    this.ways.hidden = !isRunning;
    for (const [name, node] of Object.entries(this.buttons)) node.setAttribute("aria-pressed", String(name === how));
    const running = how === "steer"
      ? trans.__("Claude reads it with its next step · Alt+Enter queues · Esc Esc stops")
      : trans.__("Claude is asked when this is done · Alt+Enter steers · Esc Esc stops");
    const idle = trans.__("/ commands · @ files, cells · $ variables · ↑ history · %1 new line", newLine);
    const keys = isStopping ? trans.__("Esc once more stops Claude") : isRunning ? running : idle;
    const words = about && !isStopping ? about : keys;
    setText(this.hint, words);
    this.hint.title = words;
  }
}

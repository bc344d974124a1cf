/** The pickers behind one button in a narrow panel, in a line in a wide one; the other run options are behind the button always. */

import { button, element, freshId, setText } from "../../transcript/dom";
import type { Trans } from "../../translation";
import { icon } from "../../sidebar/icons";

/** From this width on the pickers stand in a line. */
export const WIDE_PX = 660;

/** The settings that the button names where the pickers are behind it. */
export type OptionsSummary = { readonly mode: string; readonly modeId: string; readonly model: string; readonly set: number };

export class OptionsMenu {
  /** The button, and in a wide panel the pickers before it. */
  readonly node: HTMLElement;
  readonly popover: HTMLElement;
  private readonly opener: HTMLButtonElement;
  private readonly mode = element("b", {});
  private readonly model = element("span", {});
  private readonly count = element("span", { class: "cellwright-set-options" });
  private readonly moreSet = element("span", { class: "cellwright-unseen" });
  private readonly observer: ResizeObserver | null = null;
  private readonly more: HTMLDetailsElement;

  /** `pickers` is moved between the two places as `composer` becomes wider or narrower; `fields` are asked for when they are looked at. */
  constructor(
    private readonly trans: Trans,
    composer: HTMLElement,
    private readonly pickers: HTMLElement,
    private readonly fields: () => HTMLElement,
    resized: (width: number) => void = () => undefined,
  ) {
    const id = freshId();
    this.opener = button(icon("options"), () => { this.toggle(); }, {
      class: "cellwright-options-button", "aria-expanded": "false", "aria-controls": id, "aria-haspopup": "dialog",
    });
    this.opener.title = trans.__("Model, mode, effort, context, budget and other options");
    // what is seen is the end of its name, as it is: with voice control the button is called by it
    const name = element("span", { class: "cellwright-unseen" }, trans.__("Options:"));
    this.opener.append(name, " ", element("span", { class: "cellwright-now" }, this.mode, " ", this.model), " ", this.count, " ", this.moreSet);
    this.more = element("details", { class: "cellwright-more" }, element("summary", {}, trans.__("More options")));
    this.popover = element("div", { id, class: "cellwright-options", role: "dialog", tabindex: "-1", "aria-label": trans.__("Options"), hidden: "" }, this.more);
    this.node = element("div", { class: "cellwright-choices" }, pickers, this.opener);
    this.popover.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      event.stopPropagation();
      this.close(true);
    });
    this.popover.addEventListener("focusout", ({ relatedTarget }) => {
      if (relatedTarget instanceof Node && !this.popover.contains(relatedTarget) && relatedTarget !== this.opener) this.close();
    });
    if (!("ResizeObserver" in globalThis)) return;
    this.observer = new ResizeObserver(() => {
      this.place(composer.clientWidth);
      resized(composer.clientWidth);
    });
    this.observer.observe(composer);
  }

  update({ mode, modeId, model, set }: OptionsSummary): void {
    setText(this.mode, mode);
    this.mode.dataset.value = modeId;
    setText(this.model, model);
    setText(this.count, set > 0 ? `+${set}` : "");
    setText(this.moreSet, set > 0 ? this.trans.__("more set") : "");
  }

  dispose(): void {
    this.observer?.disconnect();
    this.close();
  }

  /** Has the pickers stand where they belong in a composer of this width. */
  place(width: number): void {
    const wide = width >= WIDE_PX || width === 0;
    const home = wide ? this.node : this.popover;
    if (this.pickers.parentElement === home) return;
    const had = this.pickers.contains(document.activeElement);
    home.prepend(this.pickers);
    this.node.classList.toggle("cellwright-mod-narrow", !wide);
    if (had) this.opener.focus();
  }

  private toggle(): void {
    if (!this.popover.hidden) {
      this.close(true);
      return;
    }
    if (this.more.childElementCount === 1) this.more.append(this.fields());
    this.popover.hidden = false;
    this.opener.setAttribute("aria-expanded", "true");
    // nothing else would be in it
    if (!this.popover.contains(this.pickers)) this.more.open = true;
    document.addEventListener("pointerdown", this.outside, true);
    const first = [...this.popover.querySelectorAll<HTMLElement>("select, input, textarea, summary")].find((each) => !each.matches(":disabled") && each.closest("[hidden]") === null);
    (first ?? this.popover).focus();
  }

  private close(toOpener = false): void {
    if (this.popover.hidden) return;
    document.removeEventListener("pointerdown", this.outside, true);
    this.popover.hidden = true;
    this.opener.setAttribute("aria-expanded", "false");
    if (toOpener) this.opener.focus();
  }

  private readonly outside = (event: Event): void => {
    const path = event.composedPath();
    if (!path.includes(this.popover) && !path.includes(this.opener)) this.close();
  };
}

/** The list of what can be completed in a prompt cell, below the word at the caret: the composer's own, from the cell's kernel. */

import { indentUnit } from "@codemirror/language";
import type { Extension, StateField, Transaction } from "@codemirror/state";
import { StateEffect, StateField as Field } from "@codemirror/state";
import type { Tooltip, TooltipView, ViewUpdate } from "@codemirror/view";
import { EditorView, showTooltip, ViewPlugin } from "@codemirror/view";

import type { CompletionList, CompletionPeer, Trigger } from "../../composer/completions";
import { CompletionSource, insertion } from "../../composer/completions";
import type { AttributeHolder } from "../../composer/palette";
import { Palette } from "../../composer/palette";
import { element } from "../../transcript/dom";
import type { Completion } from "../../transport/chat_protocol";
import type { Trans } from "../../translation";
import { promptTriggerAt } from "./prompt_trigger";

export type PromptListDeps = {
  /** The kernel of the cell that `node` is in; null where it belongs to no notebook of the page. */
  peer(node: HTMLElement): CompletionPeer | null;
  /** Has that kernel hold Cellwright, where it does not yet. */
  load(node: HTMLElement): void;
};

/** The open list and its place; null: it is closed. */
type Place = Tooltip | null;
type Attributes = Readonly<Record<string, string>>;

const setPlace = StateEffect.define<Place>();
const setAttributes = StateEffect.define<Attributes>();

const place = Field.define<Place>({
  create: () => null,
  update: (before, transaction) => {
    let now = before && transaction.docChanged ? { ...before, pos: transaction.changes.mapPos(before.pos) } : before;
    for (const effect of transaction.effects) if (effect.is(setPlace)) now = effect.value;
    return now;
  },
  provide: (field) => showTooltip.from(field),
});

/** The attributes that tell screen readers of the list: set by the editor's own means, or it would take them away again. */
const ariaAttributes = Field.define<Attributes>({
  create: () => ({}),
  update: (before, { effects }) => effects.reduce((now, effect) => (effect.is(setAttributes) ? effect.value : now), before),
  provide: (field) => EditorView.contentAttributes.from(field),
});

/** The lists of the editors that have one. */
const lists = new WeakMap<EditorView, PromptList>();

/** `cell` is the id of the cell that holds the prompt: what it mentions is another one. */
export function promptList(isPrompt: StateField<boolean>, trans: Trans, deps: PromptListDeps, cell: string): Extension {
  const plugin = ViewPlugin.define((view) => new PromptList(view, isPrompt, trans, deps, cell));
  return [
    place,
    ariaAttributes,
    plugin,
    EditorView.updateListener.of((update) => { update.view.plugin(plugin)?.updated(update); }),
  ];
}

/** Completes at the caret, or indents where nothing can be completed: what Tab does in a prompt cell. */
export function completeOrIndent(view: EditorView): void {
  if (!lists.get(view)?.open()) view.dispatch(view.state.replaceSelection(view.state.facet(indentUnit)), { userEvent: "input" });
}

function isTyped(transaction: Transaction): boolean {
  return transaction.isUserEvent("input") || transaction.isUserEvent("delete");
}

class PromptList {
  private readonly palette: Palette;
  private readonly dom: HTMLElement;
  private attributes: Attributes = {};
  private source: CompletionSource | null = null;
  private trigger: Trigger | null = null;
  /** The start of the word for which the list was closed. */
  private dismissed = -1;

  constructor(
    private readonly view: EditorView,
    private readonly isPrompt: StateField<boolean>,
    trans: Trans,
    private readonly deps: PromptListDeps,
    private readonly cell: string,
  ) {
    this.palette = new Palette(this.attributeHolder(), trans, (item) => { this.take(item); });
    // JupyterLab puts it at the page's end, outside all landmarks
    this.dom = element("div", { class: "cellwright-prompt-list", role: "region", "aria-label": trans.__("Suggestions for the prompt") }, this.palette.node);
    lists.set(view, this);
    // before the shortcuts of the page, while the list is open
    window.addEventListener("keydown", this.onKey, true);
  }

  destroy(): void {
    window.removeEventListener("keydown", this.onKey, true);
    this.source?.dispose();
    this.trigger = null;
  }

  /** Shows what can be completed at the caret; false where nothing can. */
  open(): boolean {
    const trigger = this.triggerNow();
    this.dismissed = -1;
    this.look(trigger);
    return trigger !== null;
  }

  /** The text, the caret or the focus is another. */
  updated({ docChanged, selectionSet, focusChanged, transactions, view }: ViewUpdate): void {
    if (!view.state.field(this.isPrompt) || (focusChanged && !view.hasFocus)) this.close();
    else if (docChanged && transactions.some(isTyped)) this.typed();
    else if (this.trigger && (docChanged || selectionSet)) this.look(this.triggerNow());
  }

  private typed(): void {
    const trigger = this.triggerNow();
    if (trigger?.start !== this.dismissed) this.dismissed = -1;
    this.look(this.dismissed < 0 ? trigger : null);
  }

  private triggerNow(): Trigger | null {
    const { doc, selection } = this.view.state;
    const { main, ranges } = selection;
    return main.empty && ranges.length === 1 && this.view.state.field(this.isPrompt) ? promptTriggerAt(doc.toString(), main.head) : null;
  }

  private look(trigger: Trigger | null): void {
    const source = trigger && this.sourceHere();
    if (!source) {
      this.close();
      return;
    }
    this.trigger = trigger;
    source.look(trigger);
  }

  private sourceHere(): CompletionSource | null {
    if (this.source) return this.source;
    const peer = this.deps.peer(this.view.dom);
    if (!peer) return null;
    if (peer.connection !== "connected") this.deps.load(this.view.dom);
    this.source = new CompletionSource(peer, (found) => { this.show(found); });
    return this.source;
  }

  private show(found: CompletionList): void {
    const { trigger } = this;
    if (!trigger) return;
    const items = found.items.filter(({ kind, insert }) => kind !== "cell" || insert !== `@cell:${this.cell}`);
    this.palette.show({ ...found, items }, trigger.kind, trigger.text);
    this.place(trigger.start);
  }

  private close(): void {
    if (!this.trigger) return;
    this.trigger = null;
    this.source?.rest();
    this.palette.close();
    this.place(null);
  }

  private place(pos: number | null): void {
    const { state } = this.view;
    const effects = [
      ...((state.field(place)?.pos ?? null) === pos ? [] : [setPlace.of(pos === null ? null : { pos, create: this.create })]),
      ...(state.field(ariaAttributes) === this.attributes ? [] : [setAttributes.of(this.attributes)]),
    ];
    if (effects.length > 0) this.view.dispatch({ effects });
  }

  private take(item: Completion): void {
    const { trigger, view } = this;
    if (!trigger) return;
    const { text, end } = insertion(item, trigger, view.state.sliceDoc(trigger.end, trigger.end + 1));
    this.close();
    view.dispatch({
      changes: { from: trigger.start, to: end, insert: text },
      selection: { anchor: trigger.start + text.length },
      userEvent: "input.complete",
      scrollIntoView: true,
    });
    view.focus();
  }

  // one for all: by it the editor knows that a list at another place is the same
  private readonly create = (): TooltipView => ({ dom: this.dom });

  private readonly onKey = (event: KeyboardEvent): void => {
    const { trigger, palette } = this;
    if (!trigger || !palette.isOpen || event.isComposing || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (!this.view.hasFocus || !this.handles(event.key, trigger)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  };

  private handles(key: string, trigger: Trigger): boolean {
    const { palette } = this;
    switch (key) {
      case "ArrowDown":
      case "ArrowUp":
        palette.move(key === "ArrowDown" ? 1 : -1);
        this.place(trigger.start);
        return true;
      case "Escape":
        this.dismissed = trigger.start;
        this.close();
        return true;
      case "Enter":
      case "Tab": {
        const { chosen } = palette;
        const isWhole = chosen?.insert.trim() === this.view.state.sliceDoc(trigger.start, trigger.end);
        if (chosen && !(isWhole && key === "Enter")) this.take(chosen);
        else this.close();
        // a line may end with what is written whole, or is not known
        return key === "Tab" || (chosen !== undefined && !isWhole);
      }
      default:
        return false;
    }
  }

  private attributeHolder(): AttributeHolder {
    return {
      setAttribute: (name, value) => { this.attributes = { ...this.attributes, [name]: value }; },
      removeAttribute: (name) => {
        this.attributes = Object.fromEntries(Object.entries(this.attributes).filter(([each]) => each !== name));
      },
    };
  }
}

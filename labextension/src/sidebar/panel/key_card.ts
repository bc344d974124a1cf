/** The card for who has no key: enter one, use a cloud, or try the demo. What is typed goes to the server alone. */

import { belowLine } from "../../transcript/cards/below_line";
import { copyButton } from "../../transcript/clipboard";
import { button, element } from "../../transcript/dom";
import type { Trans } from "../../translation";
import { RequestError } from "../../transport/rpc";
import type { KeptKey, ServerApi } from "../../transport/server_api";
import { NO_ROUTE } from "../../transport/server_api";
import { cloudPart } from "./cloud_form";
import { CELL_WAITS, isCellWaiting, keyField, problemText, showWaitingCell } from "./key_field";

export type KeyCardDeps = {
  readonly trans: Trans;
  readonly server: ServerApi;
  /** Asks the kernel anew; gives what its key comes from, null: it has none, undefined: there is no kernel to ask. */
  source(): Promise<string | null | undefined>;
  /** The key counts: the card is not needed any more. */
  done(words: string): void;
  openNotebook(path: string): Promise<unknown>;
  /** The demo is open: until something really needs a key, the card is in its way. */
  demoOpened(): void;
  /** The user does not want it now. */
  close(): void;
};

/** Why the card is there: `needed`, nothing gives a key; `asked`, the user wants to enter one; `refused`, none may be entered. */
export type KeyCardReason = "needed" | "asked" | "refused";

/** A way to Claude that the card offers. */
export type Way = "key" | "cloud" | "subscription" | "demo";

export type KeyCard = {
  readonly node: HTMLElement;
  show(reason: KeyCardReason): void;
  hide(): void;
  /** Gives the keyboard to what the card wants first; false while it is hidden. */
  focus(): boolean;
  /** Opens a way, with the keyboard in it. */
  take(way: Way): void;
};

export function keyCard(deps: KeyCardDeps): KeyCard {
  const { trans } = deps;
  const title = element("h3", { id: "cellwright-key-title" });
  const field = keyField(
    { trans, server: deps.server, busy: (words) => { say(words, words ? "busy" : ""); }, kept: (kept, words) => accepted(kept, words) },
    { class: "part", id: "cellwright-key-form" },
  );
  const form = field.node;
  const status = element("p", { class: "status", role: "status" });
  const clouds = cloudPart({
    trans, server: deps.server,
    say: (text, kind) => { say(text, kind); },
    kept: (kept, name) => accepted(kept, kept.tried ? trans.__("%1 works. Saved in your settings (%2).", name, kept.kept_in) : trans.__("%1 is saved in your settings (%2). Its address cannot test the key.", name, kept.kept_in)),
  });
  const cloud = clouds.node;
  const demo = element("button", { type: "button", class: "way" }, way(trans.__("Try the demo"), trans.__("A small project and a scripted model: no key, no network")));
  const enter = opener(form, trans.__("Enter a key"), trans.__("From your account at Anthropic"));
  const useCloud = opener(cloud, trans.__("Use a cloud"), trans.__("Bedrock, Vertex, Foundry or a gateway"));
  const subscription = subscriptionPart(trans);
  const useSubscription = opener(subscription, trans.__("Use a Claude subscription"), trans.__("With Claude Code; no key needed"));
  const ways = [enter, useCloud, useSubscription];
  const cellLine = element("p", { class: "hint", role: "status" });
  const allWays = element("div", { class: "ways" }, box(enter, form), box(useCloud, cloud), box(useSubscription, subscription), demo);
  const atCell = element("div", { class: "row at-cell", hidden: "" },
    button(trans.__("Go to the cell"), showWaitingCell, { class: "primary" }),
    button(trans.__("Enter it here"), () => {
      isWantedHere = true;
      sayCell();
      field.focus();
    }));
  let isWantedHere = false;
  const sayCell = (): void => {
    const waits = isCellWaiting();
    isWantedHere &&= waits;
    const isWritten = [...allWays.querySelectorAll<HTMLInputElement>("input:not([aria-invalid])")].some((input) => input.value !== "" && !input.closest("[hidden]"));
    // its cell has a card of its own: one at a time, and nothing that is being written goes away
    const gives = waits && !isWantedHere && !isWritten && !allWays.contains(document.activeElement);
    cellLine.textContent = waits ? trans.__("A cell is waiting for a key. It continues when you save one.") : "";
    atCell.hidden = !gives;
    allWays.hidden = gives;
  };
  document.addEventListener(CELL_WAITS, sayCell);
  const close = button("×", () => { deps.close(); }, { class: "tool-button close", title: trans.__("Close"), "aria-label": trans.__("Close") });
  const node = element(
    "section",
    { class: "key-card", "aria-labelledby": "cellwright-key-title", hidden: "" },
    element("div", { class: "key-head" }, title, close),
    cellLine,
    atCell,
    allWays,
    status,
  );
  node.append(belowLine(node, ".way"));

  const say = (text: string, kind: "" | "error" | "busy" = ""): void => {
    status.textContent = text;
    status.dataset.kind = kind;
    // the card scrolls where it is long
    if (kind === "error") status.scrollIntoView({ block: "nearest" });
  };
  const unfold = (part: HTMLElement | null): void => {
    for (const each of [form, cloud, subscription]) each.hidden = each !== part;
    for (const each of ways) each.setAttribute("aria-expanded", `${each.getAttribute("aria-controls") === part?.id}`);
  };
  for (const each of ways) {
    each.addEventListener("click", () => {
      const part = [form, cloud, subscription].find(({ id }) => id === each.getAttribute("aria-controls")) ?? form;
      unfold(part.hidden ? part : null);
      if (!part.hidden) focusIn(part);
    });
  }
  const focusIn = (part: HTMLElement): void => {
    if (part === form) field.focus();
    else if (part === cloud) void clouds.load();
    else {
      part.scrollIntoView({ block: "nearest" });
      part.querySelector("code")?.focus();
    }
  };
  // the card scrolls where it is long, and its room changes with the zoom
  const keepInView = (): void => {
    const { activeElement } = document;
    if (node.contains(activeElement)) (activeElement?.closest(".row") ?? activeElement)?.scrollIntoView({ block: "nearest" });
  };
  node.addEventListener("focusin", keepInView);
  if ("ResizeObserver" in globalThis) new ResizeObserver(keepInView).observe(node);
  demo.addEventListener("click", () => { void tryDemo(); });

  async function accepted(kept: KeptKey, works: string): Promise<void> {
    const source = await deps.source();
    // what the server has is what the kernel should see
    const goesBefore = kept.overruled_by || (typeof source === "string" && source !== kept.source ? source : "");
    if (goesBefore) say(`${works} ${trans.__("But %1 takes precedence: remove it, and restart the kernel.", goesBefore)}`, "error");
    else if (source === null) say(`${works} ${trans.__("But this kernel does not see it: it runs as another user, or uses another address.")}`, "error");
    else {
      say("");
      deps.done(works);
    }
  }

  async function tryDemo(): Promise<void> {
    demo.disabled = true;
    say(trans.__("Opening the demo…"), "busy");
    try {
      await deps.openNotebook(await deps.server.demo());
      say("");
      deps.demoOpened();
    } catch (error) {
      say(error instanceof RequestError && error.code === NO_ROUTE ? trans.__("This server has no Cellwright. Run %claude demo in a cell.") : problemText(error, trans), "error");
    } finally {
      demo.disabled = false;
    }
  }

  return {
    node,
    show(reason) {
      const before = node.dataset.reason;
      node.dataset.reason = reason;
      title.textContent = reason === "asked" ? trans.__("Enter a key") : trans.__("Claude needs a key");
      close.hidden = reason !== "asked";
      enter.disabled = reason === "refused";
      field.enable(reason !== "refused");
      if (reason === "refused") say(trans.__("Your administrator doesn't allow keys of your own here. Ask them how to reach Claude."));
      if (node.hidden || before !== reason) unfold(reason === "refused" ? null : form);
      node.hidden = false;
      sayCell();
    },
    hide() {
      node.hidden = true;
      field.clear();
      clouds.clear();
      say("");
    },
    focus() {
      if (node.hidden) return false;
      if (!atCell.hidden) atCell.querySelector("button")?.focus();
      else if (!form.hidden) field.focus();
      else ways.find((each) => !each.disabled)?.focus();
      return true;
    },
    take(chosen) {
      if (chosen === "demo") {
        void tryDemo();
        return;
      }
      const part = { key: form, cloud, subscription }[chosen];
      isWantedHere = true;
      sayCell();
      unfold(part);
      focusIn(part);
    },
  };
}

/** The commands that a subscription takes, each to be copied. */
function subscriptionPart(trans: Trans): HTMLElement {
  const steps = [
    [trans.__("Install the provider:"), 'pip install "cellwright[claude-code]"'],
    [trans.__("Sign in, in a terminal:"), "claude auth login"],
    [trans.__("Begin a cell with:"), "%%claude --provider claude-code"],
  ] as const;
  return element(
    "div",
    { class: "part", id: "cellwright-key-subscription", hidden: "" },
    ...steps.flatMap(([words, command]) => [
      element("p", {}, words),
      element("div", { class: "command" }, element("code", { tabindex: "0" }, command), copyButton(() => command, trans.__("Copy the command"))),
    ]),
  );
}

function opener(part: HTMLElement, label: string, about: string): HTMLButtonElement {
  return element("button", { type: "button", class: "way", "aria-expanded": "false", "aria-controls": part.id }, way(label, about));
}

/** A way, and below it in the same frame what belongs to it. */
function box(opening: HTMLElement, part: HTMLElement): HTMLElement {
  return element("div", { class: "way-box" }, opening, part);
}

function way(label: string, about: string): HTMLElement {
  return element("span", {}, element("span", { class: "label" }, label), element("span", { class: "about" }, about));
}

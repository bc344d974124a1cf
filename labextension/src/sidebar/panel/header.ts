/** The panel's head: the session's title, where its kernel is, and what can be done with both. */

import { button, element, setText } from "../../transcript/dom";
import { revealed, sentence } from "../../transcript/visible_text";
import type { Trans } from "../../translation";
import type { Chat } from "../../transport/chat";
import type { IconName } from "../icons";
import { icon } from "../icons";
import { baseName } from "../kernel_choice";

export type HeaderDeps = {
  readonly trans: Trans;
  newSession(): void;
  sessions(): void;
  settings(): void;
  help(): void;
  kernels(): readonly MenuItem[];
  more(): readonly MenuItem[];
};

export type Header = { readonly node: HTMLElement; update(chat: Chat): void; dispose(): void };

export function header(deps: HeaderDeps): Header {
  const { trans } = deps;
  const title = element("h2", { class: "title" });
  const badge = element("span", { class: "badge", hidden: "", title: trans.__("The answers were written for the demo; no model is asked.") }, trans.__("Scripted model"));
  const newSession = tool("new", trans.__("New session"), () => { deps.newSession(); });
  const sessions = tool("sessions", trans.__("Sessions"), () => { deps.sessions(); });
  const settings = tool("settings", trans.__("Settings"), () => { deps.settings(); });
  const help = tool("help", trans.__("Help and keys"), () => { deps.help(); });
  const more = tool("more", trans.__("More commands"));
  const tools = element("div", { class: "tools", role: "toolbar", "aria-label": trans.__("Claude") }, newSession, sessions, settings, help, element("span", { class: "anchor" }, more));
  const dot = element("span", { class: "dot", "aria-hidden": "true" });
  const place = element("span", { class: "where" });
  const folder = element("span", { class: "cwd" });
  const kernel = element("button", { type: "button", class: "kernel" }, dot, place, folder);
  const node = element("div", { class: "head", role: "region", "aria-label": trans.__("Session and kernel") }, element("div", { class: "top" }, title, badge, tools), element("div", { class: "anchor" }, kernel));
  const closing = [menuButton(kernel, () => deps.kernels()), menuButton(more, () => deps.more())];
  arrowKeys(tools);

  return {
    node,
    update(chat) {
      const name = titleOf(chat) || trans.__("Claude");
      if (name !== title.title) title.replaceChildren(...sentence(name));
      title.title = name;
      badge.hidden = chat.state?.scripted !== true;
      setText(place, placeText(chat, trans));
      setText(folder, chat.state ? revealed(shortFolder(chat.state.cwd)) : "");
      kernel.dataset.connection = chat.connection;
      kernel.setAttribute("aria-label", trans.__("Kernel: %1. Choose another", `${place.textContent} ${folder.textContent}`.trim()));
      kernel.title = kernelTitle(chat);
      const connected = chat.connection === "connected";
      newSession.disabled = !connected;
      sessions.disabled = !connected;
    },
    dispose() {
      for (const close of closing) close();
    },
  };
}

function tool(name: IconName, label: string, onClick: () => void = () => undefined): HTMLButtonElement {
  return button(icon(name), onClick, { class: "tool-button", title: label, "aria-label": label });
}

/** One stop for Tab, the arrows for the rest. */
function arrowKeys(toolbar: HTMLElement): void {
  const buttons = [...toolbar.querySelectorAll<HTMLButtonElement>("button")];
  buttons.forEach((each, at) => { each.tabIndex = at === buttons.length - 1 ? 0 : -1; });
  toolbar.addEventListener("focusin", ({ target }) => {
    if (!buttons.includes(target as HTMLButtonElement)) return;
    for (const each of buttons) each.tabIndex = each === target ? 0 : -1;
  });
  toolbar.addEventListener("keydown", (event) => {
    const able = buttons.filter((each) => !each.disabled);
    const at = able.indexOf(event.target as HTMLButtonElement);
    const step = { ArrowRight: 1, ArrowLeft: able.length - 1 }[event.key];
    if (step === undefined || at < 0) return;
    event.preventDefault();
    able[(at + step) % able.length]?.focus();
  });
}

/** The session's title; empty while it only repeats the one prompt that stands below it. */
function titleOf({ state, runs }: Chat): string {
  const title = state?.session.title ?? "";
  const [first, second] = runs;
  const repeats = first && !second && first.run.prompt.replace(/\s+/g, " ").trim().startsWith(title.replace(/…$/, ""));
  return repeats ? "" : revealed(title);
}

function placeText({ kernelInfo, connection }: Chat, trans: Trans): string {
  if (!kernelInfo) return connection === "none" ? trans.__("No kernel") : "";
  return kernelInfo.notebook === null ? trans.__("Own kernel") : baseName(kernelInfo.notebook);
}

/** The last two folders are what tells one from another. */
function shortFolder(path: string): string {
  const parts = path.split(/[\\/]/).filter((part) => part);
  return parts.length > 2 ? `…/${parts.slice(-2).join("/")}` : path;
}

function kernelTitle({ kernelInfo, state }: Chat): string {
  return [kernelInfo?.name, kernelInfo?.notebook, state?.cwd, state?.kernel.executable].filter((line) => line).join("\n");
}

// A small menu below a button, by the pattern of ARIA: arrows, Home and End, Enter, Escape.

export type MenuItem = { readonly label: string; readonly about?: string; readonly chosen?: boolean; choose(): void };

/** Makes `opener` open a menu of what `items` gives then; gives how to close it. */
export function menuButton(opener: HTMLButtonElement, items: () => readonly MenuItem[]): () => void {
  let menu: HTMLElement | null = null;
  opener.setAttribute("aria-haspopup", "menu");
  opener.setAttribute("aria-expanded", "false");

  const close = (toOpener = false): void => {
    if (!menu) return;
    menu.remove();
    menu = null;
    opener.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", outside, true);
    if (toOpener) opener.focus();
  };
  const outside = (event: Event): void => {
    const path = event.composedPath();
    if (!path.includes(opener) && !(menu && path.includes(menu))) close();
  };
  const open = (): void => {
    menu = menuOf(items(), close);
    opener.after(menu);
    opener.setAttribute("aria-expanded", "true");
    document.addEventListener("pointerdown", outside, true);
    menu.addEventListener("focusout", ({ relatedTarget }) => {
      if (relatedTarget instanceof Node && !menu?.contains(relatedTarget) && relatedTarget !== opener) close();
    });
    (menu.querySelector<HTMLElement>("[aria-checked=true]") ?? menu.querySelector<HTMLElement>("button"))?.focus();
  };
  opener.addEventListener("click", () => {
    if (menu) close();
    else open();
  });
  opener.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" || menu) return;
    event.preventDefault();
    open();
  });
  return close;
}

function menuOf(items: readonly MenuItem[], close: (toOpener?: boolean) => void): HTMLElement {
  const buttons = items.map((item) => itemButton(item, close));
  const node = element("div", { class: "menu", role: "menu" }, ...buttons);
  node.addEventListener("keydown", (event) => {
    const at = buttons.findIndex((button) => button === document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 + buttons.length, Home: 0, End: buttons.length - 1 }[event.key];
    if (to !== undefined) buttons[to % buttons.length]?.focus();
    else if (event.key === "Escape") close(true);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return node;
}

function itemButton(item: MenuItem, close: (toOpener?: boolean) => void): HTMLButtonElement {
  const { label, about, chosen } = item;
  const isChoice = chosen !== undefined;
  const node = element(
    "button",
    { type: "button", role: isChoice ? "menuitemradio" : "menuitem", tabindex: "-1", "aria-checked": isChoice && `${chosen}` },
    element("span", { class: "label" }, label),
  );
  if (about) node.append(element("span", { class: "about" }, about));
  node.addEventListener("click", () => {
    close(true);
    item.choose();
  });
  return node;
}

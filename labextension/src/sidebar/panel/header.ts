/** The panel's head: the session's title, where its kernel is, and what can be done with both. */

import type { Chat } from "../../transport/chat";
import type { Trans } from "../../composer/composer_deps";
import { button, element, setText } from "../../transcript/dom";
import type { IconName } from "../icons";
import { icon } from "../icons";
import { nameOf } from "../kernel_choice";
import type { MenuItem } from "../menu";
import { menuButton } from "../menu";

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
  const newSession = tool("new", trans.__("New session"), () => { deps.newSession(); });
  const sessions = tool("sessions", trans.__("Sessions"), () => { deps.sessions(); });
  const settings = tool("settings", trans.__("Settings"), () => { deps.settings(); });
  const help = tool("help", trans.__("Help and keys"), () => { deps.help(); });
  const more = tool("more", trans.__("More"));
  const tools = element("div", { class: "tools", role: "toolbar", "aria-label": trans.__("Claude") }, newSession, sessions, settings, help, element("span", { class: "anchor" }, more));
  const dot = element("span", { class: "dot", "aria-hidden": "true" });
  const place = element("span", { class: "where" });
  const folder = element("span", { class: "cwd" });
  const kernel = element("button", { type: "button", class: "kernel" }, dot, place, folder);
  const node = element("div", { class: "head", role: "region", "aria-label": trans.__("Session and kernel") }, element("div", { class: "top" }, title, tools), element("div", { class: "anchor" }, kernel));
  const closing = [menuButton(kernel, () => deps.kernels()), menuButton(more, () => deps.more())];
  arrowKeys(tools);

  return {
    node,
    update(chat) {
      const name = chat.state?.session.title ?? "";
      setText(title, name === "" ? trans.__("Claude") : name);
      title.title = title.textContent;
      setText(place, placeText(chat, trans));
      setText(folder, chat.state ? shortFolder(chat.state.cwd) : "");
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

function placeText({ place, connection }: Chat, trans: Trans): string {
  if (!place) return connection === "none" ? trans.__("No kernel") : "";
  return place.notebook === null ? trans.__("Own kernel") : nameOf(place.notebook);
}

/** The last two folders are what tells one from another. */
function shortFolder(path: string): string {
  const parts = path.split(/[\\/]/).filter((part) => part);
  return parts.length > 2 ? `…/${parts.slice(-2).join("/")}` : path;
}

function kernelTitle({ place, state }: Chat): string {
  return [place?.name, place?.notebook, state?.cwd, state?.kernel.executable].filter((line) => line).join("\n");
}

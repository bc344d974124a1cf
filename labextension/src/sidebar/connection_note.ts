/** What stands in the place of a conversation that is not there: why, and what to do. */

import type { Chat } from "../chat/chat";
import { PROTOCOL } from "../chat/protocol";
import type { Trans } from "../composer/deps";
import { copyButton } from "../transcript/clipboard";
import { button, element } from "../transcript/dom";

export type NoteDeps = { readonly trans: Trans; again(): void; startKernel(): void; restart(): void };

export type ConnectionNote = { readonly node: HTMLElement; update(chat: Chat): void };

export function connectionNote(deps: NoteDeps): ConnectionNote {
  const node = element("div", { class: "note", role: "status", hidden: "" });
  let shown = "";
  return {
    node,
    update(chat) {
      const { connection, trouble, waitsForCell, place } = chat;
      const now = JSON.stringify([connection, trouble, waitsForCell, place?.kernelId]);
      if (now === shown) return;
      shown = now;
      const parts = noteParts(chat, deps);
      node.replaceChildren(...parts);
      node.dataset.connection = connection;
      node.hidden = parts.length === 0;
    },
  };
}

function noteParts(chat: Chat, deps: NoteDeps): Node[] {
  const { trans } = deps;
  switch (chat.connection) {
    case "connected":
    case "none":
      return [];
    case "connecting":
      return [line(chat.waitsForCell
        ? trans.__("The kernel is running a cell and can take no message before it ends. Claude comes then.")
        : trans.__("Connecting to the kernel…"))];
    case "lost":
      return [
        head(trans.__("The kernel is gone")),
        line(chat.trouble?.message || trans.__("It has died or was shut down.")),
        actions(button(trans.__("Try again"), () => { deps.again(); }), button(trans.__("Start a kernel here"), () => { deps.startKernel(); })),
      ];
    case "missing":
    case "unsupported":
      return packageNote(chat, deps);
    default:
      return chat.connection satisfies never;
  }
}

/** The package is not there, or not the one that this panel goes with. */
function packageNote({ connection, trouble }: Chat, deps: NoteDeps): Node[] {
  const { trans } = deps;
  const again = button(trans.__("Try again"), () => { deps.again(); }, { class: "primary" });
  const python = trouble?.executable || "python";
  if (connection === "missing" && trouble?.message) {
    return [head(trans.__("Cellwright does not load in this kernel")), code(trouble.message), actions(again)];
  }
  if (connection === "missing") {
    return [
      head(trans.__("This kernel has no Cellwright")),
      line(trans.__("Install it for the kernel's Python, then try again:")),
      ...command(install(python), trans),
      actions(again),
    ];
  }
  const theirs = trouble?.version ? trans.__("version %1", trouble.version) : trans.__("an unknown version");
  const is = trouble && trouble.protocol > PROTOCOL
    ? trans.__("The kernel has %1, which is newer than this page (protocol %2, the page has %3). Reload the page; if that does not help, upgrade Cellwright where JupyterLab runs.", theirs, trouble.protocol, PROTOCOL)
    : trans.__("The kernel has %1, which is older than this page (protocol %2, the page has %3). Upgrade it, then restart the kernel:", theirs, trouble?.protocol ?? 0, PROTOCOL);
  const restart = button(trans.__("Restart kernel"), () => { deps.restart(); });
  return [head(trans.__("Another version of Cellwright")), line(is), ...command(`${install(python)} --upgrade`, trans), actions(again, restart)];
}

function install(python: string): string {
  return `${/[\s'"$&;()]/.test(python) ? `"${python}"` : python} -m pip install cellwright`;
}

function command(text: string, trans: Trans): Node[] {
  const box = element("div", { class: "command" }, element("code", { tabindex: "0" }, text), copyButton(() => text));
  box.setAttribute("aria-label", trans.__("Command to install it"));
  box.setAttribute("role", "group");
  return [box];
}

function head(text: string): HTMLElement {
  return element("h3", {}, text);
}

function line(text: string): HTMLElement {
  return element("p", {}, text);
}

function code(text: string): HTMLElement {
  return element("pre", { tabindex: "0" }, text);
}

function actions(...buttons: HTMLButtonElement[]): HTMLElement {
  return element("div", { class: "actions" }, ...buttons);
}

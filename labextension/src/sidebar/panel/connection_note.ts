/** The note where there is no connection: why, and what to do. */

import { copyButton } from "../../transcript/clipboard";
import { button, element } from "../../transcript/dom";
import type { Trans } from "../../translation";
import type { Chat, ConnectionProblem } from "../../transport/chat";
import { CHAT_PROTOCOL } from "../../transport/chat_protocol";
import { installCommand } from "../../transport/kernel_package";
import { NO_PROBLEM } from "../../transport/load_extension";

export type ConnectionNoteDeps = { readonly trans: Trans; again(): void; startKernel(): void; restart(): void };

export type ConnectionNote = { readonly node: HTMLElement; update(chat: Chat): void };

export function connectionNote(deps: ConnectionNoteDeps): ConnectionNote {
  const node = element("div", { class: "note", role: "status", hidden: "" });
  let shown = "";
  return {
    node,
    update(chat) {
      const { connection, problem, waitsForCell, kernelInfo } = chat;
      const now = JSON.stringify([connection, problem, waitsForCell, kernelInfo?.kernelId]);
      if (now === shown) return;
      shown = now;
      const parts = noteParts(chat, deps);
      node.replaceChildren(...parts);
      node.dataset.connection = connection;
      node.hidden = parts.length === 0;
    },
  };
}

function noteParts(chat: Chat, deps: ConnectionNoteDeps): Node[] {
  const { trans } = deps;
  switch (chat.connection) {
    case "connected":
    case "none":
      return [];
    case "connecting":
      // else the page says that it loads, or shows the conversation that it has: the dot says the rest
      return chat.waitsForCell ? [line(trans.__("The kernel is running a cell and takes no messages until it ends. Claude will be there then."))] : [];
    case "lost":
      return [
        head(trans.__("The kernel is gone")),
        line(chat.problem?.message ?? "", trans.__("It has died or was shut down.")),
        actions(button(trans.__("Try again"), () => { deps.again(); }), button(trans.__("Start a kernel here"), () => { deps.startKernel(); })),
      ];
    case "missing":
    case "unsupported":
      return packageNote(chat, deps);
    default:
      return chat.connection satisfies never;
  }
}

/** The package is not there, does not load, or is not the one that this panel goes with. */
function packageNote({ connection, problem }: Chat, deps: ConnectionNoteDeps): Node[] {
  const { trans } = deps;
  const { executable, message } = problem ?? NO_PROBLEM;
  const again = button(trans.__("Try again"), () => { deps.again(); }, { class: "primary" });
  if (connection === "unsupported") return [...versionNote(problem ?? NO_PROBLEM, deps.trans), actions(again, button(trans.__("Restart kernel"), () => { deps.restart(); }))];
  if (message) return [head(trans.__("Cellwright does not load in this kernel")), code(message), actions(again)];
  return [
    head(trans.__("This kernel has no Cellwright")),
    line(trans.__("Install it for the kernel's Python, then try again:")),
    command(installCommand(executable), trans),
    actions(again),
  ];
}

function versionNote({ executable, version, protocol }: ConnectionProblem, trans: Trans): Node[] {
  const theirs = version ? trans.__("version %1", version) : trans.__("an unknown version");
  const title = head(trans.__("Another version of Cellwright"));
  const versions = trans.__("The kernel has %1 (protocol %2), this page speaks protocol %3.", theirs, protocol, CHAT_PROTOCOL);
  if (protocol > CHAT_PROTOCOL) {
    return [title, line(`${versions} ${trans.__("Reload the page; if that does not help, upgrade Cellwright where JupyterLab runs.")}`)];
  }
  return [title, line(`${versions} ${trans.__("Upgrade it, then restart the kernel:")}`), command(`${installCommand(executable)} --upgrade`, trans)];
}

function command(text: string, trans: Trans): HTMLElement {
  const box = element("div", { class: "command" }, element("code", { tabindex: "0" }, text), copyButton(() => text, trans.__("Copy the command")));
  box.setAttribute("aria-label", trans.__("Command to install it"));
  box.setAttribute("role", "group");
  return box;
}

function head(text: string): HTMLElement {
  return element("h3", {}, text);
}

function line(text: string, otherwise = ""): HTMLElement {
  return element("p", {}, text === "" ? otherwise : text);
}

function code(text: string): HTMLElement {
  return element("pre", { tabindex: "0" }, text);
}

function actions(...buttons: HTMLButtonElement[]): HTMLElement {
  return element("div", { class: "actions" }, ...buttons);
}

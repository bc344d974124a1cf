/** The panel without a conversation: examples and keys where it is empty, the reason where there is no connection. */

import { copyButton } from "../../transcript/clipboard";
import { button, element } from "../../transcript/dom";
import type { Trans } from "../../translation";
import type { Chat, ConnectionProblem } from "../../transport/chat";
import { CHAT_PROTOCOL } from "../../transport/chat_protocol";
import { NO_PROBLEM } from "../../transport/load_extension";
import { icon } from "../icons";
import { baseName } from "../kernel_choice";

export type EmptyStateDeps = { readonly trans: Trans; compose(text: string): void; startKernel(): void; readonly shortcut: string };

export type EmptyState = { readonly node: HTMLElement; update(chat: Chat): void };

export function emptyState(deps: EmptyStateDeps): EmptyState {
  const { trans } = deps;
  const about = element("p", { class: "about" });
  const list = element("ul", { class: "examples", "aria-label": trans.__("Examples") });
  const keys = element("p", { class: "keys" }, ...keyLine(deps));
  const node = element("div", { class: "first" }, icon("claude"), element("h3", {}, trans.__("Ask Claude")), about, list, keys);
  let shown = "";
  return {
    node,
    update(chat) {
      node.hidden = chat.runs.length > 0 || !["connected", "none"].includes(chat.connection);
      const notebook = chat.kernelInfo?.notebook ?? null;
      const now = `${chat.connection} ${notebook}`;
      if (now === shown) return;
      shown = now;
      about.textContent = aboutText(chat, trans);
      list.replaceChildren(...examples(notebook !== null, trans).map((text) => element("li", {}, button(text, () => { deps.compose(text); }))));
      if (chat.connection === "none") list.append(element("li", {}, button(trans.__("Start a kernel in this folder"), () => { deps.startKernel(); }, { class: "start" })));
    },
  };
}

function aboutText({ kernelInfo, connection }: Chat, trans: Trans): string {
  if (connection === "none") return trans.__("No notebook with a Python kernel is open. Your first prompt starts a kernel in the file browser's folder.");
  if (kernelInfo && kernelInfo.notebook !== null) return trans.__("Claude works in the kernel of %1: it sees your variables and cells, and asks before it acts.", baseName(kernelInfo.notebook));
  return trans.__("Claude works in a kernel of its own in this folder, and asks before it acts.");
}

function examples(hasNotebook: boolean, trans: Trans): string[] {
  return hasNotebook
    ? [trans.__("Explain what this notebook does"), trans.__("Look for mistakes in the cells above"), trans.__("Plot what matters in my data")]
    : [trans.__("What is in this folder?"), trans.__("Write a notebook that explores the data here"), trans.__("Run the tests and explain what fails")];
}

function keyLine({ trans, shortcut }: EmptyStateDeps): Node[] {
  const keys: [string, string][] = [["/", trans.__("commands")], ["@", trans.__("files and cells")], ["$", trans.__("variables")]];
  if (shortcut) keys.push([shortcut, trans.__("comes here from anywhere")]);
  return keys.map(([key, meaning]) => element("span", {}, element("kbd", {}, key), ` ${meaning}`));
}

// The note where there is no connection: why, and what to do.

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
      return [line(chat.waitsForCell
        ? trans.__("The kernel is running a cell and can take no message before it ends. Claude comes then.")
        : trans.__("Connecting to the kernel…"))];
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
    command(install(executable), trans),
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
  return [title, line(`${versions} ${trans.__("Upgrade it, then restart the kernel:")}`), command(`${install(executable)} --upgrade`, trans)];
}

function install(executable: string): string {
  const python = executable === "" ? "python" : executable;
  return `${/[\s'"$&;()]/.test(python) ? `"${python}"` : python} -m pip install cellwright`;
}

function command(text: string, trans: Trans): HTMLElement {
  const box = element("div", { class: "command" }, element("code", { tabindex: "0" }, text), copyButton(() => text));
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

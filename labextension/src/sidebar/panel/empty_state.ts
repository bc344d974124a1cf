/** What an empty conversation shows: what one could ask here, and the keys. */

import type { Chat } from "../../transport/chat";
import type { Trans } from "../../composer/composer_deps";
import { button, element } from "../../transcript/dom";
import { icon } from "../icons";
import { nameOf } from "../kernel_choice";

export type FirstWordsDeps = { readonly trans: Trans; compose(text: string): void; startKernel(): void; readonly shortcut: string };

export type FirstWords = { readonly node: HTMLElement; update(chat: Chat): void };

export function firstWords(deps: FirstWordsDeps): FirstWords {
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
      const notebook = chat.place?.notebook ?? null;
      const now = `${chat.connection} ${notebook}`;
      if (now === shown) return;
      shown = now;
      about.textContent = aboutText(chat, trans);
      list.replaceChildren(...examples(notebook !== null, trans).map((text) => element("li", {}, button(text, () => { deps.compose(text); }))));
      if (chat.connection === "none") list.append(element("li", {}, button(trans.__("Start a kernel in this folder"), () => { deps.startKernel(); }, { class: "start" })));
    },
  };
}

function aboutText({ place, connection }: Chat, trans: Trans): string {
  if (connection === "none") return trans.__("No notebook with a Python kernel is open. Your first prompt starts a kernel in the file browser's folder.");
  if (place && place.notebook !== null) return trans.__("Claude works in the kernel of %1: it sees your variables and cells, and asks before it acts.", nameOf(place.notebook));
  return trans.__("Claude works in a kernel of its own in this folder, and asks before it acts.");
}

function examples(hasNotebook: boolean, trans: Trans): string[] {
  return hasNotebook
    ? [trans.__("Explain what this notebook does"), trans.__("Look for mistakes in the cells above"), trans.__("Plot what matters in my data")]
    : [trans.__("What is in this folder?"), trans.__("Write a notebook that explores the data here"), trans.__("Run the tests and explain what fails")];
}

function keyLine({ trans, shortcut }: FirstWordsDeps): Node[] {
  const keys: [string, string][] = [["/", trans.__("commands")], ["@", trans.__("files and cells")], ["$", trans.__("variables")]];
  if (shortcut) keys.push([shortcut, trans.__("comes here from anywhere")]);
  return keys.map(([key, meaning]) => element("span", {}, element("kbd", {}, key), ` ${meaning}`));
}

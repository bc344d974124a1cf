/** Help: every key, every slash command. */

import type { Mount, PanelDeps, PanelSettings, Shortcut } from "../../panel_view";
import { button, element } from "../../transcript/dom";
import { sentence } from "../../transcript/visible_text";
import type { Trans } from "../../translation";
import type { Completion } from "../../transport/chat_protocol";
import css from "./help.css";

export const mountHelp: Mount = (host, chat, deps) => {
  const { trans } = deps;
  const commands = element("div", { class: "commands" });
  const close = button("×", () => { deps.close(); }, { class: "close", "aria-label": trans.__("Close the help") });
  const body = element(
    "div",
    { class: "body", tabindex: "0", role: "group", "aria-label": trans.__("Keys and commands") },
    ...keyTable(trans, deps.settings(), deps.shortcuts()).map((group) => keyGroup(group, trans)),
    element("h3", {}, trans.__("Slash commands")),
    commands,
  );
  const node = element(
    "section",
    { class: "cw-help", "aria-label": trans.__("Claude Help") },
    element("style", {}, css),
    element("div", { class: "top" }, element("h2", {}, trans.__("Help")), close),
    body,
  );
  host.append(node);
  let gone = false;
  let asked = "";
  const look = (): void => {
    const about = `${chat.connection} ${chat.kernelInfo?.kernelId ?? ""}`;
    if (about === asked) return;
    asked = about;
    if (chat.connection !== "connected") {
      commands.replaceChildren(element("p", {}, trans.__("They are listed once the panel is connected to a kernel.")));
      return;
    }
    chat.request("complete", { kind: "command", text: "", notebook: chat.kernelInfo?.notebook ?? "" }).then(
      (found) => { if (!gone && about === asked) commands.replaceChildren(commandTable((found as { items: Completion[] }).items, deps)); },
      (error: unknown) => {
        if (!gone) commands.replaceChildren(element("p", { role: "alert" }, ...sentence(error instanceof Error ? error.message : String(error))));
      },
    );
  };
  const unsubscribe = chat.subscribe(look);
  look();
  body.focus();
  return {
    dispose() {
      gone = true;
      unsubscribe();
      node.remove();
    },
  };
};

function keyGroup({ title, lines }: KeyGroup, trans: Trans): HTMLElement {
  return element("div", {}, element("h3", {}, title), element("table", { "aria-label": title }, element("tbody", {}, ...lines.map((line) => keyRow(line, trans)))));
}

function keyRow({ keys, does }: KeyLine, trans: Trans): HTMLElement {
  const strokes = keyCaps(keys).flatMap((caps, index, { length }) => [
    ...(index ? [index === length - 1 ? trans.__(" or ") : ", "] : []),
    element("span", { class: "stroke" }, ...caps.flatMap((cap, at) => [...(at ? ["+"] : []), element("kbd", {}, cap)])),
  ]);
  return element("tr", {}, element("th", { scope: "row" }, ...strokes), element("td", {}, does));
}

/** The kernel's own list: the user's commands and skills are in it. */
function commandTable(items: readonly Completion[], deps: PanelDeps): HTMLElement {
  const rows = items.map(({ insert, label, about }) => {
    const use = button(label, () => {
      deps.close();
      deps.compose(insert.startsWith("/") ? insert : `/${insert}`);
    }, { class: "use", title: deps.trans.__("Write it into the composer") });
    return element("tr", {}, element("th", { scope: "row" }, use), element("td", {}, ...sentence(about)));
  });
  return element("table", { "aria-label": deps.trans.__("Slash commands") }, element("tbody", {}, ...rows));
}

// All keys of the panel, in one table; what JupyterLab's own registry knows of is read from there.

export type KeyLine = { readonly keys: string; readonly does: string };
export type KeyGroup = { readonly title: string; readonly lines: readonly KeyLine[] };

/** The commands that are used most, in this order; the others follow. */
const COMMON = ["fix-cell", "edit-cell", "explain-cell", "focus-composer", "insert-prompt", "next-change", "previous-change", "explain-output", "ask-about-output"];

function rank({ command }: Shortcut): number {
  const at = COMMON.indexOf(command.slice("cellwright:".length));
  return at < 0 ? COMMON.length : at;
}

export function keyTable(trans: Trans, { sendKey }: Pick<PanelSettings, "sendKey">, shortcuts: readonly Shortcut[]): KeyGroup[] {
  const line = (keys: string, does: string): KeyLine => ({ keys, does });
  const everywhere = new Set(shortcuts.filter(({ inPanel }) => !inPanel).map(({ command, keys }) => `${command} ${keys}`));
  const ofCommands = (inPanel: boolean): KeyLine[] => {
    const keysOf = new Map<string, string[]>();
    for (const { command, keys, label } of [...shortcuts].sort((one, other) => rank(one) - rank(other))) {
      if (everywhere.has(`${command} ${keys}`) === inPanel) continue;
      keysOf.set(label, [...(keysOf.get(label) ?? []), keys]);
    }
    return [...keysOf].map(([label, keys]) => line([...new Set(keys)].join(", "), label));
  };
  return [
    { title: trans.__("Anywhere in JupyterLab"), lines: ofCommands(false) },
    { title: trans.__("Anywhere in the panel"), lines: ofCommands(true) },
    {
      title: trans.__("Composer"),
      lines: [
        line(`${sendKey}, Ctrl+Enter`, trans.__("Send")),
        line(sendKey === "Enter" ? "Shift+Enter" : "Enter", trans.__("A new line")),
        line("Alt+Enter", trans.__("While Claude works: send the other way (steer or queue)")),
        line("ArrowUp, ArrowDown", trans.__("Earlier and later prompts, from the first and the last line")),
        line("Shift+Tab", trans.__("The next permission mode; back through the page if a key brought you here")),
        line("/", trans.__("Slash commands")),
        line("@", trans.__("Mention a file, a cell or an agent")),
        line("$", trans.__("Mention a variable")),
        line("Tab, Enter", trans.__("Insert the selected entry")),
        line("Escape", trans.__("Close the list; twice: stop Claude; otherwise back to the notebook")),
      ],
    },
    {
      title: trans.__("When Claude asks"),
      lines: [
        line("Enter", trans.__("Accept a change of a cell, and run the cell")),
        line("1", trans.__("Allow once, or accept a change; the first answer of a question or a plan")),
        line("2", trans.__("Allow for this session")),
        line("3", trans.__("Always allow: saves the rule shown")),
        line("4, Escape", trans.__("Deny or reject, with a reason if you type one")),
        line("e", trans.__("Edit what Claude wants to run or change before you allow it")),
      ],
    },
    {
      title: trans.__("Sessions"),
      lines: [
        line("ArrowDown, ArrowUp", trans.__("From the search box into the list, and through it")),
        line("Enter", trans.__("Resume")),
        line("F2", trans.__("Rename")),
        line("Delete", trans.__("Delete, after asking")),
        line("ArrowRight, Shift+F10", trans.__("Everything you can do with a session")),
        line("Home, End, PageUp, PageDown", trans.__("Jump through the list")),
      ],
    },
  ].filter(({ lines }) => lines.length > 0);
}

const SHOWN: Readonly<Record<string, string>> = {
  ArrowUp: "↑",
  ArrowDown: "↓",
  ArrowRight: "→",
  Escape: "Esc",
  PageUp: "Page ↑",
  PageDown: "Page ↓",
};

/** The keys of a line, each as its keycaps. */
export function keyCaps(keys: string): string[][] {
  return keys.split(", ").map((stroke) => stroke.split(/(?<=[^+])\+(?=.)/).map((key) => SHOWN[key] ?? key));
}

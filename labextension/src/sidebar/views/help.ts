/** Help: every key, every slash command. */

import type { Completion } from "../../transport/chat_protocol";
import type { Mount, PanelDeps } from "../../panel_view";
import { button, element } from "../../transcript/dom";
import type { KeyGroup, KeyLine } from "../../help/key_table";
import { keyCaps, keyTable } from "../../help/key_table";
import css from "./help.css";

export const mountHelp: Mount = (host, chat, deps) => {
  const { trans } = deps;
  const commands = element("div", { class: "commands" });
  const close = button("×", () => { deps.close(); }, { class: "close", "aria-label": trans.__("Close the help") });
  const body = element(
    "div",
    { class: "body", tabindex: "0", role: "group", "aria-label": trans.__("Keys and commands") },
    ...keyTable(trans, deps.settings(), deps.shortcuts()).map(keyGroup),
    element("h3", {}, trans.__("Slash commands")),
    commands,
  );
  const node = element(
    "section",
    { class: "cw-help", "aria-label": trans.__("Help on Claude") },
    element("style", {}, css),
    element("div", { class: "top" }, element("h2", {}, trans.__("Help")), close),
    body,
  );
  host.append(node);
  let gone = false;
  let asked = "";
  const look = (): void => {
    const about = `${chat.connection} ${chat.place?.kernelId ?? ""}`;
    if (about === asked) return;
    asked = about;
    if (chat.connection !== "connected") {
      commands.replaceChildren(element("p", {}, trans.__("They are listed when the panel is connected to a kernel.")));
      return;
    }
    chat.request("complete", { kind: "command", text: "", notebook: chat.place?.notebook ?? "" }).then(
      (found) => { if (!gone && about === asked) commands.replaceChildren(commandTable((found as { items: Completion[] }).items, deps)); },
      (error: unknown) => {
        if (!gone) commands.replaceChildren(element("p", { role: "alert" }, error instanceof Error ? error.message : String(error)));
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

function keyGroup({ title, lines }: KeyGroup): HTMLElement {
  return element("div", {}, element("h3", {}, title), element("table", { "aria-label": title }, element("tbody", {}, ...lines.map(keyRow))));
}

function keyRow({ keys, does }: KeyLine): HTMLElement {
  const strokes = keyCaps(keys).flatMap((caps, index) => [
    ...(index ? [" "] : []),
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
    return element("tr", {}, element("th", { scope: "row" }, use), element("td", {}, about));
  });
  return element("table", { "aria-label": deps.trans.__("Slash commands") }, element("tbody", {}, ...rows));
}

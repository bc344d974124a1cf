/** All keys of the panel, in one table; what JupyterLab's own registry knows of is read from there. */

import type { Trans } from "../composer/composer_deps";
import type { PanelSettings, Shortcut } from "../panel_view";

export type KeyLine = { readonly keys: string; readonly does: string };
export type KeyGroup = { readonly title: string; readonly lines: readonly KeyLine[] };

export function keyTable(trans: Trans, { sendKey }: Pick<PanelSettings, "sendKey">, shortcuts: readonly Shortcut[]): KeyGroup[] {
  const line = (keys: string, does: string): KeyLine => ({ keys, does });
  const ofCommands = (inPanel: boolean): KeyLine[] => shortcuts.filter((each) => each.inPanel === inPanel).map(({ keys, label }) => line(keys, label));
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
        line("Shift+Tab", trans.__("The next permission mode")),
        line("/", trans.__("Slash commands")),
        line("@", trans.__("Mention a file, a cell or an agent")),
        line("$", trans.__("Mention a variable")),
        line("Tab, Enter", trans.__("Take what is chosen in the list")),
        line("Escape", trans.__("Close the list; twice: stop Claude; else back to the notebook")),
      ],
    },
    {
      title: trans.__("When Claude asks"),
      lines: [
        line("1", trans.__("Allow once; the first answer of a question or a plan")),
        line("2", trans.__("Allow for this session")),
        line("3", trans.__("Always allow: keeps the rule that is shown")),
        line("4, Escape", trans.__("Deny, with a reason if you type one")),
        line("e", trans.__("Edit what Claude wants to run before you allow it")),
      ],
    },
    {
      title: trans.__("Sessions"),
      lines: [
        line("ArrowDown, ArrowUp", trans.__("From the search into the list, and through it")),
        line("Enter", trans.__("Resume")),
        line("F2", trans.__("Rename")),
        line("Delete", trans.__("Delete, after a question")),
        line("ArrowRight, Shift+F10", trans.__("All that can be done with a session")),
        line("Home, End, PageUp, PageDown", trans.__("Far through the list")),
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

/** The last lines of the kernel's log. */

import type { Mount } from "../../panel_view";
import { copyButton } from "../../transcript/clipboard";
import { button, element, setText } from "../../transcript/dom";
import css from "./log_view.css";

const LINES = 500;
/** As the log writes them: a time, then the level. */
const LEVEL = /^\d{4}-\d\d-\d\d [\d:,]+ (WARNING|ERROR|CRITICAL) /;

export const mountLogView: Mount = (host, chat, deps) => {
  const { trans } = deps;
  let lines: readonly string[] = [];
  let asked = 0;
  const status = element("p", { role: "status" });
  const text = element("pre", { tabindex: "0", "aria-label": trans.__("Claude Log"), role: "group" });
  const node = element(
    "section",
    { class: "cw-log", "aria-label": trans.__("Claude Log") },
    element("style", {}, css),
    element(
      "div",
      { class: "top" },
      element("h2", {}, trans.__("Log")),
      button(trans.__("Refresh"), () => { void load(); }),
      copyButton(() => lines.join("\n"), trans.__("Copy the log")),
      button("×", () => { deps.close(); }, { class: "close", "aria-label": trans.__("Close the log") }),
    ),
    status,
    text,
  );
  host.append(node);

  const load = async (): Promise<void> => {
    const mine = ++asked;
    setText(status, trans.__("Reading the log…"));
    let message: string;
    try {
      const found = ((await chat.request("log", { limit: LINES })) as { lines: string[] }).lines;
      if (mine !== asked) return;
      lines = found;
      message = found.length ? "" : trans.__("Nothing has been logged yet.");
    } catch (error) {
      if (mine !== asked) return;
      message = error instanceof Error ? error.message : String(error);
    }
    setText(status, message);
    text.replaceChildren(...lines.map(logLine));
    text.scrollTop = text.scrollHeight;
  };
  void load();
  text.focus();
  return {
    dispose() {
      asked++;
      node.remove();
    },
  };
};

function logLine(line: string): HTMLElement {
  const level = LEVEL.exec(line)?.[1] ?? "";
  return element("span", { class: level ? `line ${level === "WARNING" ? "warning" : "error"}` : "line" }, `${line}\n`);
}

/** The field for a key, in the panel's card and in a cell that waits for one. What is typed goes to the server alone. */

import { addLiveAnswer } from "../../notebook/answers/live_answers";
import { button, element, freshId, setText } from "../../transcript/dom";
import { wantedTitle } from "../../transcript/items/failure";
import type { Trans } from "../../translation";
import { RequestError } from "../../transport/rpc";
import type { KeptKey, ServerApi } from "../../transport/server_api";
import { NO_ROUTE } from "../../transport/server_api";

const KEYS_PAGE = "https://platform.claude.com/settings/keys";

export type KeyFieldDeps = {
  readonly trans: Trans;
  readonly server: Pick<ServerApi, "keepKey">;
  /** Says that the key is being tested; "": no longer. */
  busy(words: string): void;
  /** The server has stored the key. */
  kept(key: KeptKey, words: string): Promise<void> | void;
};

export type KeyField = {
  readonly node: HTMLFormElement;
  focus(): void;
  clear(): void;
  enable(on: boolean): void;
};

export function keyField(deps: KeyFieldDeps, attributes: Record<string, string> = {}): KeyField {
  const { trans } = deps;
  const id = freshId();
  const field = element("input", {
    type: "password", class: "jp-mod-styled", autocomplete: "off", spellcheck: "false", placeholder: "sk-ant-…", id, "aria-describedby": `${id}-problem ${id}-about`,
  });
  const save = element("button", { type: "submit", class: "primary" }, trans.__("Save key"));
  const problem = problemLine(`${id}-problem`);
  const node = element(
    "form",
    attributes,
    element("label", { for: id }, trans.__("API key")),
    element("div", { class: "row" }, field, save),
    problem,
    element("p", { class: "hint", id: `${id}-about` },
      trans.__("We test it, then store it in your system's keyring, or in a file that only you can read. It never goes into a notebook."), " ",
      element("a", { href: KEYS_PAGE, target: "_blank", rel: "noopener noreferrer" }, trans.__("Get a key"))),
  );
  field.addEventListener("input", () => { showProblem(field, problem, ""); });
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    void send();
  });

  async function send(): Promise<void> {
    const key = field.value.trim();
    if (!key || save.disabled) {
      field.focus();
      return;
    }
    save.disabled = true;
    showProblem(field, problem, "");
    deps.busy(trans.__("Testing the key…"));
    try {
      const kept = await deps.server.keepKey(key);
      field.value = "";
      deps.busy("");
      await deps.kept(kept, kept.tried ? trans.__("Key saved in %1.", kept.kept_in) : trans.__("Key saved in %1. Its address cannot test it.", kept.kept_in));
    } catch (error) {
      deps.busy("");
      showProblem(field, problem, problemText(error, trans));
    } finally {
      save.disabled = false;
    }
  }

  return {
    node,
    focus: () => { field.focus(); },
    clear: () => {
      field.value = "";
      showProblem(field, problem, "");
    },
    enable: (on) => {
      for (const each of [field, save]) each.disabled = !on;
    },
  };
}

/** What is wrong with a field, below it; empty while nothing is. */
export function problemLine(id: string): HTMLElement {
  return element("p", { class: "problem", id, role: "alert" });
}

/** Says what is wrong with `field`, which gets the keyboard; "" for nothing. */
export function showProblem(field: HTMLElement, line: HTMLElement, words: string): void {
  setText(line, words);
  if (!words) {
    field.removeAttribute("aria-invalid");
    return;
  }
  field.setAttribute("aria-invalid", "true");
  field.focus();
  // the card scrolls where it is long
  line.scrollIntoView({ block: "nearest" });
}

export function problemText(error: unknown, trans: Trans): string {
  if (error instanceof RequestError && error.code === NO_ROUTE) {
    return trans.__("This server has no Cellwright. Enter the key in a terminal with cellwright auth login.");
  }
  return error instanceof Error ? error.message : String(error);
}

// A cell that waits for a key.

export type CellKeyDeps = {
  readonly trans: Trans;
  readonly server: Pick<ServerApi, "keepKey">;
  /** Opens another way in the panel. */
  way(way: "cloud" | "subscription" | "demo"): void;
  /** The user wants none now: the cell of `host` need not wait. */
  later(host: HTMLElement): void;
};

/** The cards of cells that wait for a key, in the page or just gone from it. */
const waiting = new Set<WeakRef<HTMLElement>>();
/** Sent to the document when a cell begins to wait for a key, or no longer does. */
export const CELL_WAITS = "cellwright-cell-waits-for-key";

/** True while a cell of this page waits for a key. */
export function isCellWaiting(): boolean {
  return waitingHosts().length > 0;
}

function waitingHosts(): HTMLElement[] {
  return [...waiting].flatMap((each) => each.deref() ?? []).filter((host) => host.isConnected);
}

/** Brings the field of the cell that waits last into view, with the keyboard in it. */
export function showWaitingCell(): void {
  const field = waitingHosts().at(-1)?.querySelector("input");
  field?.scrollIntoView({ block: "center" });
  field?.focus();
}

/** Draws the field into the card of a cell that waits; it takes the keyboard if the user has just run the cell. */
export function drawCellKey(host: HTMLElement, deps: CellKeyDeps): void {
  const { trans } = deps;
  const status = element("p", { class: "status", role: "status" });
  const ended = (): void => {
    waiting.delete(waits);
    endWait();
    document.dispatchEvent(new Event(CELL_WAITS));
  };
  const leave = (): void => {
    ended();
    for (const each of host.querySelectorAll("button")) each.disabled = true;
    deps.later(host);
  };
  const field = keyField({
    trans, server: deps.server,
    busy: (words) => { setText(status, words); },
    kept: (_, words) => {
      ended();
      field.enable(false);
      setText(status, `${words} ${trans.__("The prompt continues.")}`);
    },
  });
  const waits = new WeakRef(host);
  waiting.add(waits);
  // no run yet, and yet the user is waited for: the status bar says so
  const endWait = addLiveAnswer({ progress: () => (host.isConnected ? "asking" : "starting"), watch: () => () => undefined, stop: leave, needsKey: true }, host, null);
  host.replaceChildren(
    wantedTitle(trans.__("Claude needs a key")),
    field.node,
    element("div", { class: "choices" },
      button(trans.__("Use a cloud"), () => { deps.way("cloud"); }),
      button(trans.__("Use a Claude subscription"), () => { deps.way("subscription"); }),
      button(trans.__("Try the demo"), () => {
        deps.way("demo");
        leave();
      }),
      button(trans.__("Not now"), leave)),
    status,
  );
  host.addEventListener("keydown", (event) => {
    // what is typed here is text: the notebook may not take it for keys of its own. The page's commands still count
    if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
  });
  requestAnimationFrame(() => {
    document.dispatchEvent(new Event(CELL_WAITS));
    if (isJustRun(host)) field.focus();
  });
}

/** The cell of `host` runs, and nobody writes outside its notebook. */
function isJustRun(host: HTMLElement): boolean {
  const outer = outermost(host);
  const runs = outer.closest(".jp-Cell")?.querySelector(".jp-InputPrompt")?.textContent.includes("*") ?? false;
  const { activeElement } = document;
  return runs && (!activeElement || activeElement === document.body || (outer.closest(".jp-NotebookPanel")?.contains(activeElement) ?? false));
}

function outermost(node: Element): Element {
  const root = node.getRootNode();
  return root instanceof ShadowRoot ? outermost(root.host) : node;
}

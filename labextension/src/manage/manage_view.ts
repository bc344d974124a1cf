/** The screen "Manage": settings, rules, MCP servers, skills, agents and plugins of the conversation's folder, by clicks. */

import type { JsonObject } from "../json";
import type { Disposable, Mount, PanelDeps } from "../panel_view";
import { button, element, freshId, setText } from "../transcript/dom";
import { sentence } from "../transcript/visible_text";
import type { Chat } from "../transport/chat";
import { definitionsSection } from "./definitions_section";
import css from "./manage.css";
import type { Screen } from "./parts";
import { pluginsSection } from "./plugins_section";
import type { Done, Report } from "./report";
import { shownPath } from "./report";
import { rulesSection } from "./rules_section";
import { serversSection } from "./servers_section";
import { panelSection, settingsSection } from "./settings_section";

/** Connecting a server, or finding where to sign in, may take a while. */
const TIMEOUT_MS = 60_000;

type Tab = { readonly name: string; draw(screen: Screen): HTMLElement[] };

export const mountManage: Mount = (host, chat, deps) => new ManageView(host, chat, deps, 0);
/** The same, with its last tab open. */
export const mountSettings: Mount = (host, chat, deps) => new ManageView(host, chat, deps, -1);

class ManageView implements Disposable {
  private readonly tabs: readonly Tab[];
  private readonly tabButtons: HTMLButtonElement[];
  private readonly status = element("p", { class: "status", role: "status" });
  private readonly problem = element("p", { class: "problem", role: "alert", hidden: "" });
  private readonly body: HTMLElement;
  private readonly screen: Screen;
  private readonly unsubscribe: () => void;
  private report: Report | null = null;
  private tab = 0;
  private about = "";
  private shown = "";

  constructor(
    private readonly host: HTMLElement,
    private readonly chat: Chat,
    private readonly deps: PanelDeps,
    first: number,
  ) {
    const { trans } = deps;
    this.tabs = [
      { name: trans.__("Rules"), draw: rulesSection },
      { name: trans.__("MCP"), draw: serversSection },
      { name: trans.__("Skills"), draw: (screen) => definitionsSection(screen, "skill") },
      { name: trans.__("Agents"), draw: (screen) => definitionsSection(screen, "agent") },
      { name: trans.__("Plugins"), draw: pluginsSection },
      { name: trans.__("Settings"), draw: settingsSection },
    ];
    const id = freshId();
    this.body = element("div", { class: "body", role: "tabpanel", id, tabindex: "-1" });
    this.tabButtons = this.tabs.map(({ name }, at) =>
      button(name, () => { this.open(at); }, { role: "tab", id: `${id}-${at}`, "aria-controls": id, "aria-selected": "false", tabindex: "-1" }));
    const tablist = element("div", { class: "tabs", role: "tablist", "aria-label": trans.__("Manage") }, ...this.tabButtons);
    tablist.addEventListener("keydown", (event) => { this.tabKey(event); });
    this.screen = this.makeScreen();
    host.append(
      element(
        "section",
        { class: "cw-manage", "aria-label": trans.__("Manage") },
        element("style", {}, css),
        element("div", { class: "top" }, element("h2", {}, trans.__("Manage")), this.status, button("×", () => { deps.close(); }, { class: "close", "aria-label": trans.__("Close Manage") })),
        tablist, this.problem, this.body,
      ),
    );
    this.open((first + this.tabs.length) % this.tabs.length);
    this.tabButtons[this.tab]?.focus();
    this.unsubscribe = chat.subscribe(() => { this.chatChanged(); });
    this.chatChanged();
  }

  dispose(): void {
    this.unsubscribe();
    this.host.replaceChildren();
  }

  private makeScreen(): Screen {
    const { deps } = this;
    return {
      trans: deps.trans,
      deps,
      report: () => {
        if (!this.report) throw new Error("nothing is shown before it is known");
        return this.report;
      },
      change: (what, params) => this.change(what, params),
      read: async (what, params) => {
        // a sign-in is begun by what changes nothing on the screen
        const method = what === "sign_in" ? "manage_change" : "manage_read";
        return this.attempt(() => this.chat.request(method, { what, ...params }, TIMEOUT_MS));
      },
      command: async (text) => {
        deps.close();
        await this.attempt(() => this.chat.prompt({ text, attachments: [], context: "none", cell: null, options: {} }));
      },
    };
  }

  /** Another kernel, or the first: what is configured there is read. */
  private chatChanged(): void {
    const { connection, kernelInfo } = this.chat;
    const about = `${connection} ${kernelInfo?.kernelId ?? ""}`;
    if (about === this.about) return;
    this.about = about;
    this.report = null;
    if (connection === "connected") void this.load();
    else this.draw();
  }

  private async load(): Promise<void> {
    this.say(this.deps.trans.__("Reading the settings…"));
    const report = (await this.attempt(() => this.chat.request("manage", {}, TIMEOUT_MS))) as Report | null;
    this.say("");
    if (report) this.take(report);
  }

  private async change(what: string, params: JsonObject): Promise<Done | null> {
    const { trans } = this.deps;
    const asked = document.activeElement?.closest<HTMLElement>("[data-row]")?.dataset.row;
    const before = new Set(this.rows.map(({ dataset }) => dataset.row));
    this.say(trans.__("Saving…"));
    const done = (await this.attempt(() => this.chat.request("manage_change", { what, ...params }, TIMEOUT_MS))) as Done | null;
    this.say("");
    // the form that asked for it goes first, and gives the focus back
    if (done) {
      queueMicrotask(() => {
        this.take(done.report);
        const changed = this.rows.find(({ dataset }) => !before.has(dataset.row)) ?? this.rows.find(({ dataset }) => dataset.row === asked);
        this.showSaved(done.file ? trans.__("Saved in %1", shownPath(done.report, done.file)) : trans.__("Done"), changed);
      });
    }
    return done;
  }

  private get rows(): HTMLElement[] {
    return [...this.body.querySelectorAll<HTMLElement>("[data-row]")];
  }

  /** Says at the changed row, for a moment, where it is saved; at the top if the row is gone. Screen readers hear it once. */
  private showSaved(words: string, row: HTMLElement | undefined): void {
    this.say(words);
    this.status.classList.add("brief");
    if (!row) return;
    this.status.classList.add("unseen");
    const line = element("p", { class: "saved brief", "aria-hidden": "true" }, words);
    (row.querySelector(".acts") ?? row).append(line);
    line.scrollIntoView({ block: "nearest" });
  }

  private say(words: string): void {
    this.status.classList.remove("unseen", "brief");
    setText(this.status, words);
  }

  private async attempt(work: () => Promise<unknown>): Promise<unknown> {
    this.problem.hidden = true;
    try {
      return await work();
    } catch (error) {
      this.problem.hidden = false;
      this.problem.replaceChildren(...sentence(error instanceof Error ? error.message : String(error)));
      this.problem.scrollIntoView({ block: "nearest" });
      return null;
    }
  }

  private take(report: Report): void {
    this.report = report;
    const now = JSON.stringify(report);
    if (now === this.shown && this.body.childElementCount) return;
    this.shown = now;
    this.draw();
  }

  private open(at: number): void {
    this.tab = at;
    this.tabButtons.forEach((each, index) => {
      each.setAttribute("aria-selected", `${index === at}`);
      each.tabIndex = index === at ? 0 : -1;
    });
    this.body.setAttribute("aria-labelledby", this.tabButtons[at]?.id ?? "");
    this.problem.hidden = true;
    // it is about what was changed in another tab
    this.say("");
    this.draw();
  }

  private draw(): void {
    const key = (document.activeElement as HTMLElement | null)?.dataset.key;
    const inBody = this.body.contains(document.activeElement);
    const tab = this.tabs[this.tab];
    if (this.report && tab) this.body.replaceChildren(...tab.draw(this.screen), ...this.notices());
    else if (this.tab === this.tabs.length - 1) this.body.replaceChildren(panelSection(this.screen));
    else this.body.replaceChildren(...(this.chat.connection === "connected" ? [] : this.withoutKernel()));
    if (!inBody) return;
    const again = [...this.body.querySelectorAll<HTMLElement>("[data-key]")].find(({ dataset }) => dataset.key === key);
    (again ?? this.tabButtons[this.tab])?.focus();
  }

  private withoutKernel(): HTMLElement[] {
    const { trans } = this.deps;
    const about = element("p", { class: "about" }, trans.__("Rules, servers, skills and plugins belong to a folder, and a kernel there reads them."));
    // one that is on its way needs no second
    return this.chat.connection === "connecting" ? [about] : [about, button(trans.__("Start a kernel in this folder"), () => { this.deps.startKernel(); }, { class: "primary" })];
  }

  private notices(): HTMLElement[] {
    const notices = this.report?.notices ?? [];
    return notices.length ? [element("ul", { class: "plain note" }, ...notices.map((text) => element("li", {}, ...sentence(text))))] : [];
  }

  private tabKey(event: KeyboardEvent): void {
    const last = this.tabs.length - 1;
    const to = { ArrowRight: this.tab === last ? 0 : this.tab + 1, ArrowLeft: this.tab === 0 ? last : this.tab - 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.open(to);
    this.tabButtons[to]?.focus();
  }
}

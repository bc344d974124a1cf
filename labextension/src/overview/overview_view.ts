/** All sessions on one screen: what runs, waits and asks in every kernel of this server. */

import type { Disposable, Mount, PanelDeps } from "../panel_view";
import { button, element, setText } from "../transcript/dom";
import { dollars, wholeSeconds } from "../transcript/format";
import { revealed, sentence } from "../transcript/visible_text";
import css from "./overview.css";
import type { KernelOverview, KernelRow, OverviewFeed, OverviewRun, OverviewTask } from "./overview_feed";
import { inOrder, nameOf } from "./overview_feed";

const TICK_MS = 1_000;

export const mountOverview: Mount = (host, _chat, deps) => new OverviewView(host, deps);

class OverviewView implements Disposable {
  private readonly feed: OverviewFeed;
  private readonly status = element("p", { class: "status", role: "status" });
  private readonly problem = element("p", { class: "problem", role: "alert", hidden: "" });
  private readonly list = element("ul", { class: "rows" });
  private readonly desktop: HTMLInputElement;
  private readonly release: () => void;
  private readonly ticking: ReturnType<typeof setInterval>;
  private drawn = "";
  private clocks: (() => void)[] = [];

  constructor(
    private readonly host: HTMLElement,
    private readonly deps: PanelDeps,
  ) {
    const { trans } = deps;
    this.feed = deps.overview();
    this.desktop = element("input", { type: "checkbox" });
    this.desktop.addEventListener("change", () => { deps.setSetting("desktopNotifications", this.desktop.checked); });
    const close = button("×", () => { deps.close(); }, { class: "close", "aria-label": trans.__("Close the list of sessions") });
    const heading = element("h2", { tabindex: "-1" }, trans.__("All sessions"));
    host.append(
      element(
        "section",
        { class: "cw-overview", "aria-label": trans.__("All sessions") },
        element("style", {}, css),
        element("div", { class: "top" }, heading, close),
        this.status,
        this.problem,
        this.list,
        element("label", { class: "desktop" }, this.desktop, trans.__("Desktop notifications when Claude needs you or finishes out of sight")),
      ),
    );
    heading.focus();
    this.release = this.feed.use(() => { this.draw(); }, true);
    this.ticking = setInterval(() => { for (const tick of this.clocks) tick(); }, TICK_MS);
    this.draw();
  }

  dispose(): void {
    clearInterval(this.ticking);
    this.release();
    this.host.replaceChildren();
  }

  private draw(): void {
    const { trans } = this.deps;
    const { rows, loaded, problem } = this.feed;
    const settings = this.deps.settings();
    this.desktop.checked = settings.desktopNotifications;
    this.desktop.disabled = settings.notifications === "never";
    setText(this.status, problem ? trans.__("The sessions could not be read: %1", problem) : statusOf(rows, loaded, (text, ...more) => trans.__(text, ...more)));
    const now = JSON.stringify(rows);
    if (now === this.drawn) return;
    this.drawn = now;
    const focused = (document.activeElement as HTMLElement | null)?.dataset.key;
    this.clocks = [];
    this.list.replaceChildren(...inOrder(rows).map((row) => this.row(row)));
    if (focused && !this.list.contains(document.activeElement)) this.refocus(focused);
  }

  /** What had the focus was drawn anew, or is gone: then its kernel's first button takes it. */
  private refocus(key: string): void {
    const buttons = [...this.list.querySelectorAll<HTMLElement>("button")];
    const kernel = key.split(" ")[0] ?? "";
    (buttons.find(({ dataset }) => dataset.key === key) ?? buttons.find(({ dataset }) => dataset.key?.startsWith(kernel)) ?? buttons[0])?.focus();
  }

  private row(row: KernelRow): HTMLElement {
    const { trans } = this.deps;
    const { overview } = row;
    const name = revealed(nameOf(row));
    const open = button(name, () => { this.go(row, "notebook", overview?.runs[0]); }, {
      class: "name", "data-key": `${row.id} open`, title: trans.__("Open %1", name),
    });
    const title = overview?.session.title;
    const head = element("div", { class: "head" }, open, element("span", { class: "facts" }, factsOf(row)));
    const item = element("li", { class: "kernel-row", "data-state": stateOf(row) }, head);
    // a session that nobody has named has the name of its prompt
    if (title && title !== (overview.runs[0] ?? overview.last)?.title) item.append(element("p", { class: "session-title" }, ...sentence(title)));
    if (!overview) item.append(element("p", { class: "quiet" }, row.state === "busy" ? trans.__("A cell is running; the session shows when it is done.") : trans.__("Connecting…")));
    else item.append(this.lines(row, overview, name));
    return item;
  }

  private lines(row: KernelRow, overview: KernelOverview, name: string): HTMLElement {
    const { runs, tasks, last } = overview;
    const lines = [...runs.map((run) => this.runLine(row, run, overview, name)), ...tasks.map((task) => this.taskLine(row, task, name))];
    return element("ul", { class: "lines" }, ...(lines.length ? lines : [this.endLine(last)]));
  }

  private runLine(row: KernelRow, run: OverviewRun, { questions }: KernelOverview, name: string): HTMLElement {
    const { trans } = this.deps;
    const question = run.state === "asking" ? questions[0] : undefined;
    const state = element("span", { class: "state" });
    this.clock(() => { setText(state, this.runState(run)); });
    const line = element("li", { class: "line", "data-state": run.state }, element("span", { class: "what" }, ...placed(run)), state);
    const acts = element("span", { class: "acts" }, this.stopButton(row, run.id, run.title, name));
    if (question) {
      line.append(element("span", { class: "question" }, revealed(question.title), " ", element("code", {}, revealed(question.about))));
      acts.prepend(button(trans.__("Answer"), () => { this.go(row, "panel", run); }, { class: "main", "data-key": `${row.id} answer ${run.id}`, "aria-label": trans.__("Answer in %1: %2", name, question.title) }));
    }
    line.append(acts);
    return line;
  }

  private taskLine(row: KernelRow, task: OverviewTask, name: string): HTMLElement {
    const { trans } = this.deps;
    const state = element("span", { class: "state" });
    this.clock(() => { setText(state, trans.__("running for %1", wholeSeconds(this.now() - task.began))); });
    const kind = task.kind === "agent" ? trans.__("Agent") : trans.__("Background command");
    const what = element("span", { class: "what" }, `${kind}: `, element("code", {}, revealed(task.title)));
    return element("li", { class: "line", "data-state": "running" }, what, state, element("span", { class: "acts" }, this.stopButton(row, task.id, task.title, name)));
  }

  private endLine(last: OverviewRun | null): HTMLElement {
    const state = element("span", { class: "state" });
    this.clock(() => { setText(state, last ? this.endState(last) : this.deps.trans.__("idle")); });
    const what = last ? [element("span", { class: "what" }, ...placed(last))] : [];
    return element("li", { class: "line", "data-state": last?.state ?? "idle" }, ...what, state);
  }

  private stopButton(row: KernelRow, id: string, title: string, name: string): HTMLButtonElement {
    const { trans } = this.deps;
    return button(trans.__("Stop"), () => { this.stop(row, id); }, { "data-key": `${row.id} stop ${id}`, "aria-label": trans.__("Stop “%1” in %2", title, name) });
  }

  private now(): number {
    return Date.now() / 1000 + this.feed.skew;
  }

  private clock(tick: () => void): void {
    tick();
    this.clocks.push(tick);
  }

  private runState(run: OverviewRun): string {
    const { trans } = this.deps;
    const time = wholeSeconds(this.now() - run.asked);
    if (run.state === "asking") return trans.__("waiting for you · %1", time);
    return run.state === "waiting" ? trans.__("queued for %1", time) : trans.__("running for %1", time);
  }

  private endState(run: OverviewRun): string {
    const { trans } = this.deps;
    const ago = run.ended === null ? "" : wholeSeconds(this.now() - run.ended);
    switch (run.state) {
      case "failed":
        return ago ? trans.__("failed %1 ago", ago) : trans.__("failed");
      case "interrupted":
        return ago ? trans.__("stopped %1 ago", ago) : trans.__("stopped");
      default:
        return ago ? trans.__("ended %1 ago", ago) : trans.__("idle");
    }
  }

  private stop(row: KernelRow, id: string): void {
    this.attempt(this.feed.stop(row.id, id));
  }

  private go(row: KernelRow, where: "notebook" | "panel", run: OverviewRun | undefined): void {
    this.attempt(this.deps.goToKernel(row, where, run ?? null));
  }

  private attempt(work: Promise<unknown>): void {
    this.problem.hidden = true;
    work.catch((error: unknown) => {
      this.problem.hidden = false;
      setText(this.problem, error instanceof Error ? error.message : String(error));
    });
  }
}

function stateOf({ overview }: KernelRow): "asking" | "working" | "idle" {
  if (overview?.questions.length) return "asking";
  return overview?.runs.length || overview?.tasks.length ? "working" : "idle";
}

/** Tells notebooks of one name apart. */
function folderOf({ path, type }: KernelRow): string {
  return type === "notebook" && path.includes("/") ? revealed(path.slice(0, path.lastIndexOf("/"))) : "";
}

function placed(run: OverviewRun): Node[] {
  return sentence(run.place.startsWith("[") ? `${run.place} ${run.title}` : run.title);
}

export function statusOf(rows: readonly KernelRow[], loaded: boolean, words: (text: string, ...more: (string | number)[]) => string): string {
  if (!loaded) return words("Looking for sessions…");
  if (!rows.length) return words("No kernel of this server has loaded Cellwright yet.");
  const asking = rows.reduce((sum, { overview }) => sum + (overview?.questions.length ?? 0), 0);
  const working = rows.filter((row) => stateOf(row) === "working").length;
  const kernels = rows.length === 1 ? words("1 kernel") : words("%1 kernels", rows.length);
  return [asking > 0 ? words("%1 waiting for you", asking) : "", working > 0 ? words("%1 at work", working) : "", kernels].filter((each) => each).join(" · ");
}

/** Where it is, its kernel and its cost. */
function factsOf(row: KernelRow): string {
  const cost = row.overview?.session.cost_usd;
  return [folderOf(row), row.name, cost ? dollars(cost) : ""].filter((each) => each).join(" · ");
}

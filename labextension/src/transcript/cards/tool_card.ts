/** One tool call: what it is, how it goes, what came of it; the question about it while there is one. */

import { callInput } from "../call_input";
import { decisionLine, isNews } from "../decision_line";
import { diffView } from "./diff";
import { display } from "../display";
import { button, element, freshId, setText } from "../dom";
import { count, duration, wholeSeconds } from "../format";
import type { ItemView, Place } from "../items/item_view";
import type { CallStatus, ToolItem } from "../items";
import { isOver } from "../items";
import type { LiveOutput } from "../live_output";
import { liveOutput } from "../live_output";
import { planText } from "../plan_text";
import { questionList } from "../question_list";
import { terminalText } from "../terminal_text";
import { LIST_TOOLS } from "../items/todo_list";
import { revealed } from "../visible_text";

const DIFF_LINES = 40;
const ERROR_LINES = 8;

const WORDS: Record<CallStatus | "asking", string> = {
  asking: "asks",
  writing: "writing",
  waiting: "waiting",
  running: "running",
  success: "done",
  error: "failed",
  timeout: "timed out",
  denied: "denied",
  interrupted: "interrupted",
  untold: "",
};

export function toolCard(item: ToolItem, place: Place): ItemView {
  const titleId = freshId();
  const name = element("b");
  const title = element("span", { class: "title" });
  const status = element("span", { class: "status" });
  const time = element("span", { class: "time" });
  const summary = element("summary", {}, element("span", { class: "call", id: titleId }, name, " ", title), status, time);
  const inside = element("div", { class: "inside" });
  const fold = element("details", { class: "fold" }, summary, inside);
  const questions = questionList(item, place);
  const outcome = element("div", { class: "outcome" });
  const node = element("section", { class: "tool", "aria-labelledby": titleId }, fold, questions.node, outcome);

  let live: LiveOutput | null = null;
  let displays = 0;
  let told = false;
  let settled = false;
  let filled = "";

  const tick = (): void => {
    setText(time, timeText(item, place.store.now()));
  };
  const fill = (): void => {
    const key = `${item.status} ${item.input === null ? "" : "input"} ${item.decided?.behavior ?? ""}`;
    if (!fold.open || key === filled) return;
    filled = key;
    inside.replaceChildren(...insideParts(item));
  };
  const showNews = (): void => {
    for (const data of item.displays.slice(displays)) outcome.append(display(data));
    displays = item.displays.length;
    if (told || !isNews(item.decided)) return;
    told = true;
    fold.after(decisionLine(item.decided));
  };
  fold.addEventListener("toggle", fill);
  return {
    node,
    tick,
    update() {
      const asking = questions.update();
      setText(name, item.name || "Tool");
      setText(title, shortTitle(item));
      const now = asking ? "asking" : item.status;
      setText(status, WORDS[now]);
      node.dataset.status = now;
      fold.hidden = asking;
      node.hidden = !asking && isInList(item);
      tick();
      fill();
      showNews();
      if (item.status === "running") {
        live = updateLive(item, live, fold, place);
      } else if (isOver(item.status) && !settled) {
        settled = true;
        live?.node.remove();
        node.querySelector(".stuck")?.remove();
        outcome.append(...outcomeParts(item));
      }
    },
    dispose: () => {
      questions.dispose();
    },
  };
}

/** The title without the tool's name, which stands before it. */
function shortTitle(item: ToolItem): string {
  const { title, name } = item;
  return revealed(title.startsWith(name) ? title.slice(name.length).replace(/^:?\s*/, "") : title);
}

function timeText(item: ToolItem, now: number): string {
  if (item.status === "running") return wholeSeconds(now - item.at);
  if (item.status === "writing") return item.chars > 0 ? `${count(item.chars)} characters` : "";
  return isOver(item.status) && item.ms >= 1 ? duration(item.ms / 1000) : "";
}

/** Whether all that the call does is seen in the list of todos. */
function isInList({ name, status }: ToolItem): boolean {
  return LIST_TOOLS.has(name) && ["writing", "waiting", "running", "success"].includes(status);
}

function insideParts(item: ToolItem): HTMLElement[] {
  const parts: HTMLElement[] = [];
  if (item.decided && !isNews(item.decided)) parts.push(decisionLine(item.decided));
  const plan = planOf(item);
  if (plan) return [...parts, planText(plan)];
  if (item.input !== null) parts.push(element("p", { class: "label" }, "Input"), callInput(item.input));
  const result = isOver(item.status) ? item.result || item.output : "";
  if (result) {
    parts.push(
      element("p", { class: "label" }, "Result"),
      element("pre", { class: "output", tabindex: "0", role: "region", "aria-label": "Result" }, terminalText(result)),
    );
  }
  return parts;
}

/** The plan of a call that ends plan mode, as it was approved. */
function planOf({ name, input, questions }: ToolItem): string {
  if (name !== "ExitPlanMode") return "";
  const proposed = typeof input === "object" && input !== null && !Array.isArray(input) ? input.plan : "";
  const plan = questions.at(-1)?.answer?.input?.plan ?? proposed;
  return typeof plan === "string" ? plan : "";
}

function updateLive(item: ToolItem, live: LiveOutput | null, fold: HTMLElement, place: Place): LiveOutput | null {
  if (item.stuck && !fold.parentElement?.querySelector(".stuck")) fold.after(stuckNotice(item, place));
  if (!item.output) return live;
  const box = live ?? liveOutput();
  if (!live) fold.after(box.node);
  box.update(item.output);
  return box;
}

/** What stays visible of a call that has ended. */
function outcomeParts(item: ToolItem): HTMLElement[] {
  const parts: HTMLElement[] = [];
  if (item.diff) parts.push(diffView(item.diff, DIFF_LINES));
  if (item.error && item.status !== "denied") {
    const lines = terminalText(item.error.message).trimEnd().split("\n");
    // of a traceback the end tells most; the whole is in the result
    const text = lines.length > ERROR_LINES ? ["…", ...lines.slice(-ERROR_LINES)] : lines;
    parts.push(element("pre", { class: "output error", tabindex: "0", role: "region", "aria-label": item.error.code }, text.join("\n")));
  }
  return parts;
}

function stuckNotice(item: ToolItem, place: Place): HTMLElement {
  let sure = false;
  const restart = button("Restart the kernel", () => {
    if (sure) place.send({ type: "restart" });
    setText(restart, sure ? "Restarting…" : "Press again to restart");
    restart.disabled = sure;
    sure = true;
  }, { class: "deny" });
  return element("div", { class: "notice warning stuck", role: "alert" }, element("span", {}, item.stuck), restart);
}

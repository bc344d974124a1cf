/** One tool call: what it is, how it goes, what came of it; the question about it while there is one. */

import type { Json, JsonObject } from "../../json";
import { showCode } from "../code/colored_code";
import { button, element, SEARCHED, setText } from "../dom";
import { count, duration, lineCounts, SHOWN_MS, wholeSeconds } from "../format";
import type { ItemView, TranscriptContext } from "../items/item_view";
import { isInList } from "../items/todo_list";
import { fileLink, resultWithFiles } from "../markdown/file_link";
import { isInlineImage } from "../markdown/markdown_dom";
import { hasPageActions, request } from "../items/page_actions";
import type { Behavior, DecidedOp } from "../protocol";
import type { CallStatus, Question, ToolItem } from "../store";
import { isOver } from "../store";
import { revealed, sentence, visibleText } from "../visible_text";
import type { AgentView, ShownAgentState } from "./agent_card";
import { agentCard, agentTime, isThinking, shownState } from "./agent_card";
import { changedLines, diffView, firstChange, numberedLines } from "./diff";
import { picture } from "./picture";
import { answeredLine, isPlainApproval, planText, questionList } from "./question_card";

const FOLDED_DIFF_LINES = 40;
const ERROR_LINES = 8;
const PLAN_TOOL = "ExitPlanMode";
/** As in terminal/views/run_lines.py. */
const SHOWN_ESTIMATE_SECONDS = 2;
const STATUS_LABELS: Record<CallStatus | "asking", string> = {
  asking: "asks",
  writing: "writing",
  waiting: "waiting",
  running: "running",
  success: "done",
  error: "failed",
  timeout: "timed out",
  denied: "denied",
  interrupted: "stopped",
  untold: "",
};

const AGENT_LABELS: Record<ShownAgentState, string> = {
  working: "working",
  background: "in the background",
  done: "done",
  failed: "failed",
  stopped: "stopped",
};
/** The looks of an agent's states are those of calls. */
const AGENT_STATUS: Record<ShownAgentState, CallStatus> = {
  working: "running",
  background: "running",
  done: "success",
  failed: "error",
  stopped: "interrupted",
};

export function toolCard(item: ToolItem, place: TranscriptContext): ItemView {
  const name = element("b");
  const purpose = element("span", { class: "purpose" });
  const title = element("span", { class: "title" });
  const lines = element("span", { class: "lines" });
  const approved = approvalMark();
  const status = element("span", { class: "status" });
  const time = element("span", { class: "time" });
  const call = element("span", { class: "call" }, name, " ", title, purpose);
  const summary = element("summary", {}, call, lines, approved.node, status, time);
  const inside = element("div", { class: "inside" });
  const fold = element("details", { class: "fold" }, summary, inside);
  const questions = questionList(item, place);
  const outcome = element("div", { class: "outcome" });
  const node = element("div", { class: "tool" }, fold, questions.node, outcome);

  let live: LiveOutput | null = null;
  let displays = 0;
  const agents: AgentView[] = [];
  let told = false;
  let settled = false;
  let filled = "";

  const tick = (): void => {
    const agent = item.agents.at(-1);
    setText(time, agent ? agentTime(agent, place.store) : timeText(item, place.store.now()));
    for (const each of agents) each.tick();
  };
  const fill = (event?: Event): void => {
    const approvals = item.questions.filter(isPlainApproval).length;
    const key = `${item.status} ${item.input === null ? "" : "input"} ${item.decided?.behavior ?? ""} ${approvals}`;
    if ((!fold.open && event?.type !== SEARCHED) || key === filled) return;
    filled = key;
    inside.replaceChildren(...insideParts(item));
  };
  const showAgents = (): void => {
    for (const agent of item.agents.slice(agents.length)) {
      const shown = agentCard(agent, place);
      agents.push(shown);
      questions.node.before(shown.node);
    }
    for (const each of agents) each.update();
  };
  const showNews = (): void => {
    for (const data of item.displays.slice(displays)) outcome.append(display(data));
    displays = item.displays.length;
    // a plan that was sent back says so itself
    if (told || item.name === PLAN_TOOL || !isNotable(item.decided)) return;
    told = true;
    fold.after(decisionLine(item.decided));
  };
  const settle = (): void => {
    settled = true;
    // who has accepted a change knows it
    fold.open ||= Boolean(item.diff) && !wasAccepted(item);
    fill();
    live?.node.remove();
    node.querySelector(".stuck")?.remove();
    outcome.append(...outcomeParts(item));
  };
  for (const asked of ["toggle", SEARCHED]) fold.addEventListener(asked, fill);
  return {
    node,
    tick,
    update() {
      const asking = questions.update();
      const titled = titleParts(item);
      setText(name, titled.name);
      setText(purpose, titled.purpose);
      setText(title, titled.what);
      // where there is no room for it
      call.title = titled.purpose.trim();
      const changed = changedLines(item);
      setText(lines, changed ? lineCounts(changed.added, changed.removed) : "");
      approved.update(item.questions);
      const now = looks(item, asking, place);
      setText(status, now.label);
      node.dataset.status = now.status;
      node.classList.toggle("of-agent", item.agents.length > 0);
      // an agent's questions come and go below what it does
      fold.hidden = asking && item.agents.length === 0;
      showAgents();
      node.hidden = !asking && isInList(item);
      tick();
      fill();
      showNews();
      if (item.status === "running") {
        live = updateLive(item, live, fold, place);
      } else if (isOver(item.status) && !settled) {
        settle();
      }
    },
    dispose: () => {
      questions.dispose();
    },
  };
}

/** True where the user has seen the change and said yes to it. */
function wasAccepted({ questions }: ToolItem): boolean {
  return questions.some((question) => question.ask.detail_kind === "diff" && question.answer?.edited === false && question.answer.behavior === "allow");
}

/** A small shield, whose words say how a call was allowed: "Allowed once in this cell". */
function approvalMark(): { readonly node: HTMLElement; update(questions: readonly Question[]): void } {
  const node = element("span", { class: "approved", role: "img", hidden: "" }, shield());
  return {
    node,
    update(questions) {
      const words = questions.filter(isPlainApproval).map((question) => answeredLine(question).textContent).join("; ");
      node.hidden = words === "";
      if (node.title === words) return;
      node.title = words;
      node.setAttribute("aria-label", words);
    },
  };
}

const SVG = "http://www.w3.org/2000/svg";

function shield(): SVGElement {
  const [node, path] = [document.createElementNS(SVG, "svg"), document.createElementNS(SVG, "path")];
  node.setAttribute("viewBox", "0 0 16 16");
  node.setAttribute("aria-hidden", "true");
  path.setAttribute("d", "M8 1.5 3 3.3v4.1c0 3.2 2 5.7 5 7.1 3-1.4 5-3.9 5-7.1V3.3Zm-2.4 6.4 1.7 1.7 3.2-3.4");
  node.append(path);
  return node;
}

/** The state of a call in a word, and the one that it has the colours of: of its agent, where one works for it. */
function looks(item: ToolItem, asking: boolean, { store }: TranscriptContext): { label: string; status: CallStatus | "asking" } {
  const now = asking ? "asking" : item.status;
  const agent = item.agents.at(-1);
  if (!agent) return { label: now === "denied" && item.name === PLAN_TOOL ? "sent back" : STATUS_LABELS[now], status: now };
  const state = shownState(agent, store);
  return { label: asking ? STATUS_LABELS.asking : state === "working" && isThinking(agent) ? "thinking" : AGENT_LABELS[state], status: AGENT_STATUS[state] };
}

/** The tool's name, or the verb of a title that says what the call does; what it is for, if its author said so; and to what. */
export function titleParts(item: ToolItem): { name: string; purpose: string; what: string } {
  return isAsking(item) ? { name: askedTitle(item), purpose: "", what: "" } : callParts(item);
}

function callParts({ title, name, input }: ToolItem): ReturnType<typeof titleParts> {
  // the name as a word: "Edited a.py" does not begin with the name Edit
  const named = title === "" || (title.startsWith(name) && /^(?:$|[:\s])/.test(title.slice(name.length)));
  // a question has no verb of ours
  const verb = title.endsWith("?") ? "" : (/^\S+(?= )/.exec(title)?.[0] ?? "");
  const first = named ? name : verb;
  const rest = title.slice(first.length).replace(/^:?\s*/, "");
  const purpose = ` (${purposeOf(name, input)})`;
  const what = rest.endsWith(purpose) ? rest.slice(0, -purpose.length) : rest;
  return { name: revealed(title + name === "" ? "Tool" : first), purpose: what === rest ? "" : ` ${revealed(purpose.slice(2, -1))}`, what: revealed(what) };
}

/** "Claude has 2 questions", until they are answered. */
function isAsking({ name, title }: ToolItem): boolean {
  return name === "AskUserQuestion" && title.startsWith("Claude has ");
}

function askedTitle({ title, status }: ToolItem): string {
  return status === "success" ? title.replace("has", "asked") : title;
}

/** As `purposeful` of the package's `text.py` puts it behind what the call is. */
function purposeOf(name: string, input: Json): string {
  const { description, code } = typeof input === "object" && input !== null && !Array.isArray(input) ? input : {};
  const comment = /^(Python|Branch)$/.test(name) && typeof code === "string" ? /^\s*#[#! ]*(.*)/.exec(code)?.[1] : "";
  const said = name === "Bash" && typeof description === "string" ? description : (comment ?? "");
  return said.split(/\s+/).filter(Boolean).join(" ").replace(/[.:]+$/, "");
}

function timeText(item: ToolItem, now: number): string {
  if (item.status === "running") return `${wholeSeconds(now - item.at)}${expected(item.estimate, now - item.at)}`;
  if (item.status === "writing") return item.chars > 0 ? `${count(item.chars)} characters` : "";
  return isOver(item.status) && item.ms >= SHOWN_MS ? duration(item.ms / 1000) : "";
}

/** How long it may take, if that is worth a word and not past. */
function expected(seconds: number | null, since: number): string {
  if (seconds === null || seconds < SHOWN_ESTIMATE_SECONDS) return "";
  return since <= seconds ? ` of about ${wholeSeconds(seconds)}` : `, usually ${wholeSeconds(seconds)}`;
}

function insideParts(item: ToolItem): HTMLElement[] {
  const decided = item.decided && !isNotable(item.decided) ? [decisionLine(item.decided)] : [];
  const shown = [...item.questions.filter(isPlainApproval).map(answeredLine), ...openFile(item)];
  const plan = planOf(item);
  if (plan) return [...decided, ...shown, planText(plan)];
  const exact: HTMLElement[] = item.input === null ? [] : [element("p", { class: "label" }, "Input"), callInput(item.input, item.name)];
  if (isOver(item.status)) exact.push(...resultParts(item));
  if (!item.diff) return [...decided, ...shown, ...exact];
  // the diff says the same
  return [diffView(item.diff, FOLDED_DIFF_LINES), element("div", { class: "beside" }, ...shown, element("details", {}, element("summary", {}, "Details"), ...decided, ...exact))];
}

const PATH_FIELDS = ["file_path", "notebook_path", "path"];

/** A button that opens the file of a call, where the call named one: at the line that it read from, or changed first. */
function openFile({ input, diff }: ToolItem): HTMLElement[] {
  if (!hasPageActions() || !isObject(input)) return [];
  const path = PATH_FIELDS.map((field) => input[field]).find((value) => typeof value === "string");
  // a folder has no ending
  if (typeof path !== "string" || !/\.\w+$/.test(path)) return [];
  const offset = typeof input.offset === "number" ? `${input.offset}` : undefined;
  const line = (diff === null ? undefined : firstChange(diff)) ?? offset;
  const shown = [revealed(path), line].filter((part) => part !== undefined).join(":");
  return [element("p", {}, fileLink(path, line, `Open ${shown}`))];
}

function isObject(value: Json): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function resultParts(item: ToolItem): HTMLElement[] {
  const text = item.result || item.output;
  return text ? [element("p", { class: "label" }, "Result"), resultView(item, terminalText(text)), ...runInKernel(item)] : [];
}

/** What was tried in a copy of the kernel can be run in the kernel, or a variable of it be taken: commands, for the user to send. */
function runInKernel(item: ToolItem): HTMLElement[] {
  const { id, name, status } = item;
  if (name !== "Branch" || status !== "success" || !hasPageActions()) return [];
  const written = { title: "Write the command into Claude's panel" };
  const run = button("Run in my kernel", () => { request(run, { action: "command", command: `/branches run ${id}` }); }, written);
  const keep = button("Keep a variable", () => { request(keep, { action: "command", command: `/branches keep ${lastBound(item)}` }); }, written);
  return [element("p", {}, run, " ", keep)];
}

/** The variable that the code bound last, outside of blocks; "" if it bound none. */
function lastBound({ input }: ToolItem): string {
  const code = isObject(input) && typeof input.code === "string" ? input.code : "";
  return [...code.matchAll(/^([A-Za-z]\w*) *=(?!=)/gm)].at(-1)?.[1] ?? "";
}

/** A result in colours where one can tell what it is: the lines of a file that was read, JSON. */
function resultView({ name, input }: ToolItem, text: string): HTMLElement {
  const attributes = { class: "output", tabindex: "0", role: "group", "aria-label": "Result" };
  const path = typeof input === "object" && input !== null && !Array.isArray(input) ? input.file_path : "";
  if (name === "Read" && typeof path === "string" && NUMBERED.test(text)) {
    return element("pre", { ...attributes, class: "output numbered" }, ...numberedLines(text, path));
  }
  const linked = isJson(text) ? null : resultWithFiles(text);
  if (linked) return element("pre", attributes, ...linked);
  const node = element("pre", attributes);
  showCode(node, text, isJson(text) ? "json" : "");
  return node;
}

const NUMBERED = /^ *\d+\t/;

function isJson(text: string): boolean {
  if (!/^\s*[[{]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The plan of a call that ends plan mode, as it was approved. */
function planOf({ name, input, questions }: ToolItem): string {
  if (name !== PLAN_TOOL) return "";
  const proposed = typeof input === "object" && input !== null && !Array.isArray(input) ? input.plan : "";
  const plan = questions.at(-1)?.answer?.input?.plan ?? proposed;
  return typeof plan === "string" ? plan : "";
}

function updateLive(item: ToolItem, live: LiveOutput | null, fold: HTMLElement, place: TranscriptContext): LiveOutput | null {
  if (item.stuck && !fold.parentElement?.querySelector(".stuck")) fold.after(stuckNotice(item, place));
  if (!item.output) return live;
  const box = live ?? liveOutput();
  if (!live) fold.after(box.node);
  box.update(item.output);
  return box;
}

/** The part of a call that stays visible when it has ended. */
function outcomeParts(item: ToolItem): HTMLElement[] {
  const parts: HTMLElement[] = [];
  const stopped = item.status === "interrupted" || item.agents.some((agent) => agent.state === "stopped");
  if (item.error && item.status !== "denied" && !stopped) {
    const lines = terminalText(item.error.message).trimEnd().split("\n");
    // of a traceback the end tells most; the whole is in the result
    const text = (lines.length > ERROR_LINES ? ["…", ...lines.slice(-ERROR_LINES)] : lines).join("\n");
    parts.push(element("pre", { class: "output error", tabindex: "0", role: "group", "aria-label": item.error.code }, ...(resultWithFiles(text) ?? [text])));
  }
  return parts;
}

function stuckNotice(item: ToolItem, place: TranscriptContext): HTMLElement {
  let sure = false;
  const restart = button("Restart the kernel", () => {
    if (sure) place.send({ type: "restart" });
    setText(restart, sure ? "Restarting…" : "Press again to restart");
    restart.disabled = sure;
    sure = true;
  }, { class: "deny" });
  return element("div", { class: "notice warning stuck", role: "alert" }, element("span", {}, item.stuck), restart);
}

// A call's input, as what was meant: a command or code as text, other fields by name.

export function callInput(input: Json, name: string): HTMLElement {
  if (typeof input !== "object" || input === null || Array.isArray(input)) return textOf(input);
  const language = (field: string): string => inputLanguage(name, field, input);
  const fields = Object.entries(input);
  const only = fields[0];
  if (fields.length === 1 && only && typeof only[1] === "string") return textOf(only[1], language(only[0]));
  return element(
    "dl",
    { class: "fields" },
    ...fields.flatMap(([field, value]) => [element("dt", {}, field), element("dd", {}, textOf(value, language(field)))]),
  );
}

function textOf(value: Json, language = ""): HTMLElement {
  const node = element("pre", { class: "exact", tabindex: "0" });
  if (typeof value === "string") showCode(node, value, language, visibleText);
  else showCode(node, JSON.stringify(value, null, 2), "json", visibleText);
  return node;
}

/** The language of a text in a call's input. */
function inputLanguage(name: string, field: string, input: JsonObject): string {
  if (field === "code") return "python";
  if (field === "command") return "bash";
  if (field === "new_source") return input.cell_type === "markdown" ? "markdown" : "python";
  if (field === "patch") return "diff";
  const path = /^(?:content|old_string|new_string|source)$/.test(field) && name !== "Read" ? input.file_path : "";
  return typeof path === "string" ? path : "";
}

// The policy's or a hook's reason why a call ran, was asked about or was refused.

const BEHAVIORS: Record<Behavior, string> = { allow: "Allowed", ask: "Asked", deny: "Denied" };

export function decisionLine({ behavior, by, reason, rule }: DecidedOp): HTMLElement {
  const who = by === "hook" ? " by a hook" : "";
  const why = behavior === "allow" && rule ? ["by the rule ", element("code", {}, revealed(rule))] : sentence(reason);
  // `ask` is the class of a question's card
  return element("p", { class: behavior === "ask" ? "decided" : `decided ${behavior}` }, element("b", {}, `${BEHAVIORS[behavior]}${who}: `), ...why);
}

/** True for a decision that must be seen without opening the card: a refusal, or a hook's "allow". */
export function isNotable(decided: DecidedOp | null): decided is DecidedOp {
  return decided !== null && (decided.behavior === "deny" || (decided.by === "hook" && decided.behavior === "allow"));
}

// A call's display: a picture, else its plain text.

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

export function display(data: Record<string, string>): HTMLElement {
  const text = data["text/plain"] ?? "";
  for (const type of PICTURES) {
    // base64 as Python writes it has line ends
    const src = `data:${type};base64,${(data[type] ?? "").replace(/\s/g, "")}`;
    if (isInlineImage(src)) return picture(src, text || "Picture shown by the code");
  }
  return element("pre", { class: "output display", tabindex: "0" }, text);
}

// The latest lines of a running call's output, in a box that scrolls by itself and never moves the page.

const MAX_LIVE_LINES = 200;
/** Within this many pixels of the end the reader is following. */
const FOLLOW_PX = 24;

export type LiveOutput = { readonly node: HTMLElement; update(output: string): void };

export function liveOutput(): LiveOutput {
  const node = element("pre", { class: "output live", tabindex: "0", role: "group", "aria-label": "Latest output" });
  return {
    node,
    update(output) {
      const following = node.scrollHeight - node.scrollTop - node.clientHeight < FOLLOW_PX;
      setText(node, terminalText(output).split("\n").slice(-MAX_LIVE_LINES).join("\n"));
      if (following) node.scrollTop = node.scrollHeight;
    },
  };
}

// Terminal output as the text that would be seen there.

// eslint-disable-next-line no-control-regex -- escape sequences are made of control characters
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;
/** Bells, nulls and the like: a terminal shows nothing for them. */
const SILENT = /[^\P{Cc}\t\n\r\u0080-\u009f]/gu;

/** Colours and other escape sequences removed; a progress bar's line is its latest state. */
export function terminalText(text: string): string {
  const plain = text.replace(ESCAPES, "").replaceAll("\r\n", "\n");
  const lines = plain.includes("\r") ? plain.split("\n").map(overwritten).join("\n") : plain;
  return lines.replace(SILENT, "");
}

function overwritten(line: string): string {
  return line.split("\r").findLast((part) => part !== "") ?? "";
}

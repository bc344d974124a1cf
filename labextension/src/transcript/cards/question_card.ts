/** A question's card: what Claude will do, to what, in full, and the answers with their keys. */

import type { Json } from "../../json";
import type { Child } from "../dom";
import { showCode } from "../code/colored_code";
import { button, element, freshId, setText } from "../dom";
import type { UserAttention } from "../focus";
import { focused, focusWhenFree, onlyFromUser, returnFocus } from "../focus";
import type { TranscriptContext } from "../items/item_view";
import { isInPanel } from "../items/item_view";
import { Markdown } from "../markdown/markdown";
import type { AnsweredOp, AnswerMessage, AskOp, NextCall, Scope } from "../protocol";
import type { Question, ToolItem } from "../store";
import { hasPageActions, request } from "../items/page_actions";
import { revealed, sentence, visibleText } from "../visible_text";
import type { AskingPlace, PlaceKind } from "./asking_place";
import { askingPlaces } from "./asking_place";
import type { AnswerTarget, AnswerForm } from "./approval_form";
import { approvalForm, isCellChange, rulesOf } from "./approval_form";
import { diffView } from "./diff";
import { questionForm, questionsOf } from "./question_form";

/** A key or click that was meant for something else must not answer a question that has just come up. */
const READY_AFTER_MS = 300;
/** An answer that the kernel has not taken by then may be given again. */
const ACKNOWLEDGE_TIMEOUT_MS = 4000;

export type QuestionCard = {
  readonly node: HTMLElement;
  /** `rank`: 0 = it is this question's turn; `total`: how many wait. */
  update(rank: number, total: number): void;
  /** Nothing is accepted for a moment: what has just got the keyboard was not read yet. */
  hold(): void;
  ready(): boolean;
  dispose(): void;
};

/** The page's part of a change that is shown at its cell. */
export type ChangePage = {
  /** Brings the card into view and gives it the keys. */
  reveal(): void;
  /** Called each time the card begins to ask: it may get the keyboard. Returns how to give up. */
  askKeys(): () => void;
  /** Answers all changes that wait in the notebook. */
  answerAll(behavior: AnswerMessage["behavior"]): void;
};

/** The surroundings of a question; with `change` it stands at the cell that it is about, and the page says when it gets the keyboard. */
export type QuestionContext = Pick<TranscriptContext, "host" | "send"> &
  ({ readonly attention: UserAttention; readonly change?: undefined } | { readonly change: ChangePage });

const ELSEWHERE: Record<PlaceKind, string> = {
  panel: "Waiting for your answer in Claude's panel.",
  cell: "Waiting for your answer in the cell that asked.",
  proposal: "Review it at the cell",
};

export function questionCard(question: Question, place: QuestionContext): QuestionCard {
  const { ask } = question;
  const [titleId, reasonId, keysId] = [freshId(), freshId(), freshId()];
  const before = focused();
  const timers: ReturnType<typeof setTimeout>[] = [];
  let ready = false;
  let shown = false;
  let turn = false;
  let sent = false;
  let elsewhere: PlaceKind | null = null;
  let stopFocusing = (): void => undefined;

  const status = element("p", { class: "ask-status", role: "status" });
  const body = element("div", { class: "ask-body" });
  const count = element("span", { class: "nth" });
  const kind: PlaceKind = place.change ? "proposal" : isInPanel(place) ? "panel" : "cell";
  const goTo = cellAsked(ask, kind);
  const [allKeys, fewKeys] = [element("span", { class: "all" }), element("span", { class: "few" })];
  const keysOn = element("span", { class: "on", id: keysId }, allKeys, fewKeys);
  const keys = element("p", { class: "keys" }, keysOn, element("span", { class: "off" }, place.change ? "F8 for its keys" : "Click here for its keys"));
  const other = element("p", { class: "elsewhere", hidden: "" });
  const answerHere = (): HTMLElement =>
    button("Review here", () => {
      askingPlaces().choose(ask.question, asking);
      card.focus();
    });
  const node = element(
    "div",
    { class: "ask", role: "group", tabindex: "-1", "data-kind": ask.kind, "aria-labelledby": titleId, "aria-describedby": `${reasonId} ${keysId}` },
    element("div", { class: "ask-head" }, element("p", { class: "ask-title", id: titleId }, visibleText(place.change ? titleAtCell(ask) : ask.title)), count, keys, ...goTo.nodes),
    other,
    body,
    status,
  );
  const setReady = (value: boolean): void => {
    ready = value;
    form.node.disabled = !value;
    node.toggleAttribute("data-ready", value);
  };
  const offerAgain = (): void => {
    if (question.taken || question.answer) return;
    sent = false;
    setText(status, "The kernel has not received the answer yet. It may be busy; you can answer again.");
    setReady(true);
  };
  const card: AnswerTarget = {
    ready: () => ready,
    send: (answered) => {
      if (!ready) return;
      setReady(false);
      sent = true;
      setText(status, "Sending the answer…");
      place.send({ type: "answer", question: ask.question, ...answered });
      // the button that was pressed is disabled now
      card.focus();
      timers.push(setTimeout(offerAgain, ACKNOWLEDGE_TIMEOUT_MS));
    },
    tell: (text) => { setText(status, text); },
    focus: () => { node.focus({ preventScroll: true }); },
    answerAll: place.change && ((behavior) => { place.change.answerAll(behavior); }),
  };
  const { form, parts } = formOf(ask, card, titleId, reasonId);

  // what is long scrolls; the answers stay in sight
  const content = element("div", { class: "ask-content" }, ...parts);
  body.append(...(parts.length > 0 ? [content] : []), form.node);
  let waiting = 1;
  const refresh = (): void => {
    form.refresh?.(waiting);
    setText(allKeys, form.keys());
    setText(fewKeys, form.keys(true));
  };
  refresh();
  const readySoon = (): void => {
    timers.push(setTimeout(() => { if (shown && !sent && !question.taken) setReady(true); }, READY_AFTER_MS));
  };
  onlyFromUser(node);
  const asking: AskingPlace = {
    node,
    kind,
    show: (now, atCell) => {
      goTo.show(atCell);
      refresh();
      if (now === elsewhere) return;
      elsewhere = now;
      draw();
    },
    ...(place.change ? { reveal: () => { place.change.reveal(); } } : {}),
  };
  const draw = (): void => {
    const here = turn && elsewhere === null;
    body.hidden = !here;
    other.hidden = !turn || elsewhere === null || question.taken;
    other.replaceChildren(...(elsewhere ? [whereElse(elsewhere, ask), answerHere()] : []));
    node.classList.toggle("aside", elsewhere !== null);
    node.classList.toggle("at-cell", elsewhere === "proposal");
    if (!here) {
      stopFocusing();
      if (turn) setReady(false);
      shown = false;
      return;
    }
    if (shown || question.taken) return;
    shown = true;
    setText(status, "");
    readySoon();
    stopFocusing = place.change ? place.change.askKeys() : focusWhenFree(node, place.host, place.attention, !isCellChange(ask));
  };
  const stopAsking = askingPlaces().add(ask.question, asking);
  node.addEventListener("keydown", (event) => {
    // F8 goes to the next change, from here as well
    if (event.ctrlKey || event.metaKey || event.altKey || event.key === "Tab" || /^F\d/.test(event.key)) return;
    // the notebook's command mode would act on every key that passes this card
    event.stopPropagation();
    if (shown && !event.repeat && !event.isComposing && form.node.isConnected) form.press(event);
  });

  return {
    node,
    update(rank, total) {
      turn = place.change !== undefined || rank === 0;
      const all = total + (ask.next?.length ?? 0);
      setText(count, all > 1 ? `${rank + 1} of ${all}` : "");
      waiting = total;
      refresh();
      if (question.taken) setText(status, "The answer was received.");
      else if (!turn) setText(status, "Waiting for the question before it.");
      draw();
    },
    hold() {
      if (!ready) return;
      setReady(false);
      readySoon();
    },
    ready: () => ready,
    dispose() {
      stopAsking();
      stopFocusing();
      timers.forEach(clearTimeout);
      returnFocus(node, before, place.host);
    },
  };
}

/** At the cell itself the notebook needs no name. */
function titleAtCell({ title, path }: AskOp): string {
  return path ? title.replace(` in ${path}`, "") : title;
}

/** The form of a question, and what stands above it. */
function formOf(ask: AskOp, card: AnswerTarget, titleId: string, reasonId: string): { form: AnswerForm; parts: HTMLElement[] } {
  const questions = ask.kind === "question" ? questionsOf(ask.input, ask.name === "AcceptPreview") : [];
  if (questions.length > 0) return { form: questionForm(questions, card, titleId), parts: [] };
  return { form: approvalForm(ask, card), parts: [...questionDetail(ask, reasonId), ...(isCellChange(ask) ? [] : rulesOf(ask))] };
}

// All there is to know before a question is answered: to what, the warning, the whole of it, why it is asked.

/** `reasonId`: the id of the element that says why it is asked. */
export function questionDetail(ask: AskOp, reasonId: string): HTMLElement[] {
  const parts = purposeOf(ask);
  parts.push(...pathOf(ask));
  const reason = ask.kind === "plan" ? "Nothing changes until you approve." : ask.reason;
  // that a change needs a yes is seen: the form unfolds why
  if (reason) parts.push(element("p", { class: isCellChange(ask) ? "unseen" : "reason", id: reasonId }, ...sentence(reason)));
  if (ask.warning) {
    parts.push(element("p", { class: "notice warning" }, element("b", {}, "Warning: "), visibleText(ask.warning)));
  }
  if (ask.detail) parts.push(detail(ask));
  const next = ask.next ?? [];
  if (next.length > 0) parts.push(element("ul", { class: "next-calls", "aria-label": "Asked after this" }, ...next.map(nextCall)));
  return parts;
}

/** The path that the title does not say. A change of a cell names its notebook, unless it is the one in which it is asked about. */
function pathOf(ask: AskOp): HTMLElement[] {
  return !ask.path || isCellChange(ask) || ask.title.includes(ask.path) ? [] : [element("p", { class: "path" }, visibleText(ask.path))];
}

/** What a command is for, in the words that Claude has given with it. */
function purposeOf({ name, title, input }: AskOp): HTMLElement[] {
  const said = name === "Bash" ? input?.description : "";
  return typeof said === "string" && said.trim() && !title.includes(said) ? [element("p", { class: "purpose" }, visibleText(said))] : [];
}

/** A call that will be asked about when this one is done; its whole unfolds. */
function nextCall(call: NextCall): HTMLElement {
  const [line = ""] = ["command", "code"].includes(call.detail_kind) ? call.detail.trim().split("\n") : [];
  const shown = line ? [" ", element("code", {}, visibleText(line))] : [];
  const title = element("summary", {}, element("span", { class: "remark" }, "then "), visibleText(call.title), ...shown);
  const warning = call.warning ? [element("p", { class: "notice warning" }, element("b", {}, "Warning: "), visibleText(call.warning))] : [];
  return element("li", {}, element("details", {}, title, ...warning, ...(call.detail ? [detail({ ...call, kind: "permission" })] : [])));
}

/** The way to the card at the cell that `ask` would change, else to the cell that it is about, if the page knows one. */
function cellAsked(ask: AskOp, kind: PlaceKind): { nodes: HTMLElement[]; show(atCell: boolean): void } {
  const { name, input, path, question } = ask;
  const ids = name === "NotebookRun" && Array.isArray(input?.cell_ids) ? input.cell_ids : [input?.cell_id];
  const [cell] = ids;
  const hasCell = typeof cell === "string" && hasPageActions();
  if (kind === "proposal" || (!hasCell && !isCellChange(ask))) return { nodes: [], show: () => undefined };
  const node = button("Show the cell", () => {
    if (!askingPlaces().review(question) && typeof cell === "string") request(node, { action: "cell", path, cell });
  }, { class: "plain", hidden: hasCell ? false : "" });
  return {
    nodes: [node],
    show(atCell) {
      node.hidden = !hasCell && !atCell;
      setText(node, atCell ? "Review at the cell" : "Show the cell");
    },
  };
}

/** The line of a card whose question asks in another place. */
function whereElse(elsewhere: PlaceKind, { question }: AskOp): HTMLElement {
  if (elsewhere !== "proposal") return element("span", {}, ELSEWHERE[elsewhere]);
  return button(ELSEWHERE.proposal, () => { askingPlaces().review(question); }, { class: "plain" });
}

function detail(ask: Pick<AskOp, "kind" | "detail" | "detail_kind">): HTMLElement {
  if (ask.kind === "plan") return planText(ask.detail);
  switch (ask.detail_kind) {
    case "diff":
      return diffView(ask.detail);
    case "command":
    case "code":
    case "text": {
      if (ask.kind === "trust") return element("p", { class: "detail", tabindex: "0" }, ...sentence(ask.detail));
      const label = ask.detail_kind === "text" ? "Details" : `The whole ${ask.detail_kind}`;
      const attributes = { class: "exact detail", tabindex: "0", role: "group", "aria-label": label };
      const node = element("pre", attributes);
      showCode(node, ask.detail, ask.detail_kind === "code" ? "python" : ask.detail_kind === "command" ? "bash" : "", visibleText);
      return node;
    }
  }
}

// A plan as it reads: Markdown, with what would deceive written out.

export function planText(plan: string): HTMLElement {
  const node = element("div", { class: "prose plan", tabindex: "0", role: "group", "aria-label": "The plan" });
  new Markdown(node).update(revealed(plan), false);
  return node;
}

// The questions about one call: a card while it is open, one line once it is answered.

export type QuestionList = {
  readonly node: HTMLElement;
  /** True while a question is open. */
  update(): boolean;
  dispose(): void;
};

export function questionList(item: ToolItem, place: TranscriptContext): QuestionList {
  const node = element("div", { class: "questions" });
  const open = new Map<Question, QuestionCard>();
  const closed = new Set<Question>();

  const show = (question: Question, rank: number, total: number): void => {
    let card = open.get(question);
    if (!card) {
      card = questionCard(question, place);
      open.set(question, card);
      node.append(card.node);
    }
    card.update(rank, total);
  };
  const close = (question: Question): void => {
    closed.add(question);
    // a plain yes is a mark on its call's line
    const line = isPlainApproval(question) ? null : answeredLine(question);
    const card = open.get(question);
    if (!card) {
      if (line) node.append(line);
      return;
    }
    card.dispose();
    if (line) card.node.replaceWith(line);
    else card.node.remove();
    open.delete(question);
  };
  return {
    node,
    update() {
      const pending = place.store.pending();
      for (const question of item.questions) {
        const rank = pending.indexOf(question);
        if (rank >= 0) show(question, rank, pending.length);
        else if (!closed.has(question)) close(question);
      }
      return open.size > 0;
    },
    dispose() {
      for (const card of open.values()) card.dispose();
    },
  };
}

/** True for a permission that was given as it was asked for, without a word: there is nothing to read in it. */
export function isPlainApproval({ ask, answer }: Question): boolean {
  if (answer === null || ask.kind !== "permission" || answer.behavior !== "allow" || answer.edited) return false;
  return answer.reason === "" && textOf(answer.input?.feedback) === "";
}

// A question that was answered: one line that says how, how far, where.

const ALLOWED: Record<Scope, string> = {
  once: "Allowed once",
  session: "Allowed for this session",
  always: "Always allowed",
};
const PLACES: Record<string, string> = {
  widget: "in this cell",
  sidebar: "in the sidebar",
  input: "at the prompt",
  policy: "by the policy",
  callback: "by a callback",
  terminal: "in the terminal",
  hook: "by a hook",
};

export function answeredLine({ ask, answer }: Question): HTMLElement {
  if (!answer || wasStopped(answer)) return element("p", { class: "answered" }, "Not answered");
  const answered = answers(answer);
  // one question is the title of its card already
  const [short] = answered.filter(([question]) => question === ask.title);
  const reply = short?.[1] ?? (answer.reason || textOf(answer.input?.feedback));
  const line = element("p", {}, element("b", {}, headline(ask, answer)), ...scopeAndSource(answer));
  if (reply) line.append(": ", short ? element("strong", {}, revealed(reply)) : revealed(reply));
  const lines = short ? [] : answered.map(([question, text]) => answerLine(question, text));
  return answeredBox(answer, line, reply === "", lines);
}

/** Answers say by themselves that they were given: how, is then a tooltip. */
function answeredBox({ behavior }: AnsweredOp, line: HTMLElement, isPlain: boolean, lines: HTMLElement[]): HTMLElement {
  const needless = isPlain && lines.length > 0 && behavior === "allow";
  return element("div", { class: `answered ${behavior}`, title: needless && line.textContent }, ...(needless ? [] : [line]), ...lines);
}

/** True where the run was stopped instead of an answer, which the line below the transcript says. */
function wasStopped({ by, reason }: AnsweredOp): boolean {
  return by === "policy" && reason === "interrupted";
}

/** The scope of an answer, and where it came from. */
function scopeAndSource({ behavior, by, edited, rules, input }: AnsweredOp): Child[] {
  const kept = behavior === "allow" ? rules.flatMap((rule) => [" ", element("code", {}, revealed(rule))]) : [];
  if (behavior === "allow" && edited) kept.unshift(", with an edited input");
  const nobody = by === "policy" && input !== null;
  return nobody ? kept : [...kept, ` ${PLACES[by] ?? `by ${revealed(by)}`}`];
}

function headline(ask: AskOp, answer: AnsweredOp): string {
  const allowed = answer.behavior === "allow";
  switch (ask.kind) {
    case "permission":
      return permissionHeadline(ask, answer);
    case "trust":
      return ask.name === "Undo" ? undoHeadline(allowed) : trustHeadline(allowed);
    case "question":
      if (allowed && answers(answer).length === 0) return "Not answered in time";
      return allowed ? "Answered" : "Dismissed";
    case "plan":
      if (!allowed) return "Plan sent back";
      return answer.input?.decision === "accept_edits" ? "Plan approved, edits accepted" : "Plan approved";
  }
}

function trustHeadline(allowed: boolean): string {
  return allowed ? "Trusted" : "Not trusted";
}

function undoHeadline(allowed: boolean): string {
  return allowed ? "Done" : "Left as it is";
}

function permissionHeadline(ask: AskOp, { behavior, scope }: AnsweredOp): string {
  if (behavior === "deny") return isCellChange(ask) ? "Rejected" : "Denied";
  return isCellChange(ask) && scope === "once" ? "Accepted" : ALLOWED[scope];
}

/** The user's answers, by question. */
function answers({ input }: AnsweredOp): [string, string][] {
  const answered = input?.answers;
  if (typeof answered !== "object" || answered === null || Array.isArray(answered)) return [];
  return Object.entries(answered).map(([question, answer]) => [question, textOf(answer)]);
}

function answerLine(question: string, text: string): HTMLElement {
  return element("p", { class: "qa" }, revealed(question), " ", element("strong", {}, revealed(text)));
}

/** A text, or several. */
function textOf(value: Json | undefined): string {
  const texts = Array.isArray(value) ? value : [value];
  return texts.filter((text) => typeof text === "string").join(", ");
}

// Several changes of cells wait for an answer: all of them accepted or rejected with one button.

export function cellChangesBar(place: TranscriptContext): { readonly node: HTMLElement; update(): void } {
  const what = element("span", { class: "what" });
  const answer = (behavior: AnswerMessage["behavior"]) => (): void => {
    node.toggleAttribute("disabled", true);
    for (const { ask } of waiting(place)) {
      place.send({ type: "answer", question: ask.question, behavior, scope: "once", reason: "", input: null });
    }
  };
  const show = button("Show (F8)", () => { askingPlaces().review(waiting(place)[0]?.ask.question ?? ""); }, { title: "Show the first change at its cell" });
  const node = element(
    "fieldset",
    { class: "cell-changes", hidden: "", disabled: "", "aria-label": "All cell changes" },
    what,
    show,
    button("Accept all", answer("allow"), { class: "primary" }),
    button("Reject all", answer("deny"), { class: "deny" }),
  );
  let asked = "";
  return {
    node,
    update() {
      const questions = waiting(place);
      node.hidden = questions.length < 2;
      if (node.hidden) return;
      show.hidden = !hasPageActions();
      setText(what, `${questions.length} cell changes wait for you`);
      const now = questions.map(({ ask }) => ask.question).join();
      // fewer of the same are no news
      if (questions.every(({ ask }) => asked.includes(ask.question))) return;
      asked = now;
      node.toggleAttribute("disabled", true);
      setTimeout(() => { node.toggleAttribute("disabled", false); }, READY_AFTER_MS);
    },
  };
}

function waiting(place: TranscriptContext): Question[] {
  return place.store.pending().filter(({ ask, taken }) => isCellChange(ask) && !taken);
}

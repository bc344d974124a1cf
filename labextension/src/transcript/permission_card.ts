/** The question whether a call may run: what it will do, to what, in full, and the answers with their keys. */

import { answerControls } from "./answer_controls";
import { element, freshId, setText } from "./dom";
import { focused, focusWhenFree, returnFocus } from "./focus";
import { inputEditor, inputForm } from "./input_editor";
import type { Place } from "./item_view";
import type { Question } from "./items";
import type { Choice, JsonObject } from "./protocol";
import { questionDetail } from "./question_detail";
import { visibleText } from "./visible_text";

/** A key or click that was meant for something else must not answer a question that has just come up. */
const READY_AFTER_MS = 300;
/** An answer that the kernel has not taken by then may be given again. */
const TAKEN_WITHIN_MS = 4000;

export type PermissionCard = {
  readonly node: HTMLElement;
  /** `rank`: 0 = it is this question's turn; `total`: how many wait. */
  update(rank: number, total: number): void;
  dispose(): void;
};

export function permissionCard(question: Question, place: Place): PermissionCard {
  const { ask } = question;
  const [titleId, reasonId] = [freshId(), freshId()];
  const before = focused();
  const timers: ReturnType<typeof setTimeout>[] = [];
  let ready = false;
  let shown = false;
  let stopFocusing = (): void => undefined;

  const status = element("p", { class: "ask-status", role: "status" });
  const body = element("div", { class: "ask-body" });
  const node = element(
    "div",
    { class: "ask", role: "group", tabindex: "-1", "aria-labelledby": titleId, "aria-describedby": reasonId },
    element("p", { class: "ask-title", id: titleId }, visibleText(ask.title)),
    body,
    status,
  );
  const focusCard = (): void => {
    node.focus({ preventScroll: true });
  };

  const setReady = (value: boolean): void => {
    ready = value;
    controls.node.disabled = !value;
    node.toggleAttribute("data-ready", value);
  };
  const send = (choice: Choice, reason: string, input: JsonObject | null = null): void => {
    if (!ready) return;
    setReady(false);
    setText(status, "Sending the answer…");
    const scope = choice.action === "deny" ? "once" : choice.scope;
    place.send({ type: "answer", question: ask.question, behavior: choice.action, scope, reason, input });
    // the button that was pressed is disabled now
    focusCard();
    timers.push(setTimeout(offerAgain, TAKEN_WITHIN_MS));
  };
  const offerAgain = (): void => {
    if (question.taken || question.answer) return;
    setText(status, "The kernel has not taken the answer yet. It may be busy; you can answer again.");
    setReady(true);
  };
  const edit = (): void => {
    const once = ask.choices.find((choice) => choice.action === "allow" && choice.scope === "once");
    if (!ask.input || !once || !ready) return;
    const close = (): void => {
      editor.replaceWith(controls.node);
      focusCard();
    };
    const allow = (input: JsonObject): void => {
      close();
      send(once, "", input);
    };
    const editor = inputEditor(inputForm(ask, ask.input), allow, close);
    controls.node.replaceWith(editor);
    editor.querySelector("textarea")?.focus();
  };
  const controls = answerControls(ask, send, edit, focusCard);

  body.append(...questionDetail(ask, reasonId), controls.node);
  node.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.key === "Tab") return;
    // the notebook's command mode would act on every key that passes this card
    event.stopPropagation();
    if (shown && !event.repeat && controls.node.isConnected) controls.press(event);
  });

  return {
    node,
    update(rank, total) {
      const turn = rank === 0;
      body.hidden = !turn;
      if (question.taken) setText(status, "The answer was taken.");
      else if (!turn) setText(status, `Waits for the question before it (${rank + 1} of ${total}).`);
      if (!turn || shown) return;
      shown = true;
      setText(status, "");
      timers.push(setTimeout(setReady, READY_AFTER_MS, true));
      stopFocusing = focusWhenFree(node, place.host, place.attention);
    },
    dispose() {
      stopFocusing();
      timers.forEach(clearTimeout);
      returnFocus(node, before, place.host);
    },
  };
}

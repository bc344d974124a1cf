/** Editing a call's input before it is allowed: the command, code or source itself where there is one, else the JSON. */

import { button, element, freshId, setText } from "./dom";
import type { AskOp, JsonObject } from "./protocol";
import { isCellChange } from "./questions";
import { concealed, revealed } from "./visible_text";

const MOST_ROWS = 20;

export type Parsed = { input: JsonObject } | { problem: string };
export type InputForm = { label: string; text: string; parse: (text: string) => Parsed };

/** How the input of `ask` is edited. An editor hides what would deceive as well as any other text: it is written out here, too. */
export function inputForm(ask: AskOp, input: JsonObject): InputForm {
  const key = textKey(ask, input);
  const value = key === undefined ? null : input[key];
  const text = typeof value === "string" ? value : JSON.stringify(input, null, 2);
  return {
    label: key === undefined ? "Edit the input (JSON)" : `Edit the ${key.replaceAll("_", " ")}`,
    text: revealed(text),
    parse(edited) {
      const meant = concealed(edited, text);
      return key === undefined ? parseObject(meant) : { input: { ...input, [key]: meant } };
    },
  };
}

/** The field of `input` that is shown as a text: a cell's new source, or what the question shows in full. */
function textKey(ask: AskOp, input: JsonObject): string | undefined {
  if (isCellChange(ask) && typeof input.new_source === "string") return "new_source";
  return Object.keys(input).find((name) => input[name] === ask.detail && ask.detail !== "");
}

function parseObject(text: string): Parsed {
  try {
    const value = JSON.parse(text) as unknown;
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return { input: value as JsonObject };
    return { problem: "The input must be a JSON object: { … }" };
  } catch (error) {
    return { problem: `This is no JSON: ${error instanceof Error ? error.message : String(error)}` };
  }
}

function first(index: number): Record<string, string> {
  return index === 0 ? { class: "primary", "aria-keyshortcuts": "Control+Enter" } : {};
}

/** One way of allowing what was edited. */
export type Submit = { label: string; run: (input: JsonObject) => void };

/** The form; a button for each of `submits`, Ctrl+Enter for the first; `cancel` is called when nothing is to change. */
export function inputEditor(form: InputForm, submits: Submit[], cancel: () => void): HTMLElement {
  const id = freshId();
  const area = element("textarea", {
    id,
    spellcheck: "false",
    autocomplete: "off",
    rows: `${Math.min(MOST_ROWS, form.text.split("\n").length + 1)}`,
    "aria-describedby": `${id}-problem`,
  });
  area.value = form.text;
  const problem = element("p", { class: "problem", id: `${id}-problem`, role: "alert" });
  const submit = (to: Submit | undefined): void => {
    const parsed = form.parse(area.value);
    if ("input" in parsed) {
      to?.run(parsed.input);
      return;
    }
    setText(problem, parsed.problem);
    area.setAttribute("aria-invalid", "true");
    area.focus();
  };
  const node = element(
    "div",
    { class: "editor" },
    element("label", { for: id }, form.label),
    area,
    problem,
    element(
      "div",
      { class: "choices" },
      ...submits.map((one, index) => button(one.label, () => { submit(one); }, first(index))),
      button("Cancel", cancel, { "aria-keyshortcuts": "Escape" }),
    ),
  );
  node.addEventListener("keydown", (event) => {
    // what is typed here is text: neither the card nor the notebook may take it for a key of theirs
    event.stopPropagation();
    if (event.key === "Escape") cancel();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(submits[0]);
    else return;
    event.preventDefault();
  });
  return node;
}

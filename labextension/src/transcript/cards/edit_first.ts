/**
 * Editing a call's input before it is allowed, as the text that it is: the new text of an edit with its diff, the command, the
 * code. JSON is left for tools whose form is not known here.
 */

import type { JsonObject } from "../../json";
import { coloredCode } from "../code/colored_code";
import { work } from "../code/frame_work";
import { button, element, freshId, setText } from "../dom";
import type { AskOp } from "../protocol";
import { concealed, revealed } from "../visible_text";
import { diffView } from "./diff";
import { renewedDiff, wholeTextKey } from "./renewed_diff";

const MAX_ROWS = 20;

/** One way of allowing what was edited. */
export type SubmitAction = { label: string; run: (input: JsonObject) => void };

type ParsedInput = { input: JsonObject } | { problem: string };
type TextField = { label: string; text: string; language: string };
/** `diff` is that of the edited input, for tools that change a text. */
type InputForm = { fields: TextField[]; parse(texts: readonly string[]): ParsedInput; diff: ((input: JsonObject) => string) | null };

/** The form for the input of `ask`; a button for each of `submits`, Ctrl+Enter for the first; `cancel` is called when nothing is to change. */
export function editFirst(ask: AskOp, input: JsonObject, submits: readonly SubmitAction[], cancel: () => void): HTMLElement {
  const form = inputForm(ask, input);
  const id = freshId();
  const problem = element("p", { class: "problem", id: `${id}-problem`, role: "alert" });
  const changes = element("div", { class: "renewed" });
  const { diff } = form;
  const draw = (): boolean => {
    const parsed = form.parse(areas.map(({ value }) => value));
    if (!diff || !("input" in parsed)) return true;
    const renewed = diff(parsed.input);
    changes.replaceChildren(renewed ? diffView(renewed) : element("p", { class: "reason" }, "Changes nothing."));
    return true;
  };
  const fields = form.fields.map((field, index) => codeField(field, `${id}-${index}`, `${id}-problem`, () => { work(draw); }));
  const areas = fields.map(({ area }) => area);
  const submit = (to: SubmitAction | undefined): void => {
    const parsed = form.parse(areas.map(({ value }) => value));
    if ("input" in parsed) {
      to?.run(parsed.input);
      return;
    }
    setText(problem, parsed.problem);
    areas[0]?.setAttribute("aria-invalid", "true");
    areas[0]?.focus();
  };
  const node = element(
    "div",
    { class: "editor" },
    element("div", { class: "ask-content" }, ...fields.map((field) => field.node), problem, ...(diff ? [changes] : [])),
    element(
      "div",
      { class: "choices" },
      ...submits.map((one, index) => submitButton(one.label, index === 0, () => { submit(one); })),
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
  draw();
  return node;
}

function submitButton(label: string, isFirst: boolean, submit: () => void): HTMLButtonElement {
  if (!isFirst) return button(label, submit);
  const node = button(element("kbd", { "aria-hidden": "true" }, "Ctrl Enter"), submit, { class: "primary", "aria-keyshortcuts": "Control+Enter Meta+Enter" });
  node.append(element("span", {}, label));
  return node;
}

/** A text field with its text's colours behind it, which may come later or never. */
function codeField({ label, text, language }: TextField, id: string, problem: string, changed: () => void): { node: HTMLElement; area: HTMLTextAreaElement } {
  const area = element("textarea", {
    id, spellcheck: "false", autocomplete: "off", "aria-describedby": problem,
    rows: `${Math.min(MAX_ROWS, text.split("\n").length + 1)}`,
  });
  area.value = text;
  const colors = element("pre", { class: "colors", "aria-hidden": "true" });
  const code = language ? coloredCode(colors, language) : null;
  const box = element("div", { class: language ? "code-field" : "plain-field" }, colors, area);
  const draw = (): void => {
    // the last line end of a text begins a line in the field, and none behind it
    code?.update(`${area.value}\n `);
  };
  area.addEventListener("input", () => {
    draw();
    changed();
  });
  area.addEventListener("scroll", () => { colors.scrollTop = area.scrollTop; });
  draw();
  return { node: element("div", {}, element("label", { for: id }, label), box), area };
}

/** The form that edits the input of `ask`. Invisible characters are written out here, too. */
function inputForm(ask: AskOp, input: JsonObject): InputForm {
  const pieces = editForm(ask, input);
  if (pieces) return pieces;
  const key = textKey(ask, input);
  if (key === undefined) return { fields: [{ label: "Edit the input (JSON)", text: revealed(JSON.stringify(input, null, 2)), language: "json" }], parse: ([text = ""]) => parseObject(concealed(text, JSON.stringify(input, null, 2))), diff: null };
  const now = input[key];
  const text = typeof now === "string" ? now : "";
  return {
    fields: [{ label: LABELS[key] ?? `Edit the ${key.replaceAll("_", " ")}`, text: revealed(text), language: languageOf(ask, input) }],
    parse: ([edited = ""]) => ({ input: { ...input, [key]: concealed(edited, text) } }),
    diff: key === wholeTextKey(ask.name) ? (edited) => renewedDiff(ask, input, edited) : null,
  };
}

const LABELS: Readonly<Record<string, string>> = { content: "New text", new_source: "New text", new_string: "New text", edits: "New text" };

/** Of an edit, or of several in one file: the text that comes in the place of another. */
function editForm(ask: AskOp, input: JsonObject): InputForm | null {
  const edits = ask.name === "MultiEdit" ? input.edits : ask.name === "Edit" ? [input] : null;
  if (!Array.isArray(edits) || !edits.every(isEdit)) return null;
  const fields = edits.map(({ new_string: text }, index) => ({
    label: edits.length > 1 ? `New text ${index + 1} of ${edits.length}` : "New text",
    text: revealed(text), language: languageOf(ask, input),
  }));
  const diff = (edited: JsonObject): string => renewedDiff(ask, input, edited);
  return {
    fields, diff,
    parse(texts) {
      const edited = edits.map((edit, index) => ({ ...edit, new_string: concealed(texts[index] ?? "", edit.new_string) }));
      return { input: ask.name === "Edit" ? { ...input, ...edited[0] } : { ...input, edits: edited } };
    },
  };
}

function isEdit(edit: unknown): edit is JsonObject & { new_string: string } {
  return typeof edit === "object" && edit !== null && "new_string" in edit && typeof edit.new_string === "string";
}

/** The field of `input` that is shown as a text: a file's or a cell's new one, or what the question shows in full. */
function textKey(ask: AskOp, input: JsonObject): string | undefined {
  const whole = wholeTextKey(ask.name) ?? { Bash: "command", Python: "code" }[ask.name];
  if (whole !== undefined && typeof input[whole] === "string") return whole;
  return Object.keys(input).find((name) => input[name] === ask.detail && ask.detail !== "");
}

function languageOf({ name, detail_kind: kind }: AskOp, input: JsonObject): string {
  if (name === "NotebookEdit") return input.cell_type === "markdown" ? "markdown" : "python";
  if (typeof input.file_path === "string") return input.file_path;
  return kind === "command" ? "bash" : kind === "code" ? "python" : "";
}

function parseObject(text: string): ParsedInput {
  try {
    const value = JSON.parse(text) as unknown;
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return { input: value as JsonObject };
    return { problem: "The input must be a JSON object: { … }" };
  } catch (error) {
    return { problem: `This is not valid JSON: ${error instanceof Error ? error.message : String(error)}` };
  }
}

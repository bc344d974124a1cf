/** The editor of a prompt cell: prose instead of Python, as long as the cell's text begins with `%%claude`. */

import { StreamLanguage } from "@codemirror/language";
import type { Extension } from "@codemirror/state";
import { Compartment, EditorState, Prec, StateField } from "@codemirror/state";
import type { DecorationSet } from "@codemirror/view";
import { Decoration, EditorView, ViewPlugin, WidgetType } from "@codemirror/view";
import type { CodeEditor } from "@jupyterlab/codeeditor";

import type { Trans } from "../../translation";
import type { PromptListDeps } from "./prompt_list";
import { promptList } from "./prompt_list";
import type { MarkKind } from "./prompt_text";
import { fencedCode, isPrompt, marksOf, PROMPT_HEADER } from "./prompt_text";

/** JupyterLab suggests no code while one writes text of this type. */
const PROSE = "text/plain";
/** The type that the cell has as code. It is the page's alone: no notebook is saved with it. */
const codeTypes = new WeakMap<CodeEditor.IModel, string>();

/** Words without any colours; it is no Python to whatever asks for the language at a place. */
const prose = StreamLanguage.define({
  name: "prompt",
  token: (stream) => {
    stream.skipToEnd();
    return null;
  },
});

/** True while the editor's text is a prompt. */
export const promptState = StateField.define<boolean>({
  create: ({ doc }) => isPrompt(doc.toString()),
  update: (before, { docChanged, newDoc }) => (docChanged ? isPrompt(newDoc.toString()) : before),
});

/** What makes the editor of a code cell one for prose while it holds a prompt. */
export function promptEditor(model: CodeEditor.IModel, trans: Trans, deps: PromptListDeps): Extension {
  const compartment = new Compartment();
  const asProse = proseEditor(trans);
  return [
    promptState,
    compartment.of(isPrompt(model.sharedModel.getSource()) ? asProse : []),
    // with the change itself: nothing is drawn in between
    EditorState.transactionExtender.of(({ docChanged, newDoc, startState }) => {
      const now = docChanged && isPrompt(newDoc.toString());
      return docChanged && now !== startState.field(promptState) ? { effects: compartment.reconfigure(now ? asProse : []) } : null;
    }),
    followType(model),
    promptList(promptState, trans, deps, idOf(model)),
  ];
}

/** The id of the cell; "" where the text is no cell's. */
function idOf({ sharedModel }: CodeEditor.IModel): string {
  return "getId" in sharedModel ? (sharedModel as { getId(): string }).getId() : "";
}

function proseEditor(trans: Trans): Extension {
  const hint = trans.__("Ask Claude…  @ files and cells · $ variables · / commands");
  return [
    Prec.highest([
      // in the place of the language that JupyterLab gives
      prose,
      // `don't` and `:-)` are no code
      EditorState.languageData.of(() => [{ closeBrackets: { brackets: [] } }]),
      EditorView.contentAttributes.of({ spellcheck: "true", autocorrect: "on", autocapitalize: "sentences", "aria-label": trans.__("Prompt for Claude") }),
      EditorView.editorAttributes.of({ class: "cellwright-prompt-cell" }),
    ]),
    EditorView.lineWrapping,
    EditorView.perLineTextDirection.of(true),
    EditorView.decorations.compute(["doc"], (state) => decorations(state, hint)),
  ];
}

const MARKS: Record<MarkKind, Decoration> = {
  magic: Decoration.mark({ class: "cellwright-prompt-magic" }),
  option: Decoration.mark({ class: "cellwright-prompt-option" }),
  mention: Decoration.mark({ class: "cellwright-prompt-mention" }),
};
const TEXT_LINE = Decoration.line({ attributes: { dir: "auto" } });
const HEADER_LINE = Decoration.line({ class: "cellwright-prompt-header", attributes: { spellcheck: "false" } });
const CODE_LINE = Decoration.line({ class: "cellwright-prompt-code", attributes: { spellcheck: "false" } });

function decorations({ doc }: EditorState, hint: string): DecorationSet {
  const source = doc.toString();
  const marks = marksOf(source);
  const header = doc.lineAt(marks[0]?.from ?? 0);
  const code = new Set(fencedCode(source).flatMap(({ from, to }) => {
    const [first, last] = [doc.lineAt(from).number, doc.lineAt(to).number];
    return Array.from({ length: last - first + 1 }, (_, index) => first + index);
  }));
  const text = Array.from({ length: doc.lines }, (_, index) => index + 1).filter((line) => line !== header.number && !code.has(line));
  const isEmpty = header.number < doc.lines && !source.slice(header.to).trim() && header.text.trim() === PROMPT_HEADER.trim();
  return Decoration.set([
    HEADER_LINE.range(header.from),
    ...[...code].map((line) => CODE_LINE.range(doc.line(line).from)),
    ...text.map((line) => TEXT_LINE.range(doc.line(line).from)),
    ...marks.map(({ kind, from, to }) => MARKS[kind].range(from, to)),
    ...(isEmpty ? [Decoration.widget({ widget: new Hint(hint), side: 1 }).range(header.to + 1)] : []),
  ], true);
}

/** What can be written, where nothing is yet. */
class Hint extends WidgetType {
  constructor(private readonly words: string) {
    super();
  }

  override eq(other: Hint): boolean {
    return other.words === this.words;
  }

  override toDOM(): HTMLElement {
    const node = document.createElement("span");
    node.className = "cellwright-prompt-hint";
    node.textContent = this.words;
    node.setAttribute("aria-hidden", "true");
    return node;
  }

  override ignoreEvent(): boolean {
    return false;
  }
}

/** Keeps the type of the cell's text: JupyterLab gives all code cells of a notebook the language's own, and again with each kernel. */
function followType(model: CodeEditor.IModel): Extension {
  const plugin = ViewPlugin.define((view) => {
    const follow = (): void => {
      const { mimeType } = model;
      if (mimeType !== PROSE) codeTypes.set(model, mimeType);
      const wanted = view.state.field(promptState) ? PROSE : (codeTypes.get(model) ?? mimeType);
      if (wanted !== mimeType) model.mimeType = wanted;
    };
    model.mimeTypeChanged.connect(follow);
    follow();
    return { follow, destroy: () => { model.mimeTypeChanged.disconnect(follow); } };
  });
  // when the update is over: what follows from the type is another one
  return [plugin, EditorView.updateListener.of(({ docChanged, view }) => { if (docChanged) view.plugin(plugin)?.follow(); })];
}

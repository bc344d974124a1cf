/** Lends JupyterLab's languages and its typesetter to the transcripts, in cells and in the panel. */

import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import { IEditorLanguageRegistry } from "@jupyterlab/codemirror";
import type { IRenderMime } from "@jupyterlab/rendermime";
import { ILatexTypesetter } from "@jupyterlab/rendermime";

import { lendAbilities } from "../transcript/code/page_abilities";

export const renderingPlugin: JupyterFrontEndPlugin<void> = {
  id: "cellwright:rendering",
  description: "Colours code and typesets formulas in answers as JupyterLab does elsewhere.",
  autoStart: true,
  optional: [IEditorLanguageRegistry, ILatexTypesetter],
  activate: (_, languages: IEditorLanguageRegistry | null, typesetter: IRenderMime.ILatexTypesetter | null) => {
    // loaded with the first code or formula, not with JupyterLab
    if (languages) {
      lendAbilities({ language: async (name) => (await import("./code_parser")).languageParser(languages, name) });
    }
    if (typesetter) {
      let loading: Promise<(node: HTMLElement) => Promise<boolean>> | undefined;
      const load = async (): Promise<(node: HTMLElement) => Promise<boolean>> => (await import("./formula_typesetter")).formulaTypesetter(typesetter);
      lendAbilities({ typeset: async (node) => (await (loading ??= load()))(node) });
    }
  },
};

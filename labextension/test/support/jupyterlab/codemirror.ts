/** In the place of JupyterLab's package: its tokens. */

import { Token } from "@lumino/coreutils";

export const IEditorExtensionRegistry = new Token("@jupyterlab/codemirror:IEditorExtensionRegistry");
export const IEditorLanguageRegistry = new Token("@jupyterlab/codemirror:IEditorLanguageRegistry");

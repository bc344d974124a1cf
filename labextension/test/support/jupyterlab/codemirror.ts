/** In the place of JupyterLab's package: its token. */

import { Token } from "@lumino/coreutils";

export const IEditorLanguageRegistry = new Token("@jupyterlab/codemirror:IEditorLanguageRegistry");

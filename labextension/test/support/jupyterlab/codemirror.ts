/** In the place of JupyterLab's package: its token. */

import { Token } from "@lumino/coreutils";

export const IEditorExtensionRegistry = new Token("@jupyterlab/codemirror:IEditorExtensionRegistry");

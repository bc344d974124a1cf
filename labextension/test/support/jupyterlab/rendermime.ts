/** In the place of JupyterLab's package: its tokens. */

import { Token } from "@lumino/coreutils";

export const IRenderMimeRegistry = new Token("@jupyterlab/rendermime:IRenderMimeRegistry");
export const ILatexTypesetter = new Token("@jupyterlab/rendermime:ILatexTypesetter");

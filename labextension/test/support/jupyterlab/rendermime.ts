/** In the place of JupyterLab's package: its token. */

import { Token } from "@lumino/coreutils";

export const ILatexTypesetter = new Token("@jupyterlab/rendermime:ILatexTypesetter");

/** In the place of JupyterLab's package: its token. */

import { Token } from "@lumino/coreutils";

export const IRenderMimeRegistry = new Token("@jupyterlab/rendermime:IRenderMimeRegistry");

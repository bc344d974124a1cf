/** In the place of JupyterLab's package: its token. */

import { Token } from "@lumino/coreutils";

export const IStatusBar = new Token("@jupyterlab/statusbar:IStatusBar");

/** In the place of JupyterLab's package: its token. */

import { Token } from "@lumino/coreutils";

export const ILauncher = new Token("@jupyterlab/launcher:ILauncher");

/** In the place of JupyterLab's package: its token. */

import { Token } from "@lumino/coreutils";

export const ILayoutRestorer = new Token("@jupyterlab/application:ILayoutRestorer");

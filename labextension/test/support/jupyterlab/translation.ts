/** In the place of JupyterLab's package: its token. */

import { Token } from "@lumino/coreutils";

export const ITranslator = new Token("@jupyterlab/translation:ITranslator");

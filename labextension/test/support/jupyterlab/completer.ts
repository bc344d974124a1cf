/** In the place of JupyterLab's package: its token. */

import { Token } from "@lumino/coreutils";

export const ICompletionProviderManager = new Token("@jupyterlab/completer:ICompletionProviderManager");

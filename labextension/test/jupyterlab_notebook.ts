/** In the place of JupyterLab's package: its token. */

import { Token } from "@lumino/coreutils";

export const INotebookTracker = new Token("@jupyterlab/notebook:INotebookTracker");

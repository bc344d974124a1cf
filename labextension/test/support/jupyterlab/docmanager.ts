/** In the place of JupyterLab's package: its token. */

import { Token } from "@lumino/coreutils";

export const IDocumentWidgetOpener = new Token("@jupyterlab/docmanager:IDocumentWidgetOpener");

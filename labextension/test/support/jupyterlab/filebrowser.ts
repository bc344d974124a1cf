/** In the place of JupyterLab's package: its token. */

import { Token } from "@lumino/coreutils";

export const IDefaultFileBrowser = new Token("@jupyterlab/filebrowser:IDefaultFileBrowser");

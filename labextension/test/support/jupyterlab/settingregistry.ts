/** In the place of JupyterLab's package: its token. */

import { Token } from "@lumino/coreutils";

export const ISettingRegistry = new Token("@jupyterlab/settingregistry:ISettingRegistry");

/** The plugins of the JupyterLab extension. */

import { transcriptPlugin } from "./transcript_plugin";

export default [transcriptPlugin];

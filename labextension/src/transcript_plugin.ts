/** Gives the page the renderer, so that no kernel has to send it. */

import type { IPlugin } from "@lumino/application";

import { build, registry } from "./renderer_registry";

export const transcriptPlugin: IPlugin<unknown, void> = {
  id: "cellwright:transcript",
  description: "Draws the transcripts of %%claude cells.",
  autoStart: true,
  activate: () => {
    // loaded with the first cell that needs it, not with JupyterLab
    registry()[build] = () => import("./transcript/transcript");
  },
};

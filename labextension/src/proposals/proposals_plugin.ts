/** Shows what Claude proposes for a cell at the cell. */

import { INotebookTracker } from "@jupyterlab/notebook";
import type { IPlugin } from "@lumino/application";

import { links } from "../notebook/notebook_links";
import { addPageStyle } from "../page_style";
import type { Panel } from "../notebook/proposals";
import { Proposals } from "../notebook/proposals";
import css from "../notebook/proposals.css";

type Tracker = { forEach(each: (panel: Panel) => void): void };

export const proposalsPlugin: IPlugin<unknown, void> = {
  id: "cellwright:proposals",
  description: "Shows changes that Claude proposes at the cells themselves, to accept, reject or edit.",
  autoStart: true,
  optional: [INotebookTracker],
  activate: (_, tracker: Tracker | null) => {
    if (!tracker) return;
    addPageStyle(css);
    const panels = (): Panel[] => {
      const found: Panel[] = [];
      tracker.forEach((panel) => { found.push(panel); });
      return found;
    };
    const proposals = new Proposals(panels, async (host, ask, send) => {
      const { proposal } = await import("../transcript/cards/proposal_card");
      return proposal(host, ask, send);
    });
    links.serve("propose", proposals.propose);
    links.serve("withdraw", proposals.withdraw);
  },
};

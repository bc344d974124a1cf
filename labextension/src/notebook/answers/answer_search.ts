/**
 * JupyterLab's search of a notebook finds what is in Claude's answers, too (*Search Cell Outputs*).
 *
 * It walks the text nodes of an output and wraps its hits in `mark`; an answer has a shadow root, which it does not enter. So
 * while a search is open each answer has its text beside that root, where nothing is drawn, a node for each block. The hits
 * there are shown in the answer: painted over its text without a change to it, the current one scrolled to, folds opened for it.
 */

import type { JupyterFrontEndPlugin } from "@jupyterlab/application";

export const SEARCH = ".jp-DocumentSearch-overlay";

export const answerSearchPlugin: JupyterFrontEndPlugin<void> = {
  id: "cellwright:answer-search",
  description: "Lets JupyterLab's search find what is in Claude's answers.",
  autoStart: true,
  activate: () => {
    document.addEventListener("focusin", ({ target }) => {
      const search = target instanceof Element ? target.closest<HTMLElement>(SEARCH) : null;
      if (search) void import("./searched_answers").then(({ searchAnswers }) => { searchAnswers(search); });
    });
  },
};

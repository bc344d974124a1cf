/** Where the panel's parts are: each is a chunk of its own, loaded when it is needed. */

import type { Parts } from "./panel/panel";

export const parts: Parts = {
  composer: async () => (await import("../composer/composer")).mountComposer,
  contextBar: async () => (await import("./views/context_bar")).mountContextBar,
  view: async (name) => {
    switch (name) {
      case "sessions":
        return (await import("../sessions/sessions")).mountSessions;
      case "help":
        return (await import("./views/help")).mountHelp;
      case "log":
        return (await import("./views/log_view")).mountLogView;
    }
  },
  transcript: async () => (await import("../transcript/view")).view,
};

/** Where the panel's parts are: each is a chunk of its own, loaded when it is needed. */

import type { Parts } from "./panel";

export const parts: Parts = {
  composer: async () => (await import("../composer/composer")).mountComposer,
  contextBar: async () => (await import("../context_bar/context_bar")).mountContextBar,
  view: async (name) => {
    switch (name) {
      case "sessions":
        return (await import("../sessions/sessions")).mountSessions;
      case "help":
        return (await import("../help/help")).mountHelp;
      case "log":
        return (await import("../log_view/log_view")).mountLogView;
    }
  },
  transcript: async () => (await import("../transcript/view")).view,
};

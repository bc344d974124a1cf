/** Where the panel's parts are: each is a chunk of its own, loaded when it is needed. */

import type { Parts } from "./panel";
import { mountPlainComposer } from "./plain_composer";

export const parts: Parts = {
  composer: () => Promise.resolve(mountPlainComposer),
  contextBar: () => Promise.resolve(() => ({ dispose: () => undefined })),
  view: () => Promise.resolve(() => ({ dispose: () => undefined })),
  transcript: async () => (await import("../transcript/view")).view,
};

/** A field to write in, for as long as the composer has not been loaded. */

import type { MountComposer } from "./slots";
import { button, element } from "../transcript/dom";

export const mountPlainComposer: MountComposer = (host, chat, deps) => {
  const area = element("textarea", { rows: "2", "aria-label": deps.trans.__("Prompt"), placeholder: deps.trans.__("Ask Claude…") });
  const send = (): void => {
    const text = area.value;
    if (!text.trim()) return;
    area.value = "";
    chat.prompt({ text, attachments: [], context: "auto", cell: null, options: {} }).catch(() => { area.value ||= text; });
  };
  area.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape") deps.leave();
    else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send();
    else return;
    event.preventDefault();
  });
  host.append(area, button(deps.trans.__("Send"), send, { class: "primary" }));
  return {
    focus: () => { area.focus(); },
    insert: (text) => { area.value += text; },
    attach: () => undefined,
    dispose: () => { host.replaceChildren(); },
  };
};

/** The line in the status bar: whether Claude works, waits for the user, and what the session has cost. */

import type { Chat } from "../transport/chat";
import type { Trans } from "../composer/composer_deps";
import { dollars } from "../transcript/format";

export type Status = { readonly state: "off" | "idle" | "working" | "asking"; readonly text: string; readonly title: string };

export function statusOf(chat: Chat, trans: Trans): Status {
  const { state } = chat;
  if (chat.connection !== "connected" || !state) return { state: "off", text: "", title: "" };
  const cost = state.session.cost_usd ? ` · ${dollars(state.session.cost_usd)}` : "";
  const title = trans.__("Claude: open the panel");
  if (state.asking.length > 0) return { state: "asking", text: trans.__("Claude waits for you") + cost, title };
  if (state.current !== null) return { state: "working", text: trans.__("Claude is working") + cost, title };
  return { state: "idle", text: trans.__("Claude: idle") + cost, title };
}

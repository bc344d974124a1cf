/** An agent that works for a call: how far it is, what it takes, Stop, and its own stream, folded. */

import { button, element, freshId, setText } from "../dom";
import { count, dollars, duration, plural, SHOWN_MS, wholeSeconds } from "../format";
import type { TranscriptContext } from "../items/item_view";
import { Markdown } from "../markdown/markdown";
import type { AgentItem, AgentLine, TranscriptStore } from "../store";
import { revealed, visibleText } from "../visible_text";

/** Within this many pixels of the end the reader is following. */
const FOLLOW_PX = 24;

export type ShownAgentState = AgentItem["state"] | "background";

/** The state as it is shown: an agent that a run left behind goes on in the background, or was stopped with it. */
export function shownState(agent: AgentItem, store: TranscriptStore): ShownAgentState {
  if (agent.state !== "working" || !store.end) return agent.state;
  return agent.background ? "background" : "stopped";
}

export function agentTime(agent: AgentItem, store: TranscriptStore): string {
  if (agent.ms !== null) return duration(agent.ms / 1000);
  return store.end ? "" : wholeSeconds(store.now() - agent.at);
}

export type AgentView = { readonly node: HTMLElement; update(): void; tick(): void };

export function agentCard(agent: AgentItem, place: TranscriptContext): AgentView {
  const streamId = freshId();
  const stream = element("ol", { class: "stream", id: streamId, tabindex: "0", "aria-label": `Steps of the agent ${revealed(agent.type)}`, hidden: "" });
  const missing = element("p", { class: "label", hidden: "" });
  const took = element("span", { class: "took" });
  const now = element("span", { class: "now" });
  const toggle = button("Steps", () => {
    const opened = stream.hidden;
    toggle.setAttribute("aria-expanded", `${opened}`);
    stream.hidden = !opened;
    update();
    if (opened) stream.scrollTop = stream.scrollHeight;
  }, { class: "steps", "aria-expanded": "false", "aria-controls": streamId });
  const stop = button("Stop", () => {
    place.send({ type: "stop_agent", agent: agent.agent });
    stop.disabled = true;
    setText(stop, "Stopping…");
  }, { class: "stop", "aria-label": `Stop the agent ${revealed(agent.type)}` });
  const node = element("div", { class: "agent" }, element("div", { class: "agent-head" }, toggle, took, now, stop), missing, stream);
  const views = new Map<AgentLine, LineView>();

  const draw = (): void => {
    const following = stream.scrollHeight - stream.scrollTop - stream.clientHeight < FOLLOW_PX;
    const kept = new Set(agent.lines);
    for (const [line, view] of views) {
      if (kept.has(line)) continue;
      view.node.remove();
      views.delete(line);
    }
    for (const line of agent.lines) {
      let view = views.get(line);
      if (!view) {
        view = lineView(line, place);
        views.set(line, view);
        stream.append(view.node);
      }
      view.update();
    }
    if (following) stream.scrollTop = stream.scrollHeight;
  };
  const update = (): void => {
    const state = shownState(agent, place.store);
    node.dataset.state = state;
    setText(took, factsOf(agent).join(" · "));
    setText(now, nowText(agent, state));
    stop.hidden = state !== "working";
    missing.hidden = stream.hidden || agent.dropped === 0;
    setText(missing, `${plural(agent.dropped, "earlier step")} not shown`);
    if (!stream.hidden) draw();
  };
  return {
    node,
    update,
    tick: () => {
      for (const view of views.values()) view.tick();
    },
  };
}

function factsOf(agent: AgentItem): string[] {
  const facts = [plural(agent.calls, "tool call")];
  if (agent.cost !== null && agent.cost > 0) facts.push(dollars(agent.cost));
  if (agent.tokens > 0) facts.push(`${count(agent.tokens)} tokens`);
  return facts;
}

/** True between two steps: the call's line says that it is thinking. */
export function isThinking({ lines }: AgentItem): boolean {
  const last = lines.at(-1);
  return last?.kind === "call" && last.status !== "";
}

/** The latest of its steps, in one line. */
function nowText(agent: AgentItem, state: ShownAgentState): string {
  if (state === "background") return "continues in the background; /tasks lists it";
  if (state !== "working" || isThinking(agent)) return "";
  return revealed(agent.lines.at(-1)?.text.split("\n", 1)[0] ?? "");
}

type LineView = { readonly node: HTMLElement; update(): void; tick(): void };

const MARKS: Record<AgentLine["status"], [sign: string, word: string]> = {
  "": ["●", "running"],
  success: ["✓", "done"],
  error: ["✗", "failed"],
  timeout: ["✗", "timed out"],
  denied: ["⊘", "denied"],
  interrupted: ["■", "stopped"],
};

function lineView(line: AgentLine, place: TranscriptContext): LineView {
  if (line.kind === "text") return textView(line);
  if (line.kind === "note") return { node: element("li", { class: "note" }, visibleText(line.text)), update: () => undefined, tick: () => undefined };
  const mark = element("span", { class: "mark", "aria-hidden": "true" });
  const word = element("span", { class: "unseen" });
  const time = element("span", { class: "time" });
  const title = element("span", { class: "title" });
  const head = element("div", { class: "step" }, mark, title, word, time);
  const node = element("li", {}, head);
  let nested: AgentView | null = null;
  return {
    node,
    update() {
      const over = line.status === "" && place.store.end ? "interrupted" : line.status;
      node.dataset.status = over || "running";
      setText(mark, MARKS[over][0]);
      setText(title, revealed(line.text));
      setText(word, ` (${MARKS[over][1]})`);
      setText(time, line.ms >= SHOWN_MS ? duration(line.ms / 1000) : "");
      if (line.agent && !nested) {
        nested = agentCard(line.agent, place);
        node.append(nested.node);
      }
      nested?.update();
    },
    tick: () => nested?.tick(),
  };
}

function textView(line: AgentLine): LineView {
  const node = element("li", { class: "prose" });
  let drawn = false;
  return {
    node,
    update() {
      if (!drawn) new Markdown(node).update(line.text, false);
      drawn = true;
    },
    tick: () => undefined,
  };
}

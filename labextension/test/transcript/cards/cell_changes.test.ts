import { describe, expect, it, vi } from "vitest";

import { proposalCard } from "../../../src/transcript/cards/proposal_card";
import { focused } from "../../../src/transcript/focus";
import type { AnswerMessage, AskOp } from "../../../src/transcript/protocol";
import { answered, ask, drawn, find, press, readyCard, RUN, scene, shadowOf, text } from "../scene";

const DIFF = "--- a\n+++ b\n@@ -1 +1 @@\n-x = 1\n+x = 2\n";

function change(question: string, changes: Partial<AskOp> = {}): AskOp {
  return ask(question, {
    name: "NotebookEdit",
    title: `Edit cell ${question} in notebook.ipynb (+1 -1)`,
    input: { notebook_path: "notebook.ipynb", cell_id: question, new_source: "x = 2" },
    detail: DIFF,
    detail_kind: "diff",
    ...changes,
  });
}

function labels(root: ParentNode): string[] {
  return [...root.querySelectorAll("button")].map((node) => node.textContent);
}

async function readyBar(root: ShadowRoot): Promise<HTMLElement> {
  return vi.waitFor(() => find(root, ".cell-changes:not([disabled])"), { interval: 20, timeout: 3000 });
}

describe("a change of a cell", () => {
  it("is accepted or rejected", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN, change("q"));
    const card = await readyCard(root);
    expect(labels(card)).toEqual(["1Accept", "2Allow all Python of this session", "3Always allow", "eEdit first…", "4Reject"]);
    press(card, "1");
    kernel.say(answered("q"));
    await drawn();
    expect(find(root, ".approved").title).toMatch(/^Accepted/);
  });

  it("is edited as a source, not as JSON", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN, change("q"));
    press(await readyCard(root), "e");
    const area = find<HTMLTextAreaElement>(root, "textarea");
    expect(area.value).toBe("x = 2");
    area.value = "x = 3";
    press(area, "Enter", { ctrlKey: true });
    expect(kernel.answers[0]?.input).toEqual({ notebook_path: "notebook.ipynb", cell_id: "q", new_source: "x = 3" });
  });
});

describe("several changes of cells", () => {
  it.each([
    ["Accept all", "allow"],
    ["Reject all", "deny"],
  ])("%s answers each once", async (label, behavior) => {
    const { kernel, root } = scene();
    kernel.say(RUN, change("a"), change("b"), change("c"));
    const bar = await readyBar(root);
    expect(text(bar, ".what")).toBe("3 cell changes wait for you");
    [...bar.querySelectorAll("button")].find((node) => node.textContent === label)?.click();
    expect(kernel.answers.map(({ question, behavior }) => [question, behavior])).toEqual(["a", "b", "c"].map((id) => [id, behavior]));
  });

  it("one alone, and questions about anything else, need no such button", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN, change("a"), ask("b"));
    await drawn();
    expect(find(root, ".cell-changes").hidden).toBe(true);
    kernel.say(change("c"));
    await drawn();
    expect(text(root, ".cell-changes .what")).toBe("2 cell changes wait for you");
    kernel.say(answered("c", "deny", "no"));
    await drawn();
    expect(find(root, ".cell-changes").hidden).toBe(true);
  });

  it("a click before they could be read answers nothing", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN, change("a"), change("b"));
    await drawn();
    find(root, ".cell-changes button").click();
    expect(kernel.answers).toEqual([]);
  });
});

describe("at the cell itself", () => {
  function shown(): { root: ShadowRoot; sent: AnswerMessage[]; card: ReturnType<typeof proposalCard> } {
    const host = document.createElement("div");
    document.body.replaceChildren(host);
    const sent: AnswerMessage[] = [];
    const card = proposalCard(host, change("q"), (answer) => void sent.push(answer));
    return { root: shadowOf(host), sent, card };
  }

  it("the same card, which never takes the keyboard, answers", async () => {
    const { root, sent, card } = shown();
    const node = await readyCard(root);
    expect(text(node, ".diff")).toContain("x = 2");
    expect(node.contains(focused())).toBe(false);
    press(node, "4");
    expect(sent).toEqual([{ type: "answer", question: "q", behavior: "deny", scope: "once", reason: "", input: null }]);
    card.acknowledge();
    expect(text(root, ".ask-status")).toBe("The answer was received.");
  });
});

import { afterEach, describe, expect, it, vi } from "vitest";

import { proposalCard } from "../../../src/transcript/cards/proposal_card";
import { focused } from "../../../src/transcript/focus";
import { offerChangeRunner } from "../../../src/transcript/items/page_actions";
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

function shownLabels(root: ParentNode): string[] {
  return [...root.querySelectorAll("button")].filter((node) => !node.closest("[hidden]")).map((node) => node.textContent);
}

async function readyBar(root: ShadowRoot): Promise<HTMLElement> {
  return vi.waitFor(() => find(root, ".cell-changes:not([disabled])"), { interval: 20, timeout: 3000 });
}

describe("a change of a cell", () => {
  it("is accepted or rejected", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN, change("q"));
    const card = await readyCard(root);
    expect(shownLabels(card)).toEqual(["1Accept", "4Reject", "eEdit first…", "More"]);
    expect(text(card, ".keys .all")).toBe("Press 1, 4 or e");
    find(card, ".unfold").click();
    expect(shownLabels(card).slice(4)).toEqual(["2Allow all Python of this session", "3Always allow"]);
    expect(text(card, ".rest .reason")).toBe("No rule allows it.");
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
  afterEach(() => { offerChangeRunner(undefined); });

  function shown(asked = change("q")): { root: ShadowRoot; sent: AnswerMessage[]; all: string[]; card: ReturnType<typeof proposalCard> } {
    const host = document.createElement("div");
    document.body.replaceChildren(host);
    const sent: AnswerMessage[] = [];
    const all: string[] = [];
    const page = { reveal: () => undefined, askKeys: () => () => undefined, answerAll: (behavior: string) => void all.push(behavior) };
    const card = proposalCard(host, asked, (answer) => void sent.push(answer), page);
    return { root: shadowOf(host), sent, all, card };
  }

  /** The page runs cells, or only accepts; what it is to run when the change is made. */
  function runner(offered: "run" | "accept"): (string | null)[] {
    const runs: (string | null)[] = [];
    offerChangeRunner({ offers: () => offered, runWhenChanged: (_ask, source) => void runs.push(source) });
    return runs;
  }

  it("Enter accepts and runs, as its button says, and 1 only accepts", async () => {
    const runs = runner("run");
    const { root, sent } = shown();
    const node = await readyCard(root);
    expect(shownLabels(node)).toEqual(["EnterAccept and run", "1Accept", "4Reject", "eEdit first…", "More"]);
    press(node, "Enter");
    expect(sent).toMatchObject([{ behavior: "allow", scope: "once", input: null }]);
    expect(runs).toEqual(["x = 2"]);
    const other = shown();
    press(await readyCard(other.root), "1");
    expect(other.sent).toMatchObject([{ behavior: "allow" }]);
    expect(runs).toEqual(["x = 2", null]);
  });

  it("a change of a cell that somebody changed meanwhile runs nothing, and says so", async () => {
    const runs = runner("run");
    const { root, sent } = shown({ ...change("q"), warning: "Somebody changed this cell since Claude read it: nothing will be changed." });
    const node = await readyCard(root);
    expect(shownLabels(node)).toEqual(["EnterLet Claude adapt it", "4Reject", "More"]);
    press(node, "Enter");
    expect(sent).toMatchObject([{ behavior: "allow" }]);
    expect(runs).toEqual([null]);
    offerChangeRunner(undefined);
    expect(shownLabels(await readyCard(shown({ ...change("q"), warning: "Somebody changed it." }).root))[0]).toBe("1Let Claude adapt it");
  });

  it("Enter on a button presses that button, and on a change that nothing runs of it accepts", async () => {
    const runs = runner("accept");
    const { root, sent } = shown();
    const node = await readyCard(root);
    expect(shownLabels(node)).toEqual(["EnterAccept", "4Reject", "eEdit first…", "More"]);
    expect(press(find(node, "button.deny"), "Enter")).toBe(false);
    expect(sent).toEqual([]);
    press(node, "Enter");
    expect(sent).toMatchObject([{ behavior: "allow" }]);
    expect(runs).toEqual(["x = 2"]);
  });

  it("of several, all are accepted or rejected from one", async () => {
    const { root, all, card } = shown();
    const node = await readyCard(root);
    card.number(2, 3);
    expect(text(node, ".nth")).toBe("2 of 3");
    expect(shownLabels(node)).toContain("aAccept all three");
    press(node, "a");
    find(node, ".rest button.deny").click();
    expect(all).toEqual(["allow", "deny"]);
  });

  it("keys that it got unasked do nothing until they could be read", async () => {
    const { root, sent, card } = shown();
    const node = await readyCard(root);
    card.offerKeys();
    expect(node.contains(focused())).toBe(true);
    press(node, "1");
    expect(sent).toEqual([]);
    press(await readyCard(root), "1");
    expect(sent).toHaveLength(1);
  });

  it("the same card, which never takes the keyboard itself, answers", async () => {
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

import { beforeEach, describe, expect, it } from "vitest";

import type { JsonObject } from "../../../src/json";
import { Proposals } from "../../../src/notebook/proposals/proposals";
import { proposalCard } from "../../../src/transcript/cards/proposal_card";
import { RpcLink } from "../../../src/transport/rpc";
import { standIn } from "../../support/stand_in";
import { ask, press, readyCard, shadowOf, text } from "../../transcript/scene";
import type { NotebookPanel } from "@jupyterlab/notebook";

const CHANGE = ask("q", { name: "NotebookEdit", title: "Edit cell b", detail: "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n", detail_kind: "diff" });

/** A notebook with cells of these ids, open in the page. */
function panel(path: string, ...ids: string[]): NotebookPanel & { cells: HTMLElement[] } {
  const notebook = document.createElement("div");
  const widgets = ids.map((id) => {
    const node = document.createElement("div");
    node.className = "jp-Cell";
    notebook.append(node);
    return { model: { id }, node };
  });
  document.body.append(notebook);
  return standIn({ context: { path, ready: Promise.resolve() }, content: { widgets }, cells: widgets.map(({ node }) => node) });
}

class Page {
  readonly sent: JsonObject[] = [];
  readonly link = new RpcLink(
    {
      send: (message) => void this.sent.push(message),
    },
    new Map(),
  );
  readonly proposals: Proposals;
  /** The cells that are as Claude changed them. */
  readonly made = new Set<string>();

  constructor(...panels: NotebookPanel[]) {
    this.proposals = new Proposals(() => panels, (host, asked, send, page) => Promise.resolve(proposalCard(host, asked, send, page)), undefined, () => this.made);
  }

  propose(params: JsonObject): Promise<boolean> {
    return this.proposals.propose({ path: "a.ipynb", where: "on", cell: "b", ask: CHANGE, ...params }, this.link);
  }
}

function hosts(node: ParentNode): HTMLElement[] {
  return [...node.querySelectorAll<HTMLElement>(".cellwright-proposal")];
}

beforeEach(() => {
  document.body.replaceChildren();
});

describe("a proposal", () => {
  it.each([
    ["on", "b", 1, "on"],
    ["after", "a", 0, "after"],
    ["before", "c", 2, "before"],
    ["start", "", 0, "before"],
    ["end", "", 2, "after"],
  ])("%s %s stands at cell %i", async (where, cell, index, placed) => {
    const notebook = panel("a.ipynb", "a", "b", "c");
    expect(await new Page(notebook).propose({ where, cell })).toBe(true);
    expect(notebook.cells.map((node) => hosts(node).length)).toEqual([0, 1, 2].map((at) => Number(at === index)));
    expect(hosts(document)[0]?.dataset.where).toBe(placed);
  });

  it("of a notebook or a cell that is not here is shown nowhere", async () => {
    const page = new Page(panel("a.ipynb", "a"));
    expect(await page.propose({ path: "other.ipynb", cell: "a" })).toBe(false);
    expect(await page.propose({ cell: "gone" })).toBe(false);
    expect(hosts(document)).toEqual([]);
  });

  it("is shown in each view of the notebook, answered in one, and goes away in all", async () => {
    const [one, two] = [panel("a.ipynb", "b"), panel("a.ipynb", "b")];
    const page = new Page(one, two);
    await page.propose({});
    const [first, second] = hosts(document);
    if (!first || !second) throw new Error("two views have two cards");
    press(await readyCard(shadowOf(second)), "1");
    expect(page.sent).toMatchObject([{ type: "request", method: "answer", params: { question: "q", behavior: "allow" } }]);
    page.link.receive({ type: "reply", id: page.sent[0]?.id, result: null });
    await Promise.resolve();
    expect(text(shadowOf(first), ".ask-status")).toBe("The answer was received.");
    page.proposals.withdraw({ question: "q" });
    expect(hosts(document)).toEqual([]);
  });

  it("that is sent again is there once", async () => {
    const page = new Page(panel("a.ipynb", "b"));
    await page.propose({});
    await page.propose({});
    expect(hosts(document)).toHaveLength(1);
  });

  it("that was answered before it could be drawn never comes", async () => {
    const page = new Page(panel("a.ipynb", "b"));
    const shown = page.propose({});
    page.proposals.withdraw({ question: "q" });
    expect(await shown).toBe(false);
    expect(hosts(document)).toEqual([]);
  });
});

it("F8 visits changes that wait and those that were made, in the notebook's order", async () => {
  const activated: number[] = [];
  const notebook = panel("a.ipynb", "a", "b", "c", "d");
  const content = Object.assign(notebook.content, {
    mode: "command", activate: () => undefined,
    scrollToItem: (at: number) => { activated.push(at); return Promise.resolve(); },
  });
  content.activeCellIndex = 0;
  const page = new Page(notebook);
  expect(page.proposals.hasChanges(notebook)).toBe(false);
  page.made.add("a").add("d");
  expect(page.proposals.hasChanges(notebook)).toBe(true);
  await page.propose({ cell: "b" });
  page.proposals.step(notebook, 1);
  expect([content.activeCellIndex, activated]).toEqual([1, []]);
  content.activeCellIndex = 2;
  page.proposals.step(notebook, 1);
  page.proposals.step(notebook, 1);
  expect([content.activeCellIndex, activated]).toEqual([0, [3, 0]]);
  page.proposals.step(notebook, -1);
  expect(activated).toEqual([3, 0, 3]);
});

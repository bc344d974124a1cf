/** Claude's own questions and its plan: answered by keys alone, by mouse, or sent back. */

import { describe, expect, it, vi } from "vitest";

import type { JsonObject } from "../../../src/json";
import { focused } from "../../../src/transcript/focus";
import type { AskOp } from "../../../src/transcript/protocol";
import type { Scene } from "../scene";
import { answered, ask, begun, drawn, ended, find, press, readyCard, RUN, scene, text } from "../scene";

const STORE = {
  question: "Where to keep it?",
  header: "Storage",
  options: [{ label: "Parquet", description: "small" }, { label: "CSV", description: "opens anywhere" }],
};
const PARTS = {
  question: "Which columns?",
  header: "Columns",
  multiSelect: true,
  options: ["time", "level", "gauge"].map((label) => ({ label, description: "" })),
};

function question(...questions: (JsonObject & { question: string })[]): Partial<AskOp> {
  const [first] = questions;
  const title = first && questions.length === 1 ? first.question : `${questions.length} questions`;
  return {
    kind: "question", name: "AskUserQuestion", title, detail: "as text", detail_kind: "text", input: { questions },
    choices: [{ key: "Escape", action: "deny", scope: "once", label: "Dismiss", rules: [], input: null }],
  };
}

async function asked(changes: Partial<AskOp>): Promise<Scene & { card: HTMLElement }> {
  const opened = scene();
  opened.kernel.say(RUN, ask("q", changes));
  return { ...opened, card: await readyCard(opened.root) };
}

const yes = (input: JsonObject): object => ({ type: "answer", question: "q", behavior: "allow", scope: "once", reason: "", input });
const no = (reason: string): object => ({ type: "answer", question: "q", behavior: "deny", scope: "once", reason, input: null });
const own = (card: HTMLElement): HTMLInputElement => find<HTMLInputElement>(card, ".own");

function write(field: HTMLInputElement, value: string): void {
  field.value = value;
  field.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
}

describe("one question", () => {
  it("digits choose, Enter to send, and the notebook hears none of it", async () => {
    const { card, kernel } = await asked(question(STORE));
    expect(press(card, "2")).toBe(false);
    expect(press(card, "1")).toBe(false);
    expect(kernel.answers).toEqual([]);
    expect(press(card, "Enter")).toBe(false);
    expect(kernel.answers).toEqual([yes({ answers: { "Where to keep it?": "Parquet" }, annotations: {} })]);
    press(card, "Enter");
    expect(kernel.answers).toHaveLength(1);
  });

  it("cannot be sent without an answer, and says so", async () => {
    const { card, kernel } = await asked(question(STORE));
    press(card, "Enter");
    press(card, "Enter");
    press(card, "7");
    expect(kernel.answers).toEqual([]);
    expect(text(card, ".ask-status")).toMatch(/^Choose an answer/);
    press(card, "1");
    expect(text(card, ".ask-status")).toBe("");
  });

  it("takes an answer in one's own words, in which digits are text", async () => {
    const { card, kernel } = await asked(question(STORE));
    press(card, "1");
    press(card, "3");
    expect(focused()).toBe(own(card));
    for (const key of ["1", "2", "Escape"]) expect(press(own(card), key)).toBe(false);
    expect(focused()).toBe(card);
    write(own(card), " a database ");
    press(own(card), "Enter");
    expect(kernel.answers).toEqual([yes({ answers: { "Where to keep it?": "a database" }, annotations: {} })]);
  });

  it("goes by the option that was taken last, not by what was written before", async () => {
    const { card, kernel } = await asked(question(STORE));
    write(own(card), "a database");
    press(card, "2");
    find(card, ".primary").click();
    expect(kernel.answers).toEqual([yes({ answers: { "Where to keep it?": "CSV" }, annotations: {} })]);
  });

  it("is dismissed with a reason", async () => {
    const { card, kernel } = await asked(question(STORE));
    find<HTMLInputElement>(card, '[aria-label="Reason for dismissing"]').value = " ask me later ";
    press(card, "Escape");
    expect(kernel.answers).toEqual([no("ask me later")]);
  });

  it("is answered by mouse", async () => {
    const { card, kernel } = await asked(question(STORE));
    card.querySelectorAll<HTMLElement>("label.option")[1]?.click();
    find(card, ".primary").click();
    expect(kernel.answers).toEqual([yes({ answers: { "Where to keep it?": "CSV" }, annotations: {} })]);
  });

  it("answers nothing before it could be read", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN, ask("q", question(STORE)));
    await drawn();
    const card = find(root, ".ask");
    press(card, "1");
    press(card, "Enter");
    await readyCard(root);
    press(card, "Enter");
    expect(kernel.answers).toEqual([]);
  });

  it("shows labels and descriptions as the data they are", async () => {
    const evil = "<img src=x onerror=alert(1)>\u202E";
    const option = { label: evil, description: evil, preview: evil };
    const { card, root } = await asked(question({ question: evil, header: evil, options: [option, { ...option, label: "b" }] }));
    expect(card.querySelector("img")).toBeNull();
    expect(root.textContent).not.toContain("\u202E");
    expect(text(card, ".option b")).toBe("<img src=x onerror=alert(1)>⟦U+202E⟧");
    expect(text(card, ".chip")).toContain("⟦U+202E⟧");
  });

  it("shows the preview of the option that is chosen, in the same place", async () => {
    const options = STORE.options.map((option) => ({ ...option, preview: `preview of ${option.label}` }));
    const { card } = await asked(question({ ...STORE, options }));
    const seen = (): string[] => [...card.querySelectorAll<HTMLElement>(".previews pre")].filter((pre) => pre.style.display !== "none").map((pre) => pre.textContent);
    expect(seen()).toEqual(["preview of Parquet"]);
    press(card, "2");
    expect(seen()).toEqual(["preview of CSV"]);
  });

  it("is a radio group that a screen reader can tell by the question", async () => {
    const { card, root } = await asked(question(STORE));
    const group = find(card, "[role=radiogroup]");
    expect(root.getElementById(group.getAttribute("aria-labelledby") ?? "")?.textContent).toBe("Where to keep it?");
    expect(new Set([...group.querySelectorAll<HTMLInputElement>("[type=radio]")].map((box) => box.name)).size).toBe(1);
    expect((card.getAttribute("aria-describedby") ?? "").split(" ").map((id) => root.getElementById(id)?.textContent).join()).toMatch(/Enter to send/);
  });

  it("falls back to its text where the input is not here", async () => {
    const { card, kernel } = await asked({ ...question(STORE), input: null });
    expect(text(card, ".detail")).toBe("as text");
    press(card, "Escape");
    expect(kernel.answers).toEqual([no("")]);
  });
});

describe("several questions", () => {
  it("are answered by digits alone: each choice of one goes on to the next question", async () => {
    const { card, kernel } = await asked(question(STORE, PARTS, { ...STORE, question: "And then?" }));
    press(card, "2");
    for (const key of ["1", "3", "2", "2"]) press(card, key);
    press(card, "Enter");
    expect(text(card, ".ask-status")).toMatch(/^One question has no answer yet/);
    press(focused() ?? card, "1");
    press(card, "Enter");
    expect(kernel.answers).toEqual([
      yes({ answers: { "Where to keep it?": "CSV", "Which columns?": "time, gauge", "And then?": "Parquet" }, annotations: {} }),
    ]);
  });

  it("can be sent in part, by a second Enter", async () => {
    const { card, kernel } = await asked(question(STORE, PARTS));
    press(card, "1");
    press(card, "Enter");
    expect(kernel.answers).toEqual([]);
    press(focused() ?? card, "Enter");
    expect(kernel.answers).toEqual([
      yes({ answers: { "Where to keep it?": "Parquet" }, annotations: { "Which columns?": { unanswered: "skipped" } } }),
    ]);
  });

  it("take something else as well where several may be chosen", async () => {
    const { card, kernel } = await asked(question(PARTS, STORE));
    press(card, "3");
    press(card, "4");
    write(own(card), "the station");
    find(card, "[role=radiogroup] label").click();
    press(own(card), "Enter");
    expect(kernel.answers).toEqual([
      yes({ answers: { "Which columns?": "gauge, the station", "Where to keep it?": "Parquet" }, annotations: {} }),
    ]);
  });

  it("show which one the digits are for, and follow the keyboard", async () => {
    const { card } = await asked(question(STORE, PARTS));
    const current = (): string[] => [...card.querySelectorAll("[data-current] .chip")].map((chip) => chip.textContent);
    expect(current()).toEqual(["Storage"]);
    press(card, "1");
    expect(current()).toEqual(["Columns"]);
    find<HTMLInputElement>(card, "[type=radio]").focus();
    expect(current()).toEqual(["Storage"]);
    press(find(card, "[type=radio]"), "2");
    expect(find<HTMLInputElement>(card, '[value="CSV"]').checked).toBe(true);
  });
});

const PLAN: Partial<AskOp> = {
  kind: "plan", name: "ExitPlanMode", title: "Claude's plan", detail: "1. **Do** it", detail_kind: "text", input: { plan: "1. **Do** it" },
  choices: [
    { key: "1", action: "allow", scope: "once", label: "Approve", rules: [], input: { decision: "approve" } },
    { key: "2", action: "allow", scope: "once", label: "Approve and accept edits", rules: [], input: { decision: "accept_edits" } },
    { key: "4", action: "deny", scope: "once", label: "Keep planning", rules: [], input: null },
  ],
};

it("the answers to several questions stay to be read", async () => {
  const { kernel, root } = await asked(question(STORE, PARTS));
  kernel.say({ ...answered("q"), input: { answers: { "Where to keep it?": "CSV\u202E", "Which columns?": ["time", "level"] } } } as never);
  await drawn();
  expect([...root.querySelectorAll(".answered p")].map((line) => line.textContent)).toEqual([
    "Where to keep it? CSV⟦U+202E⟧", "Which columns? time, level",
  ]);
});

it("a question that was left alone too long says so", async () => {
  const { kernel, root } = await asked(question(STORE));
  kernel.say({ ...answered("q"), by: "policy", input: { answers: {}, annotations: { "Where to keep it?": { unanswered: "timed_out" } } } } as never);
  await drawn();
  expect(text(root, ".answered")).toBe("Not answered in time");
});

describe("a plan", () => {
  it("is shown as Markdown, without anything active, and approved by key", async () => {
    const { card, kernel } = await asked({ ...PLAN, detail: "1. **Do** it <img src=x>\u200B" });
    expect(text(card, ".plan li strong")).toBe("Do");
    expect(card.querySelector("img")).toBeNull();
    expect(text(card, ".plan")).toContain("<img src=x>⟦U+200B⟧");
    press(card, "2");
    expect(kernel.answers).toEqual([yes({ decision: "accept_edits" })]);
  });

  it.each([["4", "smaller steps"], ["Escape", ""]])("goes back with a comment by %s", async (key, comment) => {
    const { card, kernel } = await asked(PLAN);
    find<HTMLInputElement>(card, '[aria-label="Comment on the plan"]').value = comment;
    press(card, key);
    expect(kernel.answers).toEqual([no(comment)]);
  });

  it("has no third key: 4 is a no everywhere", async () => {
    const { card, kernel } = await asked(PLAN);
    press(card, "3");
    expect(kernel.answers).toEqual([]);
  });

  it("can be edited, and approved in either way", async () => {
    const { card, kernel } = await asked(PLAN);
    press(card, "e");
    const area = find<HTMLTextAreaElement>(card, "textarea");
    expect(text(card, "label")).toBe("Edit the plan");
    area.value = "1. Do half of it";
    expect([...card.querySelectorAll(".editor button")].map((one) => one.textContent)).toEqual(["Ctrl EnterApprove", "Approve and accept edits", "Cancel"]);
    card.querySelectorAll<HTMLButtonElement>(".editor button")[1]?.click();
    expect(kernel.answers).toEqual([yes({ plan: "1. Do half of it", decision: "accept_edits" })]);
  });

  it("stays to be read as it was approved", async () => {
    const { kernel, root } = await asked(PLAN);
    kernel.say(
      { ...answered("q"), input: { decision: "approve", plan: "1. *Half*" } } as never,
      begun("tool-q", { name: "ExitPlanMode", title: "Do it", input: { plan: "1. **Do** it" } }),
      { op: "mode", mode: "default" },
      ended("tool-q"),
    );
    await drawn();
    expect(text(root, ".answered")).toBe("Plan approved in this cell");
    const fold = find<HTMLDetailsElement>(root, "details");
    fold.open = true;
    fold.dispatchEvent(new Event("toggle"));
    await vi.waitFor(() => { expect(text(root, ".inside em")).toBe("Half"); });
  });
});

describe("a question of trust", () => {
  it("has two answers and nothing to edit, and is over when it is answered", async () => {
    const yesOrNo = [
      { key: "1", action: "allow", scope: "once", label: "Let it ask", rules: [], input: null },
      { key: "4", action: "deny", scope: "once", label: "Do not run it", rules: [], input: null },
    ] satisfies AskOp["choices"];
    const { card, kernel, root } = await asked({ kind: "trust", name: "Trust", title: "Let it ask", input: {}, reason: "It runs with your key.", choices: yesOrNo });
    expect([...card.querySelectorAll("button")].map((one) => one.textContent)).toEqual(["1Let it ask", "4Do not run it"]);
    expect(card.querySelector("input")).toBeNull();
    expect(text(card, ".reason")).toBe("It runs with your key.");
    press(card, "e");
    press(card, "1");
    expect(kernel.answers).toEqual([{ ...no(""), behavior: "allow" }]);
    kernel.say(answered("q"));
    await drawn();
    expect(text(root, ".answered")).toBe("Trusted in this cell");
    expect(text(root, ".status")).toBe("done");
  });
});

describe("the changes of a preview", () => {
  const CHANGES = {
    question: "Which changes do you accept?",
    header: "Preview",
    multiSelect: true,
    options: [{ label: "a.py +1 −1", marked: true }, { label: "b.py +2 −0", marked: true }, { label: "All" }, { label: "None" }].map((option) => ({ description: "", ...option })),
  };
  const preview = (): Partial<AskOp> => ({ ...question(CHANGES), name: "AcceptPreview" });
  const answer = (chosen: string): object => yes({ answers: { "Which changes do you accept?": chosen }, annotations: {} });

  it.each([
    ["Enter", answer("a.py +1 −1, b.py +2 −0")],
    ["a", answer("All")],
    ["d", answer("None")],
    ["Escape", no("")],
  ])("are answered by %s", async (key, sent) => {
    const { card, kernel } = await asked(preview());
    press(card, key);
    expect(kernel.answers).toEqual([sent]);
  });

  it("says with how many Enter accepts", async () => {
    const { card } = await asked(preview());
    press(card, "1");
    expect(text(card, ".choices")).toContain("Accept 1 change");
  });
});

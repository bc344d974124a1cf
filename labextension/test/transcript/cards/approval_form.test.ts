import { describe, expect, it, vi } from "vitest";

import { focused } from "../../../src/transcript/focus";
import type { Scene } from "../scene";
import { answered, ask, begun, CHOICES, END, ended, find, drawn, press, readyCard, RUN, scene, text } from "../scene";

async function asked(changes = {}): Promise<Scene & { card: HTMLElement }> {
  const opened = scene();
  opened.kernel.say(RUN, ask("q", changes));
  return { ...opened, card: await readyCard(opened.root) };
}

const allow = { type: "answer", question: "q", behavior: "allow", scope: "once", reason: "", input: null };
const deny = { ...allow, behavior: "deny" };

describe("keys", () => {
  it.each([
    ["1", allow],
    ["2", { ...allow, scope: "session" }],
    ["3", { ...allow, scope: "always" }],
    ["4", deny],
    ["Escape", deny],
  ])("%s answers, and the notebook does not hear it", async (key, answer) => {
    const { card, kernel } = await asked();
    expect(press(card, key)).toBe(false);
    expect(kernel.answers).toEqual([answer]);
  });

  it("answers once", async () => {
    const { card, kernel } = await asked();
    press(card, "1");
    press(card, "2");
    press(card, "Escape");
    expect(kernel.answers).toHaveLength(1);
  });

  it("a key that is held, or pressed with a modifier, or is none of ours answers nothing", async () => {
    const { card, kernel } = await asked();
    press(card, "1", { repeat: true });
    expect(press(card, "1", { ctrlKey: true })).toBe(true);
    expect(press(card, "Tab")).toBe(true);
    expect(press(card, "d")).toBe(false);
    expect(kernel.answers).toEqual([]);
  });

  it("what was pressed before the question could be read answers nothing", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN, ask("q"));
    await drawn();
    const card = find(root, ".ask");
    expect(press(card, "1")).toBe(false);
    find(root, ".ask button").click();
    expect(kernel.answers).toEqual([]);
    press(await readyCard(root), "1");
    expect(kernel.answers).toHaveLength(1);
  });

  it("there is no 3 where no rule can say it", async () => {
    const { card, kernel, root } = await asked({ choices: CHOICES.filter((choice) => choice.scope !== "always") });
    press(card, "3");
    expect(kernel.answers).toEqual([]);
    expect([...root.querySelectorAll(".ask kbd")].map((key) => key.textContent)).toEqual(["1", "2", "e", "4"]);
  });
});

describe("the reason for a denial", () => {
  it("is text: digits, e and Escape are no answers, Enter denies with it", async () => {
    const { card, kernel } = await asked();
    const why = find<HTMLInputElement>(card, "input");
    why.focus();
    why.value = " 1 thing: e.g. use git mv ";
    for (const key of ["1", "e", "4", "Escape"]) expect(press(why, key)).toBe(false);
    expect(kernel.answers).toEqual([]);
    expect(focused()).toBe(card);
    press(why, "Enter", { isComposing: true });
    expect(kernel.answers).toEqual([]);
    press(why, "Enter");
    expect(kernel.answers).toEqual([{ ...deny, reason: "1 thing: e.g. use git mv" }]);
  });

  it("goes with the key and the button, and not with a permission", async () => {
    const { card, kernel } = await asked();
    find<HTMLInputElement>(card, "input").value = "no";
    press(card, "1");
    expect(kernel.answers).toEqual([allow]);
  });
});

describe("editing the input first", () => {
  const area = (card: HTMLElement): HTMLTextAreaElement => find<HTMLTextAreaElement>(card, "textarea");

  it("of a command is editing the command", async () => {
    const { card, kernel } = await asked();
    expect(press(card, "e")).toBe(false);
    expect(area(card).value).toBe("ls -la");
    expect(text(card, "label")).toBe("Edit the command");
    area(card).value = "ls -1";
    for (const key of ["1", "4", "Enter"]) expect(press(area(card), key)).toBe(false);
    expect(kernel.answers).toEqual([]);
    press(area(card), "Enter", { ctrlKey: true });
    expect(kernel.answers).toEqual([{ ...allow, input: { command: "ls -1", timeout: 5 } }]);
  });

  it("of anything else is editing JSON, which must be an object", async () => {
    const { card, kernel } = await asked({ detail: "--- a\n+++ b\n", detail_kind: "diff", input: { file_path: "a", n: 1 } });
    press(card, "E");
    expect(JSON.parse(area(card).value)).toEqual({ file_path: "a", n: 1 });
    const submit = find(card, ".editor .primary");
    for (const wrong of ["{", "[1]", "null"]) {
      area(card).value = wrong;
      submit.click();
      expect(text(card, ".problem")).toMatch(/JSON/);
      expect(area(card).getAttribute("aria-invalid")).toBe("true");
    }
    expect(kernel.answers).toEqual([]);
    area(card).value = '{"file_path": "b"}';
    submit.click();
    expect(kernel.answers).toEqual([{ ...allow, input: { file_path: "b" } }]);
  });

  it("shows in the editor, too, what would deceive, and keeps what was left of it", async () => {
    const { card, kernel } = await asked({ detail: "rm \u202Ea\u200B b", input: { command: "rm \u202Ea\u200B b" } });
    press(card, "e");
    expect(area(card).value).toBe("rm ⟦U+202E⟧a⟦U+200B⟧ b");
    area(card).value = "rm a⟦U+200B⟧ ⟦U+2060⟧";
    press(area(card), "Enter", { metaKey: true });
    expect(kernel.answers[0]?.input).toEqual({ command: "rm a\u200B ⟦U+2060⟧" });
  });

  it("can be left, and then the keys are the card's again", async () => {
    const { card, kernel } = await asked();
    find(card, '[aria-keyshortcuts="e"]').click();
    expect(press(area(card), "Escape")).toBe(false);
    expect(card.querySelector("textarea")).toBeNull();
    expect(focused()).toBe(card);
    press(card, "1");
    expect(kernel.answers).toEqual([allow]);
  });

  it("is not offered for an input that is not here", async () => {
    const { card } = await asked({ input: null });
    press(card, "e");
    expect(card.querySelector("textarea, [aria-keyshortcuts=e]")).toBeNull();
  });
});

describe("what is asked", () => {
  it("begins with what it does to what, and shows path, warning, reason and the whole command", async () => {
    const detail = `cat ${"x".repeat(20_000)} end`;
    const { card } = await asked({ detail, path: "~/survey", warning: "deletes files", input: { command: detail } });
    expect(text(card, ".ask-title")).toBe("Run ls -la");
    expect(text(card, ".path")).toBe("~/survey");
    expect(text(card, ".warning")).toBe("Warning: deletes files");
    expect(text(card, ".reason")).toBe("No rule allows it.");
    expect(text(card, ".detail")).toBe(detail);
    expect(find(card, ".detail").tabIndex).toBe(0);
  });

  it("writes out what would deceive, in every part of it", async () => {
    const bidi = "a\u202Eb";
    const shown = "a⟦U+202E⟧b";
    const { card } = await asked({
      title: bidi, detail: bidi, path: `/${bidi}`, warning: bidi, reason: bidi,
      choices: [{ key: "3", action: "allow", scope: "always", label: bidi, rules: [bidi], input: null }],
    });
    expect(card.textContent).not.toContain("\u202E");
    for (const part of [".ask-title", ".detail", ".path", ".warning", ".reason", "button span", ".rules code"]) {
      expect(text(card, part)).toContain(shown);
    }
  });

  it("shows a diff wholly, however long", async () => {
    const lines = Array.from({ length: 200 }, (_, n) => `+line ${n}`).join("\n");
    const { card } = await asked({ detail: `--- a\n+++ b\n@@ -0,0 +1,200 @@\n${lines}\n`, detail_kind: "diff" });
    expect(card.querySelectorAll(".line.added")).toHaveLength(200);
    expect(card.querySelector(".more")).toBeNull();
  });

  it("shows every rule that would be kept, behind the choices that keep it", async () => {
    const both = ["Bash(mkdir -p out)", "Bash(touch out/a)"];
    const { card } = await asked({
      choices: [
        { key: "2", action: "allow", scope: "session", label: "all of it", rules: both, input: null },
        { key: "3", action: "allow", scope: "always", label: "always allow `Bash(mkdir -p out)` and more", rules: both, input: null },
      ],
    });
    const rules = find<HTMLDetailsElement>(card, ".rules");
    expect(rules.open).toBe(false);
    expect(text(rules, "summary")).toBe("Rules that would be saved");
    for (const scope of ["session", "always"]) {
      expect([...rules.querySelectorAll(`[data-scope=${scope}] code`)].map((code) => code.textContent)).toEqual(both);
    }
  });

  it("says what each answer covers, and which rule would be kept", async () => {
    const { card } = await asked({
      choices: [
        { key: "2", action: "allow", scope: "session", label: "all edits in src", rules: ["Edit(/src/**)"], input: null },
        { key: "3", action: "allow", scope: "always", label: "always allow Edit", rules: ["Edit"], input: null },
      ],
    });
    const labels = [...card.querySelectorAll("button")].map((one) => one.textContent);
    expect(labels.slice(0, 2)).toEqual(["2Allow all edits in src", "3Always allow Edit"]);
  });

  it("is a labelled group with keys that a screen reader can tell", async () => {
    const { card, root } = await asked();
    expect(card.getAttribute("role")).toBe("group");
    expect(root.getElementById(card.getAttribute("aria-labelledby") ?? "")?.textContent).toBe("Run ls -la");
    const [reason, keys] = (card.getAttribute("aria-describedby") ?? "").split(" ").map((id) => root.getElementById(id)?.textContent);
    expect([reason, keys?.startsWith("Press 1")]).toEqual(["No rule allows it.", true]);
    const shortcuts = [...card.querySelectorAll("button")].map((one) => one.getAttribute("aria-keyshortcuts"));
    expect(shortcuts).toEqual(["1", "2", "3", "e", null, "4"]); // the last: "More", where there is little room
    expect(card.querySelector("button")?.textContent).toBe("1Allow once");
  });
});

describe("the keyboard's place", () => {
  it("is taken when nobody has it, and given back", async () => {
    const opened = scene();
    const cell = find(document, ".jp-Cell");
    cell.focus();
    opened.kernel.say(RUN, ask("q"));
    const card = await readyCard(opened.root);
    await vi.waitFor(() => { expect(focused()).toBe(card); });
    press(card, "1");
    opened.kernel.say(answered("q"));
    await drawn();
    expect(document.activeElement).toBe(cell);
  });

  it("is not taken from someone who types, here or in another cell", async () => {
    for (const inside of [true, false]) {
      const opened = scene();
      const editor = document.createElement("textarea");
      (inside ? find(document, ".jp-Cell") : document.body).append(editor);
      editor.focus();
      opened.kernel.say(RUN, ask("q"));
      await readyCard(opened.root);
      await drawn();
      expect(document.activeElement).toBe(editor);
    }
  });

  /** A second cell of the notebook, selected as running the first one does. */
  function nextCell(tag: "div" | "textarea" = "div"): HTMLElement {
    const cell = document.createElement(tag);
    cell.tabIndex = -1;
    find(document, ".jp-Notebook").append(cell);
    cell.focus();
    return cell;
  }

  it("is taken from the next cell, where running has left it, and given back there", async () => {
    const opened = scene();
    const next = nextCell();
    opened.kernel.say(RUN, ask("q"));
    const card = await readyCard(opened.root);
    await vi.waitFor(() => { expect(focused()).toBe(card); });
    press(card, "1");
    opened.kernel.say(answered("q"), ask("r"));
    await drawn();
    // answering is no moving on: the next question has the keyboard again
    const second = await readyCard(opened.root);
    await vi.waitFor(() => { expect(focused()).toBe(second); });
    press(second, "1");
    opened.kernel.say(answered("r"));
    await drawn();
    expect(focused()).toBe(next);
  });

  it.each([
    ["pressed a key", (next: HTMLElement) => { press(next, "ArrowDown"); }],
    ["clicked", (next: HTMLElement) => { next.dispatchEvent(new Event("pointerdown", { bubbles: true })); }],
  ])("is not taken from the next cell when the user has %s there", async (_, use) => {
    const opened = scene();
    const next = nextCell();
    use(next);
    opened.kernel.say(RUN, ask("q"));
    await readyCard(opened.root);
    expect(focused()).toBe(next);
  });

  it("is not taken from an editor in the notebook", async () => {
    const opened = scene();
    const next = nextCell("textarea");
    opened.kernel.say(RUN, ask("q"));
    await readyCard(opened.root);
    expect(focused()).toBe(next);
  });

  it("is taken once when the user comes to the cell", async () => {
    const opened = scene();
    const elsewhere = document.createElement("button");
    document.body.append(elsewhere);
    elsewhere.focus();
    opened.kernel.say(RUN, ask("q"));
    const card = await readyCard(opened.root);
    expect(document.activeElement).toBe(elsewhere);
    const cell = find(document, ".jp-Cell");
    cell.focus();
    await vi.waitFor(() => { expect(focused()).toBe(card); });
    for (let frame = 0; frame < 4; frame++) await new Promise((resolve) => requestAnimationFrame(resolve));
    cell.dispatchEvent(new Event("pointerdown", { bubbles: true, composed: true }));
    cell.focus();
    for (let frame = 0; frame < 4; frame++) await new Promise((resolve) => requestAnimationFrame(resolve));
    expect(focused()).toBe(cell);
  });

  it("is left alone when the user has moved on before the answer came", async () => {
    const { kernel } = await asked();
    const other = document.createElement("input");
    document.body.append(other);
    await drawn();
    other.focus();
    kernel.say(answered("q"));
    await drawn();
    expect(document.activeElement).toBe(other);
  });
});

describe("after the answer", () => {
  it("a plain yes is a mark, whose words are in its tooltip, its name and the card", async () => {
    const { kernel, root } = await asked();
    kernel.say(begun("tool-q"), answered("q"), ended("tool-q"));
    await drawn();
    const mark = find(root, ".approved");
    expect([mark.title, mark.getAttribute("aria-label"), root.querySelector(".answered")]).toEqual(["Allowed once in this cell", "Allowed once in this cell", null]);
    const fold = find<HTMLDetailsElement>(root, ".fold");
    fold.open = true;
    fold.dispatchEvent(new Event("toggle"));
    expect(text(fold, ".answered")).toBe("Allowed once in this cell");
  });

  it("one line says what was decided, where, how far", async () => {
    const { kernel, root } = await asked();
    kernel.say({
      op: "answered", question: "q", tool: "tool-q", behavior: "allow", scope: "session", by: "sidebar", reason: "", rules: ["Python"], edited: true, input: null,
    });
    await drawn();
    expect(root.querySelector(".ask")).toBeNull();
    expect(text(root, ".answered")).toBe("Allowed for this session, with an edited input Python in the sidebar");
  });

  it("a denial tells its reason; an end without an answer says so", async () => {
    const { kernel, root } = await asked();
    kernel.say(answered("q", "deny", "use git mv"), ask("r"), END);
    await drawn();
    expect([...root.querySelectorAll(".answered")].map((line) => line.textContent)).toEqual([
      "Denied in this cell: use git mv",
      "Not answered",
    ]);
  });

  it("an answer that the kernel does not take can be given again", () => {
    vi.useFakeTimers();
    try {
      const { kernel, root } = scene();
      kernel.say(RUN, ask("q"));
      vi.advanceTimersByTime(1000);
      const card = find(root, ".ask[data-ready]");
      press(card, "1");
      expect(card.hasAttribute("data-ready")).toBe(false);
      vi.advanceTimersByTime(5000);
      expect(text(card, ".ask-status")).toMatch(/not received/);
      press(card, "4");
      kernel.tell({ type: "ack", question: "q" });
      vi.advanceTimersByTime(5000);
      expect(text(card, ".ask-status")).toBe("The answer was received.");
      press(card, "1");
      expect(kernel.answers.map((answer) => answer.behavior)).toEqual(["allow", "deny"]);
    } finally {
      vi.useRealTimers();
    }
  });
});

describe("several questions", () => {
  it("are asked one after the other, the waiting ones in sight", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN, ask("a", { title: "First" }), ask("b", { title: "Second" }));
    const first = await readyCard(root);
    const second = find(root, ".waiting-calls .ask");
    expect(text(root, ".waiting-calls > summary")).toBe("1 more waits");
    expect(text(second, ".ask-title")).toBe("Second");
    expect([first, second].map((card) => text(card, ".nth"))).toEqual(["1 of 2", "2 of 2"]);
    expect(text(second, ".ask-status")).toBe("Waiting for the question before it.");
    press(second, "1");
    expect(kernel.answers).toEqual([]);
    press(first, "1");
    kernel.say(answered("a"));
    const next = await readyCard(root);
    expect(next).toBe(second);
    expect(root.querySelector(".waiting-calls")).toBeNull();
    press(next, "2");
    expect(kernel.answers.map(({ question, scope }) => [question, scope])).toEqual([["a", "once"], ["b", "session"]]);
  });

  it("the calls that would be asked about next are shown, and allowed with one key", async () => {
    const next = [
      { tool: "b", title: "Run a shell command", detail: "wc -l tides.py", detail_kind: "command" as const, path: "", warning: "" },
      { tool: "c", title: "Create notes.md", detail: "--- a\n+++ b\n@@ -0,0 +1 @@\n+# Notes\n", detail_kind: "diff" as const, path: "notes.md", warning: "" },
    ];
    const { card, kernel } = await asked({ next });
    expect(text(card, ".nth")).toBe("1 of 3");
    expect([...card.querySelectorAll(".next-calls summary")].map((line) => line.textContent)).toEqual(["then Run a shell command wc -l tides.py", "then Create notes.md"]);
    expect(text(card, ".next-calls .detail")).toBe("wc -l tides.py");
    expect(text(card, '[aria-keyshortcuts="a"]')).toBe("aAllow all three");
    press(card, "a");
    expect(kernel.answers).toEqual([{ ...allow, next: true }]);
  });

  it("a call may be asked about again, after its input was edited", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN, ask("a"), answered("a"), ask("b", { tool: "tool-a", title: "Run ls -1" }));
    await readyCard(root);
    expect(root.querySelectorAll(".tool")).toHaveLength(1);
    expect(find(root, ".approved").title).toMatch(/^Allowed once/);
    expect(text(root, ".ask-title")).toBe("Run ls -1");
  });
});

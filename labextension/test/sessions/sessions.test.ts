/** The session picker: what it lists, finds, and does with a session, by keyboard and by mouse. */

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { Json, JsonObject } from "../../src/json";
import { DEBOUNCE_MS, mountSessions, PAGE_SIZE } from "../../src/sessions/sessions";
import type { SessionEntry } from "../../src/transport/chat_protocol";
import type { Mounted } from "../sidebar/panel_scene";
import { expectAccessible, focused, mounted, OneChat, press, session, settled, STATE } from "../sidebar/panel_scene";
import { find } from "../transcript/scene";

let all: SessionEntry[];
let failing: string;

/** A kernel that searches in titles. */
function kernel(): OneChat {
  const changed = (params: JsonObject): Json => {
    if (failing) throw new Error(failing);
    return params;
  };
  return new OneChat({
    sessions: ({ query, limit, offset }) => {
      if (failing) throw new Error(failing);
      const found = all.filter(({ title }) => title.includes(query as string));
      const end = (offset as number) + (limit as number);
      return { sessions: found.slice(offset as number, end), more: found.length > end };
    },
    session_resume: changed,
    session_new: changed,
    session_fork: changed,
    session_tag: changed,
    session_rename: ({ id, title }) => {
      all = all.map((each) => (each.id === id ? { ...each, title: title as string } : each));
      return null;
    },
    session_delete: ({ id }) => {
      all = all.filter((each) => each.id !== id);
      return null;
    },
    session_export: ({ format }) => ({ name: `tides.${format as string}`, media_type: "text/plain", text: "# Tides" }),
  });
}

async function open(chat = kernel()): Promise<Mounted> {
  const scene = mounted(mountSessions, chat);
  await settled();
  return scene;
}

const list = ({ host }: Mounted): HTMLElement => find(host, "[role=listbox]");
const rows = ({ host }: Mounted): HTMLElement[] => [...host.querySelectorAll<HTMLElement>("[role=option]")];
const titles = (scene: Mounted): (string | null)[] => rows(scene).map((row) => find(row, ".title").textContent);
const active = (scene: Mounted): number => rows(scene).findIndex((row) => row.id === list(scene).getAttribute("aria-activedescendant"));
const notice = ({ host }: Mounted): string => find(host, "p.problem").textContent;

async function choose(scene: Mounted, label: string): Promise<void> {
  press(list(scene), "F10", { shiftKey: true });
  const item = [...scene.host.querySelectorAll<HTMLElement>("[role=menuitem]")].find((each) => each.textContent === label);
  if (!item) throw new Error(`no item ${label}`);
  item.click();
  await settled();
}

beforeEach(() => {
  failing = "";
  all = [
    session("s1", { title: "Tides" }),
    session("s2", { title: "Moons", tags: ["physics"], in_use: true, cwd: "/home/ada/moon phases", snippet: "the ⟪moon⟫ pulls, ⟪moon⟫s pull" }),
    session("s3", { title: "", turns: 1, cost_usd: null }),
  ];
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe("what is listed", () => {
  it("says of each session what tells it from the others", async () => {
    const scene = await open();
    expect(titles(scene)).toEqual(["Tides", "Moons", "Untitled"]);
    const shown = (selector: string): (string | undefined)[] => rows(scene).map((row) => row.querySelector(selector)?.textContent);
    expect(shown(".about")).toEqual([
      "tides · 2 hours ago · 12 turns · $0.13",
      "moon phases · 2 hours ago · 12 turns · $0.13",
      "tides · 2 hours ago · 1 turn",
    ]);
    expect(shown(".badge")).toEqual(["current", "open elsewhere", undefined]);
    expect(shown(".tags")).toEqual([undefined, "physics", undefined]);
    expect([...scene.host.querySelectorAll("mark")].map((mark) => mark.textContent)).toEqual(["moon", "moon"]);
    expect(find(scene.host, ".status").textContent).toBe("3 sessions");
    await expectAccessible(scene.host);
  });

  it("puts forks below the session that they come from", async () => {
    all = [session("s1", { title: "Tides" }), session("s2", { title: "Moons", forked_from: "s1", depth: 1 })];
    const scene = await open();
    expect(rows(scene).map((row) => row.style.getPropertyValue("--cw-depth"))).toEqual(["", "1"]);
    expect(rows(scene).map((row) => find(row, ".about").textContent.includes("· fork ·"))).toEqual([false, true]);
    await expectAccessible(scene.host);
  });

  it("says what there is where nothing is to be listed", async () => {
    all = [];
    const scene = await open();
    expect(find(scene.host, ".status").textContent).toContain("No sessions yet");
    await expectAccessible(scene.host);
  });

  it("says why it could not be listed, and tries again", async () => {
    failing = "The catalog is locked.";
    const scene = await open();
    expect(find(scene.host, ".status").textContent).toBe("The sessions could not be listed: The catalog is locked.");
    failing = "";
    find(scene.host, "button:not([hidden]):not(.close)").click();
    await settled();
    expect(titles(scene)).toHaveLength(3);
  });

  it("waits for a kernel, and lists anew when it is there", async () => {
    const chat = kernel();
    chat.connection = "none";
    const scene = await open(chat);
    expect(find(scene.host, ".status").textContent).toContain("connected to a kernel");
    chat.change({ connection: "connected" });
    await settled();
    expect(titles(scene)).toHaveLength(3);
  });

  it("goes on when its end comes near, and shows nothing twice", async () => {
    all = Array.from({ length: PAGE_SIZE * 2 + 1 }, (_, index) => session(`n${index}`, { title: `number ${index}` }));
    const scene = await open();
    expect(rows(scene)).toHaveLength(PAGE_SIZE);
    expect(find(scene.host, ".status").textContent).toBe(`More than ${PAGE_SIZE} sessions`);
    all = [session("new", { title: "begun meanwhile" }), ...all];
    list(scene).focus();
    press(list(scene), "End");
    await settled();
    expect(new Set(titles(scene)).size).toBe(rows(scene).length);
    expect(rows(scene)).toHaveLength(2 * PAGE_SIZE - 1);
    expect(active(scene)).toBe(PAGE_SIZE - 1);
    expect(scene.chat.last("sessions")).toEqual({ query: "", limit: PAGE_SIZE, offset: PAGE_SIZE });
  });
});

describe("the search", () => {
  it("begins when the typing pauses, and asks once", async () => {
    vi.useFakeTimers();
    const scene = mounted(mountSessions, kernel());
    await vi.advanceTimersByTimeAsync(0);
    const input = find<HTMLInputElement>(scene.host, "input");
    expect(focused()).toBe(input);
    for (const value of ["M", "Mo", "Moo"]) {
      input.value = value;
      input.dispatchEvent(new Event("input"));
      await vi.advanceTimersByTimeAsync(DEBOUNCE_MS / 2);
    }
    expect(scene.chat.asked).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(DEBOUNCE_MS);
    expect(scene.chat.asked.slice(1)).toEqual([["sessions", { query: "Moo", limit: PAGE_SIZE, offset: 0 }]]);
    expect(titles(scene)).toEqual(["Moons"]);
    input.value = "nowhere";
    input.dispatchEvent(new Event("input"));
    await vi.advanceTimersByTimeAsync(DEBOUNCE_MS);
    expect(find(scene.host, ".status").textContent).toBe("Nothing was found for “nowhere”.");
  });

  it("passes over an answer that comes after a later one", async () => {
    const answers: ((found: SessionEntry[]) => void)[] = [];
    const chat = new OneChat({
      sessions: () => new Promise((resolve) => { answers.push((found) => { resolve({ sessions: found, more: false }); }); }),
    });
    vi.useFakeTimers();
    const scene = mounted(mountSessions, chat);
    const input = find<HTMLInputElement>(scene.host, "input");
    input.value = "late";
    input.dispatchEvent(new Event("input"));
    await vi.advanceTimersByTimeAsync(DEBOUNCE_MS);
    answers[1]?.([session("b", { title: "the later" })]);
    await vi.advanceTimersByTimeAsync(0);
    answers[0]?.([session("a", { title: "the earlier" })]);
    await vi.advanceTimersByTimeAsync(0);
    expect(titles(scene)).toEqual(["the later"]);
  });
});

describe("by keyboard", () => {
  it("goes from the search into the list and back, and types into the search from there", async () => {
    const scene = await open();
    press(find(scene.host, "input"), "ArrowDown");
    expect(focused()).toBe(list(scene));
    expect(active(scene)).toBe(0);
    press(list(scene), "ArrowDown");
    expect(active(scene)).toBe(1);
    expect(rows(scene).map((row) => row.getAttribute("aria-selected"))).toEqual(["false", "true", "false"]);
    press(list(scene), "End");
    expect(active(scene)).toBe(2);
    press(list(scene), "Home");
    press(list(scene), "ArrowUp");
    expect(focused().tagName).toBe("INPUT");
    list(scene).focus();
    press(list(scene), "x");
    expect(focused().tagName).toBe("INPUT");
  });

  it("resumes by Enter, closes, and says so", async () => {
    const scene = await open();
    list(scene).focus();
    press(list(scene), "ArrowDown");
    press(list(scene), "Enter");
    await settled();
    expect(scene.chat.last("session_resume")).toEqual({ id: "s2" });
    expect(scene.panel.closed).toBe(1);
    expect(scene.panel.announced).toEqual(["Continuing “Moons”"]);
  });

  it("goes back to the conversation where it is the one that goes on", async () => {
    const scene = await open();
    press(list(scene), "Enter");
    await settled();
    expect(scene.chat.last("session_resume")).toBeUndefined();
    expect(scene.panel.closed).toBe(1);
  });

  it("takes no session away from a run", async () => {
    const chat = kernel();
    chat.state = { ...STATE, current: "run-4" };
    const scene = await open(chat);
    press(list(scene), "End");
    press(list(scene), "Enter");
    await settled();
    expect(chat.last("session_resume")).toBeUndefined();
    expect(notice(scene)).toContain("Claude is still working in this session. Stop it");
    expect(scene.panel.closed).toBe(0);
    press(list(scene), "ContextMenu");
    const disabled = [...scene.host.querySelectorAll("[role=menuitem][aria-disabled=true]")];
    expect(disabled.map((item) => item.textContent)).toEqual(["Resume", "Fork…"]);
  });

  it("says why the kernel refused", async () => {
    const scene = await open();
    failing = "Line 3 of the session is damaged.";
    press(list(scene), "End");
    press(list(scene), "Enter");
    await settled();
    expect(notice(scene)).toBe("Line 3 of the session is damaged.");
    expect(scene.panel.closed).toBe(0);
  });

  it("renames by F2, in its place, and comes back to the list", async () => {
    const scene = await open();
    list(scene).focus();
    press(list(scene), "ArrowDown");
    press(list(scene), "F2");
    const input = find<HTMLInputElement>(scene.host, "form input");
    expect(focused()).toBe(input);
    expect([input.value, input.selectionStart, input.selectionEnd]).toEqual(["Moons", 0, 5]);
    await expectAccessible(scene.host);
    input.value = "Moons and tides";
    find<HTMLFormElement>(scene.host, "form").requestSubmit();
    await settled();
    expect(titles(scene)[1]).toBe("Moons and tides");
    expect(active(scene)).toBe(1);
    expect(focused()).toBe(list(scene));
  });

  it("deletes only what was confirmed, and Enter falls on keeping it", async () => {
    const scene = await open();
    list(scene).focus();
    press(list(scene), "ArrowDown");
    press(list(scene), "Delete");
    expect(find(scene.host, "form p").textContent).toBe("Delete “Moons”? This cannot be undone.");
    expect(focused().textContent).toBe("Keep");
    await expectAccessible(scene.host);
    press(focused(), "Escape");
    expect(titles(scene)).toHaveLength(3);
    expect(focused()).toBe(list(scene));
    press(list(scene), "Delete");
    find(scene.host, "form button.danger").click();
    await settled();
    expect(titles(scene)).toEqual(["Tides", "Untitled"]);
    expect(scene.chat.last("session_delete")).toEqual({ id: "s2" });
  });

  it("does not delete the session that goes on", async () => {
    const scene = await open();
    press(list(scene), "Delete");
    expect(scene.host.querySelector("form")).toBeNull();
    expect(notice(scene)).toContain("Start a new session");
  });
});

describe("the menu", () => {
  it("is opened by the mouse as well, moves by arrows and letters, and gives the focus back", async () => {
    const scene = await open();
    rows(scene)[1]?.querySelector<HTMLElement>(".more")?.click();
    expect(focused().textContent).toBe("Resume");
    await expectAccessible(scene.host);
    press(focused(), "ArrowUp");
    expect(focused().textContent).toBe("Delete…");
    press(focused(), "e");
    expect(focused().textContent).toBe("Export as Markdown");
    press(focused(), "e");
    expect(focused().textContent).toBe("Export as notebook");
    press(focused(), "Escape");
    expect(scene.host.querySelector("[role=menu]")).toBeNull();
    expect(focused()).toBe(list(scene));
    expect(scene.chat.last("session_resume")).toBeUndefined();
  });

  it("closes when something else is clicked", async () => {
    const scene = await open();
    press(list(scene), "ContextMenu");
    document.body.dispatchEvent(new Event("pointerdown", { bubbles: true }));
    expect(scene.host.querySelector("[role=menu]")).toBeNull();
  });

  it("forks at a turn, or at the end", async () => {
    const scene = await open();
    press(list(scene), "ArrowDown");
    await choose(scene, "Fork…");
    find<HTMLInputElement>(scene.host, "form input").value = "4";
    find<HTMLFormElement>(scene.host, "form").requestSubmit();
    await settled();
    expect(scene.chat.last("session_fork")).toEqual({ id: "s2", turn: 4 });
    expect(scene.panel.closed).toBe(1);
    await choose(scene, "Fork…");
    find<HTMLFormElement>(scene.host, "form").requestSubmit();
    await settled();
    expect(scene.chat.last("session_fork")).toEqual({ id: "s2", turn: null });
  });

  it("shows why a fork was refused, and keeps the form", async () => {
    const scene = await open();
    await choose(scene, "Fork…");
    failing = "Turn 40 was not found.";
    find<HTMLFormElement>(scene.host, "form").requestSubmit();
    await settled();
    expect(find(scene.host, "form .problem").textContent).toBe("Turn 40 was not found.");
    expect(scene.panel.closed).toBe(0);
  });

  it("tags, each once", async () => {
    const scene = await open();
    press(list(scene), "ArrowDown");
    await choose(scene, "Tags…");
    const input = find<HTMLInputElement>(scene.host, "form input");
    expect(input.value).toBe("physics");
    input.value = " physics, tides ,, physics";
    find<HTMLFormElement>(scene.host, "form").requestSubmit();
    await settled();
    expect(scene.chat.last("session_tag")).toEqual({ id: "s2", tags: ["physics", "tides"] });
  });

  it("exports as a file", async () => {
    const saved: [string | null, string][] = [];
    const blobs: Blob[] = [];
    vi.stubGlobal("URL", class extends URL {
      static override createObjectURL(blob: Blob): string {
        blobs.push(blob);
        return "blob:1";
      }
      static override revokeObjectURL(): void { /* it is gone with the page */ }
    });
    const click = vi.spyOn(HTMLAnchorElement.prototype, "click").mockImplementation(function (this: HTMLAnchorElement) {
      saved.push([this.getAttribute("download"), this.href]);
    });
    const scene = await open();
    await choose(scene, "Export as notebook");
    expect(scene.chat.last("session_export")).toEqual({ id: "s1", format: "notebook" });
    expect(saved).toEqual([["tides.notebook", "blob:1"]]);
    expect(blobs[0]?.size).toBe("# Tides".length);
    expect(scene.panel.announced).toEqual(["tides.notebook was saved"]);
    click.mockRestore();
  });
});

it("has a title and a way back", async () => {
  const scene = await open();
  expect(find(scene.host, "h2").textContent).toBe("Sessions");
  find(scene.host, ".top button.close").click();
  expect(scene.panel.closed).toBe(1);
});

it("leaves nothing behind", async () => {
  const scene = await open();
  press(list(scene), "ContextMenu");
  scene.part.dispose();
  expect([scene.host.childElementCount, scene.chat.listening]).toEqual([0, 0]);
});

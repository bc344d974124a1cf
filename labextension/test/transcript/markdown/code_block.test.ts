import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { codeBlock } from "../../../src/transcript/markdown/code_block";
import { find } from "../scene";

function press(): HTMLElement {
  const block = codeBlock("print(1)\n", "python");
  document.body.replaceChildren(block);
  const button = find(block, ".copy");
  button.focus();
  button.click();
  return button;
}

describe("the copy button of a code block", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it("copies the code, says so, and is ready again", async () => {
    const copied: string[] = [];
    vi.stubGlobal("navigator", { clipboard: { writeText: (text: string) => Promise.resolve(copied.push(text)) } });
    const button = press();
    await vi.advanceTimersByTimeAsync(0);
    expect([copied, button.textContent]).toEqual([["print(1)\n"], "Copied"]);
    await vi.advanceTimersByTimeAsync(2000);
    expect(button.textContent).toBe("Copy");
  });

  it("works by selection where the page has no clipboard, and leaves the keyboard where it was", async () => {
    let selected = "";
    const execCommand = (): boolean => {
      const area = document.activeElement as HTMLTextAreaElement;
      selected = area.value.slice(area.selectionStart, area.selectionEnd);
      return true;
    };
    Object.assign(document, { execCommand });
    const button = press();
    await vi.advanceTimersByTimeAsync(0);
    expect([selected, button.textContent]).toEqual(["print(1)\n", "Copied"]);
    expect(document.activeElement).toBe(button);
    expect(document.querySelector("textarea")).toBeNull();
  });

  it("says when nothing could be copied", async () => {
    Object.assign(document, { execCommand: () => false });
    const button = press();
    await vi.advanceTimersByTimeAsync(0);
    expect(button.textContent).toBe("Not copied");
  });
});

/** What a session's row says, in words. */

import { expect, it } from "vitest";

import { highlightMatches, relativeTime } from "../../src/sessions/session_row";

it("marks hits as text, never as markup", () => {
  const host = document.createElement("div");
  host.append(...highlightMatches("<b>a</b> ⟪<i>⟫ and ⟪two⟫"));
  expect(host.textContent).toBe("<b>a</b> <i> and two");
  expect([...host.children].map(({ tagName, textContent }) => [tagName, textContent])).toEqual([["MARK", "<i>"], ["MARK", "two"]]);
});

it("tells times in words", () => {
  const now = 1_800_000_000;
  const words = [0, 59, 61, 7_300, 90_000, 700_000, 3_000_000, 70_000_000].map((ago) => relativeTime(now - ago, now, "en"));
  expect(words).toEqual(["now", "now", "1 minute ago", "2 hours ago", "yesterday", "last week", "last month", "2 years ago"]);
  expect(relativeTime(now + 30, now, "en")).toBe("now");
  expect(relativeTime(now - 7_300, now, "de")).toBe("vor 2 Stunden");
});

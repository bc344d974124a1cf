import { expect, it, vi } from "vitest";

import { staleBundleMessage, whenLoaded } from "../../src/sidebar/stale_bundle";
import { transOf } from "../../src/translation";

const trans = transOf(null);

function fault(): never {
  throw new Error("of another version");
}

it.each<[string, () => Promise<string>, () => void]>([
  ["cannot be loaded", () => Promise.reject(new Error("404")), () => undefined],
  ["fails when it is used", () => Promise.resolve("code"), fault],
])("code that %s is told of in its place, and in the console", async (_, load, use) => {
  const logged = vi.spyOn(console, "error").mockReturnValue();
  const host = document.createElement("div");
  whenLoaded(load(), host, trans, use);
  await vi.waitFor(() => { expect(host.querySelector("[role='alert']")?.textContent).toBe(staleBundleMessage(trans)); });
  expect(logged).toHaveBeenCalledOnce();
  logged.mockRestore();
});

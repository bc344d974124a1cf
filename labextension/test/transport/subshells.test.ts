import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { createSubshell, SUBSHELL_TIMEOUT_MS } from "../../src/transport/subshells";
import { standIn } from "../support/stand_in";
import { OneKernel } from "./chat_kernel";

const never = new Promise<never>(() => undefined);

beforeEach(() => { vi.useFakeTimers(); });
afterEach(() => { vi.useRealTimers(); });

it("asks again for a subshell that a kernel which has just started does not make, and ends one that is late", async () => {
  const kernel = new OneKernel();
  let comes = (): void => undefined;
  kernel.lateSubshells = [new Promise((resolve) => { comes = resolve; })];
  const made = createSubshell(standIn(kernel));
  await vi.advanceTimersByTimeAsync(SUBSHELL_TIMEOUT_MS + 1);
  expect(await made).toBe("own-2");
  comes();
  await vi.advanceTimersByTimeAsync(0);
  expect(kernel.ended).toEqual(["late"]);
});

it("does not ask for ever", async () => {
  const kernel = new OneKernel();
  kernel.lateSubshells = [never, never, never];
  const made = createSubshell(standIn(kernel));
  await vi.advanceTimersByTimeAsync(3 * SUBSHELL_TIMEOUT_MS);
  expect(await made).toBeNull();
  expect(kernel.subshells).toBe(2);
});

/** Consent is asked for once, by a dialog or a notice, and a kernel waits for it only once. */

import type { ISettingRegistry } from "@jupyterlab/settingregistry";
import { beforeEach, expect, it, vi } from "vitest";

import { CONSENT_MS, PictureConsent } from "../../../src/notebook/outputs/picture_consent";
import { Notification, showDialog } from "../../support/jupyterlab/apputils";
import { standIn } from "../../support/stand_in";

const trans = { __: (text: string) => text };

class Settings {
  readonly composite: Record<string, unknown>;
  constructor(now: string) {
    this.composite = { renderedPictures: now };
  }
  set(name: string, value: unknown): Promise<void> {
    this.composite[name] = value;
    return Promise.resolve();
  }
}

function consent(now: string): { given: PictureConsent; settings: Settings } {
  const settings = new Settings(now);
  const registry = standIn<ISettingRegistry>({ load: () => Promise.resolve(settings) });
  return { given: new PictureConsent(registry, "cellwright:outputs", trans), settings };
}

beforeEach(() => {
  Notification.shown.length = 0;
  Notification.actions.length = 0;
  showDialog.accepts = true;
  showDialog.shown = 0;
});

it.each([["always", true, "yes"], ["never", false, "refused"]] as const)("asks nobody where the settings say %s", async (now, byUser, byKernel) => {
  const { given } = consent(now);
  expect(await given.byUser()).toBe(byUser);
  expect(await given.byKernel()).toBe(byKernel);
  expect([showDialog.shown, Notification.shown]).toEqual([0, []]);
});

it.each([[true, "always"], [false, "never"]] as const)("keeps what the user answers: %s", async (accepts, kept) => {
  const { given, settings } = consent("ask");
  showDialog.accepts = accepts;
  expect(await given.byUser()).toBe(accepts);
  expect(await given.byUser()).toBe(accepts);
  expect(showDialog.shown).toBe(1);
  expect(settings.composite.renderedPictures).toBe(kept);
});

it("has a kernel wait for the user, and the next one of no patience", async () => {
  vi.useFakeTimers();
  try {
    const { given, settings } = consent("ask");
    const first = given.byKernel();
    await vi.advanceTimersByTimeAsync(CONSENT_MS);
    expect(await first).toBe("consent");
    expect(await given.byKernel()).toBe("consent");
    expect(Notification.shown).toHaveLength(1);
    Notification.actions.find(({ label }) => label === "Allow")?.callback();
    await vi.advanceTimersByTimeAsync(0);
    expect(await given.byKernel()).toBe("yes");
    expect(settings.composite.renderedPictures).toBe("always");
  } finally {
    vi.useRealTimers();
  }
});

it("gives a kernel that waits what the user answers", async () => {
  const { given } = consent("ask");
  const asked = [given.byKernel(), given.byKernel()];
  await vi.waitFor(() => { expect(Notification.actions).not.toEqual([]); });
  Notification.actions.find(({ label }) => label === "Don't allow")?.callback();
  expect(await Promise.all(asked)).toEqual(["refused", "refused"]);
  expect(Notification.shown).toHaveLength(1);
});

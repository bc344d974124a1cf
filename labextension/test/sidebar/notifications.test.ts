import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { PanelSettings } from "../../src/panel_view";
import type { RunNotification } from "../../src/sidebar/notifications";
import { DesktopPermission, showNotification } from "../../src/sidebar/notifications";
import { panelSettings } from "../../src/sidebar/sidebar_plugin";
import { transOf } from "../../src/translation";
import { Notification as InPage } from "../support/jupyterlab/apputils";

const trans = transOf(null);
const news: RunNotification = { title: "Claude is done", body: "How is the tide?", run: "r1", kernel: "k1", urgent: false };
const desired: PanelSettings = { ...panelSettings(null, "", () => undefined)(), desktopNotifications: true };

class OnDesktop {
  static permission: NotificationPermission = "granted";
  static shown: OnDesktop[] = [];
  static readonly requestPermission = vi.fn(() => Promise.resolve("granted" as const));
  onclick: () => void = () => undefined;
  readonly close = vi.fn();

  constructor(readonly title: string, readonly options: NotificationOptions) {
    OnDesktop.shown.push(this);
  }
}

const hasFocus = vi.fn(() => false);
const userActivation = { isActive: false };

beforeEach(() => {
  vi.stubGlobal("Notification", OnDesktop);
  Object.assign(document, { hasFocus });
  Object.defineProperty(navigator, "userActivation", { value: userActivation, configurable: true });
  OnDesktop.permission = "granted";
  OnDesktop.shown = [];
  OnDesktop.requestPermission.mockClear();
  InPage.shown = [];
  hasFocus.mockReturnValue(false);
  userActivation.isActive = false;
});

afterEach(() => { vi.unstubAllGlobals(); });

describe("news", () => {
  it("are told on the desktop while the window is not in front; a click there goes to the run", () => {
    const open = vi.fn();
    const focus = vi.spyOn(window, "focus").mockReturnValue();
    showNotification(news, desired, trans, open);
    const [shown] = OnDesktop.shown;
    expect(shown).toMatchObject({ title: "Claude is done", options: { body: "How is the tide?" } });
    shown?.onclick();
    expect(open).toHaveBeenCalledOnce();
    expect(focus).toHaveBeenCalledOnce();
    expect(shown?.close).toHaveBeenCalledOnce();
  });

  it.each<[string, () => PanelSettings]>([
    ["the setting is off", () => ({ ...desired, desktopNotifications: false })],
    ["the window is in front", () => (hasFocus.mockReturnValue(true), desired)],
    ["the browser has not allowed it", () => ((OnDesktop.permission = "default"), desired)],
  ])("are told in the page alone where %s, and nobody is asked then", (_, prepare) => {
    showNotification(news, prepare(), trans, () => undefined);
    expect(OnDesktop.shown).toEqual([]);
    expect(InPage.shown).toEqual(["Claude is done: How is the tide?"]);
    expect(OnDesktop.requestPermission).not.toHaveBeenCalled();
  });

  it("are told nowhere where the user wants none", () => {
    showNotification(news, { ...desired, notifications: "never" }, trans, () => undefined);
    expect([...OnDesktop.shown, ...InPage.shown]).toEqual([]);
  });
});

describe("the browser's permission", () => {
  const scene = (): { set: (changes: Partial<PanelSettings>) => void } => {
    OnDesktop.permission = "default";
    let now: PanelSettings = { ...desired, desktopNotifications: false };
    const permission = new DesktopPermission(() => now);
    return {
      set: (changes) => {
        now = { ...now, ...changes };
        permission.look();
      },
    };
  };

  it("is asked for as the user switches the setting on, once", () => {
    const { set } = scene();
    userActivation.isActive = true;
    set({ fontSize: 14 });
    expect(OnDesktop.requestPermission).not.toHaveBeenCalled();
    set({ desktopNotifications: true });
    set({ fontSize: 15 });
    expect(OnDesktop.requestPermission).toHaveBeenCalledOnce();
    set({ desktopNotifications: false });
    set({ desktopNotifications: true });
    expect(OnDesktop.requestPermission).toHaveBeenCalledTimes(2);
  });

  it("is asked for at the next click where the page was loaded with it, or another page switched it on", () => {
    const { set } = scene();
    set({ desktopNotifications: true });
    expect(OnDesktop.requestPermission).not.toHaveBeenCalled();
    set({ desktopNotifications: false });
    set({ desktopNotifications: true });
    document.body.click();
    document.body.click();
    expect(OnDesktop.requestPermission).toHaveBeenCalledOnce();
  });

  it("is not asked for where the setting was switched off before that click, nor where it was given or refused", () => {
    const { set } = scene();
    set({ desktopNotifications: true });
    set({ desktopNotifications: false });
    document.body.click();
    OnDesktop.permission = "denied";
    set({ desktopNotifications: true });
    document.body.click();
    expect(OnDesktop.requestPermission).not.toHaveBeenCalled();
  });
});

/** The parts of the panel that are built elsewhere: each is loaded when it is first needed, and mounted into an element. */

import type { Composer, ComposerDeps } from "./composer/composer_deps";
import type { KernelRow, OverviewFeed, OverviewRun } from "./overview/overview_feed";
import type { Trans } from "./translation";
import type { Chat } from "./transport/chat";

export type Disposable = { dispose(): void };

/** The panel's settings; `schema/panel.json` has them. */
export type PanelSettings = {
  readonly notifications: "away" | "never";
  readonly desktopNotifications: boolean;
  readonly followNotebook: boolean;
  readonly sendKey: "Enter" | "Shift+Enter";
  readonly whileRunning: "steer" | "queue";
  readonly context: "none" | "auto" | "code" | "cells" | "full";
  readonly fontSize: number;
  readonly density: "comfortable" | "compact";
};

/** Goes to what runs in a kernel of the server: its notebook, or the panel with its conversation. */
export type GoToKernel = (row: KernelRow, where: "notebook" | "panel", run: OverviewRun | null) => Promise<void>;

/** A command of JupyterLab and the keys that run it; `inPanel`: only there. */
export type Shortcut = { readonly command: string; readonly label: string; readonly keys: string; readonly inPanel: boolean };

/** The panel as its parts see it, besides their element and the conversation. */
export type PanelDeps = {
  readonly trans: Trans;
  settings(): PanelSettings;
  /** Starts a kernel of the panel's own. */
  startKernel(): void;
  /** Closes the view that is open above the transcript (sessions, help, log) and gives the focus to the composer. */
  close(): void;
  /** Puts text into the composer. */
  compose(text: string): void;
  /** Scrolls to a run, and gives it the focus. */
  show(run: string): void;
  /** Has a screen reader say it. */
  announce(text: string): void;
  /** Runs a command of JupyterLab, where there is one of this id. */
  run(command: string, args?: Record<string, unknown>): Promise<unknown>;
  /** The keys of our commands, as the user has set them. */
  shortcuts(): readonly Shortcut[];
  setSetting<Name extends keyof PanelSettings>(name: Name, value: PanelSettings[Name]): void;
  overview(): OverviewFeed;
  readonly goToKernel: GoToKernel;
};

/** Fills `host` with a part of the panel; `dispose` takes it away again. */
export type Mount = (host: HTMLElement, chat: Chat, deps: PanelDeps) => Disposable;

export type MountComposer = (host: HTMLElement, chat: Chat, deps: ComposerDeps) => Composer;

/** Views that take the transcript's place while they are open. */
export type ViewName = "sessions" | "help" | "log" | "overview" | "manage" | "settings";

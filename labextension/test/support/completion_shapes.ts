/** What the stand-ins for JupyterLab's completion consist of. */

import type { NotebookPanel, Signal } from "./notebook_shapes";

/** `offset` counts characters, not UTF-16 units. */
export type InlineRequest = { readonly text: string; readonly offset: number };

/** `triggerKind`: 0 where the user asked for it, 1 on typing. */
export type InlineContext = { readonly widget: unknown; readonly editor?: unknown; readonly triggerKind?: number };

export type InlineItems = { items: { insertText: string }[] };

export type InlineProvider = {
  readonly identifier: string;
  readonly name: string;
  readonly schema: { readonly default: Record<string, unknown> };
  fetch(request: InlineRequest, context: InlineContext): Promise<InlineItems>;
};

export type CompletionManager = { registerInlineProvider(provider: InlineProvider): void };

export type CodeCell = {
  readonly editor: unknown;
  readonly model: { readonly id: string; readonly type: string; readonly sharedModel: { getSource(): string } };
};

export type CodePanel = NotebookPanel & {
  readonly content: NotebookPanel["content"] & {
    readonly widgets: readonly CodeCell[];
    readonly model: { getMetadata(key: string): unknown } | null;
  };
};

export type CodeTracker = { forEach(each: (panel: CodePanel) => void): void };

export type Settings = { readonly composite: Record<string, unknown>; readonly changed: Signal };

export type SettingRegistry = {
  load(plugin: string): Promise<Settings>;
  set(plugin: string, key: string, value: boolean): Promise<void>;
};

/** The panel's settings: JupyterLab's registry, or what holds without one. */

import type { Emits } from "../transport/kernel_types";
import type { PanelSettings } from "../panel_view";

export type Loaded = { readonly composite: Record<string, unknown>; readonly changed: Emits };
export type Registry = { load(plugin: string): Promise<Loaded> };

const DEFAULTS: PanelSettings = {
  notifications: "away",
  desktopNotifications: false,
  followNotebook: true,
  sendKey: "Enter",
  whileRunning: "steer",
  context: "auto",
  fontSize: 13,
};

/** The settings of the plugin `id` as they stand at each call; `changed` is called when they are others. */
export function panelSettings(registry: Registry | null, id: string, changed: () => void): () => PanelSettings {
  let now = DEFAULTS;
  const take = ({ composite }: Loaded): void => {
    now = { ...DEFAULTS, ...composite };
    changed();
  };
  registry?.load(id).then(
    (loaded) => {
      take(loaded);
      loaded.changed.connect(() => { take(loaded); });
    },
    (error: unknown) => { console.warn("Cellwright: the panel's settings cannot be read.", error); },
  );
  return () => now;
}

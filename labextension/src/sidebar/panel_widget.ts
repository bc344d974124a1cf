/** The panel as a widget of JupyterLab: its code is loaded when it is shown first. */

import { LabIcon } from "@jupyterlab/ui-components";
import { Widget } from "@lumino/widgets";

import type { Trans } from "../translation";
import { svgOf } from "./icons";
import type { Panel } from "./panel/panel";
import { PanelWidth } from "./panel_width";
import { staleBundleMessage } from "./stale_bundle";

export const PANEL_ID = "cellwright-panel";

export const claudeIcon = new LabIcon({ name: "cellwright:claude", svgstr: svgOf("claude") });

export class PanelWidget extends Widget {
  private panel: Promise<Panel> | null = null;
  private readonly loadError: string;
  private readonly panelWidth = new PanelWidth(this, localStorage);

  /** `shown` is called whenever the panel comes into sight. */
  constructor(
    trans: Trans,
    private readonly load: (host: HTMLElement) => Promise<Panel>,
    private readonly shown: () => void,
  ) {
    super();
    this.id = PANEL_ID;
    this.loadError = staleBundleMessage(trans);
    this.title.icon = claudeIcon;
    // JupyterLab shows it where the pointer rests, and names the tab by it
    this.title.caption = trans.__("Claude (Cellwright)");
    this.addClass("cellwright-panel-widget");
  }

  /** The panel, once its code is there. */
  get ready(): Promise<Panel> {
    this.panel ??= this.load(this.node).catch((error: unknown) => {
      // the next one who asks has it tried again
      this.panel = null;
      this.node.textContent = `${this.loadError} (${String(error)})`;
      throw error;
    });
    return this.panel;
  }

  protected override onAfterShow(): void {
    this.ready.catch(() => undefined);
    this.panelWidth.shown();
    this.shown();
  }

  protected override onAfterAttach(): void {
    if (this.isVisible) this.onAfterShow();
  }

  protected override onActivateRequest(): void {
    this.ready.then((panel) => { panel.focusComposer(); }, () => undefined);
  }
}

/** The user's consent that Claude sees outputs as the page draws them: asked for once, kept in JupyterLab's settings. */

import { Dialog, Notification, showDialog } from "@jupyterlab/apputils";
import type { ISettingRegistry } from "@jupyterlab/settingregistry";

import type { Trans } from "../../translation";

export type Consent = "ask" | "always" | "never";

/** The time that a kernel's first request waits for the user; after that the notice stays, and Claude is told that it does. */
export const CONSENT_MS = 15_000;

const SETTING = "renderedPictures";

export class PictureConsent {
  private settings: ISettingRegistry.ISettings | null = null;
  /** Where there is no registry. */
  private chosen: Consent = "ask";
  private readonly loaded: Promise<void>;
  /** The notice that kernels have had shown; settled when the user has answered it. */
  private notice: Promise<boolean> | null = null;
  private hasWaited = false;

  constructor(registry: ISettingRegistry | null, plugin: string, private readonly trans: Trans) {
    this.loaded = registry?.load(plugin).then(
      (settings) => { this.settings = settings; },
      (error: unknown) => { console.warn("Cellwright: the settings of outputs cannot be read.", error); },
    ) ?? Promise.resolve();
  }

  /** For an output that the user sends: a dialog asks, where nobody has answered yet. */
  async byUser(): Promise<boolean> {
    const now = await this.now();
    if (now !== "ask") return now === "always";
    const { trans } = this;
    const { button } = await showDialog({
      title: trans.__("Let Claude see rendered outputs?"),
      body: this.words,
      buttons: [Dialog.cancelButton({ label: trans.__("Don't allow") }), Dialog.okButton({ label: trans.__("Allow") })],
      // an Enter that was on its way elsewhere allows nothing
      defaultButton: 0,
    });
    await this.choose(button.accept);
    return button.accept;
  }

  /** For an output that a kernel asks for: a notice asks, and the request waits a moment for the answer. */
  async byKernel(): Promise<"yes" | "refused" | "consent"> {
    const now = await this.now();
    if (now !== "ask") return now === "always" ? "yes" : "refused";
    this.notice ??= this.ask();
    if (this.hasWaited) return "consent";
    let timer: ReturnType<typeof setTimeout> | undefined;
    const waited = new Promise<null>((resolve) => { timer = setTimeout(() => { resolve(null); }, CONSENT_MS); });
    const answer = await Promise.race([this.notice, waited]);
    clearTimeout(timer);
    this.hasWaited ||= answer === null;
    if (answer === null) return "consent";
    return answer ? "yes" : "refused";
  }

  private get words(): string {
    return this.trans.__(
      "Charts, widgets and styled tables are drawn by this page, and Claude can see them only as pictures of it. " +
        "Pictures are sent to the model like other outputs; secrets in them cannot be removed. You can change this in Settings.",
    );
  }

  private ask(): Promise<boolean> {
    const { trans } = this;
    return new Promise((resolve) => {
      const answer = (allowed: boolean) => (): void => { void this.choose(allowed).then(() => { resolve(allowed); }); };
      Notification.info(`${trans.__("Claude wants to see rendered outputs.")} ${this.words}`, {
        autoClose: false,
        actions: [
          { label: trans.__("Allow"), displayType: "accent", callback: answer(true) },
          { label: trans.__("Don't allow"), callback: answer(false) },
        ],
      });
    });
  }

  private async now(): Promise<Consent> {
    await this.loaded;
    return (this.settings?.composite[SETTING] as Consent | undefined) ?? this.chosen;
  }

  private async choose(allowed: boolean): Promise<void> {
    this.chosen = allowed ? "always" : "never";
    try {
      await this.settings?.set(SETTING, this.chosen);
    } catch (error) {
      console.warn("Cellwright: the choice about rendered outputs could not be saved.", error);
    }
  }
}

/** In the place of JupyterLab's package: its token, and notifications and dialogs that a test can read and answer. */

import { Token } from "@lumino/coreutils";

export const ICommandPalette = new Token("@jupyterlab/apputils:ICommandPalette");

type Action = { readonly label: string; callback(): void };

export const Notification = {
  shown: [] as string[],
  actions: [] as Action[],
  info(message: string, { actions = [] }: { actions?: Action[] } = {}): string {
    this.shown.push(message);
    this.actions.push(...actions);
    return "";
  },
  warning(message: string): string {
    this.shown.push(message);
    return "";
  },
};

export const Dialog = {
  okButton: (button: object): object => ({ ...button, accept: true }),
  cancelButton: (button: object): object => ({ ...button, accept: false }),
};

/** Answered at once, as `accepts` says. */
export const showDialog = Object.assign(
  (): Promise<{ button: { accept: boolean } }> => {
    showDialog.shown += 1;
    return Promise.resolve({ button: { accept: showDialog.accepts } });
  },
  { accepts: true, shown: 0 },
);

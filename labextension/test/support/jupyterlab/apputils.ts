/** In the place of JupyterLab's package: its token, and notifications that a test can read. */

import { Token } from "@lumino/coreutils";

export const ICommandPalette = new Token("@jupyterlab/apputils:ICommandPalette");

export const Notification = {
  shown: [] as string[],
  info(message: string): string {
    this.shown.push(message);
    return "";
  },
  warning(message: string): string {
    this.shown.push(message);
    return "";
  },
};

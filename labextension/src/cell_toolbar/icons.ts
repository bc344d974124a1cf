/** The icons of the actions, drawn as JupyterLab draws its own: `jp-icon3` follows the theme. */

import { LabIcon } from "@jupyterlab/ui-components";

import type { Action } from "./cell_actions";

const PATHS: Record<Action, string> = {
  fix: "M22.7 19l-9.1-9.1c.9-2.3.4-5-1.5-6.9-2-2-5-2.4-7.4-1.3L9 6 6 9 1.6 4.7C.4 7.1.9 10.1 2.9 12.1c1.9 1.9 4.6 2.4 6.9 1.5l9.1 9.1c.4.4 1 .4 1.4 0l2.3-2.3c.5-.4.5-1.1.1-1.4z",
  explain:
    "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm0 16.2a7.2 7.2 0 1 1 0-14.4 7.2 7.2 0 0 1 0 14.4zM11.1 15.6h1.8v1.8h-1.8zM12 6.6a3.3 3.3 0 0 0-3.3 3.3h1.8a1.5 1.5 0 1 1 3 0c0 1.4-2.4 1.4-2.4 4.2h1.8c0-1.9 2.4-2.2 2.4-4.2A3.3 3.3 0 0 0 12 6.6z",
  document: "M14 2H6a2 2 0 0 0-2 2v16a2 2 0 0 0 2 2h12a2 2 0 0 0 2-2V8zm4 18H6V4h7v5h5zM8 12h8v1.6H8zm0 3.4h8V17H8z",
  edit: "M3 17.25V21h3.75L17.8 9.94l-3.75-3.75zM5.92 19H5v-.92l9.05-9.06.93.93zM18.5 1.5l.8 2.2 2.2.8-2.2.8-.8 2.2-.8-2.2-2.2-.8 2.2-.8z",
};

/** The icon of an action. */
export function iconOf(action: Action): LabIcon {
  const svgstr = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><path class="jp-icon3" fill="#616161" d="${PATHS[action]}"/></svg>`;
  return new LabIcon({ name: `cellwright:${action}`, svgstr });
}

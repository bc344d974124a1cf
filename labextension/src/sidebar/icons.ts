/** The panel's icons. */

export type IconName = "claude" | "new" | "sessions" | "settings" | "help" | "more" | "folder" | "send" | "stop" | "options";

/** Paths in a box of 24 by 24. */
const PATHS: Record<IconName, string> = {
  claude: "M12 2.2l1.9 6.1 5.2-3.7-3 5.6 6.3 1.8-6.3 1.8 3 5.6-5.2-3.7L12 21.8l-1.9-6.1-5.2 3.7 3-5.6L1.6 12l6.3-1.8-3-5.6 5.2 3.7z",
  new: "M11 5h2v6h6v2h-6v6h-2v-6H5v-2h6z",
  sessions: "M12 3a9 9 0 1 1-8.5 6h2.2A7 7 0 1 0 12 5a7 7 0 0 0-4.9 2H10v2H3.5V2.5h2v3.2A9 9 0 0 1 12 3zm-1 4h2v4.6l3.2 1.9-1 1.7L11 12.7z",
  settings:
    "M19.4 13c.1-.3.1-.7.1-1s0-.7-.1-1l2.1-1.6-2-3.5-2.5 1a7 7 0 0 0-1.7-1l-.4-2.6h-4l-.4 2.6a7 7 0 0 0-1.7 1l-2.5-1-2 3.5L6.5 11c-.1.3-.1.7-.1 1s0 .7.1 1l-2.1 1.6 2 3.5 2.5-1a7 7 0 0 0 1.7 1l.4 2.600h4l.4-2.600a7 7 0 0 0 1.7-1l2.5 1 2-3.500zM12.9 15.400a3.4 3.4 0 1 1 0-6.8 3.4 3.4 0 0 1 0 6.800z",
  help: "M11 17h2v2h-2zm1-12a4 4 0 0 0-4 4h2a2 2 0 1 1 4 0c0 2-3 1.8-3 5h2c0-2.2 3-2.5 3-5a4 4 0 0 0-4-4z",
  more: "M12 8a2 2 0 1 0 0-4 2 2 0 0 0 0 4zm0 2a2 2 0 1 0 0 4 2 2 0 0 0 0-4zm0 6a2 2 0 1 0 0 4 2 2 0 0 0 0-4z",
  send: "M12 4l7 7-1.4 1.4L13 7.8V20h-2V7.800l-4.600 4.600L5 11z",
  stop: "M7 7h10v10H7z",
  options: "M4 6h9v2H4zm13 0h3v2h-3zm-3-2h2v6h-2zM4 16h3v2H4zm7 0h9v2h-9zm-3-2h2v6H8z",
  folder: "M10 5l2 2h8v11H4V5z",
};

/** As JupyterLab draws its own: `jp-icon3` follows the theme. */
export function svgOf(name: IconName): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><path class="jp-icon3" fill="#616161" d="${PATHS[name]}"/></svg>`;
}

/** The icon as an element, in the colour of its text. */
export function icon(name: IconName): SVGElement {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", PATHS[name]);
  path.setAttribute("fill", "currentColor");
  svg.append(path);
  return svg;
}

/** What is dropped or pasted into the composer: files of the computer, and files of JupyterLab's file browser. */

/** What JupyterLab's file browser drags: paths on the server. */
const CONTENTS = "application/x-jupyter-icontents";

type LuminoDrag = Event & {
  readonly mimeData: { hasData(type: string): boolean; getData(type: string): unknown };
  readonly proposedAction: string;
  dropAction: string;
};

export type Taken = {
  /** Files with content. */
  files(files: readonly File[]): void;
  /** Paths on the server. */
  paths(paths: readonly string[]): void;
};

/** Has `node` take what is dropped on it, and `area` what is pasted into it; `dragging` says whether something hangs over it. */
export function takeDrops(node: HTMLElement, area: HTMLTextAreaElement, taken: Taken, dragging: (over: boolean) => void): void {
  node.addEventListener("dragover", (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
    dragging(true);
  });
  node.addEventListener("dragleave", (event) => {
    if (!node.contains(event.relatedTarget as Node | null)) dragging(false);
  });
  node.addEventListener("drop", (event) => {
    dragging(false);
    const files = [...(event.dataTransfer?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    event.stopPropagation();
    taken.files(files);
  });
  area.addEventListener("paste", (event) => {
    const data = event.clipboardData;
    const files = [...(data?.files ?? [])];
    // a table copied from an office program comes as a picture, too: its text is what is meant
    if (files.length === 0 || data?.getData("text/plain")) return;
    event.preventDefault();
    taken.files(files);
  });
  takeFromFileBrowser(node, taken, dragging);
}

/** The file browser's drags are Lumino's own events. */
function takeFromFileBrowser(node: HTMLElement, taken: Taken, dragging: (over: boolean) => void): void {
  const on = (type: string, handle: (event: LuminoDrag) => void): void => {
    node.addEventListener(type, (event) => {
      const drag = event as LuminoDrag;
      if (!drag.mimeData.hasData(CONTENTS)) return;
      event.preventDefault();
      event.stopPropagation();
      handle(drag);
    });
  };
  on("lm-dragenter", () => { dragging(true); });
  on("lm-dragleave", () => { dragging(false); });
  on("lm-dragover", (event) => { event.dropAction = event.proposedAction; });
  on("lm-drop", (event) => {
    dragging(false);
    const paths = event.mimeData.getData(CONTENTS);
    event.dropAction = event.proposedAction;
    if (Array.isArray(paths)) taken.paths(paths.filter((path) => typeof path === "string"));
  });
}

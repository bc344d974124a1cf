/** What a browser has and jsdom does not. */

Element.prototype.scrollIntoView = () => undefined;

// JupyterLab's widgets ask for it when they are loaded
(globalThis as { DragEvent?: unknown }).DragEvent ??= MouseEvent;

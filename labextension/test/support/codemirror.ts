/** In the place of CodeMirror's packages, which JupyterLab gives to a plugin: what plugins name while they are loaded. */

export const Compartment = function Compartment(): void { /* nothing is configured */ };
export const ViewPlugin = { define: (): null => null };

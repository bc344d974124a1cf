/** The variables of JupyterLab's two themes that the renderer uses. "none" stands for a page without a theme. */

const common = {
  "--jp-content-font-size1": "14px",
  "--jp-content-font-family": "system-ui, -apple-system, 'Segoe UI', helvetica, arial, sans-serif",
  "--jp-code-font-family": "menlo, consolas, 'DejaVu Sans Mono', monospace",
  "--jp-code-font-size": "13px",
};

export const themes = {
  none: {},
  light: {
    ...common,
    "--jp-layout-color0": "white",
    "--jp-ui-font-color1": "rgba(0, 0, 0, 0.87)",
    "--jp-content-font-color0": "#000",
    "--jp-content-font-color1": "rgba(0, 0, 0, 0.87)",
    "--jp-content-link-color": "#0d47a1",
    "--jp-brand-color1": "#1976d2",
    "--jp-warn-color1": "#f57c00",
    "--jp-error-color1": "#d32f2f",
    "--jp-success-color1": "#388e3c",
  },
  dark: {
    ...common,
    "color-scheme": "dark",
    "--jp-layout-color0": "#111",
    "--jp-ui-font-color1": "rgba(255, 255, 255, 0.87)",
    "--jp-content-font-color0": "#fff",
    "--jp-content-font-color1": "#fff",
    "--jp-content-link-color": "#64b5f6",
    "--jp-brand-color1": "#2196f3",
    "--jp-warn-color1": "#ff9800",
    "--jp-error-color1": "#f44336",
    "--jp-success-color1": "#4caf50",
  },
};

import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

/** A style sheet is a string, as in the build. */
const cssAsText = {
  name: "css as text",
  enforce: "pre",
  async load(id) {
    return id.endsWith(".css") ? `export default ${JSON.stringify(await readFile(id, "utf8"))}` : undefined;
  },
};

const support = (name) => fileURLToPath(new URL(`test/support/${name}`, import.meta.url));

export default defineConfig({
  plugins: [cssAsText],
  // JupyterLab gives it to a plugin; its package is not installed
  resolve: {
    alias: {
      ...Object.fromEntries(
        ["application", "apputils", "codemirror", "completer", "docmanager", "filebrowser", "launcher", "notebook", "rendermime", "settingregistry", "statusbar", "translation", "ui-components"].map((name) => [
          `@jupyterlab/${name}`,
          support(`jupyterlab/${name.replace("-", "_")}.ts`),
        ]),
      ),
      "@codemirror/state": support("codemirror.ts"),
      "@codemirror/view": support("codemirror.ts"),
    },
  },
  define: { BUILD: JSON.stringify("test-build"), SCRIPTS_MAY_ANSWER: "true" },
  // the protocol's examples and the Python package's version are read from outside this folder
  server: { fs: { allow: [".."] } },
  test: {
    environment: "jsdom",
    // requestAnimationFrame as in a visible page
    environmentOptions: { jsdom: { pretendToBeVisual: true } },
    include: ["test/**/*.test.ts"],
    setupFiles: ["test/support/browser.ts"],
    // more than cores: many tests wait until a card counts as read
    maxWorkers: 3,
    // on a busy machine as well
    testTimeout: 60_000,
    coverage: {
      provider: "v8",
      include: ["src/**/*.ts"],
      exclude: ["src/**/*.d.ts"],
      reporter: ["text", "json-summary"],
      thresholds: { statements: 80, branches: 80, functions: 80, lines: 80 },
    },
  },
});

/** Makes the pages of this folder: `node build.mjs ESBUILD PACKAGES OUT`, with what was installed in PACKAGES. */

import { cp, mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const [esbuild, packages, out] = process.argv.slice(2).map((path) => resolve(path));
const { build } = await import(pathToFileURL(join(esbuild, "lib/main.js")));
const here = fileURLToPath(new URL("./", import.meta.url));

await build({
  entryPoints: ["vscode.js", "colab.js"].map((name) => join(here, name)),
  outdir: out,
  bundle: true,
  format: "esm",
  target: "es2022",
  logLevel: "error",
  nodePaths: [join(packages, "node_modules")],
  alias: { ipywidgets8: join(packages, "ipywidgets8/dist/ipywidgets.js"), path: "path-browserify" },
  define: { "process.env.NODE_ENV": '"production"', global: "globalThis" },
  loader: { ".woff": "dataurl", ".woff2": "dataurl", ".ttf": "dataurl", ".svg": "dataurl", ".eot": "dataurl" },
});
await mkdir(out, { recursive: true });
for (const name of ["vscode.html", "colab.html"]) await cp(join(here, name), join(out, name));
for (const [from, to] of [
  ["requirejs/require.js", "requirejs/require.js"],
  ["katex/dist/katex.min.css", "katex/katex.min.css"],
  ["katex/dist/fonts", "katex/fonts"],
]) {
  await cp(join(packages, "node_modules", from), join(out, to), { recursive: true });
}

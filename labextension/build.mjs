/**
 * Builds, with esbuild alone:
 *   static/transcript.js   the renderer, one ES module with its style sheet inside
 *   static/loader.js       the small `_esm` of each cell's widget
 *   lib/                   the plugins, for the JupyterLab builder to wrap
 * The loader and the plugins know the renderer by the hash of its built file.
 */

import { createHash } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build, transform } from "esbuild";

const here = new URL("./", import.meta.url);
const path = (name) => fileURLToPath(new URL(name, here));
const STATIC = path("../src/cellwright/kernel/widgets/static/");

const minifiedCss = {
  name: "minified css",
  setup({ onLoad }) {
    onLoad({ filter: /\.css$/ }, async (args) => {
      const { code } = await transform(await readFile(args.path, "utf8"), { loader: "css", minify: true, target: "es2022" });
      return { contents: code, loader: "text" };
    });
  },
};

const common = {
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  charset: "utf8",
  legalComments: "none",
  plugins: [minifiedCss],
  logLevel: "warning",
};

/** Licences of what is bundled travel with it. */
async function banner() {
  const { version } = JSON.parse(await readFile(path("node_modules/marked/package.json"), "utf8"));
  return `/*! Cellwright, BSD-3-Clause. Contains marked ${version}, (c) MarkedJS and Christopher Jeffrey, MIT licence. */`;
}

async function bundle(entry, define = {}, js = "") {
  const result = await build({ ...common, entryPoints: [path(entry)], define, banner: { js }, write: false });
  return result.outputFiles[0].contents;
}

/** What each page, and each cell, has to carry; a bundle that grows past it must be worth a decision. */
// the sources of numbers and the cards of branches took 6 kB: an answer that says where its numbers are from is worth them;
// so are marks of stale numbers and of names that nothing has, 1 kB, that a card of a conflict and the line of the steps
// say what is so, 0.5 kB, that answers are in view at twice the zoom, 1 kB, that an answer ends with its kernel, 0.5 kB, and
// that a link keeps its bracket and a message its code, 0.5 kB; so is a footer of one line, whose seldom links unfold, and
// cards whose changes are ticked beforehand and can be answered with one key, 2 kB; a screen reader hears each line of a diff as
// added or removed, lines that wrap keep their indentation, and one line stands for changes that are shown at their cells, 2 kB;
// a diff is a list of its lines, a narrow card and a footer keep to what is wanted most, and each button to copy has a name, 1.5 kB
const BUDGETS = { "transcript.js": [192 * 1024, 66 * 1024], "loader.js": [1600, 1600] };

function checkSize(name, contents) {
  const sizes = [contents.length, gzipSync(contents).length];
  console.log(`${name}: ${sizes[0]} bytes, ${sizes[1]} gzip`);
  if (sizes.some((size, index) => size > BUDGETS[name][index])) throw new Error(`${name} is over its budget ${BUDGETS[name]}`);
}

/** What every start of JupyterLab loads of the plugins; the rest comes with its first use, by `import()`. */
// that answers end with their kernel has to be listened for from the start: 0.8 kB; that the panel has its width again in a
// window that has grown, and a card for a key is gone to, took 0.4 kB; the card of an undo with its keys 0.5 kB
const START_BUDGET = 170 * 1024;

function checkStart(outputs) {
  const start = new Set();
  const add = (name) => {
    if (start.has(name) || !outputs[name]) return;
    start.add(name);
    for (const { path: imported, kind } of outputs[name].imports) if (kind === "import-statement") add(imported);
  };
  add(Object.keys(outputs).find((name) => outputs[name].entryPoint === "src/index.ts"));
  const sum = (sizes) => sizes.reduce((total, size) => total + size, 0);
  const bytes = sum([...start].map((name) => outputs[name].bytes));
  console.log(`plugins at the start: ${bytes} bytes`);
  if (bytes <= START_BUDGET) return;
  const inputs = [...start].flatMap((name) => Object.entries(outputs[name].inputs).map(([input, { bytesInOutput }]) => [bytesInOutput, input]));
  console.log(inputs.sort(([one], [other]) => other - one).slice(0, 20).map((each) => each.join(" ")).join("\n"));
  throw new Error(`the plugins are over their budget of ${START_BUDGET} bytes at the start: import() what a start has no use for`);
}

const answers = { SCRIPTS_MAY_ANSWER: "false" };
const transcript = await bundle("src/transcript/transcript.ts", answers, await banner());
const define = { ...answers, BUILD: JSON.stringify(createHash("sha256").update(transcript).digest("hex").slice(0, 12)) };
const loader = await bundle("src/loader.ts", define);

await mkdir(STATIC, { recursive: true });
await writeFile(`${STATIC}transcript.js`, transcript);
await writeFile(`${STATIC}loader.js`, loader);
checkSize("transcript.js", transcript);
checkSize("loader.js", loader);

await rm(path("lib"), { recursive: true, force: true });
// the JupyterLab builder bundles what is external here, and lists its licence; what is JupyterLab's own it takes from there
const plugins = await build({ ...common, entryPoints: [path("src/index.ts")], define, splitting: true, outdir: path("lib"), metafile: true, external: ["marked", "modern-screenshot", "@codemirror/*", "@jupyterlab/*", "@lezer/*", "@lumino/*"] });
checkStart(plugins.metafile.outputs);

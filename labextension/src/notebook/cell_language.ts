/** A block of code in an answer as a cell of a notebook: by what language it is in, and which one the notebook's kernel speaks. */

import type { ICellModel, ICodeCellModel } from "@jupyterlab/cells";

/** A cell's model: those of code alone have outputs. */
export type CellModel = ICellModel & Partial<Omit<ICodeCellModel, keyof ICellModel>>;

export type CellForCode = { cell_type: "code" | "markdown"; source: string };

/** Other names of languages, as they stand behind a fence. */
const ALIASES: Readonly<Record<string, string>> = {
  py: "python",
  python3: "python",
  ipython: "python",
  ipython3: "python",
  pycon: "python",
  js: "javascript",
  node: "javascript",
  tex: "latex",
  shell: "bash",
  zsh: "bash",
  console: "session",
  "shell-session": "session",
  shellsession: "session",
  md: "markdown",
  ir: "r",
  jl: "julia",
};

/** IPython's magics that run a cell in another language. */
const MAGICS: Readonly<Record<string, string>> = {
  bash: "%%bash",
  sh: "%%sh",
  session: "%%bash",
  html: "%%html",
  svg: "%%svg",
  latex: "%%latex",
  javascript: "%%javascript",
  perl: "%%perl",
  ruby: "%%ruby",
};

function canonicalName(language: string): string {
  const name = language.toLowerCase();
  return ALIASES[name] ?? name;
}

/** The cell that a block becomes in a notebook whose kernel speaks `kernel`. */
export function cellForCode(language: string, text: string, kernel: string): CellForCode {
  const code = text.replace(/\s+$/, "");
  const name = canonicalName(language);
  if (name === "markdown") return { cell_type: "markdown", source: code };
  // no language is said: what stands in a notebook's answer is most likely the notebook's
  if (!name || name === canonicalName(kernel)) return { cell_type: "code", source: code };
  const magic = canonicalName(kernel) === "python" ? MAGICS[name] : undefined;
  if (magic) return { cell_type: "code", source: `${magic}\n${name === "session" ? commandsOf(code) : code}` };
  return { cell_type: "markdown", source: fenced(language, code) };
}

/** The commands of a shell session, without its prompts and what it printed. */
function commandsOf(session: string): string {
  const commands = session.split("\n").flatMap((line) => /^\s*[$%#] (.*)$/.exec(line)?.[1] ?? []);
  return commands.length ? commands.join("\n") : session;
}

function fenced(language: string, code: string): string {
  const longest = Math.max(2, ...[...code.matchAll(/`+/g)].map(([ticks]) => ticks.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${code}\n${fence}`;
}

type Metadata = { getMetadata(key: string): unknown };

/** The language of a notebook's kernel, as far as the notebook says. */
export function languageOf(model: Metadata): string {
  const { name } = (model.getMetadata("language_info") ?? {}) as { name?: string };
  const { language } = (model.getMetadata("kernelspec") ?? {}) as { language?: string };
  // JupyterLab gives a notebook that has not run an empty name
  return [name, language].find((each) => each) ?? "python";
}

/** True for a notebook whose kernel speaks Python, as far as the notebook says. */
export function isPython(model: Metadata): boolean {
  return languageOf(model).toLowerCase().startsWith("python");
}

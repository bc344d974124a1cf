/** Texts in the user's language, or as they stand here where nobody translates. */

import type { ITranslator } from "@jupyterlab/translation";

/** The page's translations: JupyterLab's TranslationBundle is one. `%1` in a text stands for the first of `args`. */
export type Trans = { __(text: string, ...args: (string | number)[]): string };

export function transOf(translator: ITranslator | null): Trans {
  return translator?.load("cellwright") ?? { __: filled };
}

function filled(text: string, ...args: (string | number)[]): string {
  return text.replace(/%(\d)/g, (sign, number: string) => `${args[Number(number) - 1] ?? sign}`);
}

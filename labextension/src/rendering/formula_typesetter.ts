/**
 * JupyterLab's typesetter, lent to the transcripts. It draws in the page's styles, which do not reach into a transcript's
 * root: the rules that it needs are copied there. Its fonts the page has for all roots.
 */

import type { IRenderMime } from "@jupyterlab/rendermime";

/** MathJax's elements and classes of fonts, KaTeX's classes. */
const RULES = /\bmjx-|\.(?:MathJax|MJX|TEX|katex)\b/;
const DRAWN = "mjx-container, .katex";
/** What neither of them draws unless a formula brings it in; and formulas that they could not read. */
const UNWANTED = "a, script, style, img, iframe, object, embed, form, input, button, mjx-merror, [data-mjx-error], .katex-error";

export function formulaTypesetter(typesetter: IRenderMime.ILatexTypesetter): (node: HTMLElement) => Promise<boolean> {
  const styles = copiedStyles();
  return async (node) => {
    await typesetter.typeset(node);
    const [drawn, ...more] = node.querySelectorAll(DRAWN);
    if (!drawn || more.some((other) => !drawn.contains(other)) || hasUnwanted(node)) return false;
    styles.into(node.getRootNode());
    return true;
  };
}

function hasUnwanted(node: HTMLElement): boolean {
  if (node.querySelector(UNWANTED)) return true;
  return [...node.querySelectorAll("*")].some((each) => each.getAttributeNames().some((name) => name.startsWith("on")));
}

function copiedStyles(): { into(root: Node): void } {
  const sheet = new CSSStyleSheet();
  let sources: CSSStyleSheet[] = [];
  let looked = -1;
  let copied = -1;
  return {
    into(root) {
      if (!(root instanceof ShadowRoot)) return;
      if (looked !== document.styleSheets.length) {
        looked = document.styleSheets.length;
        sources = [...document.styleSheets].filter((each) => rulesOf(each).some(isWanted));
      }
      // MathJax adds the rules of a character when it draws the first one
      const count = sources.reduce((sum, each) => sum + rulesOf(each).length, 0);
      if (count !== copied) {
        copied = count;
        sheet.replaceSync(sources.flatMap((each) => rulesOf(each).filter(isWanted).map(({ cssText }) => cssText)).join("\n"));
      }
      if (!root.adoptedStyleSheets.includes(sheet)) root.adoptedStyleSheets.push(sheet);
    },
  };
}

function isWanted(rule: CSSRule): boolean {
  return rule instanceof CSSStyleRule && RULES.test(rule.selectorText);
}

function rulesOf(sheet: CSSStyleSheet): CSSRule[] {
  try {
    return [...sheet.cssRules];
  } catch {
    // of another origin: not to be read
    return [];
  }
}

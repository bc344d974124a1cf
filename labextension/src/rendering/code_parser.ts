/** JupyterLab's parsers of languages, lent to the transcripts: a text is parsed as it grows, a little at a time. */

import type { IEditorLanguage, IEditorLanguageRegistry } from "@jupyterlab/codemirror";
import type { Parser, PartialParse, TreeFragment as Fragment } from "@lezer/common";
import { Tree, TreeFragment } from "@lezer/common";
import { highlightTree, tagHighlighter, tags as t } from "@lezer/highlight";

import type { CodeParser, Kind } from "../transcript/code/page_abilities";

type Tags = Parameters<typeof tagHighlighter>[0][number]["tag"];

/** As the style of JupyterLab's editor has it; the most specific tag counts. "plain" is no colour. */
const STYLE: readonly (readonly [Kind | "plain", Tags])[] = [
  ["meta", t.meta],
  ["heading", t.heading],
  ["keyword", t.keyword],
  ["atom", t.atom],
  ["number", t.number],
  ["def", [t.definition(t.name), t.function(t.definition(t.variableName))]],
  ["builtin", t.standard(t.variableName)],
  ["special", [t.special(t.variableName), t.self]],
  ["punctuation", t.punctuation],
  ["property", t.propertyName],
  ["operator", t.operator],
  ["comment", t.comment],
  ["string", t.string],
  ["label", [t.labelName, t.monospace, t.special(t.string)]],
  ["bracket", t.bracket],
  ["tag", t.tagName],
  ["attribute", t.attributeName],
  ["quote", t.quote],
  ["link", t.link],
  ["plain", [t.separator, t.derefOperator, t.paren]],
  ["strong", t.strong],
  ["emphasis", t.emphasis],
  ["keyword", t.bool],
];
const KIND_OF = tagHighlighter(STYLE.map(([kind, tag]) => ({ tag, class: kind })));

/** How to make parsers for a language, by its name or a file's; null where the registry knows none. */
export async function languageParser(registry: IEditorLanguageRegistry, name: string): Promise<(() => CodeParser) | null> {
  const spec = findLanguage(registry, name);
  const language = spec && (await registry.getLanguage(spec));
  const parser = language?.support?.language.parser;
  return parser ? () => growingText(parser, /^shell$/i.test(spec?.name ?? "")) : null;
}

function findLanguage(registry: IEditorLanguageRegistry, name: string): IEditorLanguage | null {
  const plain = name.replace(/^i?(python)\d*$/i, "$1");
  return registry.findByName(plain) ?? registry.findByFileName(name) ?? registry.findByExtension(/[^./\\]*$/.exec(name)?.[0].toLowerCase() ?? "");
}

/** A shell's parser takes each `done` and `sleep` for a word of its own, wherever it stands: in a shell such words have no colour. */
function growingText(parser: Parser, isShell: boolean): CodeParser {
  let text = "";
  let tree = Tree.empty;
  let fragments: readonly Fragment[] = [];
  let parse: PartialParse | null = null;

  const begin = (next: string): void => {
    if (parse) {
      // as far as it has come: else a text that grows faster than it is parsed would begin anew for ever
      parse.stopAt(parse.parsedPos);
      for (let done = parse.advance(); ; done = parse.advance()) {
        if (!done) continue;
        fragments = TreeFragment.addTree(done, fragments, true);
        break;
      }
    }
    const same = commonStart(text, next);
    fragments = TreeFragment.applyChanges(fragments, [{ fromA: same, toA: text.length, fromB: same, toB: next.length }]);
    text = next;
    parse = parser.startParse(text, fragments);
  };
  return {
    parse(next, until) {
      if (next !== text) begin(next);
      while (parse) {
        const done = parse.advance();
        if (done) {
          tree = done;
          fragments = TreeFragment.addTree(tree, fragments);
          parse = null;
        } else if (performance.now() >= until) return false;
      }
      return true;
    },
    tokens(from, to, put) {
      highlightTree(tree, KIND_OF, (start, end, classes) => {
        // what is inside of something else has its kind as well; its own comes last
        const kind = classes.trim().split(/\s+/).at(-1);
        if (kind && kind !== "plain" && !(isShell && ["keyword", "builtin"].includes(kind)) && start < to && end > from) put(Math.max(start, from), Math.min(end, to), kind);
      }, from, to);
    },
  };
}

function commonStart(a: string, b: string): number {
  if (b.startsWith(a)) return a.length;
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  return at;
}

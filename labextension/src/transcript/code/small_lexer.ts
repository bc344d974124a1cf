/** Colours for pages that lend no parser: comments, strings, numbers and the keywords that most languages share. */

import type { CodeParser, Kind } from "./page_abilities";

const WORDS =
  "and as assert async await break case catch class const continue def default del do elif else enum except export extends finally fn for from func function global if impl import in instanceof interface is lambda let loop match mod mut new nonlocal not or pass private protected pub public raise return select static struct super switch this throw trait try type typeof use var void where while with yield True False None true false null nil undefined fi then done esac elsif end begin";
const KEYWORDS = new Set(WORDS.split(" "));

const STRINGS = String.raw`"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\[\s\S]|[^"\\\n])*"?|'(?:\\[\s\S]|[^'\\\n])*'?`;
const REST = String.raw`\b\d[\w.]*|[A-Za-z_$][\w$]*`;
const HASH = String.raw`#[^\n]*`;
const SLASHES = String.raw`\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`;
const DASHES = String.raw`--[^\n]*`;

/** How comments begin, by what a language's name or a file's ends with. */
const COMMENTS: readonly (readonly [string, RegExp])[] = [
  [HASH, /(?:^|\.)(?:i?py(?:thon)?3?|r|jl|julia|ba?sh|zsh|shell|rb|ruby|perl|pl|ya?ml|toml|ini|cfg|make(?:file)?|docker(?:file)?)$/i],
  [SLASHES, /(?:^|\.)(?:[jt]sx?|javascript|typescript|c|h|cc|cpp|c\+\+|cs|csharp|java|kotlin|kt|scala|go|rust|rs|swift|php|css|scss|jsonc?|json5)$/i],
  [DASHES, /(?:^|\.)(?:sql|lua|hs|haskell)$/i],
];

type Token = { from: number; to: number; kind: Kind };

/** How to make parsers for `language`; null for one that is not known. */
export function smallLexer(language: string): (() => CodeParser) | null {
  const comments = COMMENTS.find(([, names]) => names.test(language))?.[0];
  return comments === undefined ? null : () => lexer(comments);
}

function lexer(comments: string): CodeParser {
  const pattern = new RegExp(`(?<comment>${comments})|(?<string>${STRINGS})|${REST}`, "g");
  let text = "";
  let tokens: Token[] = [];
  return {
    parse(next) {
      if (next === text) return true;
      // what was read stays where the text only grew, but the last token may have grown with it
      tokens = next.startsWith(text) ? tokens.slice(0, -1) : [];
      const kept = tokens.at(-1)?.to ?? 0;
      text = next;
      pattern.lastIndex = kept;
      for (let match = pattern.exec(text); match; match = pattern.exec(text)) {
        tokens.push({ from: match.index, to: match.index + match[0].length, kind: kindOf(match) });
      }
      return true;
    },
    tokens(from, to, put) {
      for (const token of tokens) {
        if (token.to > from && token.from < to && token.kind !== "special") put(Math.max(from, token.from), Math.min(to, token.to), token.kind);
      }
    },
  };
}

/** "special" is a name like any other, kept so that it can still grow. */
function kindOf({ 0: text, groups }: RegExpExecArray): Kind {
  if (groups?.comment !== undefined) return "comment";
  if (groups?.string !== undefined) return "string";
  if (/^\d/.test(text)) return "number";
  return KEYWORDS.has(text) ? "keyword" : "special";
}

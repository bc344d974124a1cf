r"""Mathematics in Markdown: rules for markdown-it, and the one form in which a formula is written.

Jupyter's front ends take formulas out of the source before they parse it, and each finds them in its own way. So a formula
is written only where all find the same one: without backticks, with braces in pairs, and so that it is text to a renderer
which knows no formulas. What TeX could load or link to is no formula here, and is shown as text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

_MAX_CHARS = 10_000

# what makes a link, sets attributes or styles, loads an extension or a file; and what could put such a name together
_FORBIDDEN = lazy_pattern(
    r"\\(?:href|url|style|class|cssId|data|html|require|unicode|mmlToken|bbox|include|input|import|write|open|read|csname"
    r"|catcode|tooltip|toggle|mathtip|texttip|breakAlign|def|let|gdef|edef|xdef|futurelet|new(?!line)|renew|provide)"
    r"|[`\x00-\x08\x0b-\x1f]|~~~|@@|\n[ \t]*\n|(?<!\\)%|<!|<\?",
    re.IGNORECASE,
)
_ENVIRONMENT = lazy_pattern(r"\\begin\{([a-z]{1,40}\*?)\}")
_IN_LINES = {"$$": "$$", "\\\\[": "\\\\]", "\\\\(": "\\\\)", "\\(": "\\)"}
_IN_BLOCKS = {"$$": "$$", "\\\\[": "\\\\]", "\\[": "\\]"}
"""Openings and what ends them; `\\[` in the midst of a line is rather a bracket that is no link's."""


def formula(body: str, *, in_table: bool = False) -> str | None:
    """The TeX of a formula, harmless to everybody; None for what is not to be one."""
    body = body.strip()
    if not body or _FORBIDDEN.search(body) or not _is_balanced(body):
        return None
    # TeX does not see these blanks; to Markdown they are the end of a tag, a link, a definition
    body = re.sub(r"<(?=[A-Za-z/])", "< ", body)
    body = re.sub(r"\](?=[(\[:])", "] ", body)
    return body.replace("|", "\\vert ") if in_table else body


def _is_balanced(body: str) -> bool:
    """Return whether its braces are in pairs and no dollar or backslash is left that an end could be found with."""
    depth = 0
    for token in re.findall(r"\\.|[{}$]|\\\Z", body, re.DOTALL):
        if token in ("$", "\\", "\\(", "\\)", "\\[", "\\]"):
            return False
        depth += {"{": 1, "}": -1}.get(token, 0)
        if depth < 0:
            return False
    return depth == 0


def add_rules(parser: MarkdownIt) -> None:
    """Have `parser` make tokens `math_inline`, `math_display` and `math_environment` with the TeX as their content."""
    parser.inline.ruler.before("escape", "math", _inline_rule)
    parser.block.ruler.before("fence", "math", _block_rule, {"alt": ["paragraph", "reference", "blockquote", "list"]})


def _inline_rule(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "$\\":
        return False
    found = _found_at(state.src, state.pos, state.posMax, _IN_LINES)
    if found is None:
        return False
    kind, body, end = found
    if not silent:
        state.push(kind, "", 0).content = body
    state.pos = end
    return True


def _found_at(text: str, start: int, limit: int, openings: Mapping[str, str]) -> tuple[str, str, int] | None:
    """The kind of the formula that begins at `start`, what is in it, and where it ends."""
    if text.startswith("$", start) and not text.startswith("$$", start):
        match = _IN_DOLLARS.match(text, start, min(limit, start + _MAX_CHARS))
        return None if match is None or formula(match[1]) is None else ("math_inline", match[1], match.end())
    if environment := _ENVIRONMENT.match(text, start, limit):
        closing = f"\\end{{{environment[1]}}}"
        end = text.find(closing, environment.end(), min(limit, start + _MAX_CHARS))
        body = "" if end < 0 else text[start : end + len(closing)]
        return None if formula(body) is None else ("math_environment", body, start + len(body))
    for opening, closing in openings.items():
        if text.startswith(opening, start):
            begin = start + len(opening)
            end = text.find(closing, begin, min(limit, start + _MAX_CHARS))
            if end < 0 or formula(text[begin:end]) is None:
                return None
            kind = "math_inline" if "(" in opening else "math_display"
            return kind, text[begin:end], end + len(closing)
    return None


_IN_DOLLARS = lazy_pattern(r"\$(?![\s$])((?:\\.|[^\n$\\`])*?)(?<!\s)\$(?![\d$])")
"""By pandoc's rule: no blank inside the dollars and no digit after them, which is money."""


def _closing_at(text: str, start: int) -> str | None:
    """Return what ends the displayed formula that begins at `start`; None where none begins."""
    if environment := _ENVIRONMENT.match(text, start):
        return f"\\end{{{environment[1]}}}"
    return next((closing for opening, closing in _IN_BLOCKS.items() if text.startswith(opening, start)), None)


def _block_rule(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Take a formula in lines of its own, which a list's or a quotation's marks in it do not end."""
    begin = state.bMarks[start_line] + state.tShift[start_line]
    if not state.src.startswith(("$", "\\"), begin):
        return False
    if state.is_code_block(start_line) or (closing := _closing_at(state.src, begin)) is None:
        return False
    # found before lines are put together: a text may have an opening in each of its lines
    until = state.src.find(closing, begin + 2, begin + _MAX_CHARS)
    if until < 0:
        return False
    line = start_line
    while line < end_line and not state.isEmpty(line):
        if line > start_line and (state.bMarks[line] > until or state.sCount[line] < state.blkIndent):
            break
        line += 1
    text = state.getLines(start_line, line, state.blkIndent, False).lstrip()
    found = _found_at(text, 0, len(text), _IN_BLOCKS)
    if found is None or found[0] == "math_inline":
        return False
    kind, body, end = found
    rest = text[end:].partition("\n")[0]
    if rest.strip():
        return False
    if not silent:
        state.line = start_line + text[:end].count("\n") + 1
        token = state.push(kind, "", 0)
        token.block, token.content = True, body
        token.map = [start_line, state.line]
    return True

"""Markdown written from markdown-it's tokens: only what is named here is written, each construct in one form.

Everything else is words, escaped. So every renderer finds the borders of code, links and formulas where this parser has
found them.

Jupyter's front ends take formulas out of the source before they parse it, and each finds them in its own way. So a formula
is written only where all find the same one: without backticks, with braces in pairs, and so that it is text to a renderer
which knows no formulas. What TeX could load or link to is no formula here, and is shown as text.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from msgspec import Struct

from cellwright.markdown.escaping import escape_words, fenced, inline_code, opening_apart, visible_controls
from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token


class _Block(Struct, frozen=True):
    """A block as it is written; `tight`: a paragraph of a list that has no empty lines between its items."""

    kind: str
    text: str
    tight: bool = True


def write(tokens: Sequence[Token]) -> str:
    """Write a document's tokens."""
    return "\n\n".join(block.text for block in _blocks(iter(tokens), at_top=True))


def _blocks(tokens: Iterator[Token], *, at_top: bool = False, in_item: bool = False) -> list[_Block]:
    """Write the blocks up to the end of what contains them."""
    found: list[_Block] = []
    for token in tokens:
        if token.nesting == -1:
            break
        block = _block(token, tokens, at_top=at_top, may_be_task=in_item and not found)
        if block.text:
            found.append(block)
    return found


def _block(token: Token, tokens: Iterator[Token], *, at_top: bool, may_be_task: bool) -> _Block:
    match token.type:
        case "paragraph_open":
            return _Block("paragraph", _Line(may_be_task=may_be_task).written(_inside(tokens)), token.hidden)
        case "heading_open":
            # a run of # at its end would close it
            text = re.sub(r"(#+)\Z", r"\\\1", _Line(single=True).written(_inside(tokens)))
            return _Block("heading", f"{'#' * int(token.tag[1:])} {text}".rstrip())
        case "fence" | "code_block":
            return _Block("fence", fenced(token.content.removesuffix("\n"), token.info))
        case "hr":
            # not of hyphens, which begin a front matter, nor of asterisks, which a list's mark may stand before
            return _Block("hr", "___")
        case "blockquote_open":
            return _Block("quote", quoted("\n\n".join(block.text for block in _blocks(tokens))))
        case "bullet_list_open" | "ordered_list_open":
            return _Block("list", _list(token, tokens))
        case "table_open":
            return _Block("table", _table(tokens))
        case "math_display" | "math_environment":
            return _Block("paragraph", _formula_block(token, at_top=at_top))
        case _:
            raise ValueError(f"no block that can be written: {token.type}")


def _inside(tokens: Iterator[Token]) -> Token:
    """The inline token of a paragraph or heading, whose closing token is passed as well."""
    inline = next(tokens)
    next(tokens)
    return inline


def quoted(markdown: str) -> str:
    """`markdown` (safe already) as a quotation."""
    return "\n".join(f"> {line}" if line else ">" for line in markdown.split("\n"))


def _list(opening: Token, tokens: Iterator[Token]) -> str:
    number = int(opening.attrs.get("start", 1)) if opening.type == "ordered_list_open" else None
    items: list[tuple[str, list[_Block]]] = []
    for token in tokens:
        if token.nesting == -1:
            break
        mark = token.markup if number is None else f"{number + len(items)}{token.markup}"
        items.append((mark, _blocks(tokens, in_item=True)))
    # the blocks of an item stand apart, or would run into each other if they did not
    loose = any(
        any(block.kind == "paragraph" and not block.tight for block in blocks)
        or not all(_may_follow(block, after) for block, after in itertools.pairwise(blocks))
        for _, blocks in items
    )
    between = "\n\n" if loose else "\n"
    return between.join(_item(mark, between.join(block.text for block in blocks)) for mark, blocks in items)


def _item(mark: str, markdown: str) -> str:
    indent = " " * (len(mark) + 1)
    # lists in lists that hold nothing: their marks alone are a rule
    markdown = "" if re.fullmatch(r"[-+*\s]+", markdown) else markdown
    lines = [f"{indent}{line}" if line else "" for line in markdown.split("\n")]
    lines[0] = f"{mark} {lines[0].strip()}".rstrip()
    return "\n".join(lines)


def _may_follow(block: _Block, after: _Block) -> bool:
    if block.kind in ("list", "quote", "table") or after.kind in ("paragraph", "table", "quote"):
        return block.kind in ("fence", "heading", "hr") and after.kind != "table"
    # a paragraph goes on with a list that begins with nothing, or not with 1
    return block.kind != "paragraph" or after.kind != "list" or bool(re.match(r"(?:[-+*]|1[.)]) \S", after.text))


def _table(tokens: Iterator[Token]) -> str:
    rows: list[list[str]] = []
    rule: list[str] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("th_open", "td_open"):
            if len(rows) == 1:
                rule.append(_ALIGNED.get(str(token.attrs.get("style", "")), "---"))
            rows[-1].append(_Line(single=True, in_table=True).written(_inside(tokens)))
        elif token.type == "table_close":
            break
    return "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], rule, *rows[1:]])


_ALIGNED = {"text-align:left": ":---", "text-align:right": "---:", "text-align:center": ":---:"}


def _formula_block(token: Token, *, at_top: bool) -> str:
    body = formula(token.content) or ""
    if not at_top:
        # the marks of lists and quotations before its lines would be taken for a part of it
        body = " ".join(body.split())
    if token.type == "math_environment":
        return body
    return f"$$\n{body}\n$$" if at_top and "\n" in body else f"$${body}$$"


_BREAK = lazy_pattern(r"<br\s*/?>", re.IGNORECASE)
_TASK = lazy_pattern(r"\[[ xX]\](?=\s)")


class _Line:
    """Writes what is in a paragraph, a heading (`single`: in one line) or a table's cell."""

    def __init__(self, *, single: bool = False, in_table: bool = False, may_be_task: bool = False) -> None:
        self._single = single
        self._in_table = in_table
        self._may_be_task = may_be_task
        self._out: list[str] = []
        self._dollar = "\\$"

    def written(self, inline: Token) -> str:
        children = inline.children or []
        dollars = sum(child.content.count("$") for child in children if child.type in ("text", "image"))
        if dollars > 1 or any(child.type.startswith("math") for child in children):
            # not only in the source: MathJax looks for formulas once more in the page, within the text of one element
            self._dollar = opening_apart("$")
        self._write(iter(children))
        return "".join(self._out).strip()

    def _write(self, tokens: Iterator[Token], *, in_link: bool = False) -> None:
        """Write what comes up to the end of what contains it."""
        for token in tokens:
            match token.type:
                case "text":
                    self._text(token.content, in_link=in_link)
                case "softbreak" | "hardbreak":
                    self._line_end(hard=token.type == "hardbreak")
                case "code_inline":
                    self._code(token.content)
                case "strong_open" | "em_open" | "s_open":
                    self._marked(token.markup, tokens, in_link=in_link)
                case "link_open":
                    self._link(token, tokens)
                case "image":
                    self._image(token, in_link=in_link)
                case "math_inline" | "math_display" | "math_environment":
                    self._formula(token)
                case _ if token.nesting == -1:
                    return
                case _:
                    raise ValueError(f"nothing that can be written in a line: {token.type}")

    def _marked(self, mark: str, tokens: Iterator[Token], *, in_link: bool) -> None:
        before = len(self._out)
        self._out.append(mark)
        self._write(tokens, in_link=in_link)
        if "".join(self._out[before + 1 :]).strip():
            self._out.append(mark)
        else:
            del self._out[before:]

    def _text(self, text: str, *, in_link: bool = False) -> None:
        position = 0
        for found in _BREAK.finditer(text):
            self._words(text[position : found.start()], in_link=in_link)
            self._out.append("<br>")
            position = found.end()
        self._words(text[position:], in_link=in_link)

    def _words(self, text: str, *, in_link: bool) -> None:
        # characters that were written as entities are seen only here
        text = visible_controls(text.replace("\n", " ")).replace("\n", " ")
        if not self._out and self._may_be_task and (task := _TASK.match(text)):
            self._out.append(task[0])
            text = text[task.end() :]
        pieces = [(text, False)] if in_link or "://" not in text else split_at_addresses(text)
        for piece, is_address in pieces:
            if is_address:
                self._out.append(f"<{destination(piece)}>")
                continue
            at_line_start = not self._single and (not self._out or self._out[-1].endswith("\n"))
            words = piece.lstrip() if at_line_start else piece
            if words:
                self._out.append(escape_words(words, self._dollar, at_line_start=at_line_start))

    def _line_end(self, *, hard: bool) -> None:
        if self._single:
            self._out.append(" ")
            return
        if self._out:
            self._out[-1] = self._out[-1].rstrip(" ")
        self._out.append("\\\n" if hard and self._out else "\n")

    def _code(self, text: str) -> None:
        after_code = bool(self._out) and self._out[-1].endswith("`")
        self._out.append(inline_code(text, in_table=self._in_table, after_code=after_code))

    def _formula(self, token: Token) -> None:
        body = " ".join((formula(token.content, in_table=self._in_table) or "").split())
        mark = {"math_inline": "$", "math_display": "$$"}.get(token.type, "")
        # one after the other would share a dollar
        apart = " " if mark and self._out and self._out[-1].endswith("$") else ""
        self._out.append(f"{apart}{mark}{body}{mark}")

    def _link(self, opening: Token, tokens: Iterator[Token]) -> None:
        address = str(opening.attrs.get("href", ""))
        shown = visible_controls(address)
        target = destination(address)
        before = len(self._out)
        if target is None:
            self._write(tokens, in_link=True)
            # where it would have led; not where the words say that already
            if address and "".join(self._out[before:]) != escape_words(shown, self._dollar, at_line_start=False):
                self._out.append(" (")
                self._code(shown if len(shown) <= 200 else f"{shown[:200]}…")
                self._out.append(")")
            return
        self._out.append("[")
        self._write(tokens, in_link=True)
        words = "".join(self._out[before + 1 :]).strip() or escape_words(shown, self._dollar, at_line_start=False)
        is_bare = opening.markup == "autolink" and not target.lower().startswith("mailto:")
        self._out[before:] = [f"<{target}>" if is_bare else f"[{words}]({target})"]

    def _image(self, token: Token, *, in_link: bool) -> None:
        """An image of somebody else's is not loaded: its address could carry something away. It becomes a link."""
        words = "".join(child.content or " " for child in token.children or []).strip()
        address = str(token.attrs.get("src", ""))
        target = destination(address)
        if in_link or target is None:
            self._text(f"[image: {words}]" if words else "[image]", in_link=in_link)
            return
        named = escape_words(visible_controls(words or address), self._dollar, at_line_start=False)
        self._out.append(f"[{named}]({target})")


_MAX_FORMULA_CHARS = 10_000

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
        match = _IN_DOLLARS.match(text, start, min(limit, start + _MAX_FORMULA_CHARS))
        return None if match is None or formula(match[1]) is None else ("math_inline", match[1], match.end())
    if environment := _ENVIRONMENT.match(text, start, limit):
        closing = f"\\end{{{environment[1]}}}"
        end = text.find(closing, environment.end(), min(limit, start + _MAX_FORMULA_CHARS))
        body = "" if end < 0 else text[start : end + len(closing)]
        return None if formula(body) is None else ("math_environment", body, start + len(body))
    for opening, closing in openings.items():
        if text.startswith(opening, start):
            begin = start + len(opening)
            end = text.find(closing, begin, min(limit, start + _MAX_FORMULA_CHARS))
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
    until = state.src.find(closing, begin + 2, begin + _MAX_FORMULA_CHARS)
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


_SCHEME = lazy_pattern(r"[A-Za-z][A-Za-z0-9+.-]*:")
_FOLLOWED = lazy_pattern(r"https?://[^/?#\s]|mailto:[^\s]", re.IGNORECASE)
# none of these ends a destination, opens code, a formula, emphasis or a placeholder of JupyterLab's for a formula
_KEPT = "%:/?#&=+,;._~@-"
_ENTITY = lazy_pattern(r"&(?=#?\w+;)")
_WRITTEN_OUT = lazy_pattern(r"(?<![\w:])https?://[^\s<>\"'`\\^{}|\[\]$*]+", re.IGNORECASE)
_NOT_ITS_END = "?!.,:;_~'\""


def destination(address: str) -> str | None:
    """`address` as a link's destination in Markdown; None for one that a click must not follow."""
    address = address.strip()
    if not address or len(address) > 8_000 or not (_FOLLOWED.match(address) or _is_below(address)):
        return None
    encoded = quote(address, safe=_KEPT, errors="replace").replace("@@", "%40%40")
    # not `&amp;`: mistune reads it, and what it was put before, twice
    return _ENTITY.sub("%26", encoded)


def _is_below(address: str) -> bool:
    """Return whether this is a relative address that nobody's reading takes out of the notebook's folder."""
    path = re.split(r"[?#]", unquote(unquote(address)), maxsplit=1)[0]
    if _SCHEME.match(address) or ":" in path or "\\" in path or address.startswith(("/", "?")):
        return False
    depth = 0
    for part in path.split("/"):
        # "" may be the root to somebody: `a//b`
        depth += {"..": -1, ".": 0}.get(part.strip(), 1)
        if depth < 0:
            return False
    return not path.startswith("/") and "//" not in path


def split_at_addresses(text: str) -> list[tuple[str, bool]]:
    """`text` in pieces; True with those that are addresses of the web written out."""
    pieces: list[tuple[str, bool]] = []
    position = 0
    for match in _WRITTEN_OUT.finditer(text):
        address = _without_what_follows(match[0])
        if destination(address) is None:
            continue
        pieces += [(text[position : match.start()], False), (address, True)]
        position = match.start() + len(address)
    return [*pieces, (text[position:], False)]


def _without_what_follows(address: str) -> str:
    """`address` without the sentence's punctuation, and without a parenthesis that was opened before it."""
    while True:
        shorter = address.rstrip(_NOT_ITS_END)
        if shorter.endswith(")") and shorter.count(")") > shorter.count("("):
            shorter = shorter[:-1]
        if shorter == address:
            return address
        address = shorter

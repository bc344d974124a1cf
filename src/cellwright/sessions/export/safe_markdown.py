"""Markdown of the model made safe to keep in a notebook: no raw HTML, no images that load from somewhere.

An answer can carry text that came from a web page or a file. `![](https://…?secret)` in it would be fetched by
everyone who opens the notebook. Code must stay readable, though, so the text is taken apart into code and the rest.
If a renderer could see that border elsewhere, the text is rewritten so that it cannot: fences are written anew,
backticks without a partner on their line become entities.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cellwright.text import code_fence, longest_run, visible

_FENCE = re.compile(r"^(?P<prefix>[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+|>[ \t]?)*)(?P<fence>`{3,}|~{3,})(?P<info>.*)$")
_TOKEN = re.compile(r"\\[!-/:-@\[-`{-~]|`+|<https?://[^\s<>]+>|<(?=[A-Za-z/!?])|!(?=\[)")
_ACTIVE = re.compile(r"<[A-Za-z/!?]|!\[")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible_controls(text: str) -> str:
    """`text` with its control and direction characters shown: what is read is what there is."""

    def show(match: re.Match[str]) -> str:
        code = ord(match[0])
        return chr(0x2400 + code) if code < 0x20 else f"⟨U+{code:04X}⟩"

    return _CONTROL.sub(show, text.replace("\r\n", "\n"))


def fenced(text: str, language: str = "", indent: str = "") -> str:
    """`text` as a code block that nothing in it can end."""
    fence = code_fence(text)
    lines = [f"{fence}{language}", *text.split("\n"), fence]
    return "\n".join(f"{indent}{line}".rstrip() for line in lines)


def code_span(text: str) -> str:
    """`text`, in one line, as inline code that nothing in it can end."""
    line = visible(visible_controls(" ".join(text.split()))) or " "
    ticks = "`" * (longest_run("`", line) + 1)
    padding = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{padding}{line}{padding}{ticks}"


@dataclass
class _Fence:
    """A code block that is being read."""

    prefix: str
    closing: re.Pattern[str]
    language: str
    lines: list[str]

    @property
    def quoted(self) -> bool:
        return ">" in self.prefix

    def take(self, line: str) -> bool:
        """Read one more line; False when it is no part of the block any more."""
        if not self.quoted:
            self.lines.append(_dedent(line, len(self.prefix)))
            return True
        if not line.lstrip().startswith(">"):
            return False
        self.lines.append(re.sub(r"^[ \t]*>[ \t]?", "", line))
        return True

    def text(self) -> str:
        """The block, written anew; one in a quotation comes out of it."""
        indent = "" if self.quoted else " " * len(self.prefix)
        block = fenced("\n".join(self.lines), self.language, indent)
        if self.quoted:
            return f"\n{block}"
        if not self.prefix.strip():
            # deeply indented text would go on with the paragraph before it
            return f"\n{block}" if len(self.prefix) > 3 else block
        return self.prefix + block[len(self.prefix) :]


def _dedent(line: str, width: int) -> str:
    """`line` without its first `width` columns of white space; a tab counts four."""
    for position, character in enumerate(line):
        if width <= 0 or character not in " \t":
            return line[position:]
        width -= 4 if character == "\t" else 1
    return ""


def neutralised(markdown: str) -> str:
    """`markdown` without raw HTML and with images as links; code stays as it is."""
    out: list[str] = []
    fence: _Fence | None = None
    for line in visible_controls(markdown).split("\n"):
        if fence is not None:
            bare = re.sub(r"^[ \t>]*", "", line) if fence.quoted else line
            closes = fence.closing.match(bare) is not None
            if not closes and fence.take(line):
                continue
            out.append(fence.text())
            fence = None
            if closes:
                continue
        fence = _opened(line)
        if fence is None:
            out.append(_text_line(line))
    if fence is not None:
        out.append(fence.text())
    return "\n".join(out)


def _opened(line: str) -> _Fence | None:
    match = _FENCE.match(line)
    if match is None or (match["fence"][0] == "`" and "`" in match["info"]):
        return None
    character, length = re.escape(match["fence"][0]), len(match["fence"])
    language = re.sub(r"[^\w+#.-].*", "", match["info"].strip())
    return _Fence(match["prefix"].expandtabs(4), re.compile(rf"^\s*{character}{{{length},}}\s*$"), language, [])


def _text_line(line: str) -> str:
    pieces = list(_pieces(line))
    # a table is cut at its bars before code is looked for: code with a bar in it is none there, and shifts what follows
    cut_by_table = any(is_code and "|" in text for is_code, text in pieces)
    return "".join(
        (_entities(text) if cut_by_table and _ACTIVE.search(text) else text) if is_code else text
        for is_code, text in pieces
    )


def _pieces(line: str) -> Iterator[tuple[bool, str]]:
    """The line as code and as text that is harmless already, in order."""
    position = 0
    while token := _TOKEN.search(line, position):
        yield False, line[position : token.start()]
        code = _code_at(line, token) if token[0][0] == "`" else None
        yield code is not None, code or _harmless(token[0])
        position = token.start() + len(code or token[0])
    yield False, line[position:]


def _code_at(line: str, ticks: re.Match[str]) -> str | None:
    """The inline code that these backticks open, if it ends on the same line."""
    closing = re.compile(rf"(?<!`){ticks[0]}(?!`)").search(line, ticks.end())
    return None if closing is None else line[ticks.start() : closing.end()]


def _harmless(token: str) -> str:
    if token.startswith("<http"):
        return token[1:-1]
    if token == "\\<":
        return "&lt;"
    return token if token[0] == "\\" else _entities(token)


def _entities(text: str) -> str:
    for character, entity in (("`", "&#96;"), ("<", "&lt;"), ("!", "&#33;")):
        text = text.replace(character, entity)
    return text

"""A unified diff drawn as code: line numbers of both sides, colours of the language, changed words marked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Literal

from msgspec import Struct, field
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.token import Token, _TokenType
from pygments.util import ClassNotFound
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import Style as RichStyle
from rich.syntax import SyntaxTheme
from rich.text import Text

from cellwright.events import Preview
from cellwright.terminal.views.themes import Theme
from cellwright.text import lazy_pattern, visible

_HUNK = lazy_pattern(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)")
_WORDS = lazy_pattern(r"\w+|\s+|[^\w\s]")

MAX_CODE_CHARS = 200_000
"""A longer text is drawn without the colours of its language."""

Side = Literal[" ", "+", "-"]
Span = tuple[int, int]


class _Line(Struct):
    """A line of code with its numbers in the text before and after; `changed` are the characters that differ."""

    side: Side
    text: str
    before: int | None
    after: int | None
    changed: list[Span] = field(default_factory=list)


class _Note(Struct, frozen=True):
    """A line that is no code: a file's name, what is left out, or no newline at the end."""

    text: str
    is_title: bool = False


class DiffView(Struct, frozen=True):
    """Draws `diff` with each line indented by `indent`; of more than `max_lines` the rest is counted.

    Of more than `max_rows` on the screen the first and the last are drawn, and the lines between them counted. `path` names
    the language if the diff names no file.
    """

    diff: str
    theme: Theme
    path: str = ""
    indent: str = "  "
    max_lines: int | None = None
    max_rows: int | None = None
    compact: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        parts = _parsed(self.diff.rstrip("\n"), compact=self.compact)
        left_out = 0
        if self.max_lines is not None and len(parts) > self.max_lines:
            parts, left_out = parts[: self.max_lines], len(parts) - self.max_lines
        lines = [part for part in parts if isinstance(part, _Line)]
        mark_changed_words(lines)
        digits = max((len(str(number)) for line in lines for number in (line.before, line.after) if number), default=1)
        coloured = _coloured(parts, self.path, self.theme.code)
        width = options.max_width
        has_bands = console.color_system == "truecolor" or not self.theme.is_dark
        drawn: list[list[Text]] = []
        for part in parts:
            if isinstance(part, _Note):
                style = self.theme.styles["title" if part.is_title else "dim"]
                drawn.append([Text(f"{self.indent}{part.text}", style, no_wrap=True, overflow="ellipsis")])
            else:
                drawn.append(list(self._line(part, next(coloured), digits, width, has_bands=has_bands)))
        yield from _first_and_last(drawn, self.max_rows, self.theme)
        if left_out:
            yield Text(f"{self.indent}… {left_out} more lines", self.theme.styles["dim"])

    def _line(self, line: _Line, code: Text, digits: int, width: int, *, has_bands: bool) -> Iterator[Text]:
        styles, theme = self.theme.styles, self.theme
        numbers = " ".join(f"{number or '':>{digits}}" for number in (line.before, line.after))
        sign = "−" if line.side == "-" else line.side
        use = {"+": "added", "-": "removed"}.get(line.side)
        behind = {"+": theme.added, "-": theme.removed}.get(line.side, "") if has_bands else ""
        gutter = Text(self.indent)
        gutter.append(f"{numbers} ", styles["dim"])
        gutter.append(f"{sign} ", f"bold {styles[use]}" if use else "")  # type: ignore[index]
        for start, end in line.changed:
            code.stylize(theme.added_words if line.side == "+" else theme.removed_words, start, end)
        room = max(10, width - gutter.cell_len)
        for number, piece in enumerate(_folded(code, room)):
            if behind:
                if RichStyle.parse(behind).bgcolor is not None:
                    piece.pad_right(room - piece.cell_len)
                piece.stylize_before(behind)
            shown = gutter.copy() if number == 0 else Text(" " * gutter.cell_len)
            yield shown.append_text(piece)


class CodeView(Struct, frozen=True):
    """Draws code or a text line by line behind a bar, in the colours of `language` ("" for none).

    Of more than `max_rows` the first and the last are drawn, as in a diff.
    """

    text: str
    theme: Theme
    language: str = ""
    max_rows: int | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = visible(self.text.rstrip("\n")).split("\n")
        lexer = lexer_of(self.language) if len(self.text) <= MAX_CODE_CHARS else None
        bar, room = ("  │ ", self.theme.styles["dim"]), max(10, options.max_width - 4)
        coloured = coloured_lines(lines, lexer, self.theme.code)
        drawn = [[Text.assemble(bar, piece) for piece in _folded(line, room)] for line in coloured]
        yield from _first_and_last(drawn, self.max_rows, self.theme)


def drawn_preview(preview: Preview, theme: Theme, *, compact: bool) -> DiffView | CodeView:
    """The whole of what a call does, as it is drawn."""
    if preview.kind == "diff":
        return DiffView(preview.detail, theme, preview.path, compact=compact)
    return CodeView(preview.detail, theme, {"command": "bash", "code": "python", "text": ""}[preview.kind])


def _first_and_last(lines: Sequence[list[Text]], max_rows: int | None, theme: Theme) -> Iterator[Text]:
    """All rows of `lines`, or so many of the first and last lines as `max_rows` have room for: two thirds, one third."""
    if max_rows is None or sum(map(len, lines)) <= max_rows:
        yield from (row for line in lines for row in line)
        return
    tail = (max_rows - 1) // 3
    head = max_rows - 1 - tail
    if max(map(len, lines)) > tail:  # long lines are cut between their rows
        lines = [[row] for line in lines for row in line]
    first = _that_fit(lines, head)
    last = _that_fit(lines[::-1], tail)
    yield from (row for line in lines[:first] for row in line)
    yield Text(f"  … {len(lines) - first - last} more lines · Ctrl-O shows all", theme.styles["dim"])
    yield from (row for line in lines[len(lines) - last :] for row in line)


def _that_fit(lines: Sequence[list[Text]], rows: int) -> int:
    """The number of the first lines that fit in so many rows."""
    return sum(height <= rows for height in accumulate(map(len, lines)))


def _folded(text: Text, width: int) -> Iterator[Text]:
    """Cut `text` into pieces of at most `width` columns, behind a space in the last third; no space of it is lost.

    Later pieces begin below the first word: in code the indent has a meaning.
    """
    text.expand_tabs(4)
    indent = min(len(text.plain) - len(text.plain.lstrip(" ")), width // 2)
    cuts: list[int] = []
    room, word = width, 0
    for index, character in enumerate(text.plain):
        size = cell_len(character)
        if size > room:
            begun = cuts[-1] if cuts else 0
            cuts.append(word if word - begun > width * 2 // 3 else index)
            room = width - indent - cell_len(text.plain[cuts[-1] : index])
        room -= size
        if character == " ":
            word = index + 1
    first, *more = text.divide(cuts) if cuts else [text]
    yield first
    yield from (Text.assemble(" " * indent, piece) for piece in more)


def _parsed(diff: str, *, compact: bool) -> list[_Line | _Note]:
    hunks: list[list[_Line | _Note]] = []
    parts: list[_Line | _Note] = []
    before = after = 0
    lines = [visible(line) for line in diff.split("\n")]
    of_several = sum(map(_begins_file, lines, lines[1:])) > 1
    number = 0
    while number < len(lines):
        line = lines[number]
        if number + 1 < len(lines) and _begins_file(line, lines[number + 1]):
            name = lines[number + 1 if not lines[number + 1].endswith("/dev/null") else number][4:]
            hunks.append([_Note(name.removeprefix("b/").removeprefix("a/"), is_title=True)] if of_several else [])
            number += 2
            parts = hunks[-1]
            continue
        if found := _HUNK.match(line):
            is_next = bool(hunks) and any(isinstance(part, _Line) for part in hunks[-1])
            hunks.append([_Note("⋯")] if is_next else [])
            parts, before, after = hunks[-1], int(found[1]), int(found[2])
        elif line.startswith("\\"):
            parts.append(_Note(line[2:]))
        else:
            side: Side = "+" if line[:1] == "+" else "-" if line[:1] == "-" else " "
            text = line[1:] if line[:1] in ("+", "-", " ") else line
            parts.append(_Line(side, text, before if side != "+" else None, after if side != "-" else None))
            before, after = before + (side != "+"), after + (side != "-")
        number += 1
    return [part for hunk in hunks for part in _near_changes(hunk, context=1 if compact else None)]


def _begins_file(line: str, following: str) -> bool:
    return line.startswith("--- ") and following.startswith("+++ ")


def _near_changes(hunk: Sequence[_Line | _Note], *, context: int | None) -> Iterator[_Line | _Note]:
    """Leave out the context beyond an empty line, which belongs to other code, and what is further than `context`."""
    changes = [number for number, part in enumerate(hunk) if isinstance(part, _Line) and part.side != " "]
    if not changes:
        yield from hunk
        return
    blank = [number for number, part in enumerate(hunk) if isinstance(part, _Line) and not part.text.strip()]
    first = max((number + 1 for number in blank if number < changes[0]), default=0)
    last = min((number - 1 for number in blank if number > changes[-1]), default=len(hunk))
    for number, part in enumerate(hunk):
        is_near = context is None or any(abs(number - change) <= context for change in changes)
        if isinstance(part, _Note) or (first <= number <= last and is_near):
            yield part


def _coloured(parts: Sequence[_Line | _Note], path: str, code: SyntaxTheme) -> Iterator[Text]:
    """Return each line's text in the colours of its language; both sides of a file are read as a whole."""
    texts: dict[int, Text] = {}
    files: list[tuple[str, list[_Line]]] = [(path, [])]
    for part in parts:
        if isinstance(part, _Note):
            if part.is_title:
                files.append((part.text, []))
        else:
            files[-1][1].append(part)
    for name, lines in files:
        lexer = lexer_of(name) if sum(len(line.text) for line in lines) <= MAX_CODE_CHARS else None
        for left_out in ("+", "-"):  # the side after comes last, and is the one that context lines show
            side = [line for line in lines if line.side != left_out]
            for line, text in zip(side, coloured_lines([line.text for line in side], lexer, code), strict=True):
                texts[id(line)] = text
    return iter([texts[id(part)] for part in parts if isinstance(part, _Line)])


def lexer_of(name: str) -> Lexer | None:
    """Return the lexer for a file, or a language, by its name; None if it is unknown."""
    path = re.sub(r"#.*", "", name)
    try:
        if path.endswith(".ipynb"):
            return get_lexer_by_name("python", stripnl=False)
        if "." in path or "/" in path:
            return get_lexer_for_filename(path, stripnl=False)
        return get_lexer_by_name(path, stripnl=False) if path else None
    except ClassNotFound:
        return None


def coloured_lines(lines: Sequence[str], lexer: Lexer | None, theme: SyntaxTheme) -> list[Text]:
    """Return `lines` in the colours of their language, without a background."""
    if lexer is None or not lines:
        return [Text(line) for line in lines]
    found = [Text()]
    tokens = lexer.get_tokens("\n".join(lines))
    for token, value in _as_shell(tokens) if lexer.name == "Bash" else tokens:
        style = theme.get_style_for_token(token)
        ink = RichStyle(color=style.color, bold=style.bold, italic=style.italic, dim=style.dim)
        for number, piece in enumerate(value.split("\n")):
            if number:
                found.append(Text())
            found[-1].append(piece, ink)
    # a lexer may end a text with a newline of its own, or change what it cannot read
    found = found[: len(lines)]
    same = len(found) == len(lines) and all(text.plain == line for text, line in zip(found, lines, strict=True))
    return found if same else [Text(line) for line in lines]


def _as_shell(tokens: Iterable[tuple[_TokenType, str]]) -> Iterator[tuple[_TokenType, str]]:
    """Leave out what the lexer takes for keywords, builtins and loud operators: `done` is a word in `echo done`."""
    begins, head = True, ""
    for token, value in tokens:
        word = value.strip()
        is_named = token in Token.Keyword or token in Token.Name.Builtin
        if token in Token.Operator or (is_named and not begins and not (word == "in" and head in ("for", "case"))):
            token = Token.Text
        yield token, value
        if "\n" in value or word in (";", "&", "&&", "|", "||", "(", "{", "$(", "`", ";;"):
            begins, head = True, ""
        elif word:
            # behind `then`, `do` and the like another command begins
            begins, head = begins and token in Token.Keyword and word not in ("for", "case", "in"), head or word


def mark_changed_words(lines: Sequence[_Line]) -> None:
    """Mark the words by which an added line differs from the removed one that it takes the place of."""
    at = 0
    while at < len(lines):
        removed = _run(lines, at, "-")
        added = _run(lines, at + len(removed), "+")
        for before, after in _pairs(removed, added):
            before.changed, after.changed = _changed(_words(before.text), _words(after.text))
        at += len(removed) + len(added) or 1


def _run(lines: Sequence[_Line], at: int, side: Side) -> list[_Line]:
    end = at
    while end < len(lines) and lines[end].side == side:
        end += 1
    return list(lines[at:end])


def _pairs(removed: Sequence[_Line], added: Sequence[_Line]) -> list[tuple[_Line, _Line]]:
    """The lines that became each other, in order: those that together have most in common."""
    if not removed or not added or len(removed) * len(added) > 900:  # more would take too long
        return []
    rows, columns = len(removed), len(added)
    old, new = ([_words(line.text) for line in lines] for lines in (removed, added))
    alike = [[SequenceMatcher(str.isspace, one, other, autojunk=False).ratio() for other in new] for one in old]
    best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    for row in reversed(range(rows)):
        for column in reversed(range(columns)):
            own = alike[row][column]
            # lines that have less in common are not one line, changed
            paired = own + best[row + 1][column + 1] if own > 0.25 else 0.0
            best[row][column] = max(paired, best[row + 1][column], best[row][column + 1])
    found, row, column = [], 0, 0
    while row < rows and column < columns:
        if best[row][column] == best[row + 1][column]:
            row += 1
        elif best[row][column] == best[row][column + 1]:
            column += 1
        else:
            found.append((removed[row], added[column]))
            row, column = row + 1, column + 1
    return found


def _words(text: str) -> list[str]:
    return [found[0] for found in _WORDS.finditer(text)][:250]


def _changed(before: Sequence[str], after: Sequence[str]) -> tuple[list[Span], list[Span]]:
    spans: tuple[list[Span], list[Span]] = ([], [])
    blocks = SequenceMatcher(str.isspace, before, after, autojunk=False).get_matching_blocks()
    for side, words in enumerate((before, after)):
        starts = [0]
        for word in words:
            starts.append(starts[-1] + len(word))
        at = 0
        for block in blocks:
            begin, end = starts[at], starts[block[side]]
            if any(not word.isspace() for word in words[at : block[side]]):
                spans[side].append((begin, end))
            at = block[side] + block.size
    return spans

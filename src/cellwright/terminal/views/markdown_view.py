"""Markdown drawn on a terminal: the one place that says how answers, documents and the demo's cells look there."""

from __future__ import annotations

from typing import Any

from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, ListItem, Markdown, MarkdownElement, TableElement
from rich.segment import Segment
from rich.syntax import SyntaxTheme
from rich.table import Table
from rich.text import Text

from cellwright.terminal.views.diff_view import MAX_CODE_CHARS, coloured_lines, lexer_of
from cellwright.terminal.views.themes import Hanging, Theme
from cellwright.text import lazy_pattern

_BOX = lazy_pattern(r"\[([ xX])\]\s+")


def drawn_markdown(text: str, theme: Theme) -> Markdown:
    """Return `text` as it is drawn in `theme`; links are followed by their address, for that must be seen."""
    return _Markdown(text, theme)


class _Markdown(Markdown):
    def __init__(self, text: str, theme: Theme) -> None:
        super().__init__(text, hyperlinks=False)
        self.theme = theme
        _take_boxes(self.parsed)


def _take_boxes(tokens: list[Token]) -> None:
    """Move the `[x]` of each task from its words to its list item."""
    for item, _, inline in zip(tokens, tokens[1:], tokens[2:], strict=False):
        words = inline.children if item.type == "list_item_open" and inline.type == "inline" else None
        first = words[0] if words else None
        if first is not None and (box := _BOX.match(first.content)):
            item.meta["box"] = "☐" if box[1] == " " else "☑"
            first.content = first.content[box.end() :]


class _CodeBlock(CodeBlock):
    """Code in the theme's colours on the terminal's own background, with no more lines than it has."""

    colours: SyntaxTheme

    @classmethod
    def create(cls, markdown: Any, token: Token) -> CodeBlock:
        block = cls((token.info or "").partition(" ")[0], "default")
        block.colours = markdown.theme.code
        return block

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        lexer = lexer_of(self.lexer_name) if len(code) <= MAX_CODE_CHARS else None
        for line in coloured_lines(code.expandtabs(4).split("\n"), lexer, self.colours):
            indent = len(line.plain) - len(line.plain.lstrip(" "))
            yield Hanging(Text("  " + " " * indent), line[indent:])


class _Heading(Heading):
    """A heading at the left, of whatever level."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.text


class _Table(TableElement):
    """A table without the empty lines that rich draws in place of its upper and lower edge."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                table.show_edge = False
            yield table


class _ListItem(ListItem):
    """An item with its number as it is written, or the box of a task in place of the bullet."""

    box = ""

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> MarkdownElement:
        item = cls()
        item.box = token.meta.get("box", "")
        return item

    def render_bullet(self, console: Console, options: ConsoleOptions) -> RenderResult:
        return self._render(console, options, f" {self.box or '•'} ", "markdown.item.bullet")

    def render_number(self, console: Console, options: ConsoleOptions, number: int, last_number: int) -> RenderResult:
        head = f" {number}. ".rjust(len(str(last_number)) + 3) + (f"{self.box} " if self.box else "")
        return self._render(console, options, head, "markdown.item.number")

    def _render(self, console: Console, options: ConsoleOptions, head: str, style: str) -> RenderResult:
        ink = console.get_style(style, default="none")
        room = options.update(width=max(10, options.max_width - len(head)))
        for number, line in enumerate(console.render_lines(self.elements, room, style=self.style)):
            yield Segment(head if number == 0 else " " * len(head), ink)
            yield from line
            yield Segment.line()


_Markdown.elements = {
    **Markdown.elements,
    **{"fence": _CodeBlock, "code_block": _CodeBlock, "heading_open": _Heading},
    **{"table_open": _Table, "list_item_open": _ListItem},
}

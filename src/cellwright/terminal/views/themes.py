"""The colours of each theme: lines, code, diffs, and what Claude writes.

`dark` and `light` have colours of their own, for terminals with that background; what stands behind text keeps its hue where
a terminal has 256 colours. `ansi` has the terminal's sixteen, which
its user has chosen. `high-contrast` adds nothing but bold, underlined and reversed text to them, `none` has no colour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TextIO

from msgspec import Struct
from pygments.token import Comment, Keyword, Literal, Name, Operator
from rich.color import Color, ColorSystem, blend_rgb
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.style import Style as RichStyle
from rich.syntax import ANSISyntaxTheme, PygmentsSyntaxTheme, SyntaxTheme, TokenType
from rich.text import Text
from rich.theme import Theme as RichTheme

from cellwright.terminal.views.terminal_text import Style, ThemeName
from cellwright.text import lazy_pattern

_PLAIN_CODE = ANSISyntaxTheme({})
_CODE = lazy_pattern(r"(?<!`)`([^`\n]+)`(?!`)")

_LABEL = lazy_pattern(r" +(?:\S+(?: \S+)* {2,})?")


class Hanging:
    """Draws `body` after `head`; the lines that it wraps to begin below its first word."""

    def __init__(self, head: Text, body: Text) -> None:
        self.head = head
        self.body = body

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        indent = self.head.cell_len
        for number, line in enumerate(self.body.wrap(console, max(10, options.max_width - indent))):
            line.rstrip()
            yield Text.assemble(self.head if number == 0 else " " * indent, line)


class Theme(Struct, frozen=True, kw_only=True):
    """Styles by their use. `added` and `removed` are those of a diff's lines, of their signs, and of words that changed.
    `prompt` is that of the user's own words. `accent` is a colour; "" where the terminal's own may not be readable.

    `is_dark`: of 256 colours none is as quiet as its lines are, so there only the changed words have a background.
    """

    styles: Mapping[Style, str]
    code: SyntaxTheme = _PLAIN_CODE
    markdown: Mapping[str, str] = {}
    added: str = ""
    removed: str = ""
    added_words: str = "bold underline"
    removed_words: str = "bold underline"
    prompt: str = "bold"
    accent: str = ""
    is_coloured: bool = True
    is_dark: bool = False

    def console(self, out: TextIO) -> Console:
        """Return a console that draws in this theme on `out`."""
        theme = RichTheme(dict(self.markdown)) if self.markdown else None
        return Console(file=out, highlight=False, theme=theme, no_color=not self.is_coloured)

    def line(self, line: str, style: Style) -> Text:
        """Return one of our own lines in its style: what stands between backticks is set as code, without them.

        Not for commands and rules, whose backticks are their own.
        """
        code = f"not dim {self.markdown.get('markdown.code', 'bold')}"
        shown, at = Text(style=self.styles[style]), 0
        for found in _CODE.finditer(line):
            shown.append(line[at : found.start()]).append(found[1], code)
            at = found.end()
        return shown.append(line[at:])

    def lines(self, text: str, style: Style) -> Group:
        """Return lines of our own that wrap below their first word; below the words behind its label in a list."""
        shown = []
        for line in text.split("\n"):
            label = _LABEL.match(line)
            head = label[0] if label else ""
            shown.append(Hanging(Text(head, self.styles[style]), self.line(line[len(head) :], style)))
        return Group(*shown)


class _ReadableCode(PygmentsSyntaxTheme):
    """The colours of a Pygments style, each moved towards `ink` until it is readable on every one of `grounds`."""

    def __init__(self, name: str, ink: str, grounds: Sequence[str]) -> None:
        super().__init__(name)
        self._ink = Color.parse(ink)
        self._grounds = tuple(ground for ground in (RichStyle.parse(each).bgcolor for each in grounds) if ground)

    def get_style_for_token(self, token_type: TokenType) -> RichStyle:
        style = super().get_style_for_token(token_type)
        return (
            style if style.color is None else style + RichStyle(color=_readable(style.color, self._ink, self._grounds))
        )


@cache
def _readable(color: Color, ink: Color, grounds: tuple[Color, ...]) -> Color:
    """Return `color`, or the first one between it and `ink` that is readable on `grounds`, also with 256 colours."""
    steps = (Color.from_triplet(blend_rgb(color.get_truecolor(), ink.get_truecolor(), step / 20)) for step in range(20))
    systems = (ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT)
    for each in steps:
        drawn = ((each.downgrade(system), ground.downgrade(system)) for system in systems for ground in grounds)
        if all(_contrast(*pair) >= 4.5 for pair in drawn):  # WCAG 2.2 AA
            return each
    return ink


def _contrast(one: Color, other: Color) -> float:
    """The contrast ratio of two colours, from 1 to 21."""
    luminances = []
    for color in (one.get_truecolor(), other.get_truecolor()):
        parts = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in color.normalized)
        luminances.append(sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True)))
    return (max(luminances) + 0.05) / (min(luminances) + 0.05)


def _ansi_code() -> SyntaxTheme:
    return ANSISyntaxTheme(
        {
            tuple(token): RichStyle.parse(style)
            for token, style in (
                (Comment, "dim italic"),
                (Keyword, "magenta"),
                (Operator.Word, "magenta"),
                (Name.Builtin, "cyan"),
                (Name.Function, "blue"),
                (Name.Class, "blue"),
                (Name.Decorator, "blue"),
                (Literal.String, "cyan"),
                (Literal.Number, "cyan"),
            )
        }
    )


_ANSI_STYLES: Mapping[Style, str] = {
    "": "",
    "title": "bold",
    "dim": "dim",
    "warning": "yellow",
    "error": "red",
    "good": "green",
    "added": "green",
    "removed": "red",
    "hunk": "cyan",
}

_MARKDOWN = {
    # neither of these is readable on every background: rich sets them on black
    "markdown.code": "bold cyan",
    "markdown.code_block": "cyan",
}


def _own(styles: Mapping[Style, str], accent: str) -> dict[str, object]:
    markdown = {
        "markdown.code": f"bold {accent}",
        "markdown.code_block": accent,
        "markdown.h1": f"bold underline {accent}",
        "markdown.h2": f"bold {accent}",
        "markdown.h3": "bold",
        "markdown.h4": "italic",
        "markdown.list": accent,
        "markdown.item.number": accent,
        "markdown.link": f"underline {accent}",
        "markdown.link_url": f"underline {accent}",
        "markdown.block_quote": "italic",
        "markdown.table.border": styles["dim"],
        "markdown.table.header": "bold",
    }
    return {"styles": {**_ANSI_STYLES, **styles}, "markdown": markdown, "accent": accent}


def _dark(good: str, bad: str, **lines: str) -> Theme:
    styles: dict[Style, str] = {"dim": "#9a9a9a", "warning": "#e5b567", "error": bad, "good": good, "hunk": "#7aa2f7"}
    own = _own({**styles, "added": good, "removed": bad}, "#7fc8d8")
    code = _ReadableCode("github-dark", "#ffffff", ["on #1e1e1e", lines["added"], lines["removed"]])
    return Theme(code=code, is_dark=True, prompt="on #2a2a2a", **own, **lines)  # type: ignore[arg-type]


def _light(good: str, bad: str, **lines: str) -> Theme:
    styles: dict[Style, str] = {"dim": "#5f5f5f", "warning": "#8a5a00", "error": bad, "good": good, "hunk": "#1a5fb4"}
    own = _own({**styles, "added": good, "removed": bad}, "#0b6375")
    code = _ReadableCode("default", "#000000", ["on #ffffff", lines["added"], lines["removed"]])
    return Theme(code=code, prompt="on #eeeeee", **own, **lines)  # type: ignore[arg-type]


@cache
def theme_named(name: ThemeName) -> Theme:
    """Return the theme of this name."""
    match name:
        case "dark":
            added, removed = "on #12321c", "on #431c1f"
            words = {"added_words": "bold #ffffff on #1a5c2e", "removed_words": "bold #ffffff on #6b2226"}
            return _dark("#7ec98f", "#f28b82", added=added, removed=removed, **words)
        case "dark-daltonized":
            added, removed = "on #14214d", "on #3d3413"
            words = {"added_words": "bold #ffffff on #0b4a86", "removed_words": "bold #ffffff on #6b4a00"}
            return _dark("#7ab8f5", "#f0a868", added=added, removed=removed, **words)
        case "light":
            added, removed = "on #e4fbe4", "on #ffe3e0"
            words = {"added_words": "bold #000000 on #aeeeb8", "removed_words": "bold #000000 on #ffc0bb"}
            return _light("#1a6b33", "#a4161a", added=added, removed=removed, **words)
        case "light-daltonized":
            added, removed = "on #e3e3ff", "on #fff8d7"
            words = {"added_words": "bold #000000 on #b6ccff", "removed_words": "bold #000000 on #ffe28a"}
            return _light("#0b5394", "#8a4b00", added=added, removed=removed, **words)
        case "ansi":
            return Theme(
                styles=_ANSI_STYLES,
                code=_ansi_code(),
                markdown=_MARKDOWN,
                added_words="bold not dim underline green",
                removed_words="bold not dim underline red",
            )
        case "high-contrast":
            bold: dict[Style, str] = {
                "dim": "",
                "warning": "bold",
                "error": "bold reverse",
                "good": "bold",
                "hunk": "bold",
            }
            styles: dict[Style, str] = {**_ANSI_STYLES, **bold, "added": "bold", "removed": "bold"}
            markdown = dict.fromkeys(("markdown.code", "markdown.h2", "markdown.h3", "markdown.table.header"), "bold")
            plain = dict.fromkeys(("markdown.code_block", "markdown.list", "markdown.table.border"), "none")
            return Theme(
                styles=styles,
                markdown={**markdown, **plain},
                added="bold",
                removed="underline",
                added_words="bold reverse",
                removed_words="bold reverse",
                prompt="reverse",
            )
        case "none":
            inks: dict[Style, str] = {
                "warning": "bold",
                "error": "bold",
                "good": "",
                "hunk": "",
                "added": "bold",
                "removed": "bold",
            }
            return Theme(
                styles={**_ANSI_STYLES, **inks}, markdown={**_MARKDOWN, "markdown.code": "bold"}, is_coloured=False
            )

"""A command's page, and the user's own prompt, drawn on a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TextIO

from msgspec.structs import replace
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from cellwright.commands.command import BAR, CommandPage, Section
from cellwright.sessions.export import AnswerText, exchanges_of
from cellwright.terminal.views.live_view import MarkdownBlock
from cellwright.terminal.views.terminal_text import DEFAULT_LOOK, Look
from cellwright.terminal.views.themes import Hanging, Theme, theme_named
from cellwright.text import counted, visible, visible_line


def draw_page(page: CommandPage, out: TextIO, look: Look = DEFAULT_LOOK) -> None:
    """Draw a command's page: bold titles, code set as code, and Claude's answers as its other answers are."""
    theme = theme_named(look.theme)
    console = theme.console(out)
    briefs = [row[0] for section in page.sections for row in section.brief]
    width = max(map(len, briefs), default=0)  # the tables of one page have their columns below each other
    for index, section in enumerate(page.sections):
        if index:
            console.print()
        brief = [(f"{row[0]:<{width}}", *row[1:]) for row in section.brief]
        _draw_section(replace(section, brief=brief), console, theme)


def _draw_section(section: Section, console: Console, theme: Theme) -> None:
    console.print(Text(visible_line(section.title, 1_000), "bold"))
    for line in visible(section.text).split("\n") if section.text else ():
        console.print(Hanging(Text("  "), theme.line(line, "")))
    if section.answer:
        console.print(MarkdownBlock(visible(section.answer), theme, is_first=True))
    rest = replace(section, title="", text="", answer="", rows=section.brief or section.rows)
    for line in CommandPage([rest]).plain(console.width).split("\n")[1:]:
        shown = theme.line(line, "") if section.brief else Text(line)
        shown.highlight_regex(f"[{BAR}]+", theme.styles["hunk"])
        console.print(shown)


def draw_fresh_page(page: CommandPage, out: TextIO, look: Look = DEFAULT_LOOK) -> None:
    """Leave what is on the screen to the scrollback, and draw the page as one dim line at the top."""
    theme = theme_named(look.theme)
    console = theme.console(out)
    out.write("\n" * console.height + "\x1b[H")
    said = [part for section in page.sections for part in (section.title, section.text) if part]
    console.print(theme.line(visible_line(" · ".join(said), 1_000), "dim"))


def draw_turn(encoded: Sequence[bytes], earlier: int, out: TextIO, look: Look = DEFAULT_LOOK) -> None:
    """Draw the prompt and the answer of the last turn of a session that goes on; calls and `earlier` turns are counted."""
    (turn,) = exchanges_of(map(json.loads, encoded))
    theme = theme_named(look.theme)
    console = theme.console(out)
    console.print()
    if earlier:
        console.print(theme.line(f"… {counted(earlier, 'earlier prompt')} of this session", "dim"))
    draw_prompt(turn.words, out, look)
    if turn.calls:
        console.print(theme.line(f"… {counted(len(turn.calls), 'call')}", "dim"))
    if texts := [part.text for part in turn.parts if isinstance(part, AnswerText)]:
        console.print(MarkdownBlock(visible(texts[-1]), theme, is_first=look.compact or not turn.calls))


def draw_prompt(prompt: str, out: TextIO, look: Look = DEFAULT_LOOK) -> None:
    """Draw the prompt that the user has sent, so that it is found again among answers."""
    theme = theme_named(look.theme)
    lines = [visible_line(line, 100_000) if line.strip() else "" for line in prompt.split("\n")]
    shown = Hanging(Text("> ", "bold"), Text("\n".join(lines)))
    theme.console(out).print(Padding(shown, 0, style=theme.prompt, expand=True))

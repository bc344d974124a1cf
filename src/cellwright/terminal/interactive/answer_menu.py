"""The answers to a question, to choose from: a key takes one at once, arrows and Enter another, Escape is a no.

An answer that takes words is written where it stands; Enter and Escape send it with what was written. Of a question with
several answers, keys and Space mark some, and Enter sends them.
"""

from __future__ import annotations

import contextlib
import functools
import select
from collections.abc import Callable, Sequence
from typing import TextIO, cast

from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from cellwright.events import Preview
from cellwright.terminal.interactive.interact import Keyboard
from cellwright.terminal.interactive.keys import (
    CTRL_O,
    DOWN,
    ENTER,
    ERASE,
    ESCAPE,
    UP,
    forget_keys,
    next_key,
    reads_keys,
    single_keys,
)
from cellwright.terminal.question import Asker, Card, OfferedAnswer
from cellwright.terminal.views.diff_view import drawn_preview
from cellwright.terminal.views.markdown_view import drawn_markdown
from cellwright.terminal.views.streams import Streams, line_writer
from cellwright.terminal.views.terminal_text import Look
from cellwright.terminal.views.themes import Hanging, Theme, theme_named


class Menu(Struct):
    """The answers as they are shown, and what keys do to them; `is_apart`: below an empty line.

    `unfolds`: Ctrl-O is an answer, too.
    """

    rows: Sequence[OfferedAnswer]
    hint: str
    theme: Theme
    compact: bool
    several: bool = False
    is_apart: bool = False
    unfolds: bool = False
    marked: frozenset[str] = frozenset()
    is_ready: bool = False
    selected: int = 0
    written: str | None = None

    def draw(self) -> RenderableType:
        lines: list[RenderableType] = [Text()] if self.is_apart else []
        for number, row in enumerate(self.rows):
            chosen = number == self.selected
            box = f"{'☑' if row.key in self.marked else '☐'} " if self.several and row.marks else ""
            line = self.theme.line(box + row.label, "title" if chosen else "")
            if chosen and self.written is not None:
                line.append(f"  {row.words}: {self.written}▏")
            lines.append(Hanging(Text(f"{'❯' if chosen else ' '} {row.key}  ", line.style), line))
            if row.about and (chosen or not self.compact):
                about = Text(row.about, self.theme.styles["dim"]) if row.is_rule else self.theme.line(row.about, "dim")
                lines.append(Padding(about, (0, 0, 0, 5)))
        hint = "Enter sends it, with or without words." if self.written is not None else self.hint
        return Group(*lines, Text(hint if self.is_ready else "…", self.theme.styles["dim"]))

    def press(self, key: str) -> tuple[str, str] | None:
        """Do what the key does; the answer with its words once there is one."""
        row = self.rows[self.selected]
        if self.written is not None:
            if key in (ENTER, ESCAPE):
                return self._taken(row, self.written.strip())
            typed = key if key.isprintable() else ""
            self.written = self.written[:-1] if key in ERASE else self.written + typed
            return None
        if key == ESCAPE or (key == "n" and all(each.key != key for each in self.rows)):
            return ESCAPE, ""
        if key == CTRL_O and self.unfolds:
            return CTRL_O, ""
        if key in (UP, DOWN):
            self.selected = (self.selected + (1 if key == DOWN else -1)) % len(self.rows)
            return None
        if key != ENTER:
            meant = {"y": self.rows[0].key, " ": row.key if self.several else ""}.get(key, key.lower())
            places = [number for number, each in enumerate(self.rows) if each.key == meant]
            if not places:
                return None
            self.selected = places[0]
            row = self.rows[self.selected]
        if row.words:
            self.written = ""
            return None
        if self.several and row.marks and (key != ENTER or not self.marked):
            self.marked ^= {row.key}
            return None
        return self._taken(row, "")

    def _taken(self, row: OfferedAnswer, words: str) -> tuple[str, str]:
        """The row's key; with the marked ones, if it is an answer beside them."""
        keys = self.marked if row.marks else self.marked | {row.key} if words else {row.key}
        return ",".join(each.key for each in self.rows if each.key in (keys or {row.key})), words


def choose(
    rows: Sequence[OfferedAnswer],
    hint: str,
    stdin: TextIO,
    screen: TextIO,
    theme: Theme,
    *,
    compact: bool = False,
    several: bool = False,
    is_apart: bool = False,
    unfolds: bool = False,
    seconds: float | None = None,
) -> tuple[str, str] | None:
    """Show the answers and return the key of the one that is taken, and what was written with it.

    `ESCAPE` stands for the no without words, None for the end of the input. With `several`, the keys of all that were marked
    are joined by commas. With `is_apart` there is an empty line above them as long as they are shown; with `unfolds`, CTRL_O
    stands for itself. Raises `KeyboardInterrupt`, and TimeoutError if no key is pressed within `seconds`.
    """
    menu = Menu(rows, hint, theme, compact, several, is_apart, unfolds)
    taken = None
    in_time = True
    with contextlib.suppress(OSError), _live(theme.console(screen), menu) as live, single_keys(stdin):
        forget_keys(stdin, 0.3)  # as in the browser: a key that was on its way to something else is no answer
        menu.is_ready = True
        live.update(menu.draw(), refresh=True)
        in_time = seconds is None or bool(select.select([stdin], [], [], seconds)[0])
        while in_time and taken is None and (key := next_key(stdin)) is not None:
            taken = menu.press(key)
            live.update(menu.draw(), refresh=True)
    if not in_time:
        raise TimeoutError
    return taken


def _live(console: Console, menu: Menu) -> Live:
    return Live(
        menu.draw(),
        console=console,
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        vertical_overflow="visible",
    )


def asker(streams: Streams, screen: TextIO, answer_seconds: float | None, look: Look) -> Asker:
    """The one who asks on `screen`: with keys and colours if the terminal has them; Claude's own questions wait so long."""
    card = Card(screen)
    write = line_writer(streams, cast("TextIO", card), look)
    keyboard = Keyboard(streams.stdin, screen, streams.environ, lambda problem: write(problem, "error"))
    read_in_time = functools.partial(keyboard.line, seconds=answer_seconds)
    plain = Asker(write, keyboard.line, "terminal", keyboard.edited, read_in_time)
    if not streams.draws_on(screen):
        return plain
    draw_markdown = markdown_drawer(screen, look)
    drawn = preview_drawer(cast("TextIO", card), look)
    drawing = replace(plain, draw=drawn, draw_markdown=draw_markdown, compact=look.compact)
    if not reads_keys(streams.stdin):
        return drawing
    theme = theme_named(look.theme)

    def choose_one(answers: Sequence[OfferedAnswer], hint: str) -> tuple[str, str] | None:
        how = {"compact": look.compact, "is_apart": not look.compact, "unfolds": True}
        return choose(answers, hint, streams.stdin, screen, theme, **how)

    def choose_in_time(answers: Sequence[OfferedAnswer], hint: str, several: bool) -> tuple[str, str] | None:
        how = {"compact": look.compact, "several": several}
        return choose(answers, hint, streams.stdin, screen, theme, **how, seconds=answer_seconds)

    def edit(text: str) -> str | None:
        card.lose_count()
        return keyboard.edited(text)

    return replace(drawing, choose=choose_one, choose_in_time=choose_in_time, edit=edit, card=card)


def preview_drawer(screen: TextIO, look: Look) -> Callable[[Preview, int | None], bool]:
    """Draw what a call does on `screen`: a diff as code, a command or code in the colours of its language.

    Of more than the given number of rows the beginning and the end are drawn; returns whether that is so.
    """
    theme = theme_named(look.theme)

    def draw(preview: Preview, rows: int | None = None) -> bool:
        console, whole = theme.console(screen), drawn_preview(preview, theme, compact=look.compact)
        is_folded = rows is not None and len(console.render_lines(whole, pad=False)) > rows
        console.print(replace(whole, max_rows=rows) if is_folded else whole)
        return is_folded

    return draw


def markdown_drawer(screen: TextIO, look: Look) -> Callable[[str], None]:
    """Draw a text of Claude's on `screen` as its answers are, indented."""
    theme = theme_named(look.theme)

    def draw(text: str) -> None:
        theme.console(screen).print(Padding(drawn_markdown(text, theme), (0, 0, 0, 2)))

    return draw

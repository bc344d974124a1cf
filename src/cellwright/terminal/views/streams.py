"""The command's streams, and lines of ours on them; rich is imported for a terminal alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TextIO

from msgspec import Struct

from cellwright.terminal.views.terminal_text import DEFAULT_LOOK, Look, Style, can_ask, columns_of, draws, fitting_theme
from cellwright.text import visible


class Streams(Struct, frozen=True, kw_only=True):
    """The three streams and the environment that says what their terminal can do."""

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    environ: Mapping[str, str]

    def draws_on(self, stream: TextIO) -> bool:
        return draws(stream, self.environ, columns_of(stream, self.environ))


def print_line(line: str, stream: TextIO) -> None:
    """Print one of our lines; on a terminal to draw on, what stands between backticks is set as code, without them."""
    if draws(stream, os.environ, columns_of(stream, os.environ)):
        styled_writer(stream, Look(fitting_theme(os.environ)))(line, "")
    else:
        print(line, file=stream)


def line_writer(streams: Streams, screen: TextIO, look: Look = DEFAULT_LOOK) -> Callable[[str, Style], None]:
    """Write lines of ours on `screen`, in their styles if it can be drawn on."""
    if streams.draws_on(screen):
        return styled_writer(screen, look)

    def write(line: str, style: Style) -> None:
        print(line, file=screen, flush=True)

    return write


def styled_writer(out: TextIO, look: Look = DEFAULT_LOOK) -> Callable[[str, Style], None]:
    """Write lines of ours on the terminal `out` in their styles."""
    from cellwright.terminal.views.themes import theme_named  # rich: not for what a program reads

    theme = theme_named(look.theme)
    console = theme.console(out)

    def write(line: str, style: Style) -> None:
        console.print(theme.lines(line, style))

    return write


def confirmed(streams: Streams, question: str) -> bool:
    """Ask `question` and return whether the user said yes; no where there is nobody to ask."""
    screen = can_ask(streams.stdin, streams.stderr, streams.stdout)
    if screen is None:
        return False
    print(f"{visible(question)} [y/n] ", end="", file=screen, flush=True)
    return streams.stdin.readline().strip().lower() in ("y", "yes")

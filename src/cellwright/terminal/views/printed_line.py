"""One of our lines on standard output or error, outside of a session; rich is imported for a terminal alone."""

from __future__ import annotations

import os
from typing import TextIO

from cellwright.terminal.views.terminal_text import columns_of, draws, fitting_theme


def print_line(line: str, stream: TextIO) -> None:
    """Print one of our lines; on a terminal to draw on, what stands between backticks is set as code, without them."""
    if not draws(stream, os.environ, columns_of(stream, os.environ)):
        print(line, file=stream)
        return
    from cellwright.terminal.views.themes import theme_named  # rich: not for what a program reads

    theme = theme_named(fitting_theme(os.environ))
    theme.console(stream).print(theme.lines(line, ""))

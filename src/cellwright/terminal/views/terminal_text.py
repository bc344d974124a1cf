"""Text for a terminal and its look: made harmless, its width, whether it is drawn, and the theme that is asked for."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TextIO

from msgspec import Struct

from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    from cellwright.config.settings.settings import Settings


Style = Literal["", "title", "dim", "warning", "error", "good", "added", "removed", "hunk"]

_SEQUENCE = lazy_pattern(r"\x1b(?:\[[0-9;:?<=>]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
_CONTROL = lazy_pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_OVERWRITTEN = lazy_pattern(r"[^\n]*\r(?=[^\r\n])")

ThemeName = Literal["dark", "light", "dark-daltonized", "light-daltonized", "high-contrast", "ansi", "none"]

_NAMES: Mapping[str, ThemeName] = {
    "dark": "dark",
    "light": "light",
    "dark-daltonized": "dark-daltonized",
    "light-daltonized": "light-daltonized",
    "high-contrast": "high-contrast",
    "ansi": "ansi",
    "none": "none",
    # Claude Code's names
    "dark-ansi": "ansi",
    "light-ansi": "ansi",
}

LIGHT_BACKGROUNDS = ("7", "15")
"""Of the colours that COLORFGBG counts."""


def harmless(text: str) -> str:
    """`text` without escape sequences and control characters; of lines that were overwritten, the last state."""
    if "\r" in text:
        text = _OVERWRITTEN.sub("", text)
    return _CONTROL.sub("", _SEQUENCE.sub("", text))


def width_of(text: str) -> int:
    """The columns that a terminal needs for `text`."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def rows_of(text: str, columns: int) -> int:
    """The most rows that a line takes in `columns`: a word that does not fit begins the next row."""
    width = width_of(text)
    return 1 if width <= columns else -(-width // max(1, columns * 2 // 3))


def style_of_diff_line(line: str) -> Style:
    """Choose the style of a line of a unified diff."""
    if line.startswith(("+++", "---")):
        return "title"
    if line.startswith("@@"):
        return "hunk"
    return {"+": "added", "-": "removed"}.get(line[:1], "dim")  # type: ignore[return-value]


def draws(stream: TextIO, environ: Mapping[str, str], columns: int) -> bool:
    """Return whether `stream` is a terminal to draw on: it moves its cursor, is wide enough, colour not declined."""
    plain = environ.get("TERM", "") in ("dumb", "unknown") or bool(environ.get("NO_COLOR"))
    return stream.isatty() and not plain and columns >= 50


def columns_of(stream: TextIO, environ: Mapping[str, str]) -> int:
    """The width of the terminal behind `stream`; COLUMNS counts before what the terminal says."""
    if environ.get("COLUMNS", "").isdigit() and int(environ["COLUMNS"]) > 0:
        return int(environ["COLUMNS"])
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 80


def can_ask(stdin: TextIO, *screens: TextIO) -> TextIO | None:
    """The stream to put a question on: the first terminal of `screens`, if the answer can be typed; else None."""
    if sys.stdin is None or not stdin.isatty():
        return None
    return next((screen for screen in screens if screen.isatty()), None)


class Look(Struct, frozen=True):
    """A theme, and whether lines are set close together."""

    theme: ThemeName = "ansi"
    compact: bool = False


DEFAULT_LOOK = Look()


def look_of(settings: Settings, environ: Mapping[str, str], background: str = "") -> Look:
    """Return the look that the settings ask for; `background` is "dark" or "light" if the terminal has said so."""
    name = _NAMES.get(settings.theme)
    return Look(name if name is not None else fitting_theme(environ, background), settings.layout == "compact")


def fitting_theme(environ: Mapping[str, str], background: str = "") -> ThemeName:
    """Return the theme for the terminal's background; unless that is known, the terminal's own colours fit any."""
    if background in ("dark", "light"):
        return "dark" if background == "dark" else "light"
    behind = environ.get("COLORFGBG", "").rpartition(";")[2]
    if not behind.isdigit():
        return "ansi"
    return "light" if behind in LIGHT_BACKGROUNDS else "dark"

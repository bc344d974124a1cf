"""The look of the terminal that the settings ask for: a theme by its name, and how much room lines take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from cellwright.config.settings.settings import Settings

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

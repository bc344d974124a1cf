"""Fields that the inputs of several tools have, and the words for them on their cards.

With `timeout_seconds` Claude gives a search, Git or code tool more or less time.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from cellwright.agent.tool import ToolLimits
from cellwright.tools.paths import shown_path

FilePath = Annotated[
    str,
    Meta(min_length=1, description="Absolute, or relative to the working directory."),
]
NotebookPath = Annotated[
    str,
    Meta(min_length=1, description="Absolute, or relative to the working directory."),
]
ENCODING_NAME = r"^[A-Za-z][\w.: -]{1,30}$"
EncodingName = Annotated[
    str,
    Meta(
        pattern=ENCODING_NAME,
        description="The file's encoding (gb18030, shift_jis, windows-1251). Only if it is not UTF-8 and was guessed wrong.",
    ),
]
AllowSyntaxErrors = Annotated[bool, Meta(description="Write it although a file that parsed would no longer parse.")]
Words = tuple[Annotated[str, Meta(min_length=1, pattern=r"^[^\x00]*$")], ...]
"""Arguments of a program; with a `Meta(max_length=MAX_WORDS, description=…)`."""

MAX_WORDS = 100
Globs = tuple[Annotated[str, Meta(min_length=1)], ...]
"""Of what is to be left out; with a `Meta(max_length=MAX_GLOBS, description=…)`."""

MAX_GLOBS = 50
HERE = "."
"""The working directory."""

SYMBOL_NAMES: Mapping[str, str] = {"name": "symbol"}
"""Other names of the field that says which function, class or other definition is meant."""

MIN_SECONDS = 5
MAX_SECONDS = 120
GRACE_SECONDS = 5
"""A tool ends its child itself and tells what came so far; the limit from outside is for when that fails."""


def timeout_meta(default: float, longest: int = MAX_SECONDS) -> Meta:
    """The bounds of a field `timeout_seconds`, and its description."""
    return Meta(ge=MIN_SECONDS, le=longest, description=f"Seconds it may take, {default:g} by default.")


def timed_limits(longest: int = MAX_SECONDS, **limits: Any) -> ToolLimits:
    """The limits of a tool that keeps `timeout_seconds` itself."""
    return ToolLimits(seconds=longest + GRACE_SECONDS, **limits)


def in_folder(cwd: Path, path: str) -> str:
    """` in FOLDER` for the title of a call that is about the folder `path`."""
    return "" if path == HERE else f" in {shown_path(cwd, cwd / path)}"

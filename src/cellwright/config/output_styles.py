"""The output styles there are for a session, and what each says.

Of two with one name the higher counts, from the highest: the administrator's, the project's (the nearest folder
first), the user's, ours. A project's wait for the user's trust in the folder. A plugin's have its name before their own.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from cellwright.config.plugins.plugin import put_in
from cellwright.config.skills import SkillPlace, project_folders
from cellwright.config.user_files import crowded, files_in, read_front_matter

StyleScope = Literal["managed", "user", "project", "plugin", "built-in"]

BUILT_IN = Path(__file__).parent / "built_in" / "output_styles"
FOLDER = "output-styles"
DEFAULT = "default"
"""The style of a session whose settings name none: nothing is added, nothing left out."""


MAX_STYLES = 200
"""Of one folder; nobody has more by intent."""

_YES = frozenset({"true", "yes", "on", "1"})


class OutputStyle(Struct, frozen=True, kw_only=True):
    """A style. `text` is its section of the system prompt; the default has none, and no file either.

    `keeps_coding` says that what the system prompt has on working on code stays beside it.
    """

    name: str
    description: str
    text: str
    scope: StyleScope
    file: Path
    keeps_coding: bool = False


DEFAULT_STYLE = OutputStyle(
    name=DEFAULT,
    description="Short answers, work on code as everywhere in Cellwright",
    text="",
    scope="built-in",
    file=BUILT_IN / "default.md",
    keeps_coding=True,
)


def find_styles(place: SkillPlace) -> dict[str, OutputStyle]:
    """All styles by their names in small letters, as they are chosen. Never raises."""
    found = {DEFAULT: DEFAULT_STYLE}
    for file, scope in _files(place):
        if (style := read_style(file, scope)) is not None:
            found.setdefault(style.name.lower(), style)
    for plugin in place.plugins:
        for file in (file for path in plugin.output_styles for file in _files_in(path)):
            if (style := read_style(file, "plugin")) is not None:
                name = f"{plugin.name}:{style.name}"
                found.setdefault(name.lower(), replace(style, name=name, text=put_in(style.text, plugin.variables)))
    return found


def project_style_files(cwd: Path, project: Path) -> list[Path]:
    """The files of styles that the project brings along."""
    return [file for folder in project_folders(cwd, project) for file in _files_in(folder / ".claude" / FOLDER)]


def _files(place: SkillPlace) -> Iterator[tuple[Path, StyleScope]]:
    places: list[tuple[Path, StyleScope]] = [(place.managed / FOLDER, "managed")]
    if place.trusted:
        places += [(folder / ".claude" / FOLDER, "project") for folder in project_folders(place.cwd, place.project)]
    for folder, scope in (*places, (place.users / FOLDER, "user"), (BUILT_IN, "built-in")):
        for file in _files_in(folder):
            yield file, scope


def crowded_styles(place: SkillPlace) -> list[str]:
    """Say of which folders not all styles are taken."""
    folders = [place.managed / FOLDER, place.users / FOLDER]
    folders += (
        [each / ".claude" / FOLDER for each in project_folders(place.cwd, place.project)] if place.trusted else []
    )
    folders += [folder for plugin in place.plugins for folder in plugin.output_styles]
    return [
        notice for folder in folders for notice in crowded(folder, len(files_in(folder, "*.md")), MAX_STYLES, "styles")
    ]


def _files_in(folder: Path) -> list[Path]:
    if folder.suffix == ".md" and folder.is_file():  # a plugin may name files
        return [folder]
    return files_in(folder, "*.md")[:MAX_STYLES]


def read_style(file: Path, scope: StyleScope) -> OutputStyle | None:
    """Read the style in `file`; None where there is none. Never raises."""
    try:
        facts = file.stat()
        # a larger file is no style: it would be part of every request
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > 100_000:
            return None
        front = read_front_matter(file.read_bytes().decode("utf-8", "replace"))
    except (OSError, ValueError):
        return None
    text = front.body.strip()
    if not text:
        return None
    name, description = front.values.get("name"), front.values.get("description")
    return OutputStyle(
        name=" ".join(str(name).split()) if name else file.stem,
        description=" ".join(str(description or "").split()),
        text=text,
        scope=scope,
        file=file,
        keeps_coding=str(front.values.get("keep-coding-instructions", "")).strip().lower() in _YES,
    )

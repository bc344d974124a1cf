"""The skills and commands there are for a session, by their names.

Of two with one name the higher counts, from the highest: the administrator's, the user's, the project's (the nearest
folder first), ours. A skill goes before a command. A project's wait for the user's trust in the folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from cellwright.config.skills.skill import SKILL_FILE, Skill, SkillScope, read_skill

BUILT_IN = Path(__file__).parent / "built_in"
MAX_SKILLS = 500
"""Of one folder; nobody has more by intent."""


class SkillPlace(Struct, frozen=True, kw_only=True):
    """The places of a session's skills and agents. `users` is `~/.claude`; `trusted`: the project's count."""

    cwd: Path
    project: Path
    users: Path
    managed: Path
    trusted: bool = False
    built_in: bool = True


def find_skills(place: SkillPlace) -> dict[str, Skill]:
    """All skills and commands, by what stands after the slash. Never raises."""
    found: dict[str, Skill] = {}
    for skill in _all(place):
        found.setdefault(skill.name, skill)
    return found


def project_skill_files(cwd: Path, project: Path) -> list[Path]:
    """The files of skills and commands that the project brings along."""
    found: list[Path] = []
    for folder in project_folders(cwd, project):
        found += [file for _, file in _skill_files(folder / ".claude" / "skills")]
        found += [file for _, file in _command_files(folder / ".claude" / "commands")]
    return found


def _all(place: SkillPlace) -> Iterator[Skill]:
    project = list(project_folders(place.cwd, place.project)) if place.trusted else []
    places: list[tuple[Path, SkillScope]] = [
        (place.managed, "managed"),
        (place.users, "user"),
        *((folder / ".claude", "project") for folder in project),
    ]
    for folder, scope in places:
        for name, file in _skill_files(folder / "skills"):
            if (skill := read_skill(file, name, scope)) is not None:
                yield skill
    for folder, scope in places:
        for name, file in _command_files(folder / "commands"):
            if (skill := read_skill(file, name, scope, is_command=True)) is not None:
                yield skill
    if place.built_in:
        for name, file in _skill_files(BUILT_IN):
            if (skill := read_skill(file, name, "built-in")) is not None:
                yield skill


def project_folders(cwd: Path, project: Path) -> Iterator[Path]:
    """The folders from `cwd` up to the project's."""
    for folder in (cwd, *cwd.parents):
        yield folder
        if folder == project:
            return


def _skill_files(folder: Path) -> list[tuple[str, Path]]:
    try:
        found = sorted(each for each in folder.iterdir() if not each.name.startswith("."))
        return [(each.name, each / SKILL_FILE) for each in found if (each / SKILL_FILE).is_file()][:MAX_SKILLS]
    except OSError:  # there is none
        return []


def _command_files(folder: Path) -> list[tuple[str, Path]]:
    """Commands by name; one in a folder has that folder's name before its own where another has its own already."""
    found: dict[str, Path] = {}
    try:
        files = sorted(folder.rglob("*.md"), key=lambda file: (len(file.parts), file))
    except OSError:  # there is none
        return []
    for file in files[:MAX_SKILLS]:
        spaced = ":".join(file.relative_to(folder).with_suffix("").parts)
        found.setdefault(file.stem, file)
        found.setdefault(spaced, file)
    return list(found.items())

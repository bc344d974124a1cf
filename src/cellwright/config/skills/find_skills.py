"""The skills and commands there are for a session, by their names.

Of two with one name the higher counts, from the highest: the administrator's, the user's, those of plugins, the project's
(the nearest folder first), ours. A skill goes before a command. A project's wait for the user's trust in the folder.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cellwright.config.folder_files import crowded, files_in
from cellwright.config.kept_search import places_below
from cellwright.config.plugins.plugin import Plugin
from cellwright.config.skills.skill import SKILL_FILE, NoSkill, Skill, SkillScope, load_skill

BUILT_IN = Path(__file__).parent / "built_in"
MAX_SKILLS = 500
"""Of one folder; nobody has more by intent."""


class SkillPlace(Struct, frozen=True, kw_only=True):
    """The places of a session's skills and agents. `users` is `~/.claude`; `trusted`: the project's count.

    `plugins` are those that count.
    """

    cwd: Path
    project: Path
    users: Path
    managed: Path
    trusted: bool = False
    built_in: bool = True
    plugins: tuple[Plugin, ...] = ()


class FoundSkills(Struct, frozen=True):
    """The skills and commands by their names, and the files that define none, with the reason."""

    skills: dict[str, Skill]
    skipped: tuple[tuple[Path, str], ...] = ()


def find_skills(place: SkillPlace) -> dict[str, Skill]:
    """All skills and commands, by what stands after the slash. Never raises."""
    return search_skills(place).skills


def search_skills(place: SkillPlace) -> FoundSkills:
    """The same, with the files that define none. Never raises."""
    found: dict[str, Skill] = {}
    skipped: list[tuple[Path, str]] = []
    for file, name, scope, is_command, variables in _files(place):
        try:
            skill = load_skill(file, name, scope, is_command=is_command)
        except NoSkill as problem:
            skipped.append((file, str(problem)))
        else:
            found.setdefault(name, replace(skill, variables=variables) if variables is not None else skill)
    if place.built_in:
        for skill in _built_in():
            found.setdefault(skill.name, skill)
    return FoundSkills(found, tuple(skipped))


def skill_places(place: SkillPlace) -> Iterator[str]:
    """The files and folders whose change can change what `find_skills` gives."""
    folders = [str(place.managed), str(place.users)]
    if place.trusted:
        folders += [f"{folder}/.claude" for folder in project_folders(place.cwd, place.project)]
    for folder in folders:
        yield from places_of_skills(f"{folder}/skills")
        yield from places_below(f"{folder}/commands")
    for plugin in place.plugins:
        for folder in map(str, plugin.skills):
            yield from places_of_skills(folder)
        for folder in map(str, plugin.commands):
            yield from places_below(folder)


def places_of_skills(folder: str) -> Iterator[str]:
    """The places of a search for the skills in `folder`: a skill may hold whole libraries beside its SKILL.md."""
    yield folder
    yield f"{folder}/{SKILL_FILE}"
    try:
        names = os.listdir(folder)  # noqa: PTH208  paths are dear to make
    except OSError:  # there is none
        return
    for name in names:
        yield f"{folder}/{name}/{SKILL_FILE}"
        yield f"{folder}/{name}/{SKILL_FILE.lower()}"


def project_skill_files(cwd: Path, project: Path) -> list[Path]:
    """The files of skills and commands that the project brings along."""
    found: list[Path] = []
    for folder in project_folders(cwd, project):
        found += [file for _, file in _skill_files(folder / ".claude" / "skills")]
        found += [file for _, file in _command_files(folder / ".claude" / "commands")]
    return found


_File = tuple[Path, str, SkillScope, bool, Mapping[str, str] | None]
"""A file, the name after the slash, whose it is, whether it is a command, and a plugin's variables."""


def _files(place: SkillPlace) -> Iterator[_File]:
    project = list(project_folders(place.cwd, place.project)) if place.trusted else []
    above: list[tuple[Path, SkillScope]] = [(place.managed, "managed"), (place.users, "user")]
    below: list[tuple[Path, SkillScope]] = [(folder / ".claude", "project") for folder in project]
    yield from _skills_in(above)
    yield from _of_plugins(place.plugins)
    yield from _skills_in(below)
    for folder, scope in (*above, *below):
        yield from ((file, name, scope, True, None) for name, file in _command_files(folder / "commands"))


@functools.cache  # every prompt looks for the skills, and ours do not change while the process lives
def _built_in() -> tuple[Skill, ...]:
    return tuple(load_skill(file, name, "built-in") for name, file in _skill_files(BUILT_IN))


def _skills_in(places: Sequence[tuple[Path, SkillScope]]) -> Iterator[_File]:
    for folder, scope in places:
        yield from ((file, name, scope, False, None) for name, file in _skill_files(folder / "skills"))


def _of_plugins(plugins: Sequence[Plugin]) -> Iterator[_File]:
    for plugin in plugins:
        files = [(each, False) for folder in plugin.skills for each in _skill_files(folder)]
        files += [(each, True) for folder in plugin.commands for each in _command_files(folder)]
        for (name, file), is_command in files:
            yield file, f"{plugin.name}:{name}", "plugin", is_command, plugin.variables


def project_folders(cwd: Path, project: Path) -> Iterator[Path]:
    """The folders from `cwd` up to the project's."""
    for folder in (cwd, *cwd.parents):
        yield folder
        if folder == project:
            return


def _skill_file(folder: Path) -> Path | None:
    """The file of the skill in `folder`, however its name is written: on some systems that makes no difference."""
    if (file := folder / SKILL_FILE).is_file():
        return file
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208  paths are dear to make
    except OSError:  # a file, or a folder of somebody else's
        return None
    named = (folder / each for each in names if each.casefold() == SKILL_FILE.casefold())
    return next((each for each in named if each.is_file()), None)


def _skill_files(folder: Path) -> list[tuple[str, Path]]:
    return _all_skill_files(folder)[:MAX_SKILLS]


def crowded_skills(place: SkillPlace) -> list[str]:
    """Say of which folders not all skills and commands are taken."""
    folders = [place.managed, place.users]
    folders += [each / ".claude" for each in project_folders(place.cwd, place.project)] if place.trusted else []
    skills = [folder / "skills" for folder in folders] + [each for plugin in place.plugins for each in plugin.skills]
    commands = [folder / "commands" for folder in folders]
    commands += [each for plugin in place.plugins for each in plugin.commands]
    notices: list[str] = []
    for folder in skills:
        notices += crowded(folder, len(_all_skill_files(folder)), MAX_SKILLS, "skills")
    for folder in commands:
        notices += crowded(folder, len(files_in(folder, "**/*.md")), MAX_SKILLS, "commands")
    return notices


def _all_skill_files(folder: Path) -> list[tuple[str, Path]]:
    try:
        if (file := _skill_file(folder)) is not None:  # a plugin may name a skill's own folder
            return [(folder.name, file)]
        found = sorted(each for each in folder.iterdir() if not each.name.startswith("."))
        files = ((each.name, _skill_file(each)) for each in found)
        return [(name, file) for name, file in files if file is not None]
    except OSError:  # there is none
        return []


def _command_files(folder: Path) -> list[tuple[str, Path]]:
    """Commands by name; one in a folder has that folder's name before its own where another has its own already."""
    found: dict[str, Path] = {}
    if folder.suffix == ".md" and folder.is_file():  # a plugin may name files
        return [(folder.stem, folder)]
    files = sorted(files_in(folder, "**/*.md"), key=lambda file: len(file.parts))
    for file in files[:MAX_SKILLS]:
        spaced = ":".join(file.relative_to(folder).with_suffix("").parts)
        found.setdefault(file.stem, file)
        found.setdefault(spaced, file)
    return list(found.items())

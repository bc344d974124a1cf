"""The instructions for Claude of users, projects and administrators: `CLAUDE.md`, rules, `AGENTS.md` and their imports.

A session begins with these files, from the broadest to the nearest, in Claude Code's order.

    <administrator's folder>/CLAUDE.md
    ~/.claude/CLAUDE.md, ~/.claude/rules/**/*.md
    of each folder from the root down to the session's: CLAUDE.md, .claude/CLAUDE.md, CLAUDE.local.md
    <project>/.claude/rules/**/*.md

    <our state, of the project>/MEMORY.md, where Claude keeps notes of its own

Each file but the last is followed by what it imports. `AGENTS.md` stands in where no `CLAUDE.md` is in the session's
folder or above.
A project's files wait for the user's trust in it, as its settings do; what lies above the project must belong to the user.

Files of folders below the session's, and rules with `paths`, count when Claude looks at certain files.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from cellwright.config.user_files import crowded, files_in, places_below, read_front_matter, texts
from cellwright.markdown.prose import without_code
from cellwright.text import lazy_pattern
from cellwright.tools.search.globs import glob_matcher

MemoryScope = Literal["managed", "user", "project", "local", "auto"]

MAX_BYTES = 4 * 1024 * 1024
"""A larger file is not read, as in Claude Code."""

MAX_CHARS = 100_000
"""The part of one file that Claude is told: about 25,000 tokens of every request."""

NOTES_LINES = 200
NOTES_BYTES = 25_000
"""The part of the index of Claude's own notes that is told, as in Claude Code."""

_IMPORT = lazy_pattern(r"(?:^|(?<=[\s(\[{\"'*_“‘>|]))@(?P<path>(?:[^\s\\]|\\ )+)", re.MULTILINE)
AFTER_A_PATH = ".,;:!?)]}\"'`*_”’|"
DOCUMENTS = (".md", ".mdc", ".mdx", ".markdown", ".txt", ".rst")
"""Of a name with one of these somebody meant a file."""

_COMMENT = lazy_pattern(r"^ {0,3}<!--", re.MULTILINE)

NAMES = ("CLAUDE.md", ".claude/CLAUDE.md")
LOCAL_NAME = "CLAUDE.local.md"
FALLBACK_NAME = "AGENTS.md"
INSTRUCTION_NAMES = (*NAMES, LOCAL_NAME, FALLBACK_NAME)
NOTES_NAME = "MEMORY.md"
RULES_FOLDER = ".claude/rules"
MAX_RULES = 500


class MemoryFile(Struct, frozen=True, kw_only=True):
    """A file of instructions. `paths` are globs below `base`: with some, it counts only for files that match one.

    `imported_by` is the file that names this one with `@`; `notice` is for the user, of what was left out.
    """

    path: Path
    scope: MemoryScope
    text: str
    base: Path
    paths: tuple[str, ...] = ()
    imported_by: Path | None = None
    notice: str = ""


def read_memory_file(
    path: Path, scope: MemoryScope, base: Path, *, imported_by: Path | None = None
) -> MemoryFile | None:
    """Read one file; None where there is none, or nothing that can be read as text. Never raises."""
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            return None
        if facts.st_size > MAX_BYTES:
            return _left_out(path, scope, base, f"it has {facts.st_size:,} bytes, and {MAX_BYTES:,} are the most")
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError as error:
        return _left_out(path, scope, base, error.strerror or str(error)) if imported_by is None else None
    if b"\0" in content:
        return _left_out(path, scope, base, "it is not text") if imported_by is None else None
    front = read_front_matter(_decoded(content))
    text = without_comments(front.body).strip()
    notice = ""
    if len(text) > MAX_CHARS:
        notice = f"{path}: only the first {MAX_CHARS:,} of {len(text):,} characters were sent."
        text = text[: text.rfind("\n", 0, MAX_CHARS) + 1 or MAX_CHARS]
    # a folder's name alone means everything below it
    globs = (f"{glob}**" if glob.endswith("/") else glob for glob in texts(front.values.get("paths")))
    return MemoryFile(
        path=path,
        scope=scope,
        text=text,
        base=base,
        paths=tuple(globs),
        imported_by=imported_by,
        notice=notice,
    )


def read_notes(path: Path) -> MemoryFile | None:
    """Read the index of Claude's own notes, as far as it is told; it imports nothing. Never raises."""
    file = read_memory_file(path, "auto", path.parent)
    if file is None or not file.text:
        return file
    lines = file.text.splitlines(keepends=True)
    told = "".join(lines[:NOTES_LINES])
    if len(told.encode("utf-8", "surrogatepass")) > NOTES_BYTES:
        told = told.encode("utf-8", "surrogatepass")[:NOTES_BYTES].decode("utf-8", "ignore")
        told = told[: told.rfind("\n") + 1 or len(told)]
    if told == file.text:
        return file
    rest = (
        f"\n[Only the first {NOTES_LINES} lines, at most {NOTES_BYTES // 1000} KB, are sent. Keep the index shorter.]"
    )
    return replace(file, text=f"{told.rstrip()}{rest}")


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        from cellwright.tools.files.encodings import NotText, decode  # most files are UTF-8

        try:
            return decode(content)[0]
        except NotText:
            return content.decode("utf-8", "replace")


def _left_out(path: Path, scope: MemoryScope, base: Path, why: str) -> MemoryFile:
    return MemoryFile(path=path, scope=scope, text="", base=base, notice=f"{path} was not read: {why}.")


def imports(file: MemoryFile) -> Iterator[Path | str]:
    """The files that `file` imports: `@docs/style.md`, `@~/notes.md`, `@./with\\ space.md`, outside code.

    One that does not exist comes as it is written, if it must have been meant as a file: `@types/node` need not be.
    """
    if "@" not in file.text:
        return
    for found in _IMPORT.finditer(without_code(file.text)):
        name = found["path"].replace("\\ ", " ")
        plain = name.rstrip(AFTER_A_PATH)
        for spelling in dict.fromkeys((name, plain, name.partition("#")[0])):
            if spelling and (path := _existing(file.path.parent, spelling)) is not None:
                yield path
                break
        else:
            if plain.partition("#")[0].lower().endswith(DOCUMENTS) or plain.startswith(("./", "../", "~/")):
                yield plain


def _existing(folder: Path, name: str) -> Path | None:
    try:
        path = Path(name).expanduser()
        path = path if path.is_absolute() else folder / path
        return path if path.is_file() else None
    except (OSError, ValueError, RuntimeError):  # no name that a file could have
        return None


def without_comments(markdown: str) -> str:
    """`markdown` without HTML comments that begin a line: they are notes for people. In code they stay."""
    if "<!--" not in markdown:
        return markdown
    markdown = markdown.replace("\r\n", "\n").replace("\r", "\n")
    prose = without_code(markdown)
    kept, at = [], 0
    while (opened := _COMMENT.search(prose, at)) is not None:
        closed = markdown.find("-->", opened.end())
        if closed < 0:
            break
        kept.append(markdown[at : opened.start()])
        end = markdown.find("\n", closed)
        rest = markdown[closed + 3 : end if end >= 0 else None]
        at = closed + 3 if rest.strip() else (end + 1 if end >= 0 else len(markdown))
    return "".join([*kept, markdown[at:]])


class MemoryPlace(Struct, frozen=True, kw_only=True):
    """The places of a session's instructions, and how far they count.

    `users` is `~/.claude`; `trusted` says that the project's files count; `outside` are the files outside the project
    that its files may bring along; `excludes` are globs on whole paths. `notes` is the folder of Claude's own notes, None
    where it keeps none.
    """

    cwd: Path
    project: Path
    users: Path
    managed: Path
    trusted: bool = False
    outside: frozenset[Path] = frozenset()
    excludes: tuple[str, ...] = ()
    notes: Path | None = None


class Memory(Struct, frozen=True):
    """The instructions of a session. `files` count from its beginning, `rules` only for files that match their paths.

    `may_import`: a file imports others, or would if they were there.
    """

    files: tuple[MemoryFile, ...] = ()
    rules: tuple[MemoryFile, ...] = ()
    notices: tuple[str, ...] = ()
    may_import: bool = False


def read_memory(place: MemoryPlace) -> Memory:
    """Read all instructions that count in `place`. Never raises: what cannot be read is in the notices."""
    read = [*_all(place)]
    found = [
        file
        for file in read
        if file.scope == "managed"
        or not any(_matches(glob, file.path.as_posix().lstrip("/")) for glob in place.excludes)
    ]
    return Memory(
        tuple(file for file in found if file.text and not file.paths),
        tuple(file for file in found if file.text and file.paths),
        tuple(file.notice for file in found if file.notice),
        any("@" in file.text for file in read),
    )


def memory_places(place: MemoryPlace) -> Iterator[str]:
    """The files and folders whose change can change what `read_memory` gives, but for what files import."""
    for folder in (place.cwd, *place.cwd.parents):
        yield from (f"{str(folder).rstrip(os.sep)}/{name}" for name in INSTRUCTION_NAMES)
    for folder in (place.managed, place.users, *(() if place.notes is None else (place.notes,))):
        yield from (f"{folder}/{name}" for name in ("CLAUDE.md", NOTES_NAME))
    for rules in (f"{place.users}/rules", f"{place.project}/{RULES_FOLDER}"):
        yield from places_below(rules)


def project_instructions(cwd: Path, project: Path) -> list[Path]:
    """The files of instructions that the project brings along, as far as a session in `cwd` begins with them."""
    folders = _folders(project, cwd)
    files = [folder / name for folder in folders for name in (*NAMES, LOCAL_NAME)]
    if uses_fallback(cwd):
        files += [folder / FALLBACK_NAME for folder in folders]
    files += _rule_files(project / RULES_FOLDER)
    # Path.is_file raises where a folder above may not be entered, or a name is too long
    return [file for file in files if os.path.isfile(file)]  # noqa: PTH113


def outside_files(instructions: Iterable[Path], project: Path) -> list[Path]:
    """The files outside the project that its instructions would bring along, by an import or a link."""
    found: dict[Path, None] = {}
    for path in instructions:
        file = read_memory_file(path, "project", project)
        for each in _with_imports(file, set()) if file is not None else ():
            if not _is_within(each.path, project):
                found[each.path.resolve()] = None
    return list(found)


def uses_fallback(cwd: Path) -> bool:
    """Return whether `AGENTS.md` stands in: no `CLAUDE.md` is in `cwd` or above."""
    # strings: every prompt asks, and paths are dear to make
    return not any(os.path.isfile(f"{folder}/{name}") for folder in (cwd, *cwd.parents) for name in NAMES)  # noqa: PTH113


def folder_files(folder: Path, *, fallback: bool) -> list[Path]:
    """The files of instructions that may stand in one folder."""
    return [folder / name for name in _names(fallback=fallback)]


def _names(*, fallback: bool) -> tuple[str, ...]:
    return (*NAMES, LOCAL_NAME, *((FALLBACK_NAME,) if fallback else ()))


def with_imports_that_count(file: MemoryFile, place: MemoryPlace, seen: set[Path]) -> Iterator[MemoryFile]:
    """`file` and what it imports; of a project's, nothing outside the project that was not allowed."""
    for each in _with_imports(file, seen):
        of_project = file.scope in ("project", "local") and _is_within(file.base, place.project)
        if of_project and not _is_within(each.path, place.project) and each.path.resolve() not in place.outside:
            continue
        yield each


def _all(place: MemoryPlace) -> Iterator[MemoryFile]:
    seen: set[Path] = set()
    for path, scope, base in _paths(place):
        file = read_memory_file(path, scope, base)
        if file is not None:
            yield from with_imports_that_count(file, place, seen)
    if place.notes is not None and (notes := read_notes(place.notes / NOTES_NAME)) is not None:
        yield notes


def _paths(place: MemoryPlace) -> Iterator[tuple[Path, MemoryScope, Path]]:
    yield place.managed / "CLAUDE.md", "managed", place.cwd
    yield place.users / "CLAUDE.md", "user", place.cwd
    for rule in _rule_files(place.users / "rules"):
        yield rule, "user", place.cwd
    fallback, inside_project = uses_fallback(place.cwd), _folders(place.project, place.cwd)
    for folder in reversed((place.cwd, *place.cwd.parents)):
        inside = folder in inside_project
        if inside and not place.trusted:
            continue
        for name in _names(fallback=fallback):
            # above the project there is hardly one: looked for by its name, since paths are dear to make
            if not (inside or _is_users(f"{folder}/{name}")):
                continue
            if (path := folder / name).parent != place.users:
                yield path, "local" if name == LOCAL_NAME else "project", folder
    if place.trusted:
        for rule in _rule_files(place.project / RULES_FOLDER):
            yield rule, "project", place.project


def _folders(project: Path, cwd: Path) -> list[Path]:
    """The folders from `project` down to `cwd`."""
    real = os.path.realpath(project)
    above = [*reversed((cwd, *cwd.parents))]
    if os.path.realpath(cwd) == str(cwd):  # no link is on the way, so the folders above are what they are called
        return [folder for folder in above if _holds(real, str(folder))]
    return [folder for folder in above if _holds(real, os.path.realpath(folder))]


def _holds(folder: str, path: str) -> bool:
    return path == folder or path.startswith(folder if folder.endswith(os.sep) else folder + os.sep)


def crowded_rules(place: MemoryPlace) -> list[str]:
    """Say of which folders not all rules are taken."""
    folders = [place.users / "rules", *([place.project / RULES_FOLDER] if place.trusted else [])]
    return [
        notice for folder in folders for notice in crowded(folder, len(files_in(folder, "**/*.md")), MAX_RULES, "rules")
    ]


def _rule_files(folder: Path) -> list[Path]:
    return files_in(folder, "**/*.md")[:MAX_RULES]


def _with_imports(file: MemoryFile, seen: set[Path], hops: int = 0) -> Iterator[MemoryFile]:
    real = file.path.resolve()
    if real in seen:
        return
    seen.add(real)
    yield file
    if hops == 4:
        return
    for path in imports(file):
        if isinstance(path, str):
            yield replace(
                file, text="", paths=(), notice=f"{file.path}: @{path} was not imported: there is no such file."
            )
            continue
        imported = read_memory_file(path, file.scope, file.base, imported_by=file.path)
        if imported is not None:
            yield from _with_imports(imported, seen, hops + 1)


def _is_within(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _is_users(path: str) -> bool:
    """Return whether a file above the project is the user's or the system's: another user could put one into `/tmp`."""
    if not hasattr(os, "getuid"):
        return True
    try:
        return os.lstat(path).st_uid in (os.getuid(), 0)
    except OSError:  # there is none
        return False


def _matches(glob: str, path: str) -> bool:
    try:
        return glob_matcher(glob)(path)
    except ValueError:  # what is no glob matches nothing
        return False


def memory_for_files(paths: Iterable[Path], place: MemoryPlace, memory: Memory) -> list[MemoryFile]:
    """The instructions that come with the files at `paths`, besides those that `memory` begins with.

    Of folders between the session's and a file, `CLAUDE.md` and the like; of `memory.rules`, those whose paths match.
    """
    seen: set[Path] = set()
    found: list[MemoryFile] = []
    fallback = uses_fallback(place.cwd)
    for path in paths:
        found += (rule for rule in memory.rules if rule not in found and rule_matches(rule, path))
        if not place.trusted or not path.is_relative_to(place.cwd):
            continue
        for folder in reversed([each for each in path.parents if each != place.cwd and place.cwd in each.parents]):
            for name in folder_files(folder, fallback=fallback):
                if (
                    file := read_memory_file(name, "local" if name.name == LOCAL_NAME else "project", folder)
                ) is not None and file.text:
                    found += with_imports_that_count(file, place, seen)
    return found


def rule_matches(rule: MemoryFile, path: Path) -> bool:
    """Return whether a rule with paths counts for the file at `path`."""
    return matches_globs(path, rule.paths, rule.base)


def matches_globs(path: Path, globs: Iterable[str], base: Path) -> bool:
    """Return whether `path` lies below `base` and one of `globs` means it there.

    Brackets in a glob are a set of characters, and also part of a name: `app/[slug]/**`.
    """
    if not path.is_relative_to(base):
        return False
    relative = path.relative_to(base).as_posix()
    return any(
        _matches(reading, relative) for glob in globs for reading in with_names_in_brackets(glob.removeprefix("./"))
    )


def with_names_in_brackets(glob: str) -> tuple[str, ...]:
    r"""Return `glob`, and the same with its brackets as part of names, and also its braces if they hold no choice.

    >>> with_names_in_brackets("app/[slug]/*.{ts,tsx}")
    ('app/[slug]/*.{ts,tsx}', 'app/\\[slug]/*.{ts,tsx}')
    """
    named = _OPENING_BRACKET.sub(r"\\[", glob)
    plain = _LONE_BRACES.sub(r"\\{\g<inside>\\}", named)
    return tuple(dict.fromkeys((glob, named, plain)))


_OPENING_BRACKET = lazy_pattern(r"(?<!\\)\[(?![*?\[\\{\s]\])")
_LONE_BRACES = lazy_pattern(r"(?<!\\)\{(?P<inside>[^{},/]*)\}")

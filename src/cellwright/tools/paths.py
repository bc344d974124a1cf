"""Paths as the model gives them: resolved, shown, and explained when they lead nowhere."""

from __future__ import annotations

import difflib
import errno
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cellwright.errors import ErrorCode, ToolError
from cellwright.text import LOOK_ALIKES, look_alike_words, visible

NAMES_LOOKED_AT = 5_000
"""The number of names of a folder that are compared to find the one that was meant."""

INVALID_PATH_ERRNOS = {errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP}


def resolve_path(cwd: Path, file_path: str) -> Path:
    """The path that `file_path` names, from `cwd` if relative. Nothing is expanded: the policy decided on this text."""
    if not file_path or "\0" in file_path:
        raise ToolError("The path is empty or holds a null byte.", code=ErrorCode.FILE_PATH_INVALID)
    if file_path == "~" or file_path.startswith(("~/", "~\\")):
        raise ToolError(
            f"`~` is not expanded in {file_path!r}. Give the absolute path.", code=ErrorCode.FILE_PATH_INVALID
        )
    path = cwd / file_path
    return path if path.name.isascii() or os.path.lexists(path) else _shown_as(path)


def shown_name(name: str) -> str:
    """A file's name on one line, as it is listed: what is not UTF-8, or cannot be seen, is shown as something else."""
    return name if name.isprintable() else visible(os.fsencode(name).decode("utf-8", "replace")).replace("\n", "⏎")


def _shown_as(path: Path) -> Path:
    """The file of the same folder that is listed under the name of `path`, which is none itself; `path` if none is."""
    if not any(sign in path.name for sign in "\ufffd⏎⟨"):
        return path
    try:
        with os.scandir(path.parent) as entries:
            # a link may lead elsewhere, and the policy decided on this name
            near = (each for each in itertools.islice(entries, NAMES_LOOKED_AT) if not each.is_symlink())
            names = [each.name for each in near if shown_name(each.name) == path.name]
    except OSError:
        return path
    return path.with_name(names[0]) if len(names) == 1 else path


def real_path(path: Path) -> Path:
    """The file that `path` leads to, all symbolic links followed; it need not exist."""
    return Path(os.path.realpath(path))


def shown_path(cwd: Path, path: Path) -> str:
    """`path` for people and for the model: relative to `cwd` when inside, with `/`."""
    plain = Path(os.path.normpath(path))
    try:
        return plain.relative_to(cwd).as_posix()
    except ValueError:
        return plain.as_posix()


def home_path(path: Path) -> str:
    """`path` for people, with `~` for their home."""
    home = Path.home()
    return str(path) if not path.is_relative_to(home) else str("~" / path.relative_to(home))


@contextmanager
def file_errors(display_path: str) -> Iterator[None]:
    """Errors of the operating system, as something the model can act on. What is already a `ToolError` passes."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        code = ErrorCode.FILE_ACCESS_ERROR
        if isinstance(error, FileNotFoundError):
            code = ErrorCode.FILE_NOT_FOUND
        elif error.errno in INVALID_PATH_ERRNOS:
            code = ErrorCode.FILE_PATH_INVALID
        raise ToolError(f"{display_path}: {reason}.", code=code) from error


def not_found(path: Path, display_path: str) -> ToolError:
    """The error for a path that does not exist, with the names in its folder that are nearest to it."""
    folder = path.parent
    if path.is_symlink():
        hint = "It is a symbolic link, and there is nothing where it leads: LS of its folder shows where that is."
    elif not folder.is_dir():
        existing = next((parent for parent in folder.parents if parent.is_dir()), folder)
        hint = f"Its folder does not exist either; the nearest folder that does is {existing.as_posix()}."
    elif twin := _twin(folder, path.name):
        different = look_alike_words(twin, path.name, "this one")
        hint = f"A name in its folder looks the same: {twin!a}. It has {different}: write the name so."
    elif names := nearest_names(folder, path.name):
        hint = f"Did you mean {' or '.join(names)} (same folder)?"
    else:
        hint = "No name in its folder is like it. Find it with Glob or LS."
    return ToolError(f"{display_path} does not exist. {hint}", code=ErrorCode.FILE_NOT_FOUND)


def _twin(folder: Path, name: str) -> str | None:
    """A name in `folder` that looks like `name` and is another."""
    plain = name.translate(LOOK_ALIKES)
    try:
        with os.scandir(folder) as entries:
            names = (entry.name for entry in itertools.islice(entries, NAMES_LOOKED_AT))
            return next((each for each in names if each.translate(LOOK_ALIKES) == plain), None)
    except OSError:
        return None


def nearest_names(folder: Path, name: str) -> list[str]:
    """At most three names in `folder` that `name` may have been meant for."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in itertools.islice(entries, NAMES_LOOKED_AT)]
    except OSError:
        return []
    by_lower_case = {candidate.lower(): candidate for candidate in names}
    near = difflib.get_close_matches(name.lower(), by_lower_case, n=3, cutoff=0.6)
    stem = Path(name).stem.lower()
    same_stem = [candidate for candidate in sorted(names) if Path(candidate).stem.lower() == stem]
    return list(dict.fromkeys([by_lower_case[key] for key in near] + same_stem))[:3]


def existing_path(cwd: Path, file_path: str) -> tuple[Path, str]:
    """The path that `file_path` names and how it is shown; ToolError where nothing is there."""
    path = resolve_path(cwd, file_path)
    display_path = shown_path(cwd, path)
    with file_errors(display_path):
        if not path.exists():
            raise not_found(path, display_path)
    return path, display_path

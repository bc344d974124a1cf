"""The files of a plugin: copied from where they come from, and known by a hash, so that nobody changes them unasked.

A link that leads out of the plugin, and what is no file at all, refuses the whole plugin.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from cellwright.errors import CellwrightError, ErrorCode

MAX_FILES = 5_000
MAX_BYTES = 100_000_000

SKIPPED = frozenset({".git", "__pycache__", ".DS_Store"})
"""Names that are no part of a plugin."""


class PluginFile(Struct, frozen=True):
    """One entry below a plugin's folder: its path from there, what it is, and where a link leads."""

    path: str
    kind: Literal["folder", "file", "link"]
    facts: os.stat_result
    target: str = ""


def list_files(root: Path) -> list[PluginFile]:
    """Everything below `root`, in an order that does not change. Raises CellwrightError for what no plugin may hold."""
    found: list[PluginFile] = []
    size = 0
    try:
        for each in _walk(root, ""):
            found.append(each)
            size += each.facts.st_size if each.kind == "file" else 0
            if len(found) > MAX_FILES or size > MAX_BYTES:
                raise _refused(root, f"it holds more than {MAX_FILES:,} files or {MAX_BYTES // 1_000_000} MB")
    except OSError as error:
        raise _refused(root, f"{error.filename or root} cannot be read: {error.strerror}") from error
    return sorted(found, key=lambda each: each.path)


def digest_of(root: Path) -> str:
    """The hash of all files below `root`: names, contents, which can be run. Raises CellwrightError."""
    digest = hashlib.sha256()
    for each in list_files(root):
        digest.update(f"{each.kind}\0".encode() + os.fsencode(each.path) + b"\0")
        if each.kind == "link":
            digest.update(os.fsencode(each.target))
        elif each.kind == "file":
            digest.update(b"x" if each.facts.st_mode & 0o100 else b"-")
            try:
                with (root / each.path).open("rb") as opened:
                    digest.update(hashlib.file_digest(opened, "sha256").digest())
            except OSError as error:
                raise _refused(root, f"{each.path} cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def signature_of(root: Path) -> tuple[object, ...]:
    """The facts of all files below `root`, which differ when one was changed. Raises CellwrightError."""
    return tuple(
        (each.path, each.facts.st_mtime_ns, each.facts.st_ctime_ns, each.facts.st_size, each.facts.st_ino)
        for each in list_files(root)
    )


def copy_files(source: Path, target: Path) -> None:
    """Copy the plugin at `source` to `target`, which must not exist. Raises CellwrightError."""
    files = list_files(source)
    try:
        target.mkdir(parents=True, mode=0o700)
        for each in files:
            place = target / each.path
            if each.kind == "folder":
                place.mkdir(mode=0o700)
            elif each.kind == "link":
                place.symlink_to(each.target)
            else:
                shutil.copyfile(source / each.path, place, follow_symlinks=False)
                place.chmod(0o700 if each.facts.st_mode & 0o100 else 0o600)
    except OSError as error:
        shutil.rmtree(target, ignore_errors=True)
        raise CellwrightError(
            ErrorCode.FILE_ACCESS_ERROR, f"The plugin could not be copied to {target}: {error}."
        ) from error


def _walk(root: Path, below: str) -> Iterator[PluginFile]:
    with os.scandir(root / below) as entries:
        for entry in entries:
            if entry.name in SKIPPED:
                continue
            path = f"{below}/{entry.name}" if below else entry.name
            facts = entry.stat(follow_symlinks=False)
            if entry.is_symlink():
                yield PluginFile(path, "link", facts, _target(root, path))
            elif entry.is_dir(follow_symlinks=False):
                yield PluginFile(path, "folder", facts)
                yield from _walk(root, path)
            elif entry.is_file(follow_symlinks=False):
                yield PluginFile(path, "file", facts)
            else:
                raise _refused(root, f"{path} is neither a file nor a folder")


def _target(root: Path, path: str) -> str:
    """The target of the link at `path`, which is within the plugin however it is copied."""
    target = os.readlink(root / path)  # noqa: PTH115  a path as it is written
    real, whole = os.path.realpath(root / path), os.path.realpath(root)
    if os.path.isabs(target) or os.path.commonpath([real, whole]) != whole:  # noqa: PTH117
        raise _refused(root, f"the link {path} leads to {target}, which is outside of it")
    return target


def _refused(root: Path, why: str) -> CellwrightError:
    return CellwrightError(ErrorCode.CONFIG_INVALID, f"The plugin in {root} is not taken: {why}.")

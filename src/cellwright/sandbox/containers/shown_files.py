"""An image's files as the root that bubblewrap shows, where no container program runs."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cellwright.agent.calls.confinement import Container
from cellwright.sandbox.containers.image_files import ImageFiles, unpack
from cellwright.sandbox.containers.mounts import inside_variables
from cellwright.sandbox.paths import below
from cellwright.sandbox.private_folder import PrivateFolder
from cellwright.sandbox.resolved_bounds import ConfinementError
from cellwright.sessions.state_dir import state_folder
from cellwright.this_process.temporary_files import new_folder

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OWN = ("proc", "dev", "sys", "tmp")
"""The folders of a root that are never the image's."""


def files_of(container: Container) -> ImageFiles:
    """The files of `container`: the folder itself, or what its archive holds, unpacked once. Raises ConfinementError."""
    source = Path(container.files)
    try:
        status = source.stat()
    except OSError as error:
        message = f"the container's files cannot be read: {error}"
        raise ConfinementError(message) from error
    if source.is_dir() and not (source / "oci-layout").exists():
        return ImageFiles(str(source.resolve()))
    return _unpacked(container, status.st_mtime_ns, status.st_size)


def keeps_changes(container: Container) -> bool:
    """Return whether its files are a copy of ours: a folder of the user's is shown and never changed."""
    return not os.path.isdir(container.files) or Path(container.files, "oci-layout").exists()  # noqa: PTH112


@functools.lru_cache(maxsize=8)
def _unpacked(container: Container, changed: int, size: int) -> ImageFiles:
    source = Path(container.files)
    if not container.keep:
        return unpack(source, new_folder("image") / "unpacked")
    named = hashlib.sha256(repr((container.files, container.project, changed, size)).encode()).hexdigest()[:16]
    place = state_folder() / "containers" / named
    if (place / "files").is_dir():
        return ImageFiles(str(place / "files"))
    made = unpack(source, place.with_name(f"{named}.{os.getpid()}"))
    Path(made.folder).parent.rename(place)
    return ImageFiles(str(place / "files"), made.variables)


def root_arguments(files: ImageFiles, container: Container, targets: Iterable[str], *, writable: bool) -> list[str]:
    """Build bubblewrap's arguments that show `files` as the root; `targets` are what is mounted over it later.

    A folder that a target lies in is made anew, so that nothing is made among the image's files for it.
    """
    tops = [*targets, *([container.workspace] if container.workspace else [])]
    built = ["--tmpfs", "/", "--dir", "/tmp"]
    built += _shown(files.folder, "", tops, "--bind" if writable else "--ro-bind")
    if container.workspace and container.workspace != container.project:
        built += ["--dir", str(Path(container.workspace).parent), "--symlink", container.project, container.workspace]
    return built


def _shown(folder: str, place: str, targets: list[str], bind: str) -> Iterator[str]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        here = f"{place}/{entry.name}"
        if (not place and entry.name in _OWN) or here in targets:
            continue
        if entry.is_symlink():
            yield from ("--symlink", os.readlink(entry.path), here)  # noqa: PTH115
        elif entry.is_dir(follow_symlinks=False) and any(below(target, here) for target in targets):
            yield from ("--dir", here)
            yield from _shown(entry.path, here, targets, bind)
        elif entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False):
            yield from (bind, entry.path, here)


def environment(
    files: ImageFiles,
    container: Container,
    environ: Mapping[str, str],
    own_variables: Mapping[str, str],
    private: PrivateFolder,
) -> dict[str, str]:
    """The environment of a command there: the image's, the container's, and what means the same on both sides."""
    return {
        "PATH": PATH,
        "HOME": private.temporary,
        **dict(files.variables),
        **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), private.temporary),
        "XDG_CACHE_HOME": private.caches,
        **dict(container.variables),
        **inside_variables(container, environ),
        **own_variables,
    }

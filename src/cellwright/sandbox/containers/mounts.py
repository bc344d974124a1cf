"""The folders and the variables that a container gets: what a command's bounds name, each at its own path."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from cellwright.agent.calls.confinement import Confinement, Container
from cellwright.sandbox.containers.engine import Mount
from cellwright.sandbox.paths import below, exists
from cellwright.sandbox.private_folder import PrivateFolder
from cellwright.sandbox.resolved_bounds import Bounds, ConfinementError
from cellwright.text import lazy_pattern

MOST_MOUNTS = 200

_PASSED_ON = lazy_pattern(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|NO_COLOR|COLUMNS|LINES|CI|CLAUDECODE|PAGER|GIT_PAGER|GIT_TERMINAL_PROMPT"
    r"|GIT_OPTIONAL_LOCKS"
)
"""The variables of ours that mean the same inside. All others are of this machine: its paths, its user, its secrets."""


class ContainerMounts(Struct, frozen=True):
    """The places of this machine that a container shows, outermost first; equal ones are the same container."""

    mounts: tuple[Mount, ...]

    def shows(self, path: str) -> bool:
        """Return whether the file or folder at `path` is there inside."""
        over = [mount for mount in self.mounts if below(path, mount.target)]
        return bool(over) and bool(over[-1].source)


def mounts_of(confinement: Confinement, bounds: Bounds, private: PrivateFolder, shared: str) -> ContainerMounts:
    """The mounts for `bounds`; `shared` is the folder by which we and what runs inside hand files to each other."""
    made = {path: Mount(path, path) for path in (*bounds.read, *bounds.data)}
    made |= {path: Mount(path, path, writable=True) for path in bounds.write}
    made |= {path: Mount(path, path) for path in bounds.protected}
    made = {path: mount for path, mount in made.items() if exists(path) and path != "/"}
    for path in bounds.hidden:
        if exists(path) and any(below(path, each) for each in made):
            made[path] = Mount("" if Path(path).is_dir() else private.unreadable(folder=False), path)
    made[shared] = Mount(shared, shared, writable=True)
    container = confinement.container
    if container is not None and container.workspace not in ("", container.project):
        inside = [mount for mount in made.values() if below(mount.target, container.project)]
        for mount in inside:
            target = container.workspace.rstrip("/") + mount.target.removeprefix(container.project)
            made[target] = Mount(mount.source, target, mount.writable)
    # what lies deeper is mounted later
    return ContainerMounts(tuple(made[path] for path in sorted(made, key=lambda path: path.rstrip("/").split("/"))))


def why_not(confinement: Confinement, bounds: Bounds) -> str:
    """Say why mounts cannot enforce `bounds`; "" where they can."""
    if bounds.staged:
        return "a container's changes reach the project at once, so that they cannot be judged before they are made"
    if bounds.network == "hosts":
        return "a container reaches every host or none"
    first = next(missing(bounds), "")
    if first and not confinement.keeps_installed:
        return f"{first} is protected and does not exist yet, which no mount of a container can protect"
    count = len(bounds.hidden) + len(bounds.protected)
    return f"{count:,} places are hidden or protected, and {MOST_MOUNTS} can be" if count > MOST_MOUNTS else ""


def check(confinement: Confinement, bounds: Bounds) -> None:
    """Raise ConfinementError where mounts cannot enforce `bounds`."""
    if why := why_not(confinement, bounds):
        raise ConfinementError(why)


def missing(bounds: Bounds) -> Iterator[str]:
    """Return the protected places of `bounds` that do not exist yet."""
    return (path for path in bounds.protected if not exists(path))


def inside_variables(container: Container, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are passed on, and git's settings for a project whose files belong to another user."""
    kept = {name: value for name, value in environ.items() if _PASSED_ON.fullmatch(name)}
    return {
        **kept,
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": container.project,
        "GIT_DISCOVERY_ACROSS_FILESYSTEM": "1",
    }


def called_inside(arguments: Sequence[str], confinement: Confinement) -> list[str]:
    """The command line as it is there: a program that is not in the session's folders goes by its name alone.

    A Python of this machine's is the image's `python3`.
    """
    program = arguments[0]
    folders = [os.path.realpath(folder) for folder in (*confinement.read, *confinement.write)]
    # a virtual environment of the project is a link to an interpreter that is not there
    if os.sep in program and any(below(os.path.realpath(program), folder) for folder in folders):
        return list(arguments)
    name = Path(program).name
    return ["python3" if name.startswith("python") else name, *arguments[1:]]

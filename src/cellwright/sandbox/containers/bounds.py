"""The bounds of a command in a container: its folders and variables, what is enforced, and by which program of this machine.

What a command's bounds name is mounted at its own path.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.calls.confinement import Confinement, Container
from cellwright.permissions.sandboxing import SandboxAbilities, SandboxRules
from cellwright.sandbox.containers.engine import Mount, find_engine, why_no_engine
from cellwright.sandbox.paths import below, exists
from cellwright.sandbox.private_folder import PrivateFolder
from cellwright.sandbox.resolved_bounds import Bounds, ConfinementError, bounds_of
from cellwright.text import lazy_pattern

MOST_MOUNTS = 200

_PASSED_ON = lazy_pattern(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|NO_COLOR|COLUMNS|LINES|CI|CLAUDECODE|PAGER|GIT_PAGER|GIT_TERMINAL_PROMPT"
    r"|GIT_OPTIONAL_LOCKS"
)
"""The variables of ours that mean the same inside. All others are of this machine: its paths, its user, its secrets."""


def rules_in_container(rules: SandboxRules, container: Container) -> SandboxRules:
    """The `rules` as they hold in `container`: every command is confined there. Without `abilities` nothing can run it.

    That a command needs no question because it is confined holds there only where it holds on this machine as well.
    """
    rules = replace(rules, enabled=True, auto_allow=rules.enabled and rules.auto_allow, in_container=None)
    engine = None
    if container.program != "bubblewrap" and not is_folder_of_files(container):
        engine = find_engine(container.program)
    if engine is not None:
        found = dataclasses.replace(container, program=engine.kind)
        name = f"container {found.name} by {engine.kind.title()}"
        means = SandboxAbilities(name=name, hides=True, protects=True, hosts=False, why_not=why_not_by_mounts)
        return replace(rules, container=found, means=means)
    machine = rules.abilities
    if container.files and container.program in ("", "bubblewrap") and machine is not None and machine.protects:
        found = dataclasses.replace(container, program="bubblewrap")
        name = f"container {found.name} by bubblewrap"
        return replace(rules, container=found, means=replace(machine, name=name, hosts=False))
    return replace(rules, container=container, means=None)


def why_no_container(container: Container) -> str:
    """Say why nothing here can run `container`, and what to do."""
    if is_folder_of_files(container) and container.program not in ("", "bubblewrap"):
        return (
            f"{container.files} is a folder with files, and {container.program} takes an archive of an image. Leave "
            "`program` out, and bubblewrap shows the folder."
        )
    if container.files and container.program in ("", "bubblewrap"):
        return (
            f"the files in {container.files} need bubblewrap, which does not work here (`/sandbox` says why). Install it "
            "(`apt install bubblewrap`), or Podman or Docker and name an image."
        )
    return (
        f"no program runs containers here ({why_no_engine(container.program)}). Install Podman (`apt install podman`) or "
        "start Docker. Where neither can run, unpack the image and name its folder: "
        '`"container": {"files": "/path/to/rootfs"}`, which bubblewrap shows.'
    )


def is_folder_of_files(container: Container) -> bool:
    """Return whether it is a folder with an image's files as they are, which no container program takes."""
    return os.path.isdir(container.files) and not Path(container.files, "oci-layout").exists()  # noqa: PTH112


def why_not_by_mounts(confinement: Confinement) -> str:
    """Say why Podman or Docker cannot enforce `confinement`; "" where they can."""
    try:
        cwd = next(iter((*confinement.write, *confinement.read)), "/")
        return why_not_mounted(confinement, bounds_of(confinement, os.environ, cwd))
    except ConfinementError as error:
        return str(error)


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


def why_not_mounted(confinement: Confinement, bounds: Bounds) -> str:
    """Say why mounts cannot enforce `bounds`; "" where they can."""
    if bounds.staged:
        return "a container's changes reach the project at once, so that they cannot be judged before they are made"
    if bounds.network == "hosts":
        return "a container reaches every host or none"
    first = next(missing_mounts(bounds), "")
    if first and not confinement.keeps_installed:
        return f"{first} is protected and does not exist yet, which no mount of a container can protect"
    count = len(bounds.hidden) + len(bounds.protected)
    return f"{count:,} places are hidden or protected, and {MOST_MOUNTS} can be" if count > MOST_MOUNTS else ""


def check_mounts(confinement: Confinement, bounds: Bounds) -> None:
    """Raise ConfinementError where mounts cannot enforce `bounds`."""
    if why := why_not_mounted(confinement, bounds):
        raise ConfinementError(why)


def missing_mounts(bounds: Bounds) -> Iterator[str]:
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

"""The rules for commands that run in a container: what it enforces, and by which program of this machine."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from msgspec.structs import replace

from cellwright.agent.calls.confinement import Confinement, Container
from cellwright.permissions.sandboxing import SandboxAbilities, SandboxRules
from cellwright.sandbox.containers import mounts
from cellwright.sandbox.containers.engine import find_engine, why_no_engine
from cellwright.sandbox.resolved_bounds import ConfinementError, bounds_of


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
        return mounts.why_not(confinement, bounds_of(confinement, os.environ, cwd))
    except ConfinementError as error:
        return str(error)

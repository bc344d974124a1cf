"""Containers and images of ours whose process is gone: found by their labels, and removed unless they are to be kept."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from cellwright.sandbox.containers.engine import LABEL, PROGRAMS, Engine, find_engine
from cellwright.sandbox.resolved_bounds import ConfinementError
from cellwright.this_process.other_processes import runs


class LeftOver(Struct, frozen=True):
    """A container of ours: the program that has it, its name, its project, and whether it is to be kept."""

    program: str
    name: str
    project: str
    keep: bool
    owned: bool


def owner() -> str:
    """This process in a label: its number, and when it began, since numbers are given again."""
    return _owner(os.getpid())


def is_alive(owned_by: str) -> bool:
    """Return whether the process that a label names still runs."""
    number = owned_by.partition(".")[0]
    return number.isdecimal() and _owner(int(number)) == owned_by


def our_containers(engine: Engine) -> Iterator[LeftOver]:
    """Find all containers of ours. Raises ConfinementError if the program does not say."""
    listed = engine.ask("ps", "--all", "--filter", f"label={LABEL}=1", "--format", "{{.Names}}")
    for name in listed.split():
        labels = labels_of(engine, name)
        yield LeftOver(
            program=engine.kind,
            name=name,
            project=labels.get(f"{LABEL}.project", ""),
            keep=labels.get(f"{LABEL}.keep") == "yes",
            owned=is_alive(labels.get(f"{LABEL}.owner", "")),
        )


def labels_of(engine: Engine, name: str) -> dict[str, str]:
    """The labels of a container; {} where it is gone."""
    with contextlib.suppress(ConfinementError, ValueError):
        found = json.loads(engine.ask("container", "inspect", "--format", "{{json .Config.Labels}}", name))
        return found if isinstance(found, dict) else {}
    return {}


def remove_left_over(engine: Engine) -> list[str]:
    """Remove what processes that are gone have left and nobody wants kept; the names."""
    removed = []
    with contextlib.suppress(ConfinementError):
        for each in our_containers(engine):
            if not each.owned and not each.keep:
                engine.ask("rm", "--force", each.name)
                removed.append(each.name)
    with contextlib.suppress(ConfinementError):
        listed = engine.ask("images", "--filter", f"label={LABEL}.owner", "--format", "{{.ID}}")
        for image in dict.fromkeys(listed.split()):
            label = f'{{{{index .Config.Labels "{LABEL}.owner"}}}}'
            if not is_alive(engine.ask("image", "inspect", "--format", label, image).strip()):
                engine.ask("rmi", image)
    return removed


def all_left_over() -> list[LeftOver]:
    """The containers of ours that no running process owns, of every container program that runs here."""
    found = []
    for program in PROGRAMS:
        engine = find_engine(program)
        if engine is not None:
            with contextlib.suppress(ConfinementError):
                found += [each for each in our_containers(engine) if not each.owned]
    return found


def _owner(pid: int) -> str:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return "" if Path("/proc/self").exists() or not runs(pid) else str(pid)
    return f"{pid}.{fields[19]}"

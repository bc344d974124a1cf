"""A command line of ours as it is in a container: the program's name there, and the variables that it gets from us."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from cellwright.agent.calls.confinement import Confinement, Container
from cellwright.sandbox.paths import below
from cellwright.text import lazy_pattern

_PASSED_ON = lazy_pattern(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|NO_COLOR|COLUMNS|LINES|CI|CLAUDECODE|PAGER|GIT_PAGER|GIT_TERMINAL_PROMPT"
    r"|GIT_OPTIONAL_LOCKS"
)
"""The variables of ours that mean the same inside. All others are of this machine: its paths, its user, its secrets."""


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

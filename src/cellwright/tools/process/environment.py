"""The environment of a child process: the user's own, less secrets and less what would run code in it."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from cellwright.redaction.redaction import is_secret
from cellwright.text import lazy_pattern

_OURS = lazy_pattern(r"(ANTHROPIC|JPY|CELLWRIGHT)_.*", re.IGNORECASE)
"""Variables that are withheld whatever they hold: settings of the model, of the kernel and of ours."""

_INJECTION = lazy_pattern(
    r"""
    (BASH_FUNC_.* | BASH_ENV | ENV | SHELLOPTS | BASHOPTS | BASH_XTRACEFD | PS4 | PROMPT_COMMAND | CDPATH | GLOBIGNORE
    | EXECIGNORE | LD_PRELOAD | LD_AUDIT | DYLD_INSERT_LIBRARIES | PYTHONSTARTUP | PYTHONINSPECT | PERL5OPT | PERL5DB
    | RUBYOPT | LESSOPEN | LESSCLOSE | GIT_EXTERNAL_DIFF | GIT_ASKPASS | SSH_ASKPASS)
    """,
    re.VERBOSE,
)
_ELSEWHERE = lazy_pattern(r"FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|GIT_CONFIG_(COUNT|KEY_\d+|VALUE_\d+)")
"""The variables that ipykernel sets for its own output, whose colours would only cost tokens, and git's settings."""

_FIXED = {
    **{"CLAUDECODE": "1", "PAGER": "cat", "GIT_PAGER": "cat", "TERM": "dumb", "GIT_TERMINAL_PROMPT": "0"},
    "GIT_OPTIONAL_LOCKS": "0",  # looking at a repository must not lock out what the user does in it
}


def runs_code_at_start(name: str) -> bool:
    """Return whether programs run what the variable `name` says, or other programs, when they start."""
    return _INJECTION.fullmatch(name) is not None


def child_environment(environ: Mapping[str, str], programs: Path | None = None) -> dict[str, str]:
    """The environment of a command: no secrets, nothing that runs code at its start, this interpreter's programs first.

    `programs` is the folder that goes first on PATH (default: this interpreter's); what is relative on PATH goes.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if not (
            is_secret(name, value) or _OURS.fullmatch(name) or _ELSEWHERE.fullmatch(name) or _INJECTION.fullmatch(name)
        )
    }
    if kept.get("MPLBACKEND", "").startswith("module://"):
        del kept["MPLBACKEND"]  # the notebook's: a script has no front end to draw to
    first = str(Path(sys.executable).parent if programs is None else programs)
    # an empty or relative entry finds programs that the folder brings along
    rest = [
        part for part in kept.get("PATH", os.defpath).split(os.pathsep) if Path(part).is_absolute() and part != first
    ]
    return {**kept, **_FIXED, **_git_configuration(environ), "PATH": os.pathsep.join([first, *rest])}


def _git_configuration(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables with the settings of git that `environ` has, less secret ones, and one of ours.

    GIT_OPTIONAL_LOCKS does not keep `git diff` from writing the index; `diff.autoRefreshIndex` does.
    """
    count = environ.get("GIT_CONFIG_COUNT") or "0"
    if not re.fullmatch("[0-9]{1,3}", count):
        return {"GIT_CONFIG_COUNT": count}  # git refuses to start, and says why
    pairs = [
        (environ.get(f"GIT_CONFIG_KEY_{n}", ""), environ.get(f"GIT_CONFIG_VALUE_{n}", "")) for n in range(int(count))
    ]
    pairs = [(key, value) for key, value in pairs if key and not is_secret(key.rpartition(".")[2], value)]
    variables = {"GIT_CONFIG_COUNT": str(len(pairs) + 1)}
    for number, (key, value) in enumerate([*pairs, ("diff.autoRefreshIndex", "false")]):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


def own_module_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """`child_environment`, in which `python -m cellwright.…` imports this very package."""
    child = child_environment(environ)
    paths = [str(Path(path).absolute()) for path in child.get("PYTHONPATH", "").split(os.pathsep) if path]
    own = str(Path(__file__).parents[3])  # the folder that the package is in
    if own not in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *paths):
        paths.append(own)
    return {**child, "PYTHONPATH": os.pathsep.join(paths)} if paths else child

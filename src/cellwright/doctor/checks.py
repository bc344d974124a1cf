"""Can we write where we have to, is it for the user alone, and is there room."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from cellwright.doctor.check import Check, Finding
from cellwright.sessions.state_dir import PRIVATE_FOLDER, state_folder

LITTLE_BYTES = 1_000_000_000
TOO_LITTLE_BYTES = 50_000_000


def folder_checks(cwd: Path) -> list[Check]:
    """The checks of folders."""
    return [
        Check("state folder", lambda: state(state_folder())),
        Check("working folder", lambda: working_folder(cwd)),
        Check("temporary folder", lambda: temporary(Path(tempfile.gettempdir()))),
        Check("disk space", lambda: disk_space(state_folder())),
    ]


def state(folder: Path) -> Finding:
    """Where sessions are kept: written before anything is acted on."""
    if reason := _unwritable(folder):
        advice = "Sessions cannot be kept. Make it writable, or set CELLWRIGHT_HOME to a folder that is."
        return Finding("state folder", "problem", f"{folder}: {reason}", advice)
    if not folder.exists():
        return Finding("state folder", "ok", f"{folder} (made with the first prompt)")
    mode = folder.stat().st_mode & 0o777
    if os.name == "posix" and mode & ~PRIVATE_FOLDER:
        found = f"{folder} is open to others (mode {mode:04o})"
        return Finding("state folder", "warning", found, f"It holds your conversations: chmod 700 '{folder}'")
    return Finding("state folder", "ok", str(folder))


def working_folder(cwd: Path) -> Finding:
    """The folder that Claude works in."""
    if reason := _unwritable(cwd):
        advice = "Claude can read here, but change nothing. CELLWRIGHT_BASE_PATH names another folder."
        return Finding("working folder", "warning", f"{cwd}: {reason}", advice)
    return Finding("working folder", "ok", str(cwd))


def temporary(folder: Path) -> Finding:
    """Where long outputs of tools go."""
    if reason := _unwritable(folder):
        advice = "Long outputs of commands cannot be kept. TMPDIR names another folder."
        return Finding("temporary folder", "problem", f"{folder}: {reason}", advice)
    return Finding("temporary folder", "ok", str(folder))


def disk_space(folder: Path) -> Finding:
    """What is left where sessions are kept."""
    free = shutil.disk_usage(_nearest(folder)).free
    found = f"{free / 1e9:,.1f} GB free"
    if free < TOO_LITTLE_BYTES:
        return Finding("disk space", "problem", found, f"Sessions cannot be kept: make room where {folder} is.")
    if free < LITTLE_BYTES:
        return Finding("disk space", "warning", found, f"Make room where {folder} is.")
    return Finding("disk space", "ok", found)


def _unwritable(folder: Path) -> str:
    """Why nothing can be written there, or made where it is missing; "" where it can. What is tried is taken away again."""
    there = _nearest(folder)
    if not there.is_dir():
        return f"{there} is no folder"
    try:
        # to be tried: what the modes allow is not all that counts (read-only disks, quotas, containers)
        with tempfile.TemporaryDirectory(prefix=".cellwright-", dir=there):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _nearest(folder: Path) -> Path:
    return next((each for each in (folder, *folder.parents) if each.exists()), folder)

"""Are the settings files valid, and does what the folder says count."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cellwright.config.settings.read import read_all
from cellwright.config.settings.settings import Settings
from cellwright.config.trust.trust import judge
from cellwright.doctor.check import Check, Finding

MOST_NOTICES = 5


def settings_checks(cwd: Path, environ: Mapping[str, str], settings: Settings) -> list[Check]:
    """The checks of settings and trust."""
    return [
        Check("settings", lambda: files(cwd, environ, settings)),
        Check("trust", lambda: trust(cwd, environ)),
    ]


def files(cwd: Path, environ: Mapping[str, str], settings: Settings) -> Finding:
    """What is wrong with the settings files."""
    reading = read_all(cwd, environ)
    named = sorted({str(entry.layer.file) for entry in reading.entries if entry.layer.file is not None})
    notices = list(dict.fromkeys((*reading.notices, *settings.notices)))
    if not notices:
        return Finding("settings", "ok", ", ".join(named) or "none: the defaults hold")
    shown = "\n".join(notices[:MOST_NOTICES])
    more = len(notices) - MOST_NOTICES
    found = f"{shown}\n… {more} more" if more > 0 else shown
    return Finding("settings", "problem" if reading.broken else "warning", found, "`/config` shows what counts.")


def trust(cwd: Path, environ: Mapping[str, str]) -> Finding:
    """Whether something of the folder waits until its user trusts it."""
    judged = judge(read_all(cwd, environ), environ)
    if judged.waiting:
        found = f"{len(judged.waiting)} settings or tools of {judged.folder} do not count yet"
        return Finding("trust", "warning", found, "The next prompt here asks about them; `/permissions` lists them.")
    return Finding(
        "trust", "ok", f"{judged.folder} is {'trusted' if judged.trusted else 'not asked about: it brings nothing'}"
    )

"""`examine`: all checks at once, each within its time."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.config.settings.settings import Settings, load_settings
from cellwright.doctor.check import Check, Finding
from cellwright.doctor.environment_checks import (
    connection_checks,
    folder_checks,
    program_checks,
    sandbox_checks,
    settings_checks,
)
from cellwright.doctor.installation_checks import installation_checks, library_checks
from cellwright.redaction.redaction import redaction_of
from cellwright.version import VERSION

SECONDS = 5.0
"""The time a check may take."""


class ExaminedEnvironment(Struct, frozen=True):
    """Whose health is asked for: the folder a conversation works in, its environment, its settings."""

    cwd: Path
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    settings: Settings | None = None
    """None: read anew."""


class Examination(Struct, frozen=True):
    """All findings, in the order of the checks."""

    findings: Sequence[Finding]
    seconds: float

    @property
    def problems(self) -> int:
        return sum(finding.status == "problem" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """`{"version", "problems", "seconds", "findings": [{"name", "status", "found", "advice"}, …]}`."""
        return {
            "version": VERSION,
            "problems": self.problems,
            "seconds": round(self.seconds, 3),
            "findings": [finding.to_json() for finding in self.findings],
        }


def examine(
    patient: ExaminedEnvironment, *, offline: bool = False, more: Sequence[Check] = (), seconds: float = SECONDS
) -> Examination:
    """Run all checks at once, and `more`, a face's own; blocks for hardly more than `seconds`. `offline`: ask no network.

    Never raises: a check that fails or takes too long is a finding. No secret of the environment is in any of them.
    """
    started = time.monotonic()
    checks = [check for check in (*_checks(patient), *more) if not (offline and check.online)]
    found = _run_all(checks, seconds)
    redaction = redaction_of(patient.environ)
    cleaned = [
        replace(each, found=redaction.clean(each.found).text, advice=redaction.clean(each.advice).text)
        for each in found
    ]
    return Examination(cleaned, time.monotonic() - started)


def _checks(patient: ExaminedEnvironment) -> list[Check]:
    settings = patient.settings or load_settings(patient.cwd, patient.environ)
    environ = {**patient.environ, **settings.env}
    return [
        *installation_checks(),
        *library_checks(),
        *connection_checks(environ, settings),
        *program_checks(environ),
        *sandbox_checks(settings),
        *folder_checks(patient.cwd),
        *settings_checks(patient.cwd, patient.environ, settings),
    ]


def _run_all(checks: Sequence[Check], seconds: float) -> list[Finding]:
    ended: queue.SimpleQueue[tuple[int, Finding]] = queue.SimpleQueue()

    def run(number: int, check: Check) -> None:
        try:
            finding = check.run()
        except Exception as error:  # noqa: BLE001  whatever is wrong with one thing, the others are looked at
            finding = Finding(check.name, "problem", f"the check failed with {type(error).__name__}: {error}")
        ended.put((number, finding))

    for number, check in enumerate(checks):
        # daemons: what hangs does not keep the process
        threading.Thread(target=run, args=(number, check), name=f"cellwright-doctor-{number}", daemon=True).start()
    too_slow = (
        f"it could not be found out within {seconds:g} s",
        "Try again; if it happens again, something hangs here.",
    )
    found = {number: Finding(check.name, "warning", *too_slow) for number, check in enumerate(checks)}
    ends = time.monotonic() + seconds
    for _ in checks:
        try:
            number, finding = ended.get(timeout=max(ends - time.monotonic(), 0))
        except queue.Empty:
            break
        found[number] = finding
    return list(found.values())

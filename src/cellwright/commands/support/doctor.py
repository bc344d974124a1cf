"""`/doctor`: what keeps Cellwright from working here, and what to do about it."""

from __future__ import annotations

import asyncio

from cellwright.commands.command import CommandCall, CommandPage, Section
from cellwright.doctor.check import Finding
from cellwright.doctor.examination import Examination, ExaminedEnvironment, examine
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.version import documented

DOCTOR = "[--offline]"
_SIGNS = {"ok": "✓", "warning": "!", "problem": "✗"}


async def doctor_page(call: CommandCall) -> CommandPage:
    """Examine this conversation's surroundings."""
    if call.text not in ("", "--offline"):
        message = f"/doctor takes {DOCTOR}, not {call.text!r}. Nothing was sent."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    conversation = call.conversation
    patient = ExaminedEnvironment(conversation.cwd, conversation.in_force.environ, conversation.in_force.settings)
    checks = tuple(conversation.checks())
    examination = await asyncio.to_thread(examine, patient, offline=call.text != "", more=checks)
    return page_of(examination)


def page_of(examination: Examination) -> CommandPage:
    """Show what was found, starting with what needs something done about it."""
    bad = [finding for finding in examination.findings if finding.status != "ok"]
    good = [finding for finding in examination.findings if finding.status == "ok"]
    bad.sort(key=lambda finding: finding.status != "problem")
    problems, warnings = examination.problems, len(bad) - examination.problems
    title = f"Doctor: {_counted(problems, 'problem')}, {_counted(warnings, 'warning')}"
    sections = [
        Section(title, text=f"{len(examination.findings)} things were looked at in {examination.seconds:.1f} s.")
    ]
    sections += [Section(f"{_SIGNS[each.status]} {each.name}", text=_finding_text(each)) for each in bad]
    if good:
        sections.append(Section("✓ Well", [("what", "found"), *((each.name, _finding_text(each)) for each in good)]))
    if bad:
        sections.append(
            Section("More help", text=f"{documented('troubleshooting')} explains these and other problems.")
        )
    return CommandPage(sections)


def _finding_text(finding: Finding) -> str:
    """Say what was found, and under it what to do."""
    words = "\n".join(part for part in (finding.found, f"→ {finding.advice}" if finding.advice else "") if part)
    return words.replace("\n", "\n  ")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}" if number else f"no {what}s"

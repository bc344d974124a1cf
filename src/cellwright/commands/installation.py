"""`/doctor`, `/bug` and `/upgrade`: what keeps this installation from working, a report on it, and another version of it.

The user reads the report before sending it; nothing is sent from here. The program that installed the package upgrades
it; the files it left behind name it.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import platform
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlencode

from msgspec import Struct

from cellwright.commands.command import CommandCall, CommandPage, Section
from cellwright.doctor.check import Finding
from cellwright.doctor.examination import Examination, ExaminedEnvironment, examine
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.conversation import Conversation
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder, state_folder, write_atomic
from cellwright.telemetry.log_file import last_lines
from cellwright.text import code_fence
from cellwright.version import VERSION, documented

DOCTOR = "[--offline]"
_SIGNS = {"ok": "✓", "warning": "!", "problem": "✗"}

BUG = "[with-messages] [TITLE]"
WITH_MESSAGES = "with-messages"

_LEVELS = ("WARNING", "ERROR", "CRITICAL")
_ISSUES = ("issues", "bug tracker", "bug reports", "tracker")

NAME = "cellwright"
RESTARTS = [
    ("what changed", "what to start anew"),
    ("the agent, the magics, the tools", "each kernel that has loaded Cellwright"),
    ("the panel, the cells' toolbar", "reload the page of JupyterLab"),
    ("the server's part", "Jupyter Server"),
    ("the command `cellwright`", "nothing: the next call is the new one"),
]


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


async def bug_page(call: CommandCall) -> CommandPage:
    """Write the report, and show where it is and what is in it. Raises CellwrightError FILE_ACCESS_ERROR."""
    first, _, rest = call.text.strip().partition(" ")
    with_messages = first == WITH_MESSAGES
    title = rest.strip() if with_messages else call.text.strip()
    text = await asyncio.to_thread(_report, call.conversation, title, with_messages=with_messages)
    file = await asyncio.to_thread(_kept, text)
    lines = ["Read it, remove anything private, then attach it. Nothing was sent."]
    if address := issue_address(call.conversation.redaction.clean(title).text):
        lines.append(f"Open an issue: {address}")
    else:
        lines.append("This package names no page for issues: give the file to whoever gave you Cellwright.")
    if not with_messages:
        lines.append(f"It contains nothing of the conversation; /bug {WITH_MESSAGES} adds the last messages.")
    return CommandPage([Section(f"The report is in {file}", text="\n".join(lines), code=text)])


def issue_address(title: str) -> str:
    """The address of a new issue with `title`, on the page that our package names; "" where it names none."""
    try:
        named = importlib.metadata.metadata("cellwright").get_all("Project-URL") or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    pages = {label.strip().lower(): url.strip() for label, _, url in (each.partition(",") for each in named)}
    page = next((pages[label] for label in _ISSUES if label in pages), "")
    body = f"Cellwright {VERSION}, Python {platform.python_version()}, {platform.system()}\n\n(attach the report)"
    return f"{page.rstrip('/')}/new?{urlencode({'title': title, 'body': body})}" if page.startswith("https://") else ""


def _report(conversation: Conversation, title: str, *, with_messages: bool) -> str:
    in_force = conversation.in_force
    examined = ExaminedEnvironment(conversation.cwd, in_force.environ, in_force.settings)
    findings = examine(examined, offline=True, more=tuple(conversation.checks())).findings
    errors = [line for line in last_lines(400) if any(f" {level} " in line for level in _LEVELS)]
    parts = [
        f"# {title or 'A report about Cellwright'}",
        f"Cellwright {VERSION}, Python {platform.python_version()}, {platform.platform()}",
        "## The doctor",
        "\n".join(f"- {each.status}: {each.name}: {' '.join(each.found.split())}" for each in findings),
        "## The last warnings and errors of the log",
        _fenced(errors[-60:]) or "None.",
    ]
    if with_messages:
        parts += ["## The last messages", *_messages(conversation)]
    report = conversation.redaction.clean("\n\n".join(parts) + "\n").text
    home = in_force.environ.get("HOME", "")
    for folder in {home, str(Path.home()), os.path.realpath(home or "/nowhere")} - {"", "/"}:
        report = report.replace(folder, "~")  # folders tell the name of their user
    return report


def _messages(conversation: Conversation) -> list[str]:
    found: list[str] = []
    for message in conversation.sessions.current.messages[-6:]:
        content = message["content"]
        texts = [content] if isinstance(content, str) else [str(each.get("text") or each) for each in content]
        # cut when it has no secrets any more: half of one is not known
        texts = [conversation.redaction.clean(text).text[:4_000] for text in texts]
        found.append(f"**{message['role']}**\n\n{_fenced(texts)}")
    return found or ["None."]


def _fenced(lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    fence = code_fence(text)
    return f"{fence}\n{text}\n{fence}" if lines else ""


def _kept(text: str) -> Path:
    folder = state_folder() / "bug-reports"
    file = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}.md"
    try:
        make_private_folder(folder)
        write_atomic(file, text.encode("utf-8", "replace"), PRIVATE_FILE)
    except OSError as error:
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, f"{file} could not be written: {error}.") from error
    return file


def upgrade_page(_call: CommandCall) -> CommandPage:
    """Say how to upgrade; nothing is run."""
    return upgrade_sections()


def upgrade_sections() -> CommandPage:
    """The page, which needs no conversation."""
    found = find_upgrade()
    head = f"Cellwright {VERSION}, installed by {found.installer}"
    restarts = Section("After that", RESTARTS, "Sessions are kept: /resume continues them.")
    return CommandPage([Section(head, text=found.note, code=found.command), restarts])


class Upgrade(Struct, frozen=True):
    """The program that installed us, and the command that upgrades; "" for a checkout, which its owner brings up to date."""

    installer: str
    command: str
    note: str = ""


def _metadata(name: str) -> str:
    """The text of one of the files that were installed beside the package; "" where there is none."""
    try:
        return importlib.metadata.distribution(NAME).read_text(name) or ""
    except (importlib.metadata.PackageNotFoundError, OSError, UnicodeDecodeError):
        return ""


def find_upgrade(
    prefix: Path | None = None, python: str | None = None, metadata: Callable[[str], str] = _metadata
) -> Upgrade:
    """Find out how the installation in `prefix`, whose interpreter is `python`, is upgraded (default: this one).

    `metadata` gives the texts of the files that were installed beside the package.
    """
    prefix, python = prefix or Path(sys.prefix), shlex.quote(python or sys.executable)
    if source := _checkout(metadata("direct_url.json")):
        return Upgrade("a checkout", "", f"It runs from {source}: bring that up to date, then `make build` there.")
    if (prefix / "pipx_metadata.json").exists():
        return Upgrade("pipx", f"pipx upgrade {NAME}")
    if (prefix / "uv-receipt.toml").exists():
        return Upgrade("uv tool", f"uv tool upgrade {NAME}")
    if any((prefix / "conda-meta").glob(f"{NAME}-[0-9]*.json")):
        return Upgrade("conda", f"conda update --prefix {shlex.quote(str(prefix))} {NAME}", "mamba takes the same.")
    if metadata("INSTALLER").strip().lower() == "uv":
        note = f"In a project of uv's: `uv lock --upgrade-package {NAME}`, then `uv sync`."
        return Upgrade("uv", f"uv pip install --python {python} --upgrade {NAME}", note)
    note = (
        "The environment is conda's, and this package pip's: pip upgrades it."
        if (prefix / "conda-meta").is_dir()
        else ""
    )
    return Upgrade("pip", f"{python} -m pip install --upgrade {NAME}", note)


def _checkout(direct_url: str) -> str:
    """The folder that an editable installation runs from; "" for any other."""
    try:
        said = json.loads(direct_url or "{}")
        editable = said.get("dir_info", {}).get("editable") is True
    except (ValueError, AttributeError):
        return ""
    return str(said.get("url", "")).removeprefix("file://") if editable else ""

"""The guides quote messages, commands, options and settings: all of them are there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cellwright.commands.registry import COMMANDS, INSTEAD, OTHER_NAMES
from cellwright.config.settings.known_settings import KEYS
from cellwright.kernel.magic.options import OPTIONS
from cellwright.terminal.arguments import parse
from cellwright.terminal.subcommands.subcommand_names import SUBCOMMANDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GUIDES = ("troubleshooting.md", "completion.md", "coming-from-claude-code.md")


@pytest.fixture(params=GUIDES)
def guide(request: pytest.FixtureRequest) -> str:
    return (DOCS / request.param).read_text("utf-8")


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)


def everything_said() -> str:
    """All sources as one text, with literals that go over several lines put together."""
    files = [*(ROOT / "src" / "cellwright").rglob("*.py"), *(ROOT / "labextension" / "src").rglob("*.ts")]
    text = "\n".join(file.read_text("utf-8") for file in files)
    return re.sub(r"\"\s*\n\s*f?\"", "", text)


def test_every_message_that_is_quoted_is_said() -> None:
    rows = re.findall(r"^\| (.*?) \|", (DOCS / "troubleshooting.md").read_text("utf-8"), re.MULTILINE)
    messages = [message for row in rows for message in quoted(row)]
    said = everything_said()
    # what a version or a time stands in is quoted with …
    parts = [part.strip() for message in messages for part in message.split("…")]
    elsewhere = {"/doctor", "No module named 'cellwright'", "for 90 s", "JupyterLab extension: version"}
    assert [part for part in parts if part not in said and part not in elsewhere] == []


def test_every_slash_command_is_there(guide: str) -> None:
    named = {word for text in quoted(guide) for word in re.findall(r"(?:^|(?<=claude ))/[a-z]+(?= |$)", text)}
    assert {name[1:] for name in named} - COMMANDS.keys() - OTHER_NAMES.keys() - INSTEAD.keys() == set()


def test_every_command_line_can_be_read(guide: str) -> None:
    for text in quoted(guide):
        words = shlex.split(text.replace("…", "x")) if text.startswith("cellwright ") else []
        if words and words[1] not in SUBCOMMANDS:
            parse(words[1:])


def test_every_option_of_a_cell_is_there(guide: str) -> None:
    cells = [text for text in quoted(guide) if text.startswith("%%claude ")]
    named = {option for text in cells for option in re.findall(r"--([a-z-]+)", text)}
    assert named - set(OPTIONS) == set()


def test_every_setting_of_ours_is_there(guide: str) -> None:
    named = {text for text in quoted(guide) if re.fullmatch(r"cellwright\.[a-z]+[A-Z]\w+", text)}
    assert {name for name in named if tuple(name.split(".")) not in KEYS} == set()


def test_every_page_that_is_linked_is_there(guide: str) -> None:
    links = re.findall(r"\]\(([\w./-]+)\)", guide)
    assert [link for link in links if not (DOCS / link).is_file()] == []

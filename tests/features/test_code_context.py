"""The project's code that fits a prompt goes with it where the user wants that, within bounds and rules, for all to see."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.events import ContextAttached, Event, Notice
from cellwright.features.code_context import FILE_LINES, TAG
from cellwright.features.conversation import Conversation
from cellwright.testing import MessagesServer, say

UPLOAD = '''"""Uploads."""


def other(): ...


def retry_upload(parcel, tries=3):
    """Send a parcel again after a timeout."""
    password = "hunter2hunter2"
    for _ in range(tries):
        print(parcel)
'''


@pytest.fixture
def project(tmp_path: Path, own_place: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "secret").mkdir(parents=True)
    (folder / "upload.py").write_text(UPLOAD)
    (folder / "secret" / "parcels.py").write_text("def retry_upload_of_parcel(parcel): ...\n")
    body = "    parcel.upload()\n" * 2 * FILE_LINES
    (folder / "long.py").write_text(f"def upload_all_parcels(parcel):\n{body}")
    (folder / "config.toml").write_text("[server]\nport = 1\n")
    (folder / "note.ipynb").write_text(
        json.dumps(
            {
                "cells": [
                    {"cell_type": "code", "source": "x = 1", "metadata": {}, "outputs": []},
                    {"cell_type": "code", "source": "def show_parcel(p):\n    return p", "metadata": {}, "outputs": []},
                ],
                "metadata": {},
                "nbformat": 4,
                "nbformat_minor": 5,
            }
        )
    )
    (folder / ".claude").mkdir()
    (folder / ".claude" / "settings.json").write_text('{"permissions": {"deny": ["Read(./secret/**)"]}}')
    return folder


@pytest.fixture
def server(messages_server: Callable[..., MessagesServer]) -> MessagesServer:
    return messages_server([say("Yes.")] * 4)


@pytest.fixture
def asked(server: MessagesServer, project: Path) -> Iterator[Callable[..., tuple[str, list[Event]]]]:
    """Asks, and gives what was sent of the project's code, and all events."""
    environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key, "HOME": str(project.parent)}
    conversation = Conversation(Host(cwd=project, interface="a test", environ=environ))

    def ask(prompt: Any, **options: Any) -> tuple[str, list[Event]]:
        events: list[Event] = []
        run = conversation.start(RunRequest(prompt=prompt, options=RunOptions(**options)), RunSurface(events.append))
        conversation.jobs.work_until_done(run)
        assert run.result().error is None
        content = server.requests[-1].body["messages"][-1]["content"]
        sent = [block["text"] for block in content if block.get("text", "").startswith(f"<{TAG} ")]
        return "\n".join(sent), events

    yield ask
    conversation.close()
    assert server.rejected == []


def test_code_that_fits_is_attached_within_bounds_and_shown(asked: Callable[..., tuple[str, list[Event]]]) -> None:
    sent, events = asked("Why is retry_upload of a parcel not trying again? See config.toml", code_context=True)
    assert "\tdef other(): ..." in sent, "with some lines beside it"
    assert "7\tdef retry_upload" in sent
    assert "hunter2" not in sent
    assert "config.toml:1\n     1\t[server]" in sent, "a file that is named is there"
    assert "secret/" not in sent
    (told,) = (event for event in events if isinstance(event, ContextAttached))
    (part,) = (part for part in told.parts if part.title.startswith("Code that fits"))
    assert part.text == sent
    assert "2 places in 2 files" in part.title
    sent, _ = asked("show_parcel upload_all_parcels", code_context=True)
    assert "#cell2:1\n     2\tdef show_" in sent
    assert "upload_all_" in sent
    assert 100 < sent.count("parcel.upload()") < FILE_LINES


def test_without_anything_that_fits_the_prompt_goes_as_it_is(asked: Callable[..., tuple[str, list[Event]]]) -> None:
    sent, events = asked("qwertyuiop", code_context=True)
    assert sent == ""
    assert not [event for event in events if isinstance(event, Notice)]
    (told,) = (event for event in events if isinstance(event, ContextAttached))
    (part,) = (part for part in told.parts if part.kind == "context")
    assert part.title.startswith("No code")
    assert (part.text, part.tokens) == ("", 0)
    assert asked("retry_upload")[0] == "", "only where it is wanted"

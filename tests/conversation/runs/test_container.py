"""A conversation whose settings name a container: its commands run in there, or nothing is sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.approval import Allow, ToolUse
from cellwright.conversation.core import Host
from cellwright.conversation.runs.in_force import SandboxFound
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.errors import CellwrightError
from cellwright.events import Event, ToolEnd
from cellwright.features.conversation import Conversation
from cellwright.testing import say, turn, use
from confined import sandbox_by
from processes.container_images import make_root


class Desk:
    """A conversation with settings, the questions that it asked, and its events."""

    def __init__(self, server: Any, project: Path, home: Path, container: Any) -> None:
        self.server, self.events, self.asked = server, list[Event](), list[ToolUse]()
        (home / ".claude").mkdir()
        (home / ".claude/settings.json").write_text(json.dumps({"sandbox": {"container": container}}), "utf-8")
        environ = {
            "HOME": str(home),
            "PATH": "/usr/bin:/bin",
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": server.api_key,
        }
        machine = SandboxFound(sandbox_by("bubblewrap").abilities)
        self.conversation = Conversation(
            Host(cwd=project, interface="a test", environ=environ, find_sandbox=lambda: machine)
        )

    async def answer(self, question: ToolUse) -> Allow:
        self.asked.append(question)
        return Allow()

    def run(self) -> None:
        surface = RunSurface(self.events.append, can_use_tool=self.answer)
        assert self.conversation.start(RunRequest(prompt="Go on."), surface).future.result(120).ok

    @property
    def results(self) -> list[str]:
        return [str(event.content) for event in self.events if isinstance(event, ToolEnd)]


@pytest.fixture
def at_desk(messages_server: Any, tmp_path: Path, own_place: Path) -> Iterator[Callable[..., Desk]]:
    project = tmp_path / "project"
    project.mkdir()
    made: list[Desk] = []

    def make(container: Any, *calls: Mapping[str, Any]) -> Desk:
        replies = [turn(use("Bash", **call)) for call in calls]
        made.append(Desk(messages_server([*replies, say("Done.")]), project, own_place, container))
        return made[-1]

    yield make
    for each in made:
        each.conversation.close()


def test_commands_run_in_it_and_a_question_says_so(at_desk: Callable[..., Desk], tmp_path: Path) -> None:
    files = make_root(tmp_path / "files")
    desk = at_desk(
        {"files": str(files)}, {"command": "cat /etc/image"}, {"command": "mkdir made; cat /etc/image > made/here"}
    )
    desk.run()
    assert "the image of the tests" in desk.results[0]
    assert f"run in the container {files}" in json.dumps(desk.server.requests[0].body)
    assert (tmp_path / "project/made/here").read_text() == "the image of the tests\n"
    assert [f"It runs in the container {files}." in question.decision.shown_reason for question in desk.asked] == [True]


def test_without_a_program_nothing_is_sent(at_desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    desk = at_desk({"image": "python:3.12", "program": "docker"}, {"command": "true"})
    with pytest.raises(CellwrightError, match="no program runs containers here"):
        desk.run()
    assert desk.server.requests == []


def test_a_file_that_says_nothing_is_no_way_to_run_without(at_desk: Callable[..., Desk], tmp_path: Path) -> None:
    desk = at_desk({"devcontainer": str(tmp_path / "not-there.json")}, {"command": "true"})
    with pytest.raises(CellwrightError, match=r"not-there\.json cannot be read"):
        desk.run()
    assert desk.server.requests == []


def test_a_command_without_memory_says_whose_bound_it_met(at_desk: Callable[..., Desk], tmp_path: Path) -> None:
    files = make_root(tmp_path / "files")
    desk = at_desk({"files": str(files), "memory": "100m"}, {"command": "x=$(seq 100000000 130000000)"})
    desk.run()
    assert "The container has 100 MiB of memory" in desk.results[0]
    assert "`memory` of `sandbox.container`" in desk.results[0]


@pytest.mark.parametrize("wrong", [{"image": "x", "files": "/y"}, {"image": "x", "volumes": []}, [], None, 3, "a b"])
def test_a_setting_of_the_wrong_form_is_no_way_to_run_without(at_desk: Callable[..., Desk], wrong: object) -> None:
    desk = at_desk(wrong, {"command": "true"})
    with pytest.raises(CellwrightError, match=r"sandbox\.container.*cannot be used: it has to be .*Nothing was sent"):
        desk.run()
    assert desk.server.requests == []

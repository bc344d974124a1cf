"""`/sandbox`: what confines commands, what they may do then, and which setting says so."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from cellwright.agent.calls.approval import Confinement
from cellwright.commands.command import CommandCall, CommandPage
from cellwright.commands.registry import answer_of, command_of
from cellwright.commands.settings_pages import may_rows
from cellwright.conversation.core import Host
from cellwright.conversation.runs.in_force import SandboxFound
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.features.conversation import Conversation
from cellwright.permissions.sandboxing import SandboxAbilities

BOTH = SandboxFound(SandboxAbilities(name="bubblewrap and Landlock", hides=True, protects=True, hosts=True))
STAGES = SandboxFound(structs.replace(BOTH.abilities, protects_patterns=True))
FULL = SandboxFound(structs.replace(STAGES.abilities, why_not=lambda _: "the temporary files are in it"))
UNSTAGED = SandboxFound(BOTH.abilities, {"staging": "unshare is not installed"})
LANDLOCK = SandboxFound(
    SandboxAbilities(name="Landlock", hides=True, protects=False, hosts=False), {"bubblewrap": "bwrap is not installed"}
)
NONE = SandboxFound(None, {"Landlock": "this Linux has none", "bubblewrap": "bwrap is not installed"})


@pytest.fixture
def page(tmp_path: Path, own_place: Path) -> Iterator[Callable[..., dict[str, str]]]:
    """The sections of the page by their titles, as text, for settings of the user's."""
    made: list[Conversation] = []

    def show(found: SandboxFound = BOTH, *, allow: tuple[str, ...] = (), **settings: Any) -> dict[str, str]:
        (own_place / ".claude").mkdir(exist_ok=True)
        (own_place / ".claude" / "settings.json").write_text(json.dumps(settings), "utf-8")
        environ = {"HOME": str(own_place), "PATH": "/usr/bin:/bin"}
        conversation = Conversation(Host(cwd=tmp_path, interface="a test", environ=environ, find_sandbox=lambda: found))
        made.append(conversation)
        command, text = command_of("/sandbox")
        call = CommandCall(conversation, RunOptions(allow=allow), text)
        answer = conversation.thread.submit(answer_of(command, call)).future.result(60)
        assert isinstance(answer, CommandPage)
        return {
            each.title: "\n".join([each.text, *(" | ".join(row) for row in each.rows)]).strip()
            for each in answer.sections
        }

    yield show
    for each in made:
        each.close()


def test_it_lists_what_an_unasked_command_may_touch(page: Any, tmp_path: Path) -> None:
    sections = page()
    assert "bubblewrap and Landlock" in sections["Sandbox"]
    assert "for every command" in sections["Sandbox"]
    unasked = sections["What runs unasked, confined to reading"]
    (runs,) = [line for line in unasked.splitlines() if line.startswith("read and run | ")]
    assert {str(tmp_path), "/usr"} <= set(runs.removeprefix("read and run | ").split(", "))
    assert "write | a temporary" in unasked
    assert "nothing: no network" in unasked
    assert "Claude's Python" in sections["Not restricted"]
    assert "the defaults hold" in sections["Settings"]


def test_without_a_sandbox_it_says_what_is_missing_and_how_to_get_it(page: Any) -> None:
    sections = page(NONE)
    assert list(sections) == ["Sandbox", "Settings"]
    assert "commands are judged" in sections["Sandbox"]
    assert "this Linux" in sections["Sandbox"]
    # also where a run would refuse to begin
    assert "nothing is sent" in page(NONE, sandbox={"enabled": True, "failIfUnavailable": True})["Sandbox"]


def test_it_says_what_a_weaker_means_cannot_do(page: Any) -> None:
    sections = page(LANDLOCK)
    assert "change files ask" in sections["Sandbox"]
    assert "named hosts" in sections["Sandbox"]
    assert "`ps`" in sections["Not restricted"]


def test_it_says_whether_changes_can_be_staged_and_why_not(page: Any) -> None:
    assert "change a copy" in page(STAGES)["Sandbox"]
    assert "ask: the temporary" in page(FULL)["Sandbox"]
    unstaged = page(UNSTAGED)["Sandbox"]
    assert "cannot stage" in unstaged
    assert "unshare" in unstaged
    assert "Linux 5.11" in unstaged


def test_switched_on_it_shows_what_every_command_may_do(page: Any, tmp_path: Path) -> None:
    sandbox = {"enabled": True, "network": {"allowedDomains": ["a.example"], "deniedDomains": ["b.example"]}}
    sections = page(sandbox=sandbox, allow=("WebFetch(domain:c.example)",))
    assert "every command" in sections["Sandbox"]
    assert "(from " in sections["Sandbox"]
    assert "Any other command" in sections
    settings = sections["Settings"]
    assert "sandbox.network.allowedDomains | a.example | ~/.claude/settings.json" in settings
    assert "sandbox.network.allowedDomains | c.example | a rule" in settings


def test_rows_are_what_the_operating_system_will_be_told(tmp_path: Path, own_place: Path) -> None:
    (tmp_path / "keys").mkdir()
    (own_place / ".ssh").mkdir()
    confinement = Confinement(
        read=("/",),
        write=(str(tmp_path),),
        hidden=(str(tmp_path / "keys"),),
        protected=(str(tmp_path / ".git"),),
        hosts=("a.example", "*.b.example"),
        denied_hosts=("x.b.example",),
        asked_hosts=("y.b.example",),
    )
    rows = dict(may_rows(confinement, {"HOME": str(own_place), "PATH": "/usr/bin"}, str(tmp_path)))
    assert rows["not write"] == str(tmp_path / ".git")
    assert str(tmp_path / "keys") in rows["not read"]
    assert "~/.ssh" in rows["not read"]
    assert rows["reach"].startswith("a.example, *.b.example, ")
    assert "never x.b.example" in rows["reach"]
    strict = may_rows(Confinement(hosts=(), asks_hosts=False), {}, str(tmp_path))
    assert ("reach", "no others") in strict

"""A confined command that is refused something: Claude is told that it was the sandbox, and what can be done."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cellwright.agent.calls.confinement import Confinement
from cellwright.agent.tool import ToolContext
from cellwright.sandbox.means import find_sandbox
from cellwright.tools.shell.bash import bash_tool

pytestmark = pytest.mark.skipif(find_sandbox() is None, reason="there is no sandbox here")


def answer_to(folder: Path, command: str, confinement: Confinement | None) -> str:
    bash = bash_tool(folder)
    context = ToolContext("toolu_1", lambda **_: None, session_id=str(folder), confinement=confinement)
    result = asyncio.run(bash.call({"command": command}, context))
    return str(result.content)


def test_a_refused_command_names_the_sandbox_and_the_way_out(tmp_path: Path) -> None:
    bounds = Confinement(read=(str(tmp_path),))
    told = answer_to(tmp_path, "echo tide > new.txt", bounds)
    assert "The command ran in a sandbox, which refused it" in told
    assert "new.txt" in told
    assert "dangerouslyDisableSandbox" in told
    assert not (tmp_path / "new.txt").exists()


def test_a_command_that_fails_by_itself_is_not_the_sandboxs_fault(tmp_path: Path) -> None:
    bounds = Confinement(read=(str(tmp_path),))
    assert "sandbox" not in answer_to(tmp_path, "false", bounds)
    assert "sandbox" not in answer_to(tmp_path, "cat no-such-file-here", bounds)
    assert "sandbox" not in answer_to(tmp_path, "cat /root/none/x; exit 3", None)


def test_a_confined_command_leaves_nothing_in_the_background(tmp_path: Path) -> None:
    bounds = Confinement(read=(str(tmp_path),))
    assert answer_to(tmp_path, "echo tide", bounds) == "tide"

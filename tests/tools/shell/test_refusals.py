"""A confined command that is refused something: Claude is told that it was the sandbox, and what can be done."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cellwright.agent.calls.approval import Confinement
from cellwright.agent.tool import ToolContext
from cellwright.sandbox.mechanisms import find_sandbox
from cellwright.tools.shell.bash import bash_tool
from confined import staging_sandbox

pytestmark = pytest.mark.skipif(find_sandbox() is None, reason="there is no sandbox here")


def answer_to(folder: Path, command: str, confinement: Confinement | None, **variables: str) -> str:
    bash = bash_tool(folder)
    context = ToolContext("toolu_1", lambda **_: None, session_id=str(folder), confinement=confinement)
    result = asyncio.run(bash.call({"command": command, "environment_variables": variables}, context))
    return str(result.content)


def test_a_refused_command_names_the_sandbox_and_the_way_out(tmp_path: Path) -> None:
    bounds = Confinement(read=(str(tmp_path),))
    told = answer_to(tmp_path, "echo tide > new.txt", bounds)
    assert "refused it" in told
    assert "new.txt" in told
    assert "dangerouslyDisableSandbox" in told
    assert not (tmp_path / "new.txt").exists()


def test_variables_of_a_call_do_not_make_its_bounds_wider(tmp_path: Path) -> None:
    project, diary = tmp_path / "project", tmp_path / "documents/diary"
    for folder in (project, diary.parent):
        folder.mkdir()
    diary.write_text("Dear diary", "utf-8")
    for name in ("JAVA_HOME", "VIRTUAL_ENV", "PYTHONPATH", "SSL_CERT_DIR", "XDG_CONFIG_HOME", "JUPYTER_DATA_DIR"):
        told = answer_to(
            project, f"echo ${name}; cat {diary}", Confinement(read=(str(project),)), **{name: str(diary.parent)}
        )
        assert str(diary.parent) in told
        assert "Dear" not in told, name


def test_changes_that_may_not_be_made_are_named_and_none_is_made(tmp_path: Path) -> None:
    staging_sandbox()
    (tmp_path / "kept.txt").write_text("kept", "utf-8")
    (tmp_path / "linked").symlink_to("/etc")
    bounds = Confinement(write=(str(tmp_path),), protects=lambda path: path.endswith("/.envrc"))
    for command, why in {
        "rm kept.txt; mkdir -p a/b && echo x > a/b/.envrc": "a/b/.envrc is protected",
        "rm kept.txt; ln -s /etc/passwd a": "a would be a link that leads out",
        "rm kept.txt; ln -s linked/passwd a": "a would be a link that leads out",
        "rm kept.txt; mkdir d && ln -s $PWD/d/../.. d/e": "d/e would be a link that leads out",
        "rm kept.txt; mkfifo a": "a would be neither a file nor a folder",
        "rm kept.txt; cp /bin/true a && chmod u+s a": "a would run with its owner's rights",
        f"rm kept.txt; mkdir -p {'/'.join('x' * 210)}": "more than 200 folders",
    }.items():
        told = answer_to(tmp_path, command, bounds)
        assert "Exit code 2" in told, told
        assert "Nothing was changed" in told, told
        assert why in told, told
        assert "dangerouslyDisableSandbox" in told
        assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.txt", "linked"]
    # what is killed, or left running, changes nothing
    told = answer_to(tmp_path, "rm kept.txt; (sleep 60; touch late) & touch now", bounds)
    assert "left running" in told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["linked", "now"], told


def test_a_command_that_fails_by_itself_is_not_the_sandboxs_fault(tmp_path: Path) -> None:
    bounds = Confinement(read=(str(tmp_path),))
    assert "sandbox" not in answer_to(tmp_path, "false", bounds)
    found = answer_to(tmp_path, "cat no-such-file-here", bounds)
    assert "sandbox" not in found
    found = answer_to(tmp_path, "cat /root/none/x; exit 3", None)
    assert "sandbox" not in found


def test_a_confined_command_leaves_nothing_in_the_background(tmp_path: Path) -> None:
    bounds = Confinement(read=(str(tmp_path),))
    assert answer_to(tmp_path, "echo tide", bounds) == "tide"

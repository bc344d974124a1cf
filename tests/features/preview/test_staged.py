"""The copy of a project's files: what is in it, what is other at the end, and what is never taken for a change."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

import cellwright
from cellwright.agent.tool import Tool, ToolAccess, ToolContext
from cellwright.checkpoints.turn_recorder import effect_of
from cellwright.errors import ToolError
from cellwright.features.preview import staged
from cellwright.features.preview.staged import PreviewPolicy, Stage, StagedTree, TreeTooLarge, staged_tool
from cellwright.permissions.policy import PermissionPolicy


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / ".git").mkdir()
    (project / ".git" / "HEAD").write_text("ref: x\n")
    (project / "src" / "a.py").write_text("x = 1\n")
    (project / "secret.txt").write_text("s\n")
    return project


def made(project: Path) -> StagedTree:
    return StagedTree.make(project, lambda path: not path.endswith("secret.txt"))


def test_changes_are_found_whoever_makes_them_and_what_may_not_be_read_is_not_there(project: Path) -> None:
    tree = made(project)
    assert not (tree.root / "secret.txt").exists()
    (tree.root / "src" / "a.py").write_text("x = 2\n")
    (tree.root / "new.py").write_text("y = 1\n")
    found = {change.name: (change.before, change.after) for change in tree.changed()}
    assert found == {"src/a.py": (b"x = 1\n", b"x = 2\n"), "new.py": (None, b"y = 1\n")}
    (tree.root / "src" / "a.py").unlink()
    assert {change.name: change.after for change in tree.changed()}["src/a.py"] is None
    tree.close()
    assert not tree.folder.exists()


def test_a_link_that_code_puts_there_is_never_read(project: Path, tmp_path: Path) -> None:
    tree = made(project)
    (tmp_path / "outside.txt").write_text("mine")
    (tree.root / "src" / "a.py").unlink()
    (tree.root / "src" / "a.py").symlink_to(tmp_path / "outside.txt")
    assert [change.after for change in tree.changed()] == []
    assert not tree.may_write("src/a.py")
    tree.close()


def test_what_is_linked_or_outside_may_not_be_written(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "LARGEST_COPY", 4)
    tree = made(project)
    assert (tree.root / "src" / "a.py").is_symlink()
    for path in ("src/a.py", ".git/HEAD", "../other.txt", "/etc/passwd"):
        assert not tree.may_write(path), path
    for path in ("b.py", str(project / "src" / "b.py"), f"{project}/src/../c.py"):
        assert tree.may_write(path), path
    tree.close()


def test_a_file_that_changes_on_disk_is_noticed(project: Path) -> None:
    tree = made(project)
    assert tree.is_as_copied("src/a.py")
    assert tree.is_as_copied("new.py")
    (project / "src" / "a.py").write_text("x = 3\n")
    (project / "new.py").write_text("mine\n")
    assert not tree.is_as_copied("src/a.py")
    assert not tree.is_as_copied("new.py")
    tree.close()


def test_a_folder_that_is_too_large_leaves_no_copy(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "MOST_FILES", 0)
    with pytest.raises(TreeTooLarge, match="more than a preview copies"):
        made(project)


def test_paths_in_text_are_the_ones_their_reader_knows(project: Path) -> None:
    tree = made(project)
    assert tree.in_copy(f"cat {project}/a {project}-2/b") == f"cat {tree.root}/a {project}-2/b"
    assert tree.in_project(f"{tree.root}/a") == f"{project}/a"
    tree.close()


async def _says_nothing(_given: object, _context: object) -> str:
    return ""


LOOKING = Tool(
    name="Variables",
    description="x",
    input_schema={},
    call=_says_nothing,
    access=ToolAccess("variables"),
    read_only=True,
)


def stage_in(project: Path, *, tree: bool = True) -> Stage:
    stage = Stage(
        kernel_tools={},
        looking=LOOKING,
        files=lambda folder: cellwright.builtin_tools(cwd=folder),
        still=contextlib.nullcontext,
        can_ask=True,
    )
    if tree:
        stage.tree = StagedTree.make(project, lambda _: True)
    return stage


def policy_in(project: Path, stage: Stage, mode: str = "bypassPermissions", **rules: list[str]) -> PreviewPolicy:
    return PreviewPolicy(PermissionPolicy(mode=mode, roots=[project], cwd=project, **rules), stage)


def test_a_write_goes_to_the_copy_and_a_rule_against_it_holds(tmp_path: Path) -> None:
    stage = stage_in(tmp_path)
    [write] = cellwright.builtin_tools("Write", cwd=tmp_path)
    given = {"file_path": str(tmp_path / "a.txt"), "content": "a\n"}
    assert policy_in(tmp_path, stage, "default").decide(write, given).behavior == "allow"
    assert policy_in(tmp_path, stage, deny=["Edit(./a.txt)"]).decide(write, given).behavior == "deny"
    context = ToolContext("1", lambda *_given, **_named: None)
    asyncio.run(staged_tool(write, stage).call(given, context))  # type: ignore[arg-type]
    assert not (tmp_path / "a.txt").exists()
    assert stage.tree is not None
    assert (stage.tree.root / "a.txt").read_text() == "a\n"
    stage.tree.close()


def test_what_a_command_does_to_the_copy_is_no_effect_that_undo_names(tmp_path: Path) -> None:
    stage = stage_in(tmp_path, tree=False)
    [bash] = cellwright.builtin_tools("Bash", cwd=tmp_path)
    staged, given = staged_tool(bash, stage), {"command": "touch a.txt"}
    stage.tree = StagedTree.make(tmp_path, lambda _: True)
    assert effect_of(staged, given, [tmp_path]) == ""
    # the preview is over: what runs now is the user's own
    stage.is_off = True
    assert effect_of(staged, given, [tmp_path]) == effect_of(bash, given, [tmp_path]) == "Bash: touch a.txt"
    stage.tree.close()


@pytest.mark.parametrize("kind", ["edit", "shell", "unknown", "cells"])
def test_a_tool_that_somebody_else_brings_has_no_effects(tmp_path: Path, kind: str) -> None:
    called: list[dict[str, object]] = []

    async def call(given: dict[str, object], _ctx: ToolContext) -> str:
        called.append(given)
        return "done"

    access = ToolAccess(kind, "file_path")  # type: ignore[arg-type]
    tool = Tool(name="Deploy", description="x", input_schema={}, call=call, access=access)
    stage = stage_in(tmp_path)
    decision = policy_in(tmp_path, stage).decide(tool, {"file_path": "a.txt"})
    assert decision.behavior == "deny"
    assert decision.reason.startswith("Not in a preview: ")
    assert stage.tree is not None
    stage.tree.close()


def test_before_the_copies_are_there_nothing_runs(tmp_path: Path) -> None:
    stage = stage_in(tmp_path, tree=False)
    [write] = cellwright.builtin_tools("Write", cwd=tmp_path)
    given = {"file_path": str(tmp_path / "a.txt"), "content": "a\n"}
    assert policy_in(tmp_path, stage).decide(write, given).behavior == "deny"
    context = ToolContext("1", lambda *_given, **_named: None)
    with pytest.raises(ToolError, match="are not there"):
        asyncio.run(staged_tool(write, stage).call(given, context))  # type: ignore[arg-type]
    stage.is_off = True
    asyncio.run(staged_tool(write, stage).call(given, context))  # type: ignore[arg-type]
    assert (tmp_path / "a.txt").read_text() == "a\n"


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("Read", {"file_path": "link.txt"}),
        ("Edit", {"file_path": "link.txt", "old_string": "secret", "new_string": "x"}),
        ("Write", {"file_path": "folder/new.txt", "content": "x"}),
        ("Grep", {"pattern": "secret", "path": "folder"}),
        ("Grep", {"pattern": "secret", "glob": "folder/*.txt"}),
        ("Glob", {"pattern": "folder/*"}),
    ],
)
def test_a_link_that_the_preview_made_out_of_the_copy_is_not_followed(
    tmp_path: Path, name: str, given: dict[str, str]
) -> None:
    outside, project = tmp_path / "outside", tmp_path / "project"
    outside.mkdir()
    project.mkdir()
    (outside / "a.txt").write_text("secret")
    stage = stage_in(project)
    assert stage.tree is not None
    (stage.tree.root / "link.txt").symlink_to(outside / "a.txt")
    (stage.tree.root / "folder").symlink_to(outside)
    [tool] = cellwright.builtin_tools(name, cwd=project)
    given = {key: str(project / value) if key in ("file_path", "path") else value for key, value in given.items()}
    context = ToolContext("1", lambda *_given, **_named: None)
    with pytest.raises(ToolError, match="is a link that was made in this preview"):
        asyncio.run(staged_tool(tool, stage).call(given, context))  # type: ignore[arg-type]
    assert [path.read_text() for path in outside.iterdir()] == ["secret"]
    stage.tree.close()


def test_a_link_of_the_users_own_leads_where_it_led(tmp_path: Path) -> None:
    outside, project = tmp_path / "outside.txt", tmp_path / "project"
    project.mkdir()
    outside.write_text("shared")
    (project / "link.txt").symlink_to(outside)
    stage = stage_in(project)
    [read] = cellwright.builtin_tools("Read", cwd=project)
    context = ToolContext("1", lambda *_given, **_named: None)
    result = asyncio.run(staged_tool(read, stage).call({"file_path": str(project / "link.txt")}, context))  # type: ignore[arg-type]
    assert "shared" in str(result)
    assert stage.tree is not None
    stage.tree.close()

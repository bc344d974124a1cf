"""What leads Git out of the session's folders is a read outside, in Bash and for the tool Git."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cellwright.permissions.policy import PermissionPolicy
from declared_tools import tool_named

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@b")


@pytest.fixture
def folders(tmp_path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The session's repository, and one elsewhere, each with a commit."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    made = (tmp_path / "project", tmp_path / "elsewhere")
    for folder in made:
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
        (folder / "a").write_text("x", "utf-8")
        git(folder, "add", "a")
        git(folder, "commit", "-qm", "x")
    return made


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *IDENTITY, *arguments], check=True, capture_output=True)


def unchanged(project: Path, elsewhere: Path) -> None:
    pass


def git_file(project: Path, elsewhere: Path) -> None:
    shutil.rmtree(project / ".git")
    (project / ".git").write_text(f"gitdir: {elsewhere}/.git\n", "utf-8")


def git_file_of_a_work_tree(project: Path, elsewhere: Path) -> None:
    git(elsewhere, "worktree", "add", "-q", str(elsewhere / "tree"))
    shutil.rmtree(project / ".git")
    (project / ".git").write_text(f"gitdir: {elsewhere}/.git/worktrees/tree\n", "utf-8")


def git_link(project: Path, elsewhere: Path) -> None:
    shutil.rmtree(project / ".git")
    (project / ".git").symlink_to(elsewhere / ".git")


def linked(name: str):
    def prepare(project: Path, elsewhere: Path) -> None:
        place = project / ".git" / name
        shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
        place.symlink_to(elsewhere / ".git" / name)

    return prepare


def alternates(project: Path, elsewhere: Path) -> None:
    (project / ".git/objects/info/alternates").write_text(f"{elsewhere}/.git/objects\n", "utf-8")


def alternates_by_a_way_up(project: Path, elsewhere: Path) -> None:
    (project / ".git/objects/info/alternates").write_text("# x\n../../../elsewhere/.git/objects\n", "utf-8")


def alternates_of_alternates(project: Path, elsewhere: Path) -> None:
    (project / "store/info").mkdir(parents=True)
    (project / "store/info/alternates").write_text(f"{elsewhere}/.git/objects\n", "utf-8")
    (project / ".git/objects/info/alternates").write_text(f"{project}/store\n", "utf-8")


def common_folder(project: Path, elsewhere: Path) -> None:
    (project / ".git/commondir").write_text(f"{elsewhere}/.git\n", "utf-8")


def link_inside(project: Path, elsewhere: Path) -> None:
    (project / ".git/description").unlink()
    (project / ".git/description").symlink_to(project / "a")


def own_work_tree(project: Path, elsewhere: Path) -> None:
    git(elsewhere, "worktree", "add", "-q", str(project / "tree"))
    for name in ("a", ".git"):
        (project / name).rename(project.parent / name)
        (project / "tree" / name).rename(project / name)
    (elsewhere / ".git/worktrees/tree/gitdir").write_text(f"{project}/.git\n", "utf-8")


ELSEWHERE = (
    *(
        git_file,
        git_file_of_a_work_tree,
        git_link,
        alternates,
        alternates_by_a_way_up,
        alternates_of_alternates,
        common_folder,
    ),
    *map(linked, ("objects", "refs", "HEAD", "index", "config", "objects/info", "objects/pack", "logs")),
)


@pytest.mark.parametrize(
    ("prepare", "expected"),
    [
        *((each, "ask") for each in ELSEWHERE),
        *((each, "allow") for each in (unchanged, link_inside, own_work_tree)),
    ],
)
def test_what_leads_git_elsewhere_asks(folders, prepare, expected):
    project, elsewhere = folders
    prepare(project, elsewhere)
    policy = PermissionPolicy(roots=[project], cwd=project)
    for command in ("git status", "git log -p", "git show HEAD", "git cat-file -p HEAD"):
        assert policy.decide(tool_named("Bash"), {"command": command}).behavior == expected
    git_tool = {"subcommand": "log", "args": ["-p"]}
    assert policy.decide(tool_named("Git", read_only=True), git_tool).behavior == expected


def test_a_rule_for_the_place_lets_the_tool_git_read_there(folders):
    project, elsewhere = folders
    alternates(project, elsewhere)
    policy = PermissionPolicy(roots=[project], cwd=project, allow=[f"Read(/{elsewhere}/**)"])
    assert policy.decide(tool_named("Git", read_only=True), {"subcommand": "log"}).behavior == "allow"
    blocked = PermissionPolicy(roots=[project], cwd=project, block_reads_outside=True)
    assert blocked.decide(tool_named("Git", read_only=True), {"subcommand": "log"}).behavior == "deny"


def test_a_session_that_begins_in_a_folder_of_its_repository_may_look_at_it(folders):
    project, elsewhere = folders
    (project / "src").mkdir()
    inner = PermissionPolicy(roots=[project / "src"], cwd=project / "src")
    for name, given in (("Bash", {"command": "git log"}), ("Git", {"subcommand": "log", "path": "."})):
        assert inner.decide(tool_named(name), given).behavior == "allow"
    git_link(project, elsewhere)
    for name, given in (("Bash", {"command": "git log"}), ("Git", {"subcommand": "log", "path": "."})):
        assert inner.decide(tool_named(name), given).behavior == "ask"

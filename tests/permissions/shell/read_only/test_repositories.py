"""Git commands that only read, in repositories whose configuration may run something."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.permissions.shell.judged_commands import ALLOW, ASK, DENY, behavior

from cellwright.permissions.policy import PermissionPolicy
from declared_tools import tool_named


def configured(text: str):
    def prepare(folder: Path) -> None:
        with (folder / ".git" / "config").open("a", encoding="utf-8") as file:
            file.write(text)

    return prepare


def hook(folder: Path) -> None:
    (folder / ".git" / "hooks").mkdir(exist_ok=True)
    (folder / ".git" / "hooks" / "post-index-change").write_text("#!/bin/sh\n", "utf-8")


def nested(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", str(folder / "src")], check=True)


def bare(folder: Path) -> None:
    for name in ("objects", "refs"):
        (folder / "src" / name).mkdir()
    (folder / "src" / "HEAD").write_text("ref: refs/heads/main\n", "utf-8")


def submodule(folder: Path) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q", str(folder / "sub")], check=True)
    git = ["git", "-C", str(folder / "sub"), *identity]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run(["git", "-C", str(folder), "add", "sub"], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("prepare", "command", "expected"),
    [
        pytest.param(configured(""), "git status", ALLOW, id="plain"),
        pytest.param(configured('[user]\n\tname = "a b" # me\n'), "git status", ALLOW, id="user"),
        pytest.param(
            configured('[remote "origin"]\n\turl = git@x:y\n\tfetch = +refs/*:refs/*\n'), "git log", ALLOW, id="remote"
        ),
        pytest.param(configured("[core]\n\tfsmonitor = evil\n"), "git status", ASK, id="fsmonitor"),
        pytest.param(configured("[core] fsmonitor = evil\n"), "git status", ASK, id="same-line"),
        pytest.param(configured("[CORE]\n\tFSMonitor = evil\n"), "git status", ASK, id="case"),
        pytest.param(configured("[core]\n\tpager = evil\n"), "git log", ASK, id="pager"),
        pytest.param(configured("[core]\n\thooksPath = x\n"), "git status", ASK, id="hooks-path"),
        pytest.param(configured("[core]\n\tworktree = /\n"), "git status", ASK, id="worktree"),
        pytest.param(configured("[diff]\n\texternal = evil\n"), "git diff", ASK, id="external"),
        pytest.param(configured('[diff "x"]\n\ttextconv = evil\n'), "git log -p", ASK, id="textconv"),
        pytest.param(configured('[filter "x"]\n\tclean = evil\n'), "git status", ASK, id="filter"),
        pytest.param(configured("[include]\n\tpath = ../evil\n"), "git status", ASK, id="include"),
        pytest.param(configured("[gpg]\n\tprogram = evil\n"), "git log", ASK, id="gpg"),
        pytest.param(configured("[log]\n\tshowSignature = true\n"), "git log", ASK, id="signatures"),
        pytest.param(configured('[remote "x"]\n\turl = ext::evil\n'), "git log", ASK, id="ext"),
        pytest.param(configured('[remote "x"]\n\tpromisor = true\n'), "git log", ASK, id="promisor"),
        pytest.param(configured("[user]\n\tname = a\\\n[core]\n\tfsmonitor = evil\n"), "git log", ASK, id="continued"),
        pytest.param(configured("nonsense\n"), "git log", ASK, id="not-understood"),
        pytest.param(hook, "git status", ASK, id="hook"),
        pytest.param(nested, "cd src && git status", ASK, id="nested-repository"),
        pytest.param(nested, "git status", ALLOW, id="beside-a-nested-repository"),
        pytest.param(bare, "cd src && git status", ASK, id="nested-bare-repository"),
        pytest.param(submodule, "git status", ASK, id="submodule"),
    ],
)
def test_git_only_reads_in_a_repository_that_runs_nothing(project, prepare, command, expected):
    prepare(project.project)
    assert behavior(project, command) == expected
    assert behavior(project, command, "plan") == (ALLOW if expected == ALLOW else DENY)


def test_git_reads_in_a_work_tree_of_the_session(project, tmp_path):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    git = ["git", "-C", str(project.project), *identity]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(tmp_path / "tree")], check=True, capture_output=True)
    policy = PermissionPolicy(roots=[tmp_path / "tree"], cwd=tmp_path / "tree")
    assert policy.decide(tool_named("Bash"), {"command": "git status"}).behavior == ALLOW
    with (project.project / ".git" / "config").open("a", encoding="utf-8") as file:
        file.write("[core]\n\tfsmonitor = evil\n")
    assert policy.decide(tool_named("Bash"), {"command": "git status"}).behavior == ASK

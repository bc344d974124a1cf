"""One table says which uses of git only read; all that decide about git agree on each subcommand and flag of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.permissions.shell.judged_commands import ALLOW, ASK, DENY, behavior

from cellwright.permissions.confined.program_use import use_of
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.shell.git import READS, SUBCOMMANDS, git_reads, only_reads
from cellwright.permissions.shell.reading import Word
from cellwright.tools.git import FLAGS, Subcommand, parse_arguments
from declared_tools import tool_named
from row_tables import for_each_row

FIRST = {"stash": ["list"], "worktree": ["list"]}
ONLY_CONFINED = frozenset(
    # they print what the user's own files hold, or run another program
    {"config", "var", "help", "lfs", "verify-commit", "verify-tag", "bisect", "archive", "submodule", "rerere"}
    # they work on the index, on files or on objects, or are seldom used: nobody has looked at all their flags
    | {"add", "rm", "clean", "apply", "merge-tree", "fsck", "sparse-checkout", "bundle", "format-patch", "hash-object"}
    | {"symbolic-ref", "notes", "range-diff", "show-branch", "show-index", "verify-pack", "get-tar-commit-id"}
    | {"check-mailmap", "check-ref-format", "check-attr"}
)
"""Subcommands that ask without a sandbox."""
JOINED_VALUES = {"--sort": "refname", "--format": "%h", "--pretty": "oneline", "--date": "iso", "-L": "1,2:a"}


def only_looks(arguments: list[str]) -> bool:
    return only_reads([Word(word, raw=word) for word in ("git", *arguments)])


def test_each_subcommand_is_in_one_class() -> None:
    assert READS.keys() == SUBCOMMANDS.keys() | ONLY_CONFINED
    assert not SUBCOMMANDS.keys() & ONLY_CONFINED


@for_each_row("subcommand", sorted(SUBCOMMANDS))
def test_every_flag_that_reads_without_a_sandbox_reads_in_one(subcommand: str) -> None:
    known = SUBCOMMANDS[subcommand]
    flags = [*(f"-{letter}" for letter in known.letters), *known.long]
    flags += [f"{name}={'1' if name.startswith('--') else ''}".removesuffix("=") for name in known.valued]
    disagreed = []
    for arguments in ([], *([flag] for flag in flags)):
        call = [subcommand, *FIRST.get(subcommand, []), *arguments]
        alone, confined = only_looks(call), use_of("git", call)
        if alone and confined != "reads":
            disagreed.append((call, alone, confined))
        if not arguments and not alone:
            disagreed.append((call, alone, confined))
    assert disagreed == []


@for_each_row("subcommand", sorted(FLAGS))
def test_every_flag_of_the_tool_git_reads_in_bash_too(subcommand: Subcommand) -> None:
    disagreed = []
    for name, kind in FLAGS[subcommand].items():
        value = JOINED_VALUES.get(name, "1") if kind == "value" else ""
        word = f"{name}={value}" if value and name.startswith("--") else name + value
        parse_arguments(subcommand, [word])
        # what config prints are the user's own files, so it asks without a sandbox; alone some of its flags say nothing
        if subcommand == "config":
            continue
        if use_of("git", [subcommand, word]) != "reads":
            disagreed.append((word, "confined"))
        if not only_looks([subcommand, word]):
            disagreed.append((word, "without a sandbox"))
    assert disagreed == []


@pytest.mark.parametrize("program", [only_looks, git_reads])
@for_each_row(
    ("arguments", "reads"),
    [
        ("stash list", True),
        ("stash show -p", True),
        ("stash", False),
        ("stash -p list", False),
        ("stash pop", False),
        ("worktree list", True),
        ("worktree add x", False),
        ("worktree prune", False),
        ("reflog", True),
        ("reflog show main", True),
        ("reflog expire --all", False),
        ("reflog --all expire", False),
        ("describe --tags", True),
        ("branch", True),
        ("branch -a", True),
        ("branch -v new", False),
        ("branch -r new", False),
        ("branch new", False),
        ("branch --list x*", True),
        ("branch --contains HEAD", True),
        ("branch --sort refname", True),
        ("branch -D x", False),
        ("tag", True),
        ("tag v1", False),
        ("tag -l v*", True),
        ("tag -n3", True),
        ("tag -d v1", False),
        ("remote -v", True),
        ("remote add x y", False),
        ("remote get-url origin", True),
        ("ls-tree HEAD", True),
        ("shortlog -sn HEAD", True),
        ("rev-list --count HEAD", True),
        ("commit -m x", False),
        ("checkout x", False),
        ("gc", False),
    ],
)
def test_they_agree(program, arguments: str, reads: bool) -> None:
    assert program(arguments.split()) is reads


def test_no_name_with_wildcards_leads_git_out_of_the_folders(tmp_path: Path) -> None:
    """Whatever git makes of it, the shell lists the folder."""
    project, outside = tmp_path / "project", tmp_path / "outside" / "private"
    outside.mkdir(parents=True)
    project.mkdir()
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    (project / "link-out").symlink_to(outside.parent)
    (project / "notes.txt").touch()
    policy = PermissionPolicy(roots=[project], cwd=project)
    led_out = {
        subcommand: decision.behavior
        for subcommand in sorted(SUBCOMMANDS)
        if (decision := policy.decide("Bash", {"command": f"git {subcommand} link-out/*"})).behavior == "allow"
    }
    assert led_out == {}
    assert policy.decide("Bash", {"command": "git log -- *.txt"}).behavior == "allow"


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

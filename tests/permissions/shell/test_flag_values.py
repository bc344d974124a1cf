"""Which flags take the next word for their value: what we take for a value must not be a flag to the program itself.

`git grep --color -Otouch x` is allowed by whoever thinks that `--color` takes the next word; git runs `touch`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.shell.flags import Flags
from cellwright.permissions.shell.git import SUBCOMMANDS
from cellwright.permissions.shell.plain_commands import READERS
from declared_tools import tool_named
from row_tables import for_each_row

GIT = shutil.which("git")
FLAG = "--no-such-flag"
# git's machinery of revisions opens this file as soon as it sees the flag, whatever else is wrong
WRITING_FLAG = "--output=written"
SEEN = re.compile(
    rf"((unrecogni[sz]ed|unknown|unexpected) (option|argument)|invalid option)[^\n]*{FLAG.lstrip('-')}", re.IGNORECASE
)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "a").write_text("hi\n", "utf-8")
    for arguments in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ):
        subprocess.run([str(GIT), *arguments], cwd=folder, check=True, capture_output=True)
    (folder / "a").write_text("ho\n", "utf-8")
    return folder


def takes_next(flags: Flags) -> list[str]:
    return [
        name
        for name, kind in flags.valued.items()
        if kind[0] not in "=~" and (flags.one_program or not name.startswith("--"))
    ]


def seen_as_flag(command: list[str], folder: Path) -> bool:
    done = subprocess.run(
        [*command, FLAG], cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
    )
    return SEEN.search(done.stderr) is not None


@pytest.mark.skipif(sys.platform != "linux", reason="the flags are those of GNU's programs")
@for_each_row("program", sorted(name for name in READERS if shutil.which(name)))
def test_a_value_of_a_reader_is_no_flag_of_it(program, tmp_path):
    wrong = [name for name in takes_next(READERS[program][0]) if seen_as_flag([program, name], tmp_path)]
    assert wrong == []


@pytest.mark.skipif(GIT is None, reason="needs git")
@for_each_row("subcommand", sorted(SUBCOMMANDS))
def test_a_value_of_git_is_no_flag_of_git(subcommand, repository):
    wrong = []
    for name in takes_next(SUBCOMMANDS[subcommand]):
        command = [str(GIT), subcommand, name]
        if seen_as_flag(command, repository):
            wrong.append(name)
        subprocess.run([*command, WRITING_FLAG, "HEAD"], cwd=repository, capture_output=True, timeout=60)
        if (repository / "written").exists():
            wrong.append(name)
            (repository / "written").unlink()
    assert wrong == []


def lacks_value(command: list[str], folder: Path) -> bool:
    """Whether the program says that the flag at the end of `command` has no value."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    return re.search("requires an? (argument|value)", done.stderr) is not None


def takes_none(flags: Flags) -> list[str]:
    return [*(f"-{letter}" for letter in flags.letters), *flags.long]


@pytest.mark.skipif(sys.platform != "linux", reason="the flags are those of GNU's programs")
@for_each_row("program", sorted(name for name in READERS if shutil.which(name)))
def test_a_flag_of_a_reader_that_takes_no_value_leaves_the_next_word_alone(program, tmp_path):
    wrong = [name for name in takes_none(READERS[program][0]) if lacks_value([program, name], tmp_path)]
    assert wrong == []


@pytest.mark.skipif(GIT is None, reason="needs git")
@for_each_row("subcommand", sorted(SUBCOMMANDS))
def test_a_flag_of_git_that_takes_no_value_leaves_the_next_word_alone(subcommand, repository):
    flags = takes_none(SUBCOMMANDS[subcommand])
    assert [name for name in flags if lacks_value([str(GIT), subcommand, name], repository)] == []


ASKS = (
    "git grep --color -Otouch x",
    "git grep --color --open-files-in-pager=touch x",
    "git diff -C --output=a",
    "git diff --ignore-submodules --output=a",
    "git diff -U --output=a",
    "git diff -S --output=a",
    "git log -p --format --output=a",
    "git log --min-parents --output=a",
    "git log --since -- --output=a",
    "git show -C --output=a",
    "git shortlog --committer --output=a",
    "git branch --color new",
    "git branch --column new",
    "git branch --abbrev 7",
    "git branch --color --unset-upstream",
    "git branch --color --edit-description",
    "git tag --sort -d x",
    "git config --get --file x user.name",
    "git config --get-all --edit",
    "git stash -p -- list",
    "git stash -p list",
    "git symbolic-ref refs/*",
    "git config a.*",
    "git reflog e*",
    "git status --column --help",
    "git for-each-ref --format='%(signature)'",
    "git branch --list --format '%(*signature:grade)'",
    "date -u -I 010100002020",
    "date -I 010100002020",
    "date --rfc-3339 010100002020",
    "printf '%n' x",
    "printf '%ln' 'a[$(touch x)]'",
    "printf '%5.3hhn' x",
    "uniq - a",
    "uniq -- - a",
    "echo hi | uniq -c - a",
)
PASSES = (
    "git log --oneline -n 5 --since '2 days ago' --format=%h",
    "git log -5 --author x --grep=y -- a",
    "git diff -M90% -C --stat HEAD -- a",
    "git diff -U5 --color=never",
    "git diff --unified=3 --word-diff=color",
    "git status -uno --porcelain=v2 --branch",
    "git status -sb",
    "git branch --contains HEAD",
    "git branch -a --merged",
    "git branch --list --sort=-committerdate 'x*'",
    "git branch -vv",
    "git tag -n5 -l 'v*'",
    "git tag --contains",
    "git blame -L 1,5 -w -C -C40 a",
    "git branch --list feat*",
    "git rev-parse --short=8 --abbrev-ref HEAD",
    "git ls-files -m --exclude-standard",
    "git grep -n --color=always -e hi -- a",
    "date -I",
    "date -Iseconds -u",
    "date --iso-8601=hours",
    "date --rfc-3339=ns -r a",
    "printf '%s\\n' line",
    "printf '%5.1f%%\\n' 3",
    "uniq -c a",
    "sort a | uniq -c -",
    "ls --color -la",
    "grep --color=auto -n hi a",
    "diff -u --unified=5 --color a a",
)


@pytest.mark.skipif(GIT is None, reason="needs git")
@pytest.mark.parametrize("mode", ["default", "plan"])
def test_who_hides_a_flag_behind_another_is_asked_for(mode, repository):
    policy = PermissionPolicy(mode, cwd=repository)
    assert [
        command for command in ASKS if policy.decide(tool_named("Bash"), {"command": command}).behavior == "allow"
    ] == []


@pytest.mark.skipif(GIT is None, reason="needs git")
def test_plain_reading_needs_no_question(repository):
    policy = PermissionPolicy(cwd=repository)
    assert [
        command for command in PASSES if policy.decide(tool_named("Bash"), {"command": command}).behavior != "allow"
    ] == []

"""Git prints what is in files that nobody names: where a rule hides one, that is asked for, in Bash and in the tool Git."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from declared_tools import tool_named
from row_tables import for_each_row

DENY = ["Read(.env)", "Read(./secrets/**)"]
# what is tracked in the place: everything, and then everything but what is hidden
TRACKED_ALL, TRACKED_REST = ".", "src notes.txt"


@pytest.fixture(params=[TRACKED_ALL, TRACKED_REST], ids=["hidden-tracked", "hidden-untracked"])
def repository(request, place, monkeypatch: pytest.MonkeyPatch):
    if shutil.which("git") is None:
        pytest.skip("needs git")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    for arguments in (
        ["init", "-q"],
        ["add", *request.param.split()],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *arguments], cwd=place.project, check=True)
    return place, request.param == TRACKED_ALL


def behavior(place, command, mode="default", **rules):
    return place.policy(mode, deny=DENY, **rules).decide(tool_named("Bash"), {"command": place.fill(command)}).behavior


# prints what is in tracked files: asks where a hidden one is tracked, and does not nag where none is
OF_THE_INDEX = (
    "git diff",
    "git diff -U5 | head -50",
    "git diff .",
    "git --no-pager diff",
    "cd src && git diff",
    "git grep x",
    "git grep -n -A 3 x",
    "git grep -e x -- .",
    "git grep x | head",
)
# prints what is in the history, or in files that are not tracked: asks whatever is tracked
OF_MORE = (
    "git show",
    "git show HEAD",
    "git show HEAD -- .",
    "git show --reflog :notes.txt",
    "git show --all HEAD:src/a.py",
    "git show HEAD -- src",
    "git show abc1234 -- notes.txt",
    "git log -p",
    "git log -wp -1",
    "git log --stat -p -- src",
    "git log -U1",
    "git log --check",
    "git stash show -p",
    "git stash list -p",
    "git reflog -p",
    "git diff HEAD",
    "git diff --cached",
    "git diff main...HEAD",
    "git diff abc1234 -- notes.txt",
    "git grep --untracked x",
    "git grep x HEAD",
    "git grep x HEAD -- src",
    "git cat-file -p abc1234",
    "git cat-file -p HEAD^{tree}",
)
# prints no content, or that of files it names
PASSES = (
    "git status",
    "git log --oneline -5",
    "git log --stat",
    "git log --format=%h -n 3",
    "git diff --stat",
    "git diff --name-only HEAD",
    "git diff -- notes.txt",
    "git diff HEAD -- src/a.py notes.txt",
    "git diff notes.txt",
    "git diff src",
    "git grep x -- src",
    "git grep beef src",
    "git show --stat HEAD",
    "git show HEAD -- notes.txt",
    "git show HEAD:src/a.py",
    "git show --no-color :notes.txt",
    "git show HEAD~2:./notes.txt",
    "git show abc1234~0 -- notes.txt",
    "git cat-file -t abc1234",
    "git cat-file -p HEAD:notes.txt",
    "git blame src/a.py",
)
# named
DENIED = (
    "git show HEAD:.env",
    "git show ':(icase).ENV'",
    "git show :0:secrets/key.pem",
    "git diff -- .env",
    "git diff .env",
    "git grep x -- secrets/key.pem",
    "git blame .env",
    "git log -p -- .env",
)


def test_git_that_prints_tracked_files_asks_where_a_hidden_one_is_tracked(repository):
    place, hidden_is_tracked = repository
    expected = "ask" if hidden_is_tracked else "allow"
    assert {command: behavior(place, command) for command in OF_THE_INDEX} == dict.fromkeys(OF_THE_INDEX, expected)


def test_git_that_prints_the_history_asks(repository):
    place, _ = repository
    assert {command: behavior(place, command) for command in OF_MORE} == dict.fromkeys(OF_MORE, "ask")


def test_git_that_prints_no_hidden_file_passes(repository):
    place, _ = repository
    assert {command: behavior(place, command) for command in PASSES} == dict.fromkeys(PASSES, "allow")


def test_git_that_names_a_hidden_file_is_denied(repository):
    place, _ = repository
    assert {command: behavior(place, command) for command in DENIED} == dict.fromkeys(DENIED, "deny")


@for_each_row(
    "command",
    [
        "git show HEAD",
        "git log -p | cat",
        "git -C . -c color.ui=never show HEAD",
        "sudo git show HEAD",
        "bash -c 'git show HEAD'",
        "git archive HEAD | tar x -C out",
        "git format-patch -1 --stdout",
        "echo HEAD | xargs git show",
        "X=$(git show HEAD); echo $((1))",
    ],
)
def test_no_rule_and_no_mode_waves_through_what_git_may_print(repository, command):
    place, _ = repository
    assert behavior(place, command, allow=["Bash", "Bash(git *)"]) == "ask"
    assert behavior(place, command, "bypassPermissions") == "ask"
    assert behavior(place, command, "dontAsk", allow=["Bash(git *)"]) == "deny"


def test_git_prints_what_it_likes_where_no_rule_hides_a_file(repository):
    place, _ = repository
    for command in (*OF_THE_INDEX, *OF_MORE):
        # without a sandbox some ask anyway
        if not any(each in command for each in ("(", "main", "stash", "reflog")):
            assert place.policy().decide(tool_named("Bash"), {"command": command}).behavior == "allow", command


def test_a_rule_about_another_place_hides_nothing_here(repository):
    place, _ = repository
    policy = place.policy(deny=["Read(/{home}/outside/**)"])
    assert policy.decide(tool_named("Bash"), {"command": "git show HEAD"}).behavior == "allow"
    assert policy.decide(tool_named("Git"), {"subcommand": "show", "args": ["HEAD"]}).behavior == "allow"


def test_from_a_folder_git_shows_all_of_the_repository(repository):
    place, hidden_is_tracked = repository
    policy = place.policy(deny=["Read(/{project}/secrets/**)"])
    decided = policy.decide(tool_named("Git"), {"subcommand": "diff", "path": "src"}).behavior
    assert decided == ("ask" if hidden_is_tracked else "allow")
    assert policy.decide(tool_named("Git"), {"subcommand": "show", "path": "src"}).behavior == "ask"


@for_each_row(
    ("subcommand", "arguments", "expected"),
    [
        ("show", ["HEAD:src/a.py"], "allow"),
        ("show", ["HEAD:.env"], "deny"),
        ("show", ["abc1234^{commit}", "--", "notes.txt"], "allow"),
        ("show", ["abc1234^{}", "--", "notes.txt"], "ask"),
        ("log", ["-wp"], "ask"),
        ("diff", ["--", "src"], "allow"),
        ("blame", ["src/a.py"], "allow"),
    ],
)
def test_the_tool_git_is_held_to_the_same(repository, subcommand, arguments, expected):
    place, _ = repository
    for mode in ("default", "plan"):
        policy = place.policy(mode, deny=DENY)
        assert policy.decide(tool_named("Git"), {"subcommand": subcommand, "args": arguments}).behavior == expected
    if expected == "ask":
        policy = place.policy("bypassPermissions", deny=DENY, allow=["Git"])
        assert policy.decide(tool_named("Git"), {"subcommand": subcommand, "args": arguments}).behavior == "ask"


def test_an_index_that_is_not_understood_may_list_anything(repository):
    place, _ = repository
    subprocess.run(["git", "update-index", "--index-version", "4"], cwd=place.project, check=True)
    assert place.policy(deny=DENY).decide(tool_named("Git"), {"subcommand": "diff"}).behavior == "ask"


def test_plan_mode_asks_as_well(repository):
    place, _ = repository
    assert behavior(place, "git show HEAD", "plan") == "ask"
    assert behavior(place, "git log --oneline", "plan") == "allow"

"""Rules that hide files bind every command that would show, copy, move or delete them, however it names them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.shell.conservative_parse import expanded_braces
from declared_tools import tool_named
from row_tables import for_each_row

BASH = shutil.which("bash")
DENY = ["Read(key.pem)"]
PROGRAMS = [
    "tar",
    "zip",
    "cp",
    "rsync",
    "grep",
    "find",
    "xargs",
    "cat",
    "ack",
    "ag",
    "7z",
    "scp",
    "mv",
    "rm",
    "head",
    "rg",
    "ls",
    "diff",
]

HIDDEN = ["Read(.env)", "Read(./secrets/**)"]
# what is tracked in the place: everything, and then everything but what is hidden
TRACKED_ALL, TRACKED_REST = ".", "src notes.txt"


@pytest.fixture
def folders(place):
    """The place, with a folder beside the hidden file's that has nothing to hide."""
    (place.project / "plain" / "inner").mkdir(parents=True)
    (place.project / "plain" / "ok.txt").write_text("x", "utf-8")
    return place


def behavior(place, command, mode="default", **rules):
    decided = place.policy(mode, **{"deny": DENY, **rules}).decide(tool_named("Bash"), {"command": place.fill(command)})
    return decided.behavior


@for_each_row(
    "command",
    [
        "cat secrets/[^a]ey.pem",
        "cat secrets/[!a]ey.pem",
        "cat secrets/[[:alpha:]]ey.pem",
        "cat secrets/[k]ey.pem",
        "cat secrets/[a-z]ey.p?m",
        "cat s*/[[:lower:]]*",
        "diff plain secrets",
        "diff -N plain secrets",
        "diff -u secrets/ plain",
        "cat secrets/k{e,}y.pem",
        "cat secrets/ke{x..z}.pem",
        "cat {secrets,plain}/{key,ok}.pem",
        "cat $'secrets/\\x6bey.pem'",
        "cat secrets/$'\\153ey'.pem",
        "cd plain; cat ../secrets/k''ey.pem",
        "(cd plain); cd secrets; cat $'\\u006bey.pem'",
    ],
)
def test_no_spelling_of_a_hidden_file_is_read(folders, command):
    assert behavior(folders, command) == "deny"
    assert behavior(folders, command, "bypassPermissions") == "deny"
    assert behavior(folders, command, allow=["Bash", "Bash(cat *)"]) == "deny"


@for_each_row(
    "command",
    [
        "tar czf - .",
        "tar -c secrets -f x.tar",
        "tar --create --directory=secrets .",
        "tar -C secrets -cf x.tar .",
        "zip -r x.zip .",
        "7z a x.7z secrets",
        "rsync -a . plain/",
        "rsync -a secrets/ host:",
        "scp -r secrets host:",
        "grep -R x .",
        "grep -nR x",
        "grep --directories=recurse x secrets",
        "ack x",
        "ag x secrets",
        "rg --pre-glob x x",
        "find . -type f | xargs cat",
        "find secrets -print0 | xargs head",
        "ls secrets | xargs cat",
        "find . -exec cat {} +",
        "timeout 5 tar czf x.tgz .",
        "sh -c 'tar czf x.tgz .'",
        "cd secrets && tar cf ../x.tar .",
    ],
)
def test_whole_folders_with_a_hidden_file_are_asked_for(folders, command):
    allow = ["Bash", *(f"Bash({program} *)" for program in PROGRAMS)]
    assert behavior(folders, command, allow=allow) in ("ask", "deny")
    assert behavior(folders, command, allow=allow[1:]) in ("ask", "deny")
    assert behavior(folders, command, "bypassPermissions") in ("ask", "deny")


@for_each_row(
    "command",
    [
        "tar czf - plain",
        "tar xzf x.tgz",
        "tar -tf x.tar",
        "zip -r x.zip src plain",
        "rsync -a plain/ .",
        "cp plain/ok.txt .",
        "cp -r plain src",
        "grep -R x src",
        "grep x notes.txt",
        "grep -l x src/a.py",
        "ag x src",
        "diff plain src",
        "ls | xargs echo",
        "find . -name '*.py'",
        "find src | xargs wc -l",
        "mv plain other",
        "rm -rf plain",
        "cat src/[^b].py",
    ],
)
def test_folders_without_a_hidden_file_pass(folders, command):
    allow = [f"Bash({program} *)" for program in [*PROGRAMS, "wc", "echo"]]
    assert behavior(folders, command, allow=allow) == "allow"


def test_a_folder_that_is_too_large_to_look_through_is_asked_for(folders):
    many = folders.project / "many"
    many.mkdir()
    for number in range(20_100):
        (many / str(number)).touch()
    for command in ("tar czf x.tgz many", "grep -r x many"):
        assert behavior(folders, command, "bypassPermissions") == "ask"
        assert behavior(folders, command, "bypassPermissions", deny=[]) == "allow"


@for_each_row(
    "command",
    ["mv secrets other", "rm -rf secrets", "rm -r plain secrets", "cp -r secrets plain", "mv secrets plain/"],
)
@for_each_row("rule", ["Read(key.pem)", "Edit(./secrets/key.pem)"])
def test_a_folder_with_a_hidden_file_is_not_moved_or_removed(folders, command, rule):
    if command.startswith("cp") and rule.startswith("Edit"):
        return
    for mode in ("acceptEdits", "bypassPermissions"):
        assert behavior(folders, command, mode, deny=[rule]) == "deny"
        assert behavior(folders, command, mode, deny=[], ask=[rule]) == "ask"


def test_a_copied_folder_overwrites_nothing_that_may_not_be_edited(folders):
    (folders.project / "secrets" / "plain").mkdir()
    (folders.project / "secrets" / "plain" / "ok.txt").write_text("x", "utf-8")
    deny = ["Edit(./secrets/plain/ok.txt)"]
    assert behavior(folders, "cp -r plain secrets", "acceptEdits", deny=deny) == "deny"
    assert behavior(folders, "cp -r plain src", "acceptEdits", deny=deny) == "allow"


@pytest.mark.parametrize("command", ["cp src/a.py .", "mv notes.txt .", "touch .", "mkdir -p ."])
def test_a_file_put_into_the_project_does_not_touch_its_git_folder(folders, command):
    (folders.project / ".git").mkdir()
    assert behavior(folders, command, "acceptEdits") == "allow"
    assert behavior(folders, "rm -rf src/../.git", "acceptEdits") == "ask"


def test_a_command_that_changes_its_folder_very_often_is_asked_for_where_a_rule_is_about_files(place):
    command = "".join(f"cd d{number}; " for number in range(40)) + "cat key"
    assert behavior(place, command, "bypassPermissions") == "ask"
    assert behavior(place, command, "bypassPermissions", deny=[]) == "allow"


@settings(derandomize=True, max_examples=300, deadline=None, database=None)
@given(
    st.lists(st.sampled_from(["{", "}", ",", "a", "c", "1", "-", "."]), max_size=12).map("".join)
    | st.lists(st.sampled_from(["x", "{a..c}", "{3..1}", "{-1..1}", "{b,c}", "{p,{q,r}s}"]), max_size=4).map("".join)
)
@pytest.mark.skipif(BASH is None, reason="needs bash")
def test_every_word_that_bash_makes_of_braces_is_found(text):
    done = subprocess.run(
        [str(BASH), "--norc", "-c", f"printf '%s\\n' {text}"], capture_output=True, text=True, cwd=Path("/"), timeout=60
    )
    if done.returncode or done.stderr:
        return
    assert set(done.stdout.split()) <= set(expanded_braces(text)[0].split()) | {text}


FOLDERS_OF_OTHERS = (".git", ".venv/lib/site-packages", "node_modules/x", "__pycache__", ".hg", "src/.git/deep")


@for_each_row("folder", FOLDERS_OF_OTHERS)
@for_each_row("command", ["grep -r x .", "grep -rn --include=*.py x", "rg x", "cat $(ls) | grep -r x ."])
def test_a_program_that_searches_opens_every_folder(place, tmp_path, folder, command):
    assert searched(place, tmp_path, folder, "Bash", {"command": command}) != "allow"


@for_each_row("folder", FOLDERS_OF_OTHERS)
def test_grep_opens_all_but_version_control(place, tmp_path, folder):
    opened = not {".git", ".hg"} & set(folder.split("/"))
    assert searched(place, tmp_path, folder, "Grep", {"pattern": "x"}) == ("deny" if opened else "allow")


def searched(place, project: Path, folder: str, tool: str, tool_input: dict[str, str]) -> str:
    """What is decided about a search through `project`, where `folder` holds a file that may not be read."""
    (project / folder).mkdir(parents=True, exist_ok=True)
    (project / folder / "hidden.key").write_text("x", "utf-8")
    policy = PermissionPolicy("bypassPermissions", roots=[project], cwd=project, deny=["Read(*.key)"])
    return policy.decide(tool_named(tool, read_only=True), tool_input).behavior


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


def behavior_of_hidden(place, command, mode="default", **rules):
    return (
        place.policy(mode, deny=HIDDEN, **rules).decide(tool_named("Bash"), {"command": place.fill(command)}).behavior
    )


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
    assert {command: behavior_of_hidden(place, command) for command in OF_THE_INDEX} == dict.fromkeys(
        OF_THE_INDEX, expected
    )


def test_git_that_prints_the_history_asks(repository):
    place, _ = repository
    assert {command: behavior_of_hidden(place, command) for command in OF_MORE} == dict.fromkeys(OF_MORE, "ask")


def test_git_that_prints_no_hidden_file_passes(repository):
    place, _ = repository
    assert {command: behavior_of_hidden(place, command) for command in PASSES} == dict.fromkeys(PASSES, "allow")


def test_git_that_names_a_hidden_file_is_denied(repository):
    place, _ = repository
    assert {command: behavior_of_hidden(place, command) for command in DENIED} == dict.fromkeys(DENIED, "deny")


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
    assert behavior_of_hidden(place, command, allow=["Bash", "Bash(git *)"]) == "ask"
    assert behavior_of_hidden(place, command, "bypassPermissions") == "ask"
    assert behavior_of_hidden(place, command, "dontAsk", allow=["Bash(git *)"]) == "deny"


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
        policy = place.policy(mode, deny=HIDDEN)
        assert policy.decide(tool_named("Git"), {"subcommand": subcommand, "args": arguments}).behavior == expected
    if expected == "ask":
        policy = place.policy("bypassPermissions", deny=HIDDEN, allow=["Git"])
        assert policy.decide(tool_named("Git"), {"subcommand": subcommand, "args": arguments}).behavior == "ask"


def test_an_index_that_is_not_understood_may_list_anything(repository):
    place, _ = repository
    subprocess.run(["git", "update-index", "--index-version", "4"], cwd=place.project, check=True)
    assert place.policy(deny=HIDDEN).decide(tool_named("Git"), {"subcommand": "diff"}).behavior == "ask"


def test_plan_mode_asks_as_well(repository):
    place, _ = repository
    assert behavior_of_hidden(place, "git show HEAD", "plan") == "ask"
    assert behavior_of_hidden(place, "git log --oneline", "plan") == "allow"

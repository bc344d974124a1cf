"""Rules that hide files bind every command that would show, copy, move or delete them, however it names them."""

from __future__ import annotations

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

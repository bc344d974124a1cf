"""What runs without asking, run: with generated arguments, no allowed command may change, create or remove anything."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.shell.read_only.commands import READERS
from cellwright.permissions.shell.read_only.git import SUBCOMMANDS
from declared_tools import tool_named

BASH = shutil.which("bash")
pytestmark = pytest.mark.skipif(BASH is None or shutil.which("git") is None, reason="needs bash and git")

LANGUAGES = ("echo", "printf", "test", "[", "date", "find", "sed", "jq", "command", "cd")
PROGRAMS = sorted(
    program for program in (*READERS, *LANGUAGES) if program in ("cd", "type", ":") or shutil.which(program)
)

FLAGS = (
    *(f"-{letter}" for letter in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ01"),
    *(
        "-n1",
        "-o out",
        "-oout",
        "-w out",
        "-nro out",
        "--output=out",
        "--out out",
        "-exec touch out ;",
        "-delete",
        "-fprint out",
    ),
    *(
        "-name '*'",
        "-printf x",
        "-print",
        "--pre=touch",
        "--",
        "-",
        "-e p",
        "-e 'w out'",
        "-i",
        "-i.bak",
        "--in-place",
        "--help",
    ),
    *(
        "--color=always",
        "--recursive",
        "--files0-from=a",
        "-k1",
        "-t,",
        "-l",
        "--check",
        "-v x",
        "]",
        "!",
        "=",
        "+%s",
        "-d now",
    ),
)
OPERANDS = (
    "a",
    "b",
    "sub",
    "sub/c",
    ".",
    "out",
    "'*'",
    "*",
    "sub/*",
    "1",
    "p",
    "'1p'",
    "'w out'",
    "'1w out'",
    "'s/x/y/w out'",
    "x=1",
    "-",
    "'%ln'",
)
ARGUMENTS = st.lists(st.sampled_from((*FLAGS, *OPERANDS, *OPERANDS)), max_size=5).map(" ".join)
AFTER = st.sampled_from(
    ["", "", "", " | cat", " | sort", " 2>&1", " && ls", "; pwd", " < a", " > out", " 2> out", " &> out"]
)
GIT_FLAGS = (
    *(
        "-p",
        "-n1",
        "-a",
        "-v",
        "-d",
        "-D",
        "-m",
        "-f",
        "-O out",
        "-l",
        "--stat",
        "--output=out",
        "--ext-diff",
        "--all",
        "--list",
    ),
    *(
        "--get user.name",
        "--unset user.name",
        "--edit",
        "list",
        "drop",
        "new",
        "HEAD",
        "main",
        "a",
        "--",
        "--cached",
        "--abbrev-ref",
    ),
    *(
        "expire",
        "show",
        "get-url",
        "add x y",
        "user.name",
        "user.name x",
        "--textconv",
        "-r",
        "-u",
        "--set-upstream-to=x",
        "--color",
        "-C",
        "-Otouch",
        "sub/*",
        "-c",
        "-M",
    ),
)
GIT = st.builds(
    "git {} {}".format,
    st.sampled_from((*SUBCOMMANDS, "commit", "add", "checkout", "gc", "update-ref")),
    st.lists(st.sampled_from(GIT_FLAGS), max_size=3).map(" ".join),
)


def state(folder: Path) -> dict[str, object]:
    """All that is in a folder, less Git's index, which reading refreshes."""
    found: dict[str, object] = {}
    for here, folders, files in os.walk(folder):
        found.update((str(Path(here, name)), None) for name in folders)
        found.update((str(Path(here, name)), Path(here, name).read_bytes()) for name in files if name != "index")
    return found


def check(command: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch).resolve() / "work"
        (work / "sub").mkdir(parents=True)
        for name in ("a", "b", "sub/c"):
            (work / name).write_text("x\n1,2\n", "utf-8")
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(work / "sub"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_PAGER": "cat",
        }
        if command.startswith("git"):
            for arguments in (
                ["init", "-q"],
                ["add", "."],
                ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
            ):
                subprocess.run(["git", *arguments], cwd=work, env=environ, check=True, capture_output=True)
        policy = PermissionPolicy(roots=[work], cwd=work)
        if policy.decide(tool_named("Bash"), {"command": command}).behavior != "allow":
            return
        before = state(work)
        subprocess.run(
            [str(BASH), "--noprofile", "--norc", "-c", command],
            cwd=work,
            env=environ,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )
        assert state(work) == before


@pytest.mark.thorough
@settings(derandomize=True, max_examples=600, deadline=None, database=None)
@given(st.builds("{} {}{}".format, st.sampled_from(PROGRAMS), ARGUMENTS, AFTER))
def test_no_allowed_program_changes_anything(command):
    check(command)


@pytest.mark.thorough
@settings(derandomize=True, max_examples=200, deadline=None, database=None)
@given(GIT)
def test_no_allowed_git_command_changes_anything(command):
    check(command)

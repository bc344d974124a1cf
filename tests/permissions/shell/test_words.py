"""What we say about a command against what bash does with it, on generated commands.

Two claims: a command that we call simple has the words that bash gives it; and no way of writing that makes bash run `rm`
gets past a rule that denies `rm`.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.shell.reading import Unreadable, read_words
from declared_tools import tool_named
from shell_fuzzer.generated import generated

BASH = shutil.which("bash")
pytestmark = [pytest.mark.skipif(BASH is None, reason="needs bash"), pytest.mark.generated]

# what is special is rare, so that most texts get to bash
CHARACTERS = "aaabbb=-.,:@%+/^" * 6 + " '\"\\" * 12 + "#$`;&|<>(){}[]*?!\n"
WORDS = st.lists(st.sampled_from(CHARACTERS), max_size=16).map("".join)


@generated(400)
@given(WORDS)
def test_the_words_of_a_simple_command_are_those_of_bash(text):
    command = f"words {text}"
    try:
        words = read_words(command)
    except Unreadable:
        return
    if any(word.globs for word in words):
        return
    script = "words() { printf '%s\\0' \"$@\"; }\n" + command
    done = subprocess.run(
        [str(BASH), "--norc", "-c", script], capture_output=True, stdin=subprocess.DEVNULL, timeout=60
    )
    assert done.returncode == 0, done.stderr
    given_by_bash = done.stdout.decode().split("\0")[:-1] if len(words) > 1 else []
    assert given_by_bash == [word.text for word in words[1:]]


TOKENS = st.lists(
    st.sampled_from(
        [
            *("rm", "rm", "rm", " ", " ", " ", " x", "echo ", "'", '"', "\\", "\n", "; ", " && ", " || ", " | ", " & "),
            *("$(", ")", "(", "`", "{ ", "; }", "A=b ", ">f ", "2>&1 ", "<f ", "#", "$'", "if ", "then ", "; fi", "! "),
            *(
                "eval ",
                "bash -c ",
                "exec ",
                "command ",
                "time ",
                "<<E\n",
                "\nE\n",
                "<<<",
                "\\\n",
                "r",
                "m ",
                ",",
                "{",
                "}",
            ),
        ]
    ),
    min_size=2,
    max_size=9,
).map("".join)


@functools.cache
def programs() -> Path:
    """A folder with an `rm` that only leaves a mark, and nothing else but bash."""
    folder = Path(tempfile.mkdtemp(prefix="programs-"))
    (folder / "rm").write_text(f'#!{BASH}\n: > "$RAN"\n', "utf-8")
    (folder / "rm").chmod(0o755)
    (folder / "bash").symlink_to(str(BASH))
    return folder


@generated(600)
@given(TOKENS)
def test_a_command_that_makes_bash_run_rm_is_denied(command):
    policy = PermissionPolicy("bypassPermissions", deny=["Bash(rm *)"], roots=["/"], cwd="/")
    if policy.decide(tool_named("Bash"), {"command": command}).behavior == "deny":
        return
    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder) / "ran"
        work = Path(folder) / "work"
        work.mkdir()
        subprocess.run(
            [str(BASH), "--noprofile", "--norc", "-c", command],
            cwd=work,
            env={"PATH": str(programs()), "RAN": str(mark)},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )
        assert not mark.exists()

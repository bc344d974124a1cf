"""What the analysis says a command runs, against what bash runs: on generated commands, and real ones with a change.

A command that is analysed without a problem must be valid bash, and everything that bash runs must be among what was
found, with the same arguments, in one of the folders named.
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
from cellwright.permissions.shell.analysis import SimpleCommand, analyse
from declared_tools import tool_named
from row_tables import for_each_row
from shell_fuzzer.generated import generated

BASH = shutil.which("bash")
pytestmark = [pytest.mark.skipif(BASH is None, reason="needs bash"), pytest.mark.generated]

PROGRAMS = ("a", "b", "c", "git", "ls", "pytest", "tail", "grep", "timeout")
FOLDERS = ("src", "sub", "src/deep")
END = "\1"

TOKENS = st.lists(
    st.sampled_from(
        [
            *("a ", "b ", "c ", "a", "b x", "c -y ", " ", " ", " x", "'", '"', "\\", "\n", "\n", "; ", " && ", " || "),
            *(" | ", " |& ", " & ", "$(", ")", "(", "`", "{ ", "; }", "A=b ", ">f ", "2>&1 ", "<f ", "&>f ", ">|f "),
            *("#", " # ", "$'", "if ", "; then ", "; else ", "; fi", "! ", "cd src ", "cd .. ", "cd sub", "pushd src"),
            *("for i in 1 2", "; do ", "; done", "while a", "time ", "<<E\n", "<<'E'\n", "\nE\n", "<<< x ", "\\\n"),
            *("{x,y}", "$x", "${x}", "$?", "*", "?", "[a]", "=", "[ a = b ]", "true", "false", "esac", "case a in a) "),
            *("[[ a ]]", "((1))", "$((1))", "a() { b; }", "popd", "exit", ";;", "<(a)", ">(b)", "2>&-", "~", "-", "--"),
        ]
    ),
    max_size=10,
).map("".join)

REAL = (
    "git log --oneline -20 | head -5",
    "cd src && ls -la | grep x; a",
    "pytest -q tests 2>&1 | tail -20",
    'a "b c" && { b; c; } || (cd sub; ls)',
    "if ls x; then a y; elif b; then c; else git status; fi",
    "for i in 1 2; do a x; b y; done",
    "a <<'EOF' | grep y\nsome $text `here`\nEOF\nb",
    "git commit -m \"$(cat <<'EOF'\nit's (done)\nEOF\n)\"",
    "A=b timeout 5 a x > f 2>&1 &",
    "(cd src/deep && ls) && cd sub || c; ls",
    "a 'it''s' \"q\\\"x\" y\\ z # done",
    'echo "$(a x; b)" `c`',
    "cd src || exit 1\n# list\nls\n",
    "while false; do a; done; until true; do b; done; c",
)


@st.composite
def changed(draw: st.DrawFn) -> str:
    """A real command with a few characters put in, taken out or doubled."""
    command = draw(st.sampled_from(REAL))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(command)))
        until = min(len(command), at + draw(st.integers(0, 3)))
        put = draw(
            st.sampled_from(
                [
                    "",
                    "",
                    " ",
                    "'",
                    '"',
                    "\\",
                    "\n",
                    ";",
                    "&",
                    "|",
                    "(",
                    ")",
                    "{",
                    "}",
                    "$",
                    "`",
                    "#",
                    "<",
                    ">",
                    "=",
                    "x",
                ]
            )
        )
        command = command[:at] + put + command[until:]
    return command


@functools.cache
def programs() -> Path:
    """A folder of programs that only tell where they run and with what."""
    folder = Path(tempfile.mkdtemp(prefix="programs-"))
    for name in PROGRAMS:
        script = f'#!{BASH}\nprintf \'%s\\0\' "$PWD" "${{0##*/}}" "$@" $\'\\1\' >> "$RAN"\n'
        (folder / name).write_text(script, "utf-8")
        (folder / name).chmod(0o755)
    (folder / "cat").symlink_to(str(shutil.which("cat")))
    return folder


def run(command: str) -> tuple[str, list[list[str]]]:
    """Let bash run `command` where nothing can happen: the folder it started in, and what ran."""
    with tempfile.TemporaryDirectory() as scratch:
        work, ran = Path(scratch).resolve() / "work", Path(scratch) / "ran"
        for folder in FOLDERS:
            (work / folder).mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [str(BASH), "--noprofile", "--norc", "-c", f"trap wait EXIT\n{command}"],
            cwd=work,
            env={"PATH": str(programs()), "RAN": str(ran), "HOME": str(Path.home())},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )
        told = ran.read_text("utf-8", errors="surrogateescape") if ran.exists() else ""
    return str(work), [record.split("\0")[:-1] for record in told.split(f"{END}\0") if record]


def could_be(command: SimpleCommand, folder: str, words: list[str]) -> bool:
    if command.folders is not None and folder not in command.folders:
        return False
    for start in range(len(command.words)):
        # a wrapper in front is not what was recorded
        found = command.words[start:]
        if any(word.dynamic or word.globs or word.raw.startswith("~") for word in found):
            if found[0].dynamic or found[0].text == words[0]:
                return True
        elif [word.text for word in found] == words:
            return True
    return False


def check(command: str) -> None:
    before = analyse(command, "/x")
    if before.problem:
        return
    valid = subprocess.run([str(BASH), "-n", "-c", "--", command], capture_output=True, timeout=60)
    assert valid.returncode == 0, valid.stderr
    folder, ran = run(command)
    found = analyse(command, folder).commands
    for where, *words in ran:
        where = where.removeprefix("/private") if folder.startswith("/var") else where
        assert any(could_be(each, where, words) for each in found), (where, words, found)


@generated(700)
@given(TOKENS)
def test_what_generated_commands_run_is_found(command):
    check(command)


@generated(400)
@given(changed())
def test_what_real_commands_run_is_found_whatever_is_changed(command):
    check(command)


@for_each_row("command", REAL)
def test_real_commands_are_analysed(command):
    if "`" not in command.partition("<<")[0]:
        assert analyse(command, "/x").problem == ""
    check(command)


@generated(400)
@given(
    st.one_of(TOKENS, changed(), st.text(max_size=60)), st.sampled_from(["default", "acceptEdits", "dontAsk", "plan"])
)
def test_what_cannot_be_read_is_never_allowed(command, mode):
    found = analyse(command, "/srv/x")
    narrow = PermissionPolicy(mode, allow=["Bash(a *)", "Bash(git *)"], roots=["/srv/x"], cwd="/srv/x")
    decision = narrow.decide(tool_named("Bash"), {"command": command})
    assert not (decision.behavior == "allow" and found.problem)
    wide = PermissionPolicy(mode, allow=["Bash"], roots=["/srv/x"], cwd="/srv/x")
    decision = wide.decide(tool_named("Bash"), {"command": command})
    assert not (decision.behavior == "allow" and not found.parses)

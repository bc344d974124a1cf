"""The Bash tool with real shells: results, folders, time, output, and that nothing is left over."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.calls.tool_results import output_folder
from cellwright.agent.tool import ToolAccess, ToolContext, ToolResult
from cellwright.errors import ErrorCode, ToolError
from cellwright.text import plain
from cellwright.tools.shell.bash import bash_tool
from cellwright.tools.shell.run_command import LIVE_CHARS, LIVE_SECONDS, SHOWN_CHARS
from eventual import SECONDS, eventually
from processes.marked_processes import marked, wait_until_gone
from processes.this_process import children, open_files, threads
from row_tables import for_each_row

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs bash")


class Shell:
    """One session's Bash tool; `live` is what the views got."""

    def __init__(self, cwd: Path, *roots: Path, environ: dict[str, str] | None = None, **more: Any) -> None:
        self.tool = bash_tool(cwd, roots, environ=os.environ if environ is None else environ, **more)
        self.live: list[str] = []
        self.times: list[float] = []
        self.on_live: Callable[[], None] = lambda: None

    def _progress(self, text: str = "", **_: Any) -> None:
        self.live.append(text)
        self.times.append(time.monotonic())
        self.on_live()

    async def call(self, command: str, **options: Any) -> ToolResult:
        tool_input = {"command": command, **options}
        check_input(self.tool, tool_input)
        result = await self.tool.call(tool_input, ToolContext("toolu_1", self._progress))
        assert isinstance(result, ToolResult)
        return result

    def run(self, command: str, **options: Any) -> ToolResult:
        return asyncio.run(self.call(command, **options))

    def text(self, command: str, **options: Any) -> str:
        content = self.run(command, **options).content
        assert isinstance(content, str)
        return content


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.mark.parametrize(
    ("command", "content", "is_error", "code"),
    [
        ("echo hello", "hello", False, 0),
        ("true", "(no output)", False, 0),
        ("printf 'a\\nb\\n'", "a\nb", False, 0),
        ("exit 3", "Exit code 3", True, 3),
        ("echo x; false", "Exit code 1\nx", True, 1),
        ("nosuchprogram_", "Exit code 127 (command not found)", True, 127),
        ("./notexecutable", "Exit code 126 (not executable)", True, 126),
        ("kill -9 $$", "Exit code 137 (ended by SIGKILL)", True, 137),
        ("bash -c 'kill -TERM $$'", "Exit code 143 (ended by SIGTERM)", True, 143),
        ("exec echo x", "x", False, 0),
        ("cat", "(no output)", False, 0),
        ('read x; echo "[$x]"', "[]", False, 0),
        ("echo 'a  b' \"$((1 + 1))\"", "a  b 2", False, 0),
        ("cat <<EOF\nline 1\nline 2\nEOF", "line 1\nline 2", False, 0),
        ("# a comment\necho x # another", "x", False, 0),
        ("echo $#", "0", False, 0),
        ("set -e; false; echo no", "Exit code 1", True, 1),
        ("trap 'echo mine' EXIT; echo x", "x\nmine", False, 0),
        ("printf 'caf\\303\\251 \\377'", "café �", False, 0),
        ("printf 'a\\tb'", "a\tb", False, 0),
        # 1 is an answer of these
        ("grep nothing notexecutable", "[Exit code 1: no lines matched.]", False, 1),
        ("cat notexecutable | grep nothing", "[Exit code 1: no lines matched.]", False, 1),
        ("true; grep -q nothing notexecutable", "[Exit code 1: no lines matched.]", False, 1),
        ("grep nothing nosuchfile_", "Exit code 2", True, 2),
        ("test -d nosuchfile_", "[Exit code 1: the condition is false.]", False, 1),
        ("[ 1 = 2 ]", "[Exit code 1: the condition is false.]", False, 1),
        ("cmp -s notexecutable /dev/null", "[Exit code 1: they differ.]", False, 1),
        # whose code it is, is not known
        ("false && grep x notexecutable", "Exit code 1", True, 1),
        ("echo grep; false", "Exit code 1\ngrep", True, 1),
        ("grep x notexecutable\nfalse", "Exit code 1", True, 1),
    ],
)
def test_results(shell, tmp_path, command, content, is_error, code):
    (tmp_path / "notexecutable").write_text("#!/bin/sh\n", "utf-8")
    result = shell.run(command)
    assert result.content == content or (is_error and str(result.content).startswith(f"{content}\n"))
    assert result.is_error is is_error
    assert (result.structured.exit_code, result.structured.command) == (code, command)


def test_a_syntax_error_is_a_failure_and_says_so(shell):
    result = shell.run("echo 'unbalanced")
    assert result.is_error
    assert "unexpected EOF" in result.content


@pytest.mark.parametrize("command", ["echo a\0b", "echo " + "x" * 3_000_000])
def test_a_command_that_cannot_be_started_is_an_error_of_the_tool(shell, command):
    before = open_files()
    with pytest.raises(ToolError, match="could not be started"):
        shell.run(command)
    assert open_files() <= before


def test_the_folder_is_kept_and_variables_are_not(shell, tmp_path):
    (tmp_path / "a b").mkdir()
    assert shell.text("pwd") == str(tmp_path)
    assert shell.text("cd 'a b'; X=1; export Y=2") == "(no output)"
    assert shell.text('pwd; echo "[$X$Y]"') == f"{tmp_path}/a b\n[]"
    assert shell.text("cd ..; exit 7").startswith("Exit code 7")
    assert shell.text("pwd") == str(tmp_path)
    assert shell.text("(cd 'a b')") == "(no output)"
    assert shell.text("pwd") == str(tmp_path)


def test_the_folder_does_not_leave_the_roots(tmp_path):
    project, other, elsewhere = tmp_path / "proj", tmp_path / "other", tmp_path / "proj-evil"
    for folder in (project, other, elsewhere, project / "sub"):
        folder.mkdir()
    (project / "link").symlink_to(elsewhere)
    shell = Shell(project, other)
    assert shell.text(f"cd {other}") == "(no output)"
    assert shell.text("pwd") == str(other)
    for target in (elsewhere, "/", project / "link", tmp_path):
        note = shell.text(f"cd {target}")
        assert "outside the project" in note
        assert str(project) in note
        assert shell.text("pwd") == str(project)


def test_a_run_opens_folders_besides(tmp_path):
    project, added = tmp_path / "proj", tmp_path / "added"
    project.mkdir()
    (added / "sub").mkdir(parents=True)
    opened: list[Path] = [added]
    shell = Shell(project, more_roots=lambda: opened)
    assert shell.text(f"cd {added}/sub") == "(no output)"
    assert shell.text("pwd") == f"{added}/sub"
    opened.clear()  # the next run does not have it
    assert shell.text("pwd") == str(project)
    assert "outside the project" in shell.text(f"cd {added}")


def test_a_folder_that_is_gone_or_was_replaced_is_left(shell, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub2").mkdir()
    shell.run("cd sub")
    assert shell.text("rmdir ../sub; true") == "(no output)"
    assert shell.text("pwd") == str(tmp_path)
    shell.run("cd sub2")
    (tmp_path / "sub2").rmdir()
    (tmp_path / "sub2").symlink_to("/")
    assert shell.text("pwd") == str(tmp_path)


def test_what_a_command_says_about_its_folder_is_checked(shell, tmp_path):
    shell.run("for fd in /proc/self/fd/*; do echo /etc >&${fd##*/}; done 2>/dev/null; true")
    assert shell.text("pwd") == str(tmp_path)


@pytest.mark.parametrize(
    ("command", "environ"),
    [
        ("sleep {0} | (echo started; sleep {0} & sleep {0} | sleep {0})", {}),
        ("echo started; : git push; sleep {0} & sleep {0} | sleep {0}", {}),
        ("echo started; sleep {0}", {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"}),
    ],
)
def test_a_timeout_ends_what_may_not_go_on_and_tells_what_there_was(tmp_path, command, environ):
    shell = Shell(tmp_path, environ={**os.environ, **environ})
    marker = f"31{os.getpid()}.5"
    # on a busy machine a shell takes its time to start
    for milliseconds in (300, 5_000, 60_000):
        with pytest.raises(ToolError) as caught:
            shell.run(command.format(marker), timeout=milliseconds)
        wait_until_gone(marker)
        assert caught.value.code == ErrorCode.EXECUTION_TIMEOUT
        assert caught.value.details["requested_timeout"] == milliseconds / 1000
        assert caught.value.details["actual_execution_time"] >= milliseconds / 1000
        if "started" in caught.value.message:
            break
    assert "started" in caught.value.message


async def cancelled_after_output(shell: Shell, command: str) -> float:
    """Run `command`, cancel it once it has written something, and give the seconds that took."""
    task = asyncio.create_task(shell.call(command))
    while not shell.live:
        await asyncio.sleep(0)
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return time.monotonic() - began


@pytest.mark.parametrize(
    "command",
    [
        "echo x; sleep {0}",
        "echo x; sleep {0} & sleep {0}",
        "echo x; sleep {0} | sleep {0} | sleep {0}",
        "trap '' TERM INT HUP; echo x; sleep {0} & sleep {0}; sleep {0}",
        "trap 'sleep {0}' TERM; echo x; sleep {0}",
        "echo x; bash -c 'sleep {0} & sleep {0}'",
        "echo x; (trap '' TERM; sleep {0}) & exec sleep {0}",
        "echo x; setsid sleep {0}; sleep {0}",
        "setsid nohup sleep {0} >/dev/null 2>&1 & echo x; sleep {0}",
        "echo x; yes {0}",
    ],
)
def test_cancelling_ends_everything_at_once(shell, command):
    marker = f"32{os.getpid()}.5"

    def cancelled(command: str) -> float:
        shell.live.clear()
        seconds = asyncio.run(cancelled_after_output(shell, command.format(marker)))
        wait_until_gone(marker)
        return seconds

    took, plain = [cancelled(command)], [cancelled("echo x; exec sleep {0}")]
    # on a busy machine the best of a few says what it takes, beside what the plainest command takes there
    while min(took) > 10 * max(*plain, 0.05) and len(took) < 20:
        took.append(cancelled(command))
        plain.append(cancelled("echo x; exec sleep {0}"))
    assert min(took) <= 10 * max(*plain, 0.05)


def test_cancelling_twice_still_ends_it(shell):
    marker = f"33{os.getpid()}.5"

    async def scene() -> None:
        task = asyncio.create_task(shell.call(f"trap '' TERM; echo x; sleep {marker}; sleep {marker}"))
        while not shell.live:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(scene(), SECONDS))
    wait_until_gone(marker)


def test_no_zombies_no_descriptors_and_no_threads_are_left(shell):
    shell.run("true")
    before = open_files(), threads(), children()

    async def many() -> None:
        await asyncio.gather(*(shell.call(f"echo {number} | cat") for number in range(20)))
        with pytest.raises(ToolError):
            await shell.call("sleep 100", timeout=50)

    asyncio.run(many())
    eventually(
        lambda: (open_files() - before[0], threads() - before[1], children() - before[2]), lambda more: not any(more)
    )


def test_what_runs_on_in_the_background_is_not_waited_for(shell):
    marker = f"34{os.getpid()}.5"
    content = shell.text(f"sleep {marker} & echo started")
    assert content.startswith("started\n[Something of")
    pids = marked(marker)
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def test_calls_at_the_same_time_do_not_mix(shell):
    async def both() -> list[ToolResult]:
        return await asyncio.gather(*(shell.call(f"for i in 1 2 3; do echo {name}; done") for name in "abcdef"))

    assert [result.content for result in asyncio.run(both())] == [f"{name}\n{name}\n{name}" for name in "abcdef"]


def test_output_is_live_and_paced(shell, tmp_path):
    shell.on_live = (tmp_path / "seen").touch
    shell.run("echo 1; until [ -e seen ]; do sleep 0.01; done; for i in $(seq 2 300); do echo $i; sleep 0.002; done")
    assert "".join(shell.live).split() == [str(number) for number in range(1, 301)]
    assert shell.live[0] == "1\n"
    seconds = shell.times[-1] - shell.times[0]
    assert len(shell.live) <= seconds / LIVE_SECONDS + 3


def test_a_view_does_not_get_more_than_it_can_show(shell):
    shell.run("head -c 5000000 /dev/zero | tr '\\0' x")
    # a machine that takes longer shows more of it, at the same pace
    assert max(map(len, shell.live)) <= 4 * LIVE_CHARS
    assert len(shell.live) <= (shell.times[-1] - shell.times[0]) / LIVE_SECONDS + 3
    assert shell.live[-1].endswith("x")


def test_long_output_is_cut_in_the_middle_and_kept_whole(shell):
    content = shell.text("seq 1 100000")
    assert content.startswith("1\n2\n3\n")
    assert content.endswith("99999\n100000")
    assert len(content) < SHOWN_CHARS + 300
    found = re.search(r"the whole output is in (\S+) …", content)
    assert found
    file = Path(found[1])
    assert file.read_text("utf-8") == "".join(f"{number}\n" for number in range(1, 100_001))
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent == output_folder()
    assert file.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("count", [SHOWN_CHARS - 1, SHOWN_CHARS, SHOWN_CHARS + 1])
def test_the_limit_is_exact(shell, count):
    content = shell.text(f"head -c {count} /dev/zero | tr '\\0' x")
    assert (content == "x" * count) is (count <= SHOWN_CHARS)


def test_a_failure_with_long_output_tells_its_code_first(shell):
    content = shell.text("seq 1 100000; exit 4")
    assert content.startswith("Exit code 4\n1\n2\n")


@for_each_row(
    ("written", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("10%\r50%\r100%\n", "100%\n"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("\x1b]0;title\x07x", "x"),
        ("plain", "plain"),
        ("x" * 100_000, "x" * 100_000),
    ],
)
def test_output_as_a_screen_would_show_it(written, shown):
    assert plain(written) == shown


def test_a_character_in_two_pieces_is_one(shell):
    assert shell.text("printf '\\303'; sleep 0.05; printf '\\251'") == "é"


def test_the_preview_shows_what_is_run_and_where(shell, tmp_path):
    preview = asyncio.run(shell.tool.preview({"command": "ls \u202e#\x1b[2K", "description": "List files"}))
    assert preview.title == "Run a shell command"
    assert preview.detail == "ls ⟨U+202E⟩#⟨U+001B⟩[2K"
    assert preview.kind == "command"
    assert "U+202E, U+001B" in preview.warning
    long = "echo " + "x" * 20_000
    assert asyncio.run(shell.tool.preview({"command": long})).detail == long
    assert shell.tool.title({"command": "a\nb"}) == "a ⏎ b"


def test_the_environment_of_a_command(tmp_path):
    environ = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/x",
        "ANTHROPIC_API_KEY": "sk-ant-1",
        "GREETING": "hi",
        "BASH_ENV": "evil",
    }
    shell = Shell(tmp_path, environ=environ)
    lines = dict(line.split("=", 1) for line in shell.text("env").split("\n"))
    assert lines["GREETING"] == "hi"
    assert lines["CLAUDECODE"] == "1"
    assert lines["TERM"] == "dumb"
    assert not {"ANTHROPIC_API_KEY", "BASH_ENV"} & lines.keys()


def test_users_rc_files_are_not_read(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    for name in (".bashrc", ".bash_profile", ".profile"):
        (home / name).write_text("echo from rc\n", "utf-8")
    monkeypatch.setenv("HOME", str(home))
    assert Shell(tmp_path).text("echo x") == "x"


def test_its_schema(shell):
    assert shell.tool.name == "Bash"
    assert not shell.tool.read_only
    assert shell.tool.access == ToolAccess("shell", "command")
    assert shell.tool.limits.seconds is None
    for tool_input in (
        {},
        {"command": ""},
        {"command": "x", "timeout": 7_200_001},
        {"command": "x", "depth": 1},
        {"command": "x", "environment_variables": {"A": 1}},
    ):
        with pytest.raises(ToolError):
            check_input(shell.tool, tool_input)
    assert check_input(shell.tool, {"command": "x", "dangerouslyDisableSandbox": True, "timeout": None}) == {
        "command": "x",
        "dangerouslyDisableSandbox": True,
    }


def test_claude_is_told_the_times_that_hold(tmp_path):
    environ = {"BASH_DEFAULT_TIMEOUT_MS": "5000", "BASH_MAX_TIMEOUT_MS": "7000"}
    timeout = Shell(tmp_path, environ=environ).tool.input_schema["properties"]["timeout"]
    assert timeout == {
        "type": "integer",
        "minimum": 1,
        "maximum": 7_200_000,
        "description": "Milliseconds (default 5000, at most 7000; in the background default 1800000)",
    }

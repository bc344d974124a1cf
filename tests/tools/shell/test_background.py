"""Commands in the background: started there or moved there, looked at, stopped, and never left behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.tool import ToolContext, ToolResult
from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.shell.background import background_tasks, task_stop_tool
from cellwright.tools.shell.bash import bash_tool, read_shell_limits
from eventual import SECONDS
from processes.marked_processes import marked, wait_until_gone
from row_tables import for_each_row

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs bash")

MORE_THAN_ANY = 10**9


class Shell:
    """One session's Bash and TaskStop."""

    def __init__(self, cwd: Path, **environ: str) -> None:
        tools = bash_tool(cwd, environ={**os.environ, **environ}), task_stop_tool(background_tasks())
        self.tools = {tool.name: tool for tool in tools}
        self.live: list[str] = []

    def _progress(self, text: str = "", **_: Any) -> None:
        self.live.append(text)

    async def call(self, name: str, **tool_input: Any) -> ToolResult:
        tool = self.tools[name]
        check_input(tool, tool_input)
        result = await tool.call(tool_input, ToolContext("toolu_1", self._progress, session_id="s"))
        assert isinstance(result, ToolResult)
        return result

    async def bash(self, command: str, **options: Any) -> ToolResult:
        return await self.call("Bash", command=command, **options)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def play(scene: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scene(), SECONDS))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def task_of(result: ToolResult) -> tuple[str, Path]:
    return result.structured.task_id, Path(result.structured.output_file)


def test_a_command_in_the_background_returns_at_once_and_its_output_is_in_a_file(shell: Shell, tmp_path: Path) -> None:
    async def scene() -> None:
        result = await shell.bash("echo first; until [ -e go ]; do sleep 0.01; done; echo last", run_in_background=True)
        task_id, file = task_of(result)
        assert task_id in str(result.content)
        assert str(file) in str(result.content)
        await until(lambda: file.read_text() == "first\n")
        assert file.stat().st_mode & 0o777 == 0o600
        (tmp_path / "go").touch()
        await until(lambda: file.read_text() == "first\nlast\n")
        await until(lambda: not marked(str(tmp_path / "go")))
        news = ""
        while task_id not in news:
            news = str((await shell.bash("true")).content)
        assert f"[Background task {task_id}" in news
        assert "code 0" in news
        assert task_id not in str((await shell.bash("true")).content), "it is told once"
        assert shell.live == [], "nothing of it is shown in the call that has ended"

    play(scene)


def test_a_command_that_takes_too_long_goes_on_in_the_background(shell: Shell, tmp_path: Path) -> None:
    async def scene() -> None:
        # on a busy machine a shell takes its time to start
        for milliseconds in (200, 5_000, 60_000):
            command = "echo one; until [ -e go ]; do read -t 0.01 <> <(:); done; echo two"
            result = await shell.bash(command, timeout=milliseconds)
            text = str(result.content)
            assert "has not ended" in text
            if shell.live:
                break
        task_id, file = task_of(result)
        assert text.endswith("so far:\none")
        assert not result.is_error
        (tmp_path / "go").touch()
        await until(lambda: file.read_text() == "one\ntwo\n")
        assert "".join(shell.live) == "one\n"
        stopped = await shell.call("TaskStop", task_id=task_id)
        assert "code 0" in str(stopped.content) or "Stopped" in str(stopped.content)

    play(scene)


@pytest.mark.parametrize("command", ["sleep {0}", "trap '' TERM; sleep {0}; sleep {0}", "setsid sleep {0} & sleep {0}"])
def test_task_stop_ends_it_and_all_that_it_started(shell: Shell, command: str) -> None:
    marker = f"41{os.getpid()}.5"

    async def scene() -> None:
        task_id, _ = task_of(await shell.bash(command.format(marker), run_in_background=True))
        await until(lambda: marked(marker))
        stopped = await shell.call("TaskStop", task_id=task_id)
        assert str(stopped.content).startswith(f"Stopped {task_id}")
        await until(lambda: not marked(marker))
        again = await shell.call("TaskStop", shell_id=task_id)  # as KillShell had it
        assert "(by TaskStop) already" in str(again.content)

    play(scene)


def test_a_task_that_is_not_known_is_an_error_that_names_what_there_is(shell: Shell) -> None:
    async def scene() -> None:
        with pytest.raises(ToolError, match="Background task 'bash-0' was not found") as caught:
            await shell.call("TaskStop", task_id="bash-0")
        assert caught.value.code == ErrorCode.INVALID_PARAMETERS

    play(scene)


def test_the_background_has_a_time_limit_too(shell: Shell) -> None:
    marker = f"42{os.getpid()}.5"

    async def scene() -> None:
        task_id, _ = task_of(await shell.bash(f"sleep {marker}", run_in_background=True, timeout=100))
        await until(lambda: not marked(marker))
        news = ""
        while task_id not in news:
            news = str((await shell.bash("true")).content)
        assert "(its time limit" in news

    play(scene)


def test_where_the_loop_ends_the_commands_end(shell: Shell) -> None:
    marker = f"43{os.getpid()}.5"

    async def scene() -> None:
        await shell.bash(f"sleep {marker}", run_in_background=True)
        await until(lambda: marked(marker))

    play(scene)
    wait_until_gone(marker)


def test_an_interrupted_call_leaves_the_background_alone(shell: Shell) -> None:
    marker, other = f"44{os.getpid()}.5", f"45{os.getpid()}.5"

    async def scene() -> None:
        task_id, _ = task_of(await shell.bash(f"sleep {marker}", run_in_background=True))
        call = asyncio.create_task(shell.bash(f"echo x; sleep {other}"))
        await until(lambda: bool(shell.live))
        call.cancel()
        await asyncio.wait({call})
        await until(lambda: not marked(other))
        assert marked(marker)
        await shell.call("TaskStop", task_id=task_id)

    play(scene)


def test_where_there_is_no_background_a_command_runs_to_its_end(tmp_path: Path) -> None:
    shell = Shell(tmp_path, CLAUDE_CODE_DISABLE_BACKGROUND_TASKS="1")

    async def scene() -> None:
        assert (await shell.bash("echo done", run_in_background=True)).content == "done"

    play(scene)


def test_a_folder_and_variables_for_one_call(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()

    async def scene() -> None:
        variables = {"GREETING": "hi there"}
        result = await shell.bash(
            'pwd; echo "$GREETING"; cd /', working_directory="docs", environment_variables=variables
        )
        assert result.content == f"{tmp_path}/docs\nhi there"
        assert (await shell.bash('pwd; echo "[$GREETING]"')).content == f"{tmp_path}\n[]"
        bash = shell.tools["Bash"]
        assert bash.facts is not None
        assert bash.facts({"command": "ls", "working_directory": "docs"})["cwd"] == str(tmp_path)
        await shell.bash("cd docs")
        assert bash.facts({"command": "ls"})["cwd"] == f"{tmp_path}/docs"
        await shell.bash("cd ..")
        assert bash.preview is not None
        preview = await bash.preview({"command": "ls", "working_directory": "docs", "environment_variables": variables})
        assert "shell command" in preview.title
        assert "docs" in preview.title
        assert preview.detail.split("\n") == ["GREETING=hi there", "ls"]

    play(scene)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"working_directory": ".."}, "is outside the project's folders"),
        ({"working_directory": "nowhere"}, "is not a folder"),
        ({"environment_variables": {"LD_PRELOAD": "x.so"}}, "'LD_PRELOAD' cannot be set"),
        ({"environment_variables": {"a b": "x"}}, "'a b' cannot be set"),
    ],
)
def test_what_cannot_be_chosen(shell: Shell, options: dict[str, Any], message: str) -> None:
    async def scene() -> None:
        with pytest.raises(ToolError, match=message):
            await shell.bash("touch made", **options)

    play(scene)


def test_a_folder_behind_a_link_out_of_the_project_is_outside(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/")

    async def scene() -> None:
        with pytest.raises(ToolError, match="is outside"):
            await shell.bash("pwd", working_directory="out")

    play(scene)


def test_a_command_that_takes_too_much_memory_fails_and_says_why(tmp_path: Path) -> None:
    shell = Shell(tmp_path, CLAUDE_CODE_TOOL_MEMORY_LIMIT="200M")

    async def scene() -> None:
        fits = await shell.bash("python3 -c 'x = bytearray(50_000_000); print(len(x))'")
        assert fits.content == "50000000"
        result = await shell.bash("python3 -c 'x = bytearray(500_000_000)'")
        assert result.is_error
        assert "MemoryError" in str(result.content)
        assert "200 MiB" in str(result.content)

    play(scene)


@for_each_row(
    ("environ", "expected"),
    [
        ({}, (120, 600, 30_000, True)),
        ({"BASH_DEFAULT_TIMEOUT_MS": "900000"}, (900, 900, 30_000, True)),
        ({"BASH_MAX_TIMEOUT_MS": "60000"}, (120, 120, 30_000, True)),
        ({"BASH_DEFAULT_TIMEOUT_MS": "30000", "BASH_MAX_TIMEOUT_MS": "60000"}, (30, 60, 30_000, True)),
        ({"BASH_DEFAULT_TIMEOUT_MS": "x", "BASH_MAX_OUTPUT_LENGTH": "-3"}, (120, 600, 30_000, True)),
        ({"BASH_MAX_OUTPUT_LENGTH": "999999999"}, (120, 600, 150_000, True)),
        ({"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"}, (120, 600, 30_000, False)),
    ],
)
def test_the_limits_that_users_know(environ: dict[str, str], expected: tuple[float, float, int, bool]) -> None:
    limits = read_shell_limits(environ)
    found = (limits.seconds(None), limits.seconds(MORE_THAN_ANY), limits.shown_chars, limits.background)
    assert found == expected


@for_each_row(
    ("setting", "expected"),
    [("2G", 2048), ("512M", 512), ("536870912", 512), ("1.5 GiB", 1536), ("off", None), ("0", None)],
)
def test_the_memory_limit_that_users_know(setting: str, expected: int | None) -> None:
    assert read_shell_limits({"CLAUDE_CODE_TOOL_MEMORY_LIMIT": setting}).memory_mb == expected


def test_without_a_setting_a_process_may_take_most_of_the_memory_there_is() -> None:
    memory = read_shell_limits({}).memory_mb
    assert memory is not None
    assert 100 < memory < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20

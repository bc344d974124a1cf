"""Bash: a shell command in the project, bounded in time and output, with nothing left running when it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cellwright.agent.tool import Tool, ToolContext, ToolError, ToolLimits, ToolResult
from cellwright.errors import ErrorCode
from cellwright.events import Preview
from cellwright.tools.child_environment import child_environment
from cellwright.tools.child_processes import end_group, is_alive, watchdog
from cellwright.tools.command_output import MOST_BYTES, CommandOutput
from cellwright.visible_text import unseen_characters, visible

DEFAULT_TIMEOUT_MS = 120_000
MOST_TIMEOUT_MS = 600_000
GRACE_SECONDS = 0.1
"""Between asking a group to end and ending it."""

DESCRIPTION = """\
Run a shell command in the project folder and get its output (stdout and stderr together) and exit code.

- Each call is a new `bash` without the user's rc files. The folder that a command changes to with `cd` is kept for the next call while it \
is inside the project; variables, functions and aliases are not kept.
- Use Read, Grep, Glob, LS, Edit and Write for files rather than cat, grep, find, sed or echo.
- Standard input is closed: give flags that make a program non-interactive.
- Quote paths with spaces. Join commands that depend on each other with `&&`.
- Long output is cut in the middle; the whole is then in a file that Read can open.
- The environment has no API keys or other secrets. Do not start servers or watchers that never end."""

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "minLength": 1, "description": "The command to run"},
        "timeout": {
            "type": "integer",
            "minimum": 1,
            "maximum": MOST_TIMEOUT_MS,
            "description": f"Milliseconds after which the command is stopped (default {DEFAULT_TIMEOUT_MS})",
        },
        "description": {"type": "string", "description": "What the command does, in five to ten words"},
    },
    "required": ["command"],
    "additionalProperties": False,
}

# exit code 1 that is an answer and no failure
_ANSWERS = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "rg", "git grep"), "no lines matched"),
    **dict.fromkeys(("diff", "git diff", "cmp"), "the files differ"),
    **dict.fromkeys(("test", "["), "the condition is false"),
    "find": "some folders could not be searched",
}


@dataclass(slots=True)
class _Folder:
    """Where the next command runs: what `cd` leaves behind, as long as it is inside the roots."""

    start: Path
    roots: tuple[Path, ...]
    now: Path

    def moved(self, to: str) -> str:
        """Take over the folder a command ended in; a note when it may not."""
        if not to or to == str(self.now):
            return ""
        target = Path(to)
        if any(target.is_relative_to(root) for root in self.roots):
            self.now = target
            return ""
        self.now = self.start
        return f"[The folder {to} is outside the project; the next command runs in {self.start} again.]"


def bash_tool(cwd: Path, roots: Sequence[Path]) -> Tool:
    """The tool `Bash` of one session, starting in `cwd`; `cd` is kept inside `roots` (and `cwd`)."""
    start = cwd.resolve()
    folder = _Folder(start, tuple(dict.fromkeys([start, *(Path(root).resolve() for root in roots)])), start)

    async def call(tool_input: dict[str, Any], ctx: ToolContext) -> ToolResult:
        if not folder.now.is_dir():
            folder.now = folder.start
        return await _run(folder, tool_input["command"], tool_input.get("timeout", DEFAULT_TIMEOUT_MS) / 1000, ctx)

    async def preview(tool_input: Mapping[str, Any]) -> Preview:
        command = str(tool_input["command"])
        hidden = unseen_characters(command)
        warning = f"It holds characters that cannot be seen: {', '.join(hidden)}." if hidden else ""
        return Preview(f"Run a shell command in {folder.now}", visible(command), "command", str(folder.now), warning)

    return Tool(
        name="Bash",
        description=DESCRIPTION,
        input_schema=SCHEMA,
        call=call,
        rule_key="command",
        limits=ToolLimits(seconds=None),
        title=lambda tool_input: visible(str(tool_input["command"]).strip().split("\n")[0])[:200],
        preview=preview,
    )


async def _run(folder: _Folder, command: str, seconds: float, ctx: ToolContext) -> ToolResult:
    bash = shutil.which("bash")
    if bash is None:
        message = "There is no bash on this machine (on Windows, install Git Bash). Use Python instead."
        raise ToolError(message, code=ErrorCode.EXECUTION_ERROR)
    reader, writer = os.pipe()
    output_reader, output_writer = os.pipe()
    pipe = watchdog.pipe()
    # signing on is the shell's first act, so that there is no moment in which it could be orphaned
    script = f"echo \"+ $$\" >&{pipe}; exec {pipe}>&-; trap 'pwd -P >&{writer}' EXIT\n{command}"
    try:
        process = await asyncio.create_subprocess_exec(
            bash,
            "--noprofile",
            "--norc",
            "-c",
            script,
            cwd=folder.now,
            env=child_environment(os.environ),
            stdin=asyncio.subprocess.DEVNULL,
            # a pipe of ours: asyncio would wait for what the shell left in the background to close its own
            stdout=output_writer,
            stderr=output_writer,
            pass_fds=(pipe, writer),
            start_new_session=True,
        )
    except OSError as error:
        os.close(reader)
        os.close(output_reader)
        raise ToolError(f"The command could not be started: {error}") from error
    finally:
        os.close(writer)
        os.close(output_writer)
    watchdog.began(process.pid)
    output = CommandOutput()
    started = time.monotonic()
    try:
        async with asyncio.timeout(seconds):
            await _read(process, output_reader, output, ctx)
    except TimeoutError:
        await _end(process)
        raise _timed_out(seconds, time.monotonic() - started, output.close()) from None
    except BaseException:
        await _end(process)
        raise
    finally:
        moved_to = _read_now(reader)
        watchdog.ended(process.pid)
    return _result(command, process.returncode or 0, output.close(), folder.moved(moved_to))


async def _read(
    process: asyncio.subprocess.Process, descriptor: int, output: CommandOutput, ctx: ToolContext
) -> None:
    """Take output until the shell ends; what it left in the background may hold the pipe open, and is not waited for."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
    )

    async def take() -> None:
        while data := await reader.read(65536):
            ctx.progress(text=output.add(data))
            if output.bytes > MOST_BYTES:
                raise ToolError(f"The command was stopped: it wrote more than {MOST_BYTES:,} bytes.")

    taking = asyncio.ensure_future(take())
    ended = asyncio.ensure_future(process.wait())
    try:
        await asyncio.wait({taking, ended}, return_when=asyncio.FIRST_COMPLETED)
        if taking.done():
            taking.result()
            await ended
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(taking, GRACE_SECONDS)
    finally:
        taking.cancel()
        ended.cancel()
        transport.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the whole group: ask first, then insist; reap the shell."""
    end_group(process.pid, signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), GRACE_SECONDS)
    if is_alive(process.pid):
        end_group(process.pid, signal.SIGKILL)
    await process.wait()


def _read_now(reader: int) -> str:
    """The folder that the shell wrote at its end, if it got there."""
    try:
        os.set_blocking(reader, False)
        return os.read(reader, 65536).decode("utf-8", "replace").strip()
    except BlockingIOError:
        return ""
    finally:
        os.close(reader)


def _timed_out(seconds: float, elapsed: float, output: str) -> ToolError:
    so_far = f"\nIts output so far:\n{output}" if output.strip() else ""
    return ToolError(
        f"The command was stopped after {seconds:g} s, its timeout. Give a longer `timeout` if it needs it.{so_far}",
        code=ErrorCode.EXECUTION_TIMEOUT,
        details={"requested_timeout": seconds, "actual_execution_time": round(elapsed, 3)},
    )


def _result(command: str, code: int, output: str, note: str) -> ToolResult:
    meaning = _meaning(command, code)
    parts = [output.rstrip("\n")] if output.strip() else []
    if meaning:
        parts.append(f"[Exit code {code}: {meaning}.]")
    elif code:
        parts.append(f"[Exit code {code}{_signal_name(code)}.]")
    if note:
        parts.append(note)
    content = "\n".join(parts) or "(no output)"
    return ToolResult(content, {"exit_code": code, "command": command}, is_error=code != 0 and not meaning)


def _meaning(command: str, code: int) -> str:
    """What exit code 1 says, where it is an answer: of a simple command only."""
    if code != 1 or any(character in command for character in ";|&\n"):
        return ""
    words = command.split()
    return _ANSWERS.get(" ".join(words[:2]), "") or _ANSWERS.get(words[0] if words else "", "")


def _signal_name(code: int) -> str:
    number = -code if code < 0 else code - 128
    with contextlib.suppress(ValueError):
        return f", ended by {signal.Signals(number).name}" if number > 0 else ""
    return ""

"""Bash: a shell command in the project, bounded in time and output, with nothing left running when it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cellwright.agent.tool import Tool, ToolContext, ToolError, ToolLimits, ToolResult
from cellwright.errors import ErrorCode
from cellwright.events import Preview
from cellwright.tools.child_environment import child_environment
from cellwright.tools.child_processes import Child, ChildProcesses, child_processes
from cellwright.tools.command_exit import answer, exit_code, meaning
from cellwright.tools.command_output import MOST_BYTES, CommandOutput, LiveText
from cellwright.visible_text import unseen_characters, visible, visible_line

DEFAULT_TIMEOUT_MS = 120_000
MOST_TIMEOUT_MS = 600_000

DRAIN_SECONDS = 0.05
"""How long output is still awaited from what a command left in the background."""
CHUNK_BYTES = 65_536

DESCRIPTION = """\
Run a shell command in the project folder and get its output (stdout and stderr together) and exit code.

- Each call is a new `bash` without the user's rc files. The folder that a command changes to with `cd` is kept for the \
next call while it is inside the project; variables, functions and aliases are not kept.
- Use Read, Grep, Glob, LS, Edit and Write for files rather than cat, grep, find, sed or echo.
- Standard input is closed: give flags that make a program non-interactive.
- Quote paths with spaces. Join commands that depend on each other with `&&`. A simple command (no `&&`, `|`, `$`, \
redirection) is more likely to be allowed without asking the user.
- Long output is cut in the middle; the whole is then in a file that Read can open.
- The environment has no API keys or other secrets. What is left in the background ends with the kernel."""

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


@dataclass(slots=True)
class ShellFolder:
    """Where the next command runs: what `cd` leaves behind, as long as it is inside the roots."""

    start: Path
    roots: tuple[Path, ...]
    now: Path

    def moved(self, to: str) -> str:
        """Take over the folder a command ended in; a note for the model when it may not be kept."""
        if not to or to == str(self.now):
            return ""
        if any(Path(to).is_relative_to(root) for root in self.roots):
            self.now = Path(to)
            return ""
        self.now = self.start
        return f"[{to} is outside the project; the next command runs in {self.start}.]"

    def checked(self) -> Path:
        """The folder to run in: where it was removed, or leads out of the roots by now, the one to start from."""
        if not (self.now.is_dir() and any(self.now.resolve().is_relative_to(root) for root in self.roots)):
            self.now = self.start
        return self.now


def bash_tool(
    cwd: Path,
    roots: Sequence[Path] = (),
    *,
    environ: Mapping[str, str] = os.environ,
    children: ChildProcesses | None = None,
) -> Tool:
    """The tool `Bash` of one session, starting in `cwd`; `cd` is kept inside `roots` and `cwd`.

    `environ` is what commands inherit, less its secrets; it is read at each call.
    """
    start = cwd.resolve()
    folder = ShellFolder(start, tuple(dict.fromkeys([start, *(Path(root).resolve() for root in roots)])), start)

    async def call(tool_input: dict[str, Any], ctx: ToolContext) -> ToolResult:
        seconds = tool_input.get("timeout", DEFAULT_TIMEOUT_MS) / 1000
        environment = child_environment(environ)
        return await _run(folder, tool_input["command"], seconds, environment, children or child_processes(), ctx)

    async def preview(tool_input: Mapping[str, Any]) -> Preview:
        command = str(tool_input["command"])
        unseen = ", ".join(unseen_characters(command))
        warning = f"The command has characters that cannot be seen: {unseen}." if unseen else ""
        title = f"Run a shell command in {visible_line(str(folder.now))}"
        return Preview(title, visible(command), kind="command", warning=warning)

    return Tool(
        name="Bash",
        description=DESCRIPTION,
        input_schema=SCHEMA,
        call=call,
        rule_key="command",
        limits=ToolLimits(seconds=None),
        title=lambda tool_input: visible_line(str(tool_input["command"])),
        preview=preview,
    )


async def _run(
    folder: ShellFolder,
    command: str,
    seconds: float,
    environ: Mapping[str, str],
    children: ChildProcesses,
    ctx: ToolContext,
) -> ToolResult:
    output, live = CommandOutput(), LiveText(ctx.progress)
    with contextlib.closing(Pipe()) as written, contextlib.closing(Pipe()) as told:
        child = _start(command, folder.checked(), environ, children, written, told)
        started = time.monotonic()
        try:
            async with asyncio.timeout(seconds):
                await _collect(child, written.reader, output, live)
        except TimeoutError:
            await _ended(child)
            raise _timed_out(seconds, time.monotonic() - started, output) from None
        except BaseException:
            await _ended(child)
            raise
        finally:
            live.close()
            output.close()
            children.sweep()
        notes = [folder.moved(_last_line(told.reader))]
    if child.left_behind:
        notes.append("[Something of this command runs on in the background; it ends with the kernel at the latest.]")
    return _result(command, exit_code(child.exited.result()), output.text(), notes)


class Pipe:
    """A pipe whose reading end does not block."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self._open = {self.reader, self.writer}

    def close_writer(self) -> None:
        """Leave the writing end to the children."""
        self._open.discard(self.writer)
        os.close(self.writer)

    def close(self) -> None:
        """Close what is open."""
        while self._open:
            os.close(self._open.pop())


def _start(
    command: str, cwd: Path, environ: Mapping[str, str], children: ChildProcesses, written: Pipe, told: Pipe
) -> Child:
    bash = shutil.which("bash", path=environ["PATH"]) if os.name == "posix" else None
    if bash is None:
        raise ToolError("There is no bash here: the Bash tool needs Linux or macOS with bash. Use Python instead.")
    # the shell tells the folder it ended in, however the command ended it
    script = f"trap 'pwd -P >&{told.writer} 2>/dev/null' EXIT; {command}"
    arguments = [bash, "--noprofile", "--norc", "-c", script]
    try:
        child = children.start(arguments, cwd=cwd, environ=environ, output=written.writer, keep=told.writer)
    except (OSError, ValueError) as error:  # too long, or a NUL byte in it
        raise ToolError(f"The command could not be started: {error}.") from error
    written.close_writer()
    told.close_writer()
    return child


async def _collect(child: Child, reader: int, output: CommandOutput, live: LiveText) -> None:
    """Take output until the shell has ended; what it left in the background may hold the pipe, and is not waited for."""
    loop = asyncio.get_running_loop()
    at_end: asyncio.Future[None] = loop.create_future()
    too_much: asyncio.Future[None] = loop.create_future()

    def take() -> None:
        try:
            data = os.read(reader, CHUNK_BYTES)
        except BlockingIOError:
            return
        if data:
            live.add(output.add(data))
            if output.bytes > MOST_BYTES and not too_much.done():
                too_much.set_result(None)
        else:
            loop.remove_reader(reader)
            at_end.set_result(None)

    loop.add_reader(reader, take)
    try:
        either: set[asyncio.Future[Any]] = {child.exited, too_much}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if too_much.done():
            raise ToolError(f"The command was stopped: it wrote more than {MOST_BYTES:,} bytes.\n{output.text()}")
        await asyncio.wait({at_end}, timeout=DRAIN_SECONDS)
    finally:
        loop.remove_reader(reader)


_ending: set[asyncio.Task[None]] = set()
# asyncio keeps no task alive; these go on when their caller is cancelled once more


async def _ended(child: Child) -> None:
    task = asyncio.get_running_loop().create_task(child.end())
    _ending.add(task)
    task.add_done_callback(_ending.discard)
    await asyncio.shield(task)


def _last_line(reader: int) -> str:
    """What the shell told last, if it got to its end."""
    try:
        return os.fsdecode(os.read(reader, CHUNK_BYTES)).rstrip("\n").rpartition("\n")[2]
    except BlockingIOError:  # something in the background has the other end
        return ""


def _timed_out(seconds: float, elapsed: float, output: CommandOutput) -> ToolError:
    so_far = output.text().strip()
    return ToolError(
        f"The command was stopped after {seconds:g} s, its timeout; give a longer `timeout` if it needs it (at most "
        f"{MOST_TIMEOUT_MS} ms). " + (f"Its output so far:\n{so_far}" if so_far else "It had written nothing."),
        code=ErrorCode.EXECUTION_TIMEOUT,
        details={"requested_timeout": seconds, "actual_execution_time": round(elapsed, 3)},
    )


def _result(command: str, code: int, output: str, notes: Sequence[str]) -> ToolResult:
    answered = answer(command, code)
    first = ""
    if answered:
        first = f"[Exit code 1: {answered}.]"
    elif code:
        first = f"Exit code {code}" + (f" ({meaning(code)})" if meaning(code) else "")
    parts = [first, output.rstrip("\n"), *notes]
    content = "\n".join(part for part in parts if part) or "(no output)"
    return ToolResult(content, {"exit_code": code, "command": command}, is_error=code != 0 and not answered)

"""Bash: a shell command in the project, bounded in time, output and memory, with nothing left running unasked.

The bounds are read from the environment variables that users of Claude Code know for them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct, field, structs

from cellwright.agent.calls.approval import Confinement
from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolLimits, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import Notice, Preview
from cellwright.text import lazy_pattern, purposeful, unseen_characters, visible, visible_line
from cellwright.tools.process.child_processes import ChildProcesses, FolderId, child_processes, folder_id
from cellwright.tools.process.runner import child_environment, runs_code_at_start
from cellwright.tools.shell.background import BackgroundTask, BackgroundTasks, background_tasks
from cellwright.tools.shell.run_command import (
    MAX_BYTES,
    SHOWN_CHARS,
    ShellCommand,
    ShellRun,
    answer,
    exit_code,
    meaning,
)

if TYPE_CHECKING:
    from cellwright.sandbox.network import NetworkProxy, ProxyAccess


DEFAULT_MS = 120_000
MAX_MS = 600_000

_SIZE = lazy_pattern(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[KMGT]?)i?B?", re.IGNORECASE)
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def new_proxy() -> NetworkProxy:
    """A proxy that nobody uses yet."""
    from cellwright.sandbox.network import NetworkProxy  # few commands need one

    return NetworkProxy()


async def network_access(proxy: Callable[[], NetworkProxy], ctx: ToolContext) -> ProxyAccess | None:
    """Let the call's processes reach the hosts they may; None where there is nothing to bound. Raises OSError.

    The process is started with the access's `environ` and `port`; whoever starts it closes the access.
    """
    confinement = ctx.confinement
    if confinement is None or confinement.hosts is None or confinement.any_host:
        return None
    from cellwright.sandbox.network import HostBounds

    ask = ctx.may_reach if confinement.asks_hosts else None
    return await proxy().admit(HostBounds.of(confinement.hosts, confinement.denied_hosts, ask, confinement.asked_hosts))


def refused_hosts(access: ProxyAccess | None) -> str:
    """Tell the model where its processes were not let; "" where that did not happen."""
    if access is None or not access.refused:
        return ""
    places = ", ".join(access.refused)
    return (
        f"[The sandbox did not let the command connect to {places}. A rule `WebFetch(domain:…)` or "
        "`sandbox.network.allowedDomains` in the settings allows a host; the user can add one.]"
    )


class ShellLimits(Struct, frozen=True, kw_only=True):
    """Times in milliseconds, `memory_mb` in MiB (None: no bound). `background`: whether commands may go on there."""

    default_ms: int = DEFAULT_MS
    most_ms: int = MAX_MS
    background_ms: int = 1_800_000
    most_background_ms: int = 7_200_000
    shown_chars: int = SHOWN_CHARS
    memory_mb: int | None = None
    background: bool = True

    def seconds(self, timeout_ms: int | None) -> float:
        """Return the time a command in the foreground may take."""
        return min(self.default_ms if timeout_ms is None else timeout_ms, self.most_ms) / 1000

    def background_seconds(self, timeout_ms: int | None) -> float:
        """Return the time a command in the background may take."""
        return min(self.background_ms if timeout_ms is None else timeout_ms, self.most_background_ms) / 1000


def read_shell_limits(
    environ: Mapping[str, str], shown_chars: int | None = None, seconds: float | None = None
) -> ShellLimits:
    """The limits as the environment sets them; what makes no sense there is left out.

    `shown_chars` and `seconds` (in the foreground, by default) are what the settings say; the environment goes before.

    >>> read_shell_limits({"BASH_DEFAULT_TIMEOUT_MS": "5000", "CLAUDE_CODE_TOOL_MEMORY_LIMIT": "2G"}).memory_mb
    2048
    """
    from_settings = int(seconds * 1000) if seconds else DEFAULT_MS
    default_ms = _positive(environ, "BASH_DEFAULT_TIMEOUT_MS") or from_settings
    shown = _positive(environ, "BASH_MAX_OUTPUT_LENGTH") or shown_chars or SHOWN_CHARS
    return ShellLimits(
        default_ms=default_ms,
        most_ms=max(default_ms, _positive(environ, "BASH_MAX_TIMEOUT_MS") or MAX_MS),
        shown_chars=min(shown, 150_000),
        memory_mb=_memory_mb(environ.get("CLAUDE_CODE_TOOL_MEMORY_LIMIT", "")),
        background=environ.get("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "") not in ("1", "true"),
    )


def _positive(environ: Mapping[str, str], name: str) -> int | None:
    value = environ.get(name, "")
    return int(value) if value.isdecimal() and int(value) > 0 else None


def _memory_mb(setting: str) -> int | None:
    """The limit that `setting` asks for ("2G", bytes; "0" and "off": none), else a share of what there is."""
    if setting.strip().lower() in ("0", "off", "none"):
        return None
    if found := _SIZE.fullmatch(setting.strip()):
        return max(1, int(float(found["number"]) * _UNITS[found["unit"].upper()]) // 2**20)
    there_is = _machine_bytes()
    # of the machine's memory, or of what its container gives: what one process of a command may take by default
    return None if there_is is None else int(there_is * 0.75) // 2**20


def _machine_bytes() -> int | None:
    if sys.platform == "win32":
        return None
    try:
        found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, ValueError, OSError):  # not on every system
        return None
    for file in _CGROUP_LIMITS:
        try:
            text = Path(file).read_text("ascii").strip()
        except OSError:
            continue
        if text.isdecimal():
            found.append(int(text))
    return min(found)


DESCRIPTION = """\
Run a shell command in the project folder and get its output (stdout and stderr together) and exit code.

- Each call is a new `bash` without the user's rc files. The folder that a command changes to with `cd` is kept for the \
next call while it is inside the project; variables, functions and aliases are not kept.
- Use Read, Grep, Glob, LS, Edit and Write for files rather than cat, grep, find, sed or echo.
- Standard input is closed: give flags that make a program non-interactive.
- Quote paths with spaces. Join commands that depend on each other with `&&`.
- A command that takes longer than its timeout goes on in the background; so does one with `run_in_background`. Its output \
is then in a file that Read can open, and TaskStop ends it. Do not use `&` or `nohup`.
- Long output is cut in the middle; the whole is then in a file that Read can page.
- The environment has no API keys or other secrets. Background processes end with the kernel."""

_GIT = lazy_pattern(r"(?<![\w./-])git(?![\w-])")
_NO_MEMORY = lazy_pattern(
    r"MemoryError|[Cc]annot allocate (?:memory|\d+ bytes)|bad_alloc|[Oo]ut of memory|heap out of memory"
)


class BashInput(ToolInput):
    """The input of Bash. Times are milliseconds; what they may be is the session's limits' to say."""

    command: Annotated[str, Meta(min_length=1, description="The command to run")]
    timeout: Annotated[int, Meta(ge=1)] | None = None
    description: Annotated[str, Meta(description="What the command does, in five to ten words")] = ""
    run_in_background: Annotated[bool, Meta(description="Return at once; the command goes on by itself")] = False
    working_directory: Annotated[str, Meta(description="Run in this folder of the project, this once")] | None = None
    environment_variables: Annotated[dict[str, str], Meta(description="Variables for this command alone")] = field(
        default_factory=dict
    )
    unconfined: Annotated[
        bool, Meta(description="Ask the user to run it without the sandbox; only when the sandbox refused it something")
    ] = field(default=False, name="dangerouslyDisableSandbox")


class BashOutput(ToolOutput):
    """The end of the command, and what it wrote: head and tail of each output where that was long.

    `output_file` holds the whole of a long output, both together. `exit_code` and `seconds` are None where it goes on in
    the background, as `task_id`.
    """

    command: str
    cwd: str
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    seconds: float | None = None
    output_file: str | None = None
    task_id: str | None = None


def _timeout_field(limits: ShellLimits) -> dict[str, Any]:
    return {
        "maximum": limits.most_background_ms,
        "description": f"Milliseconds (default {limits.default_ms}, at most {limits.most_ms}; in the background "
        f"default {limits.background_ms})",
    }


EXAMPLES = (
    {"command": "pytest -q tests/test_api.py", "description": "Run the API's tests"},
    {"command": "npm run dev", "run_in_background": True},
    {"command": "make", "working_directory": "docs", "environment_variables": {"VERBOSE": "1"}, "timeout": 300_000},
)


class ShellFolder(Struct):
    """The folder of the next command: what `cd` leaves behind, as long as it is inside the roots.

    The command's own shell reports it, so it is resolved before it is kept, together with the folder's identity: what the
    next command is judged by, and where it runs, is that very folder or the one to start from.
    """

    start: Path
    roots: tuple[Path, ...]
    now: Path
    more_roots: Callable[[], Sequence[Path]] = tuple
    """The folders that a run opens besides."""
    identity: FolderId | None = None
    """Of `now`; None for the folder to start from, which no command has chosen."""

    def moved(self, to: str) -> str:
        """Take over the folder a command ended in; a note for the model when it may not be kept."""
        if not os.path.isabs(to):  # noqa: PTH117
            return ""
        try:
            place = Path(to).resolve(strict=True)
            identity = folder_id(place)
        except (OSError, ValueError):  # gone by now, or not what a shell reports
            return ""
        if not place.is_dir():
            return ""
        if self._inside(place):
            self.now, self.identity = place, None if place == self.start else identity
            return ""
        self._back()
        return f"[{visible_line(to)} is outside the project; the next command runs in {self.start}.]"

    def checked(self) -> Path:
        """Return the folder to run in: if it was removed, replaced or is outside of the roots by now, the one to start from.

        Raises ToolError if that is gone as well.
        """
        if self.identity is not None and not self._is_kept(self.identity):
            self._back()
        if not self.now.is_dir():
            gone = f"The folder {self.now}, in which commands run, has been deleted"
            raise ToolError(f"{gone}. Ask the user whether to make it again.", code=ErrorCode.FILE_NOT_FOUND)
        return self.now

    def _is_kept(self, identity: FolderId) -> bool:
        try:
            return self.now.resolve() == self.now and folder_id(self.now) == identity and self._inside(self.now)
        except OSError:
            return False

    def _back(self) -> None:
        self.now, self.identity = self.start, None

    def facts(self, working_directory: str | None) -> Mapping[str, str]:
        """Return what a call is judged by: the folder that `working_directory` starts from, and which one it leads to."""
        now = self.checked()
        try:
            folder = now if working_directory is None else self.chosen(working_directory)
            return {"cwd": str(now), _FOLDER_ID: _written(folder_id(folder))}
        except (OSError, ToolError):  # the call will fail by itself
            return {"cwd": str(now), _FOLDER_ID: ""}

    def chosen(self, working_directory: str) -> Path:
        """The folder that a call names, from the current one. Raises ToolError."""
        # as the permission policy reads it: `..` before links are followed
        folder = Path(os.path.normpath(self.checked() / working_directory))
        if not self._inside(folder.resolve()):
            message = f"working_directory {folder} is outside the project's folders. Use `cd` in the command instead."
            raise ToolError(message, code=ErrorCode.INVALID_PARAMETERS)
        if not folder.is_dir():
            raise ToolError(f"working_directory {folder} is not a folder.", code=ErrorCode.FILE_NOT_FOUND)
        return folder

    def _inside(self, folder: Path) -> bool:
        more = (root.resolve() for root in self.more_roots())
        return any(folder.is_relative_to(root) for root in (*self.roots, *more))


_FOLDER_ID = "folder_id"


def _written(identity: FolderId) -> str:
    return "{}:{}".format(*identity)


class Shell(Struct, frozen=True):
    """The state that the calls of one session share."""

    folder: ShellFolder
    limits: ShellLimits
    children: ChildProcesses
    environ: Mapping[str, str]
    tasks: BackgroundTasks
    proxy: Callable[[], NetworkProxy]

    def folder_of(self, input: BashInput, facts: Mapping[str, Any]) -> tuple[Path, FolderId]:
        """Return the folder in which the call runs, with its identity: the one it was judged in. Raises ToolError."""
        requested = input.working_directory
        folder = self.folder.checked() if requested is None else self.folder.chosen(requested)
        try:
            identity = folder_id(folder)
        except OSError as error:
            message = f"The folder {folder} cannot be entered: {error.strerror}."
            raise ToolError(message, code=ErrorCode.FILE_NOT_FOUND) from error
        if facts and (str(self.folder.now), _written(identity)) != (facts.get("cwd"), facts.get(_FOLDER_ID)):
            raise ToolError(
                f"The folder that the command would run in is no longer the one it was checked for ({folder}). "
                "Nothing was run; call again."
            )
        return folder, identity


def bash_tool(
    cwd: Path,
    roots: Sequence[Path] = (),
    *,
    environ: Mapping[str, str] = os.environ,
    children: ChildProcesses | None = None,
    shown_chars: int | None = None,
    seconds: float | None = None,
    more_roots: Callable[[], Sequence[Path]] = tuple,
) -> Tool:
    """Bash of one session, starting in `cwd`; `cd` is kept inside `roots`, what `more_roots` gives at each call, and `cwd`.

    `environ` is what commands inherit, less its secrets; it is read at each call. `shown_chars`: what the model gets of an
    output; `seconds`: how long a command may take that says nothing of it.
    """
    start = cwd.resolve()
    own_roots = tuple(dict.fromkeys([start, *(Path(root).resolve() for root in roots)]))
    folder = ShellFolder(start, own_roots, start, more_roots)
    limits = read_shell_limits(environ, shown_chars, seconds)
    shell = Shell(
        folder, limits, children or child_processes(), environ, background_tasks(), functools.cache(new_proxy)
    )

    async def preview(input: BashInput) -> Preview:
        unseen = ", ".join(unseen_characters(input.command))
        warnings = [f"The command has characters that cannot be seen: {unseen}."] if unseen else []
        if input.unconfined:
            warnings.append("Claude asks to run it unconfined, without the sandbox.")
        where = _folder_note(folder, input.working_directory or "")
        title = f"Run a shell command{where}{' in the background' if input.run_in_background else ''}"
        settings = "".join(f"{name}={value}\n" for name, value in input.environment_variables.items())
        return Preview(title, visible(f"{settings}{input.command}"), kind="command", warning=" ".join(warnings))

    @tool(
        name="Bash",
        other_names=(
            *("run_command", "execute_command", "run_bash", "execute_bash"),
            *("run_shell_command", "run_terminal_command", "run_terminal_cmd", "run_in_terminal"),
            *("terminal", "shell"),
        ),
        output=BashOutput,
        description=DESCRIPTION,
        access=ToolAccess("shell", "command"),
        category="shell",
        everyday=True,
        best_for="what no other tool does",
        limits=ToolLimits(seconds=None, result_chars=limits.shown_chars * 2, child_memory_mb=limits.memory_mb),
        examples=EXAMPLES,
        fields={"timeout": _timeout_field(limits)},
        # what `working_directory` starts from
        facts=lambda input: folder.facts(input.working_directory),
        title=lambda input: purposeful(input.description, input.command),
        preview=preview,
    )
    async def bash(input: BashInput, ctx: ToolContext) -> ToolResult:
        return await _run(shell, input, ctx)

    return bash


def _folder_note(folder: ShellFolder, working_directory: str) -> str:
    """Describe where a command runs; nothing for the folder that all started in."""
    place = Path(os.path.normpath(folder.checked() / working_directory))
    if place == folder.start:
        return ""
    below = place.relative_to(folder.start) if place.is_relative_to(folder.start) else place
    return f" in {visible_line(below.as_posix())}"


async def _run(shell: Shell, input: BashInput, ctx: ToolContext) -> ToolResult:
    access = await network_access(shell.proxy, ctx)
    if access is None:
        return await _follow(await _start(shell, input, ctx, None), shell, input, ctx, None)
    with contextlib.ExitStack() as unless_started:
        unless_started.callback(access.close)
        run = await _start(shell, input, ctx, access)
        unless_started.pop_all()
    run.ended.add_done_callback(lambda _: access.close())
    try:
        return await _follow(run, shell, input, ctx, access)
    finally:
        # what goes on in the background can ask nobody
        access.stop_asking()


async def _start(shell: Shell, input: BashInput, ctx: ToolContext, access: ProxyAccess | None) -> ShellRun:
    folder, identity = shell.folder_of(input, ctx.facts)
    environ = child_environment(shell.environ)
    command = ShellCommand(
        command=input.command,
        cwd=folder,
        folder_id=identity,
        environ=environ,
        own_variables={**_own_variables(input), **({} if access is None else access.environ)},
        memory_mb=shell.limits.memory_mb,
        confinement=ctx.confinement,
        proxy_port=None if access is None else access.port,
        shown_chars=shell.limits.shown_chars,
        trial=ctx.trial,
    )
    return await ShellRun.started(command, shell.children, ctx.progress)


async def _follow(
    run: ShellRun, shell: Shell, input: BashInput, ctx: ToolContext, access: ProxyAccess | None
) -> ToolResult:
    """Tell the model of a command that has been started: at its end, or once it goes on in the background."""
    limits = shell.limits
    endings = shell.tasks.unreported(ctx.session_id)
    if input.run_in_background and limits.background:
        task = shell.tasks.add(run, ctx.session_id, limits.background_seconds(input.timeout))
        text = f"Runs in the background as {task.id}; {task.where}. TaskStop ends it."
        return ToolResult("\n".join([text, *endings]), structured=_task_output(task))
    seconds = limits.seconds(input.timeout)
    if not await run.wait(seconds):
        if not (limits.background and _may_go_on(input.command, ctx.confinement)):
            await run.stop()
            raise _timed_out(run, seconds, limits)
        task = shell.tasks.add(run, ctx.session_id, limits.background_seconds(None))
        return ToolResult("\n".join([_moved(task, seconds), *endings]), structured=_task_output(task))
    run.ended.result()
    if run.too_much:
        kept = " Its changes of files were discarded." if run.staged else ""
        raise ToolError(f"The command was stopped: it wrote more than {MAX_BYTES:,} bytes.{kept}\n{run.output.text()}")
    if refused := run.refused:
        # whoever asks about it says so; its end is not the session's to follow
        return structs.replace(_result(run, endings, limits, ctx.confinement), refused=refused)
    moved = shell.folder.moved(run.folder) if input.working_directory is None else ""
    notes = [moved, refused_hosts(access), _refused(run, ctx.confinement, trial=ctx.trial), *endings]
    if run.made_protected:
        made = ", ".join(visible_line(path, 300) for path in run.made_protected)
        text = (
            f"It made {made}. Such a file is run or read as settings later, and no container can keep a new one back."
        )
        shown = visible_line(input.command, 80)
        ctx.emit(Notice(f"`{shown}` ran in the container. {text} Look at it, or delete it.", level="warning"))
        notes.append(f"[{text} Tell the user what it does.]")
    return _result(run, notes, limits, ctx.confinement)


def _own_variables(input: BashInput) -> Mapping[str, str]:
    own = input.environment_variables
    if refused := [name for name in own if not name.isidentifier() or runs_code_at_start(name)]:
        raise ToolError(
            f"The environment variable {refused[0]!r} cannot be set for a command: it is no name of a variable, or makes "
            "other programs run. Nothing was run.",
            code=ErrorCode.INVALID_PARAMETERS,
        )
    return own


def _may_go_on(command: str, confinement: Confinement | None) -> bool:
    """Return whether a timed-out command may run on unwatched: none that only waits or may change a repository.

    Nor, without a sandbox, one that may yet change what the names in later commands lead to.
    """
    if command.lstrip().startswith("sleep") or _GIT.search(command):
        return False
    if confinement is not None:
        return True
    from cellwright.permissions.judges.shell_call import may_change_later  # few commands take so long

    return not may_change_later(command)


def _moved(task: BackgroundTask, seconds: float) -> str:
    so_far = task.run.output.text().strip()
    when = "Its changes of files are made when it has ended by itself. " if task.run.staged else ""
    text = (
        f"The command has not ended in {seconds:g} s, its timeout. It goes on in the background as {task.id}; "
        f"{task.where}. TaskStop ends it. {when}"
    )
    return text + (f"Its output so far:\n{so_far}" if so_far else "It has written nothing yet.")


def _task_output(task: BackgroundTask) -> BashOutput:
    return structs.replace(_output(task.run), exit_code=None, seconds=None, task_id=task.id)


def _output(run: ShellRun) -> BashOutput:
    return BashOutput(
        command=run.command,
        cwd=str(run.cwd),
        exit_code=exit_code(run.returncode),
        stdout=run.output.stdout.kept.text(),
        stderr=run.output.stderr.kept.text(),
        seconds=round(run.seconds, 3),
        output_file=str(run.output.path) if run.output.path else None,
    )


def _timed_out(run: ShellRun, seconds: float, limits: ShellLimits) -> ToolError:
    so_far = run.output.text().strip()
    return ToolError(
        f"The command was stopped after {seconds:g} s, its timeout; give a longer `timeout` if it needs it (at most "
        f"{limits.most_ms} ms). {'Its changes of files were discarded. ' if run.staged else ''}"
        + (f"Its output so far:\n{so_far}" if so_far else "It had written nothing."),
        code=ErrorCode.EXECUTION_TIMEOUT,
        details={"requested_timeout": seconds, "actual_execution_time": seconds},
    )


def _refused(run: ShellRun, confinement: Confinement | None, *, trial: bool) -> str:
    """Say what the sandbox refused a command that failed, or a `trial`, as far as its output shows it."""
    if confinement is None or not (run.returncode or trial):
        return ""
    from cellwright.sandbox.refusals import absent_gpu, explain_refusals  # few commands fail for it

    output = run.output.text()
    explained = explain_refusals(output, confinement, str(run.cwd)) or absent_gpu(f"{run.command}\n{output}")
    if trial and run.returncode and not explained:
        # a program that says nothing of a refusal is taken for one with a fault
        changes = "files of the project only" if confinement.write else "nothing"
        explained = f"It ran without a network, and could change {changes}."
    return f"[{explained}]" if explained else ""


def _result(run: ShellRun, notes: Sequence[str], limits: ShellLimits, confinement: Confinement | None) -> ToolResult:
    code, output = exit_code(run.returncode), run.output.text()
    answered = answer(run.command, code)
    first = ""
    if answered:
        first = f"[Exit code 1: {answered}.]"
    elif code:
        first = f"Exit code {code}" + (f" ({meaning(code)})" if meaning(code) else "")
    more = list(notes)
    if run.left_behind:
        more.append("[Something of this command runs on in the background; it ends with the kernel at the latest.]")
    container = None if confinement is None else confinement.container
    bounds = [
        (limits.memory_mb, "Each process of a command may take", "CLAUDE_CODE_TOOL_MEMORY_LIMIT"),
        (None if container is None else container.memory_mb, "The container has", "`memory` of `sandbox.container`"),
    ]
    known = [(size, whose, setting) for size, whose, setting in bounds if size is not None]
    if code and known and _NO_MEMORY.search(output):
        size, whose, setting = min(known)
        more.append(f"[{whose} {size:,} MiB of memory; work on less at a time. The user can set {setting}.]")
    parts = [first, output.rstrip("\n"), *more]
    content = "\n".join(part for part in parts if part) or "(no output)"
    return ToolResult(content, structured=_output(run), is_error=code != 0 and not answered)

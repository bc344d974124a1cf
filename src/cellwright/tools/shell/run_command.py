"""One running shell command: its process, its output, and the folder that its shell ended in.

It belongs to the loop that started it, and is followed there to its end whether anybody waits for it or not. Its output
is live for the views, head and tail for the model, the whole in a file when it is long. Its exit code is explained too:
what it says, and whether it is a failure.
"""

from __future__ import annotations

import asyncio
import codecs
import concurrent.futures
import contextlib
import ntpath
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Self

from msgspec import Struct

from cellwright.agent.calls.approval import Confinement
from cellwright.agent.calls.tool_results import create_output_folder
from cellwright.errors import ToolError
from cellwright.text import plain
from cellwright.this_process.files import new_file
from cellwright.tools.process.child_processes import ChildProcesses, Command, FolderId
from cellwright.tools.process.runner import CHUNK_BYTES, RunningProgram

SHOWN_CHARS = 30_000
"""The number of characters the model gets of one command's output, half from its start, half from its end."""

MAX_BYTES = 1_000_000_000
"""More than this is not written; the command is stopped."""

LIVE_CHARS = 8_000
"""The number of characters a view gets at once of output that comes faster than anybody reads."""
LIVE_SECONDS = 0.033
"""Between two pieces of live output."""

VARIABLE = "CLAUDE_CODE_GIT_BASH_PATH"
_INSTALLED = (("PROGRAMFILES", ("Git",)), ("PROGRAMFILES(X86)", ("Git",)), ("LOCALAPPDATA", ("Programs", "Git")))


class HeadAndTail:
    """A text of any length, of which the first and the last `half` characters stay in memory."""

    def __init__(self, half: int) -> None:
        self._half = half
        self.head = ""
        self.tail = ""
        self.chars = 0

    def add(self, text: str) -> None:
        """Keep `text`, which comes next."""
        self.chars += len(text)
        room = max(self._half - len(self.head), 0)
        self.head += text[:room]
        self.tail = (self.tail + text[room:])[-self._half :]

    @property
    def left_out(self) -> int:
        """The number of characters in the middle that are gone."""
        return self.chars - len(self.head) - len(self.tail)

    def text(self) -> str:
        """All of it, or head and tail and how much is missing."""
        if not self.left_out:
            return plain(self.head + self.tail)
        return f"{plain(self.head)}\n[… {self.left_out:,} characters left out …]\n{plain(self.tail)}"


class OutputStream:
    """One of a program's two outputs: its text, decoded as it comes."""

    def __init__(self, half: int) -> None:
        self.kept = HeadAndTail(half)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, data: bytes) -> str:
        """Keep `data`; gives its text (a character cut in two comes with its second half)."""
        text = self._decoder.decode(data)
        self.kept.add(text)
        return text


class CommandOutput:
    """Takes bytes as they come; nothing of a long output stays in memory but its head and tail.

    `stdout` and `stderr` are kept apart for programs, and together, in the order in which they came, for the model.
    """

    def __init__(self, shown_chars: int = SHOWN_CHARS) -> None:
        self._kept_chars = shown_chars
        self.bytes = 0
        self.path: Path | None = None
        self.stdout = OutputStream(shown_chars // 2)
        self.stderr = OutputStream(shown_chars // 2)
        self._both = HeadAndTail(shown_chars // 2)
        self._start = bytearray()
        self._file: int | None = None
        self._problem = ""

    def add(self, data: bytes, *, error: bool = False) -> str:
        """Keep `data`, of stderr where it is an `error`, and give its text."""
        self.bytes += len(data)
        self._keep(data)
        text = (self.stderr if error else self.stdout).add(data)
        self._both.add(text)
        return text

    def _keep(self, data: bytes) -> None:
        if self._file is None and not self._problem:
            self._start += data
            if len(self._start) > self._kept_chars:
                self._open()
        elif self._file is not None:
            self._write(data)

    def _open(self) -> None:
        try:
            self._file, path = new_file("command", ".txt", create_output_folder())
        except OSError as error:
            self._problem = f"it could not be kept: {error.strerror}"
        else:
            self.path = path
            self._write(bytes(self._start))
        self._start.clear()

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            # a full disk must not end the command
            self._problem = f"its beginning is in {self.path}: {error.strerror}"
            self.close()

    def keep_in_file(self) -> None:
        """All of it goes into a file, from its first byte on, however short it is."""
        if self._file is None and self.path is None and not self._problem:
            self._open()

    def close(self) -> None:
        """The file, if there is one, is complete."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = None

    def text(self) -> str:
        """Return what the model gets: all of it, or head and tail and where the whole is."""
        both = self._both
        if not both.left_out:
            return both.text()
        where = self._problem or f"the whole output is in {self.path}"
        note = f"[… {self.bytes:,} bytes in all, the middle is left out; {where} …]"
        return f"{plain(both.head)}\n{note}\n{plain(both.tail)}"


class LiveText:
    """Hands text on to `progress` at a pace that views keep up with: the first at once, then what came meanwhile."""

    def __init__(self, progress: Callable[..., None]) -> None:
        self._progress = progress
        self._waiting = ""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, text: str) -> None:
        """Hand `text` on now or with what comes next; of more than anybody can read only the end."""
        self._waiting += text
        if len(self._waiting) > 4 * LIVE_CHARS:
            self._waiting = f"[…]\n{self._waiting[-LIVE_CHARS:]}"
        if self._timer is None:
            self._hand_on()

    def close(self) -> None:
        """Hand on what is left."""
        self._hand_on()
        if self._timer is not None:
            self._timer.cancel()

    def _hand_on(self) -> None:
        self._timer = None
        if self._waiting:
            text, self._waiting = self._waiting, ""
            self._progress(text=text)
            self._timer = asyncio.get_running_loop().call_later(LIVE_SECONDS, self._hand_on)


class LiveOutput:
    """The output of a program that runs: kept, and handed on live while anybody looks."""

    def __init__(self, shown_chars: int, progress: Callable[..., None]) -> None:
        self.kept = CommandOutput(shown_chars)
        self._live: LiveText | None = LiveText(progress)

    def take(self, chunk: bytes) -> bool:
        """Add what the program wrote; false when it has written too much."""
        return self._take(chunk, error=False)

    def take_error(self, chunk: bytes) -> bool:
        """The same of what it wrote to stderr."""
        return self._take(chunk, error=True)

    def _take(self, chunk: bytes, *, error: bool) -> bool:
        text = self.kept.add(chunk, error=error)
        if self._live is not None:
            self._live.add(text)
        return self.kept.bytes <= MAX_BYTES

    def go_unseen(self) -> None:
        """Show nothing live from now on, and keep all of it in a file."""
        self._stop_showing()
        self.kept.keep_in_file()

    def close(self) -> None:
        """Hand on what is left; the output is complete."""
        self._stop_showing()
        self.kept.close()

    def _stop_showing(self) -> None:
        if self._live is not None:
            self._live.close()
            self._live = None


_ANSWERS = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "rg", "git grep"), "no lines matched"),
    **dict.fromkeys(("diff", "cmp", "git diff"), "they differ"),
    **dict.fromkeys(("test", "["), "the condition is false"),
    "find": "some folders could not be searched",
}
"""Programs whose exit code 1 is an answer."""

_MEANINGS = {126: "not executable", 127: "command not found"}
_JOINS = frozenset({";", "|", "|&", "&&", "||", "&"})


def exit_code(returncode: int) -> int:
    """The code as a shell shows it: 128 + N for a shell that signal N ended."""
    return 128 - returncode if returncode < 0 else returncode


def answer(command: str, code: int) -> str:
    """Explain what exit code 1 of `command` answers; "" where it is a failure, or may be."""
    words = _last_command(command) if code == 1 else []
    return _ANSWERS.get(" ".join(words[:2])) or _ANSWERS.get("".join(words[:1]), "")


def meaning(code: int) -> str:
    """Explain an exit code by what is known about it besides its number, or return ""."""
    if code in _MEANINGS:
        return _MEANINGS[code]
    try:
        return f"ended by {signal.Signals(code - 128).name}" if code > 128 else ""
    except ValueError:
        return ""


def _last_command(command: str) -> list[str]:
    """The words of the simple command whose exit code is certainly that of the whole; none where it may be another's."""
    if "\n" in command.strip():
        return []
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";|&")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:  # a quote that is not closed
        return []
    last = max((place for place, word in enumerate(words) if word in _JOINS), default=-1)
    # after `a &&` it may be the code of `a`
    return words[last + 1 :] if last < 0 or words[last] in (";", "|", "|&") else []


class ShellCommand(Struct, frozen=True, kw_only=True):
    """A command to run; what is not explained here is as in `Command`.

    `memory_mb` is what each of its processes may take (None: no bound). `folder_id` as in `Command`. `trial`: it is tried in
    its bounds, and has no effect if they refuse it what it needs.
    """

    command: str
    cwd: Path
    environ: Mapping[str, str]
    own_variables: Mapping[str, str] = {}
    memory_mb: int | None = None
    confinement: Confinement | None = None
    proxy_port: int | None = None
    shown_chars: int
    folder_id: FolderId | None = None
    trial: bool = False


class ShellRun:
    """A command that has been started (`started`), on a running loop.

    `ended` is done when it has ended and its output is complete; `folder` is then the folder its shell was in, if known,
    and `seconds` its time. `folder` comes from the command's own shell, so it is a claim: who uses it must resolve it, and
    judge the next command by the result. `staged`: its changes of files are made when it has ended, and not if it is
    stopped.
    """

    def __init__(self, what: ShellCommand, progress: Callable[..., None]) -> None:
        self.command = what.command
        self.cwd = what.cwd
        self.folder = ""
        self.staged = what.confinement is not None and what.confinement.protects is not None
        self._started = time.perf_counter()
        self.seconds = 0.0
        self._live = LiveOutput(what.shown_chars, progress)
        self._tried_in = what.confinement if what.trial else None
        self._withheld: tuple[str, ...] = ()
        self._loop = asyncio.get_running_loop()
        self._folder_pipe: _FolderPipe | FolderFile
        self._program: RunningProgram
        self.ended: asyncio.Task[None]

    @classmethod
    async def started(cls, what: ShellCommand, children: ChildProcesses, progress: Callable[..., None]) -> Self:
        """Start `what`. Raises ToolError when it cannot be started."""
        self = cls(what, progress)
        with contextlib.ExitStack() as unless_started:
            try:
                pipe = FolderFile() if sys.platform == "win32" else _FolderPipe()
                self._folder_pipe = unless_started.enter_context(contextlib.closing(pipe))
                script, keeps = self._folder_pipe.script(what.command), self._keeps_changes if what.trial else None
                self._program = await RunningProgram.started(
                    _command(what, script, keeps, progress),
                    output=self._live.take,
                    errors=self._live.take_error,
                    inherited=self._folder_pipe.inherited,
                    at_end=self._close,
                    children=children,
                )
            except (OSError, ValueError) as error:  # no descriptors left; too long, or a NUL byte in it
                raise ToolError(f"The command could not be started: {error}.") from error
            unless_started.pop_all()
        self._folder_pipe.close_writer()
        self.ended = self._program.ended
        return self

    @property
    def output(self) -> CommandOutput:
        """The output it has written so far."""
        return self._live.kept

    @property
    def returncode(self) -> int:
        """The process's own; negative for a signal. Once it has ended."""
        return self._program.exit_code

    @property
    def too_much(self) -> bool:
        """True when it was ended because it wrote too much."""
        return self._program.had_enough

    @property
    def left_behind(self) -> bool:
        """True when something that the command started runs on."""
        return self._program.left_behind

    @property
    def made_protected(self) -> tuple[str, ...]:
        """The protected places that it made in a container, once it has ended."""
        return self._program.made_protected

    @property
    def refused(self) -> tuple[str, ...]:
        """The needs of a trial that its bounds refused; empty if it had all that it needed. Once it has ended."""
        return self._withheld or self._refused(self.returncode)

    def _refused(self, code: int) -> tuple[str, ...]:
        if self._tried_in is None or code < 0:
            return ()
        if self._program.told:
            return (self._program.told,)
        if not code and not self._hides_status:
            return ()
        from cellwright.sandbox.refusals import refusals  # few commands are refused anything

        found = refusals(self.output.text(), self._tried_in, str(self.cwd))
        return tuple(each.replace(f"{self.cwd}/", "") for each in found)

    @property
    def _hides_status(self) -> bool:
        from cellwright.permissions.confined.command_use import command_use  # was read when it was judged

        return command_use(self.command).hides_status

    def _keeps_changes(self, code: int) -> bool:
        if not code and not self._hides_status:
            return True

        async def is_refused() -> bool:
            await self._program.drained()
            self._withheld = self._refused(code)
            return bool(self._withheld)

        try:
            # the time for which a thread waits until the loop has looked at an output: only one that is closed takes
            # as long
            return not asyncio.run_coroutine_threadsafe(is_refused(), self._loop).result(120.0)
        except (RuntimeError, TimeoutError, concurrent.futures.CancelledError):  # the loop is closed, or will be
            return False

    async def wait(self, seconds: float | None) -> bool:
        """Wait for the end; False when it has not come in `seconds`. Cancelled, it ends the command first."""
        return await self._program.wait(seconds)

    async def stop(self) -> None:
        """End the command and all that it started; goes on when its caller is cancelled once more."""
        await self._program.end()

    async def stop_from_any_loop(self) -> None:
        """The same, also where another loop than the command's own is running."""
        if asyncio.get_running_loop() is self._loop:
            await self.stop()
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.stop(), self._loop))

    def go_unseen(self) -> None:
        """Nothing is shown live from now on; all output is kept in a file."""
        self._live.go_unseen()

    def _close(self) -> None:
        self.seconds = time.perf_counter() - self._started
        if told := self._program.told:
            from cellwright.sandbox.refusals import way_out  # few commands are refused their changes

            # about a trial the user is asked, so that Claude need not
            told = told if self._tried_in is not None else f"{told} {way_out()}"
            self._live.take_error(f"[{told}]\n".encode())
        elif self._program.ended_rest and self.returncode >= 0:
            self._live.take_error(b"[What it left running was ended: its changes are made when nothing of it runs.]\n")
        if self._withheld:
            shown = "; ".join(self._withheld)
            self._live.take_error(f"[The sandbox refused it {shown}, so none of its changes were made.]\n".encode())
        self._live.close()
        self.folder = self._folder_pipe.reported()
        self._folder_pipe.close()


class _FolderPipe:
    """The pipe by which a shell reports the folder it is in."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        if sys.platform != "win32":
            os.set_blocking(self._reader, False)
        self._open = {self._reader, self._writer}

    @property
    def inherited(self) -> tuple[int, ...]:
        """The descriptors that the shell needs for it."""
        return (self._writer,)

    def script(self, command: str) -> str:
        """The script that runs `command` and reports the folder it ended in."""
        return reporting_script(command, self._writer)

    def close_writer(self) -> None:
        """Leave the writing end to the shell."""
        self._open.discard(self._writer)
        os.close(self._writer)

    def reported(self) -> str:
        """Return the shell's report if it reached its end; whatever else is in the pipe makes it the name of no folder."""
        try:
            return os.fsdecode(os.read(self._reader, CHUNK_BYTES)).removesuffix("\n")
        except BlockingIOError:  # something in the background has the other end
            return ""

    def close(self) -> None:
        """Close what is open."""
        while self._open:
            os.close(self._open.pop())


def _command(
    what: ShellCommand,
    script: str,
    keeps_changes: Callable[[int], bool] | None,
    progress: Callable[..., None],
) -> Command:
    environ = {**what.environ, **what.own_variables}
    if sys.platform == "win32":
        bash = find_git_bash(environ)
    elif (found := shutil.which("bash", path=environ["PATH"])) is not None:
        bash = found
    else:
        raise ToolError("bash was not found in PATH, and the Bash tool needs it. Install bash, or use Python instead.")
    return Command(
        arguments=[bash, "--noprofile", "--norc", "-c", script],
        cwd=what.cwd,
        environ=what.environ,
        own_variables=what.own_variables,
        memory_mb=what.memory_mb,
        confinement=what.confinement,
        proxy_port=what.proxy_port,
        folder_id=what.folder_id,
        keeps_changes=keeps_changes,
        says=lambda line: progress(message=line),
    )


def reporting_script(command: str, descriptor: int) -> str:
    """The script that runs `command` and reports the folder it ended in to `descriptor`, however the command ended it.

    While the command runs, its descriptor is closed: bash keeps a copy to restore it, which no program that it starts
    inherits. `sandbox/mechanisms.py` reads such scripts.
    """
    return f"trap 'pwd -P 2>/dev/null >&{descriptor}' EXIT; eval {shlex.quote(command)} {descriptor}>&-"


def find_git_bash(environ: Mapping[str, str], is_file: Callable[[str], bool] = os.path.isfile) -> str:
    """Return the path of Git's `bash.exe`. Raises ToolError, which says what to do.

    `PATH` is asked for git alone: the `bash.exe` that Windows has there starts WSL, where paths mean other files. The
    working directory is not looked in.
    """
    if named := environ.get(VARIABLE):
        if _is_whole(named) and is_file(named):
            return named
        message = f"{VARIABLE} is {named}, and there is no such file. Set it to Git's bash.exe, and restart the kernel."
        raise ToolError(message)
    for git in _places(environ):
        bash = ntpath.join(git, "bin", "bash.exe")
        if is_file(bash):
            return bash
    message = (
        "The Bash tool needs Git Bash on Windows, and it was not found beside a git in PATH nor where Git is installed. "
        f"Install Git for Windows, or set {VARIABLE} to its bash.exe, and restart the kernel. Use Python instead."
    )
    raise ToolError(message)


def _places(environ: Mapping[str, str]) -> Iterator[str]:
    """The folders that Git may be installed in; `git.exe` is in its folder `cmd`, `bin` or `mingw64\\bin`."""
    for folder in environ.get("PATH", "").split(";"):
        place = folder.strip('"').rstrip("\\/")
        if not _is_whole(place):
            continue
        above, name = ntpath.split(place)
        if name.casefold() in ("cmd", "bin"):
            yield above
            if ntpath.basename(above).casefold() in ("mingw64", "usr"):
                yield ntpath.dirname(above)
    for variable, names in _INSTALLED:
        if _is_whole(top := environ.get(variable, "")):
            yield ntpath.join(top, *names)


def _is_whole(path: str) -> bool:
    """Return whether a path names its drive, too: without it, it is one of the drive that we are on."""
    return bool(ntpath.splitdrive(path)[0]) and ntpath.isabs(path)


class FolderFile:
    """A file by which a shell reports the folder it is in, as `FolderPipe` does it: Windows hands on no descriptors."""

    inherited = ()

    def __init__(self) -> None:
        descriptor, self._file = new_file("folder")
        os.close(descriptor)

    def script(self, command: str) -> str:
        """The script that runs `command` and reports the folder it ended in, as Windows calls it."""
        # quoted once for the trap, and once more for what is around it
        file = shlex.quote(self._file.as_posix()).replace("'", "'\\''")
        return f"trap 'pwd -W 2>/dev/null >{file}' EXIT; eval {shlex.quote(command)}"

    def close_writer(self) -> None:
        """Nothing is open here."""

    def reported(self) -> str:
        """Return the shell's report; "" if there is none."""
        try:
            return self._file.read_text("utf-8").removesuffix("\n").removesuffix("\r")
        except (OSError, ValueError):
            return ""

    def close(self) -> None:
        """Remove the file."""
        self._file.unlink(missing_ok=True)

"""The tool `Python`: Claude's code in the user's namespace, on the main thread, its output back to Claude.

The code is no cell: `In`, `Out`, `_` and the execution count stay as they are. An interrupt is raised in the code,
and the run that asked for the code ends with it. The agent's thread waits for the code, and interrupts it when the
call is cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.thread import CallerJobs, time_limit
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolLimits, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import Preview
from cellwright.kernel.execute.output_limits import HEAD_CHARS, TAIL_CHARS
from cellwright.text import purposeful

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.kernel.execute.captured_output import CapturedOutput, PicturesOf
    from cellwright.kernel.execute.redirect import CodeOutput

# what runs code and takes its output is imported with the first call: no first request waits for it


INTERRUPTED = (
    "The user interrupted this code to use the kernel. Its effects up to then remain. "
    "Do not run it again as it is: do less at a time, or ask."
)


async def run_code(
    shell: InteractiveShell,
    source: str,
    jobs: CallerJobs,
    output: CodeOutput,
    *,
    in_kernel: bool,
    on_stuck: Callable[[], None] | None = None,
    cell_id: str = "",
) -> bool:
    """Have the code run by the thread that works off `jobs`; whether it failed.

    Cancelled, it interrupts the code and waits for its end. An interrupt by the user cancels the task that called; in the
    background it ends the code alone: what the user wants is their kernel.
    `on_stuck` is called when the code does not react to an interrupt; the other arguments are `CodeRun`'s.
    """
    from cellwright.kernel.execute.code_run import CodeRun

    with _stuck_watch(on_stuck) as watch:
        code = CodeRun(shell, source, output, with_children=in_kernel, wakeup_fd=watch.wakeup_fd, cell_id=cell_id)
        watch.signal_again = code.signal_again
        job = asyncio.ensure_future(jobs.call(functools.partial(code.run, jobs)))
        cancelled = False
        while not job.done():
            try:
                # the code runs on another thread whatever happens here, and nothing may run beside it
                await asyncio.wait({job})
            except asyncio.CancelledError:
                cancelled = True
                if code.interrupt():
                    watch.interrupted()
                else:
                    job.cancel()
    if cancelled:
        raise asyncio.CancelledError
    if code.interrupted:
        if jobs.in_background:
            raise ToolError(INTERRUPTED, code=ErrorCode.INTERRUPTED)
        # the user interrupted the code, and with it the run: its task is cancelled as by anybody else, here and now
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
    return job.result()


class _StuckWatch:
    """The watch on the agent's loop after an interrupt; `wakeup_fd` is for `signal.set_wakeup_fd`, -1: none."""

    def __init__(self, on_stuck: Callable[[], None] | None) -> None:
        self.wakeup_fd = -1
        self.signal_again: Callable[[], bool] = lambda: False
        self._on_stuck = on_stuck
        self.loop = asyncio.get_running_loop()
        self._stuck: asyncio.TimerHandle | None = None
        self._again: asyncio.TimerHandle | None = None

    def interrupted(self) -> None:
        """A SIGINT is on its way to the code, or has come."""
        if self._again is None:
            self._again = self.loop.call_later(0.1, self._signal_again)

    def signalled(self, numbers: bytes) -> None:
        """Signals have come to the process."""
        if signal.SIGINT not in numbers:
            return
        self.interrupted()
        if self._stuck is None and self._on_stuck is not None:
            # code that still runs so long after an interrupt does not react to it
            self._stuck = self.loop.call_later(1.0, self._on_stuck)

    def end(self) -> None:
        for timer in (self._stuck, self._again):
            if timer is not None:
                timer.cancel()

    def _signal_again(self) -> None:
        self._again = None
        if self.signal_again():
            self.interrupted()


@contextlib.contextmanager
def _stuck_watch(on_stuck: Callable[[], None] | None) -> Iterator[_StuckWatch]:
    """`on_stuck` is called when the block goes on for long after a SIGINT."""
    watch = _StuckWatch(on_stuck)
    try:
        if sys.platform == "win32":  # its loop cannot wait for a socket that something else writes to
            yield watch
            return
        reader, writer = socket.socketpair()
        with reader, writer:
            reader.setblocking(False)
            writer.setblocking(False)
            watch.wakeup_fd = writer.fileno()
            watch.loop.add_reader(reader, lambda: watch.signalled(reader.recv(4096)))
            try:
                yield watch
            finally:
                watch.loop.remove_reader(reader)
    finally:
        watch.end()


TITLE_CHARS = 80

DESCRIPTION = """\
Run Python code in the user's live IPython namespace: their variables, data and imports are there under their \
own names, and what your code defines or changes stays, for them and for your next call. Use it to look at data, \
compute, plot, try things out and check your work on the real objects instead of loading them again.

You get, in order, printed and displayed output and the value of the last expression (its \
repr; end with `;` to leave it out), then a short traceback if it failed. Figures of matplotlib and other \
pictures come back as images that you can see, charts and widgets too if the user's page draws them; `plt.show()` is \
not needed. Long output is cut in the middle, so \
print what you need: shapes, heads, summaries.

It is ordinary IPython: top-level `await`, `name?` and magics work. Your code is not a cell of the notebook: the \
user does not see it there, and `In`, `Out` and `_` stay theirs. `input()` and exiting the \
kernel are refused. Run shell commands with Bash and change files with Edit and Write, so that the user can \
review them."""


BESIDE_BRANCH = """\
Use it for definitions, results and changes that should stay for the user or your next cells. Look at data, try things \
out and test in Branch, which changes nothing and seldom asks the user."""


class PythonOutput(ToolOutput):
    """The end of the code; `failed`: it raised an error, which stands in the result."""

    failed: bool
    seconds: float


class PythonInput(ToolInput):
    """The input of Python."""

    code: Annotated[str, Meta(description="The Python code to run.")]
    timeout_seconds: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=86_400,
                description="Interrupt the code after so many seconds. Without it the code may take its time.",
            ),
        ]
        | None
    ) = None


def python_tool(
    shell: InteractiveShell,
    jobs: CallerJobs,
    *,
    in_kernel: bool,
    seconds: float | None = None,
    on_stuck: Callable[[str], None] | None = None,
    pictures: PicturesOf | None = None,
    beside_branch: bool = False,
    before_code: Callable[[str], Awaitable[None]] | None = None,
) -> Tool:
    """Python for `shell`, whose code is run by the thread that works off `jobs`.

    `in_kernel`: file descriptors 1 and 2 are nobody's screen, and what child processes write there is output of the
    code. `seconds` bounds every call, and `timeout_seconds` the call that has it; without them code runs as long as it
    likes. `on_stuck(tool_use_id)` is called on the agent's thread when code does not react to an interrupt; the call ends
    only when the code does. `pictures` asks the user's page for what only a page draws. `beside_branch`: Claude has Branch.
    `before_code` is awaited before each code runs.
    """

    description = DESCRIPTION
    if beside_branch:
        first, _, rest = DESCRIPTION.partition("\n\n")
        description = f"{first.partition(' Use it to ')[0]} {BESIDE_BRANCH}\n\n{rest}"

    async def preview(input: PythonInput) -> Preview:
        place = "this notebook's kernel" if in_kernel else "this IPython session"
        return Preview(f"Run Python in {place}", input.code, "code")

    @tool(
        name="Python",
        other_names=(
            "run_python",
            "execute_python",
            "run_code",
            "execute_code",
        ),
        output=PythonOutput,
        description=description,
        access=ToolAccess("python", "code"),
        category="kernel",
        everyday=True,
        best_for="what is to stay in the kernel" if beside_branch else "work on variables",
        # the output is bounded already, piece by piece; here is room for the sentences about what was left out
        limits=ToolLimits(seconds=None, result_chars=HEAD_CHARS + TAIL_CHARS + 1_000),
        examples=(
            {"code": "df.groupby('city').price.median().head()"},
            {"code": "model.fit(X, y)", "timeout_seconds": 600},
        ),
        facts=lambda _: {"cwd": kernel_folder()},
        title=lambda input: code_title(input.code),
        preview=preview,
    )
    async def python(input: PythonInput, ctx: ToolContext) -> ToolResult:
        from cellwright.kernel.execute.captured_output import CapturedOutput

        output = CapturedOutput(asyncio.get_running_loop(), ctx.progress, pictures)
        stuck = functools.partial(on_stuck, ctx.tool_use_id) if on_stuck is not None else None
        allowed = min((each for each in (input.timeout_seconds, seconds) if each is not None), default=None)
        if before_code is not None:
            await before_code(input.code)
        started = time.perf_counter()
        try:
            async with time_limit(allowed):
                failed = await run_code(shell, input.code, jobs, output, in_kernel=in_kernel, on_stuck=stuck)
        except TimeoutError:
            raise await _timed_out(output, allowed, time.perf_counter() - started) from None
        ran = PythonOutput(failed=failed, seconds=round(time.perf_counter() - started, 3))
        return ToolResult(await output.content(), is_error=failed, structured=ran)

    return python


def kernel_folder() -> str:
    """The folder that the kernel is in. Raises ToolError where it has been deleted."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        message = "The folder that the kernel is in has been deleted. Ask the user to change to another one (`%cd`)."
        raise ToolError(message, code=ErrorCode.FILE_NOT_FOUND) from None


async def _timed_out(output: CapturedOutput, seconds: float | None, ran: float) -> ToolError:
    content = await output.content()
    shown = content if isinstance(content, str) else "\n".join(block.get("text", "[picture]") for block in content)
    message = f"{shown}\n[Interrupted after {seconds:g} s, its time limit. What ran until then has had its effects.]"
    details = {"requested_timeout": seconds, "actual_execution_time": ran}
    return ToolError(message.strip(), code=ErrorCode.EXECUTION_TIMEOUT, details=details)


def code_title(code: str) -> str:
    """Return the title of a call that runs `code`: its first comment, which says its purpose, and its first line, cut.

    Imports say least of what code does: they are shown where there is nothing else.
    """
    lines = [line.strip() for line in code.splitlines() if line.strip()]
    purpose = lines.pop(0).lstrip("#! ") if lines and lines[0].startswith("#") else ""
    statements = [line for line in lines if not line.startswith("#")]
    first = next((line for line in statements if not line.startswith(("import ", "from "))), "".join(statements[:1]))
    shown = first if len(first) <= TITLE_CHARS and len(statements) < 2 else f"{first[:TITLE_CHARS]} …"
    return purposeful(purpose[:TITLE_CHARS], shown, 2 * TITLE_CHARS + 10) if shown else purpose[:TITLE_CHARS]

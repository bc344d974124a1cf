"""The tool `Branch`: Claude's code in a confined copy of the kernel, beside the user's cells and without a change to them.

What comes out of a branch is data that nobody trusts: text, pictures, and HTML made passive. Of that the tables and
plain marks stay, rebuilt from a short list; everything else (scripts, widgets, charts, links, styles, SVG) is left out,
and Claude still reads its text.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import html
import html.parser
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from msgspec import Meta
from msgspec.structs import replace

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolLimits, ToolResult, tool
from cellwright.conversation.kernel_copies import Ran, UsedBranch
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import Notice, Preview
from cellwright.kernel.branches.snapshot import NoBranch
from cellwright.kernel.execute.captured_output import CapturedOutput, Update, display_of
from cellwright.kernel.execute.output_limits import HEAD_CHARS, TAIL_CHARS
from cellwright.kernel.execute.python_tool import code_title, kernel_folder
from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    from cellwright.agent.calls.approval import Confinement
    from cellwright.kernel.branches.branch import Branch, BranchResult

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
MAX_HTML = 400_000

_BASE64 = lazy_pattern(r"[A-Za-z0-9+/=\s]+")
_NUMBER = lazy_pattern(r"[0-9]{1,4}")
_KEPT = frozenset(
    {
        "table",
        "thead",
        "tbody",
        "tfoot",
        "tr",
        "th",
        "td",
        "caption",
        "b",
        "i",
        "em",
        "strong",
        "u",
        "s",
        "small",
        "sub",
    }
    | {"sup", "p", "div", "span", "pre", "code", "ul", "ol", "li", "dl", "dt", "dd", "h1", "h2", "h3", "h4", "h5", "h6"}
)
_EMPTY = frozenset({"br", "hr"})
_DROPPED = frozenset(
    {"script", "style", "iframe", "object", "svg", "math", "template", "noscript", "textarea", "title", "select"}
    | {"button", "form", "head", "audio", "video", "canvas"}
)
"""Elements that are left out with all that is in them."""

SECONDS = 300

DESCRIPTION = """\
Run Python code in a copy of the user's kernel: every variable and import is there, nothing in the kernel changes, and \
the user's cells keep running. Use it for everything that only looks, tries or tests: data, computations, \
plots, models, the check of a change before you make it. It usually does not ask the user. Use Python only for \
results that should stay in the kernel.

The system confines the copy: no network, and no files written but in its temporary folder. What you define stays for \
your next Branch call of this turn, then the copy is gone. It starts from the kernel as it is at your first call of a turn, \
and again after you have run Python; the first line of a result says when the variables were copied.

You get the same as from Python: printed and displayed output, the value of the last expression, a short traceback, \
pictures that you can see. Top-level `await`, magics and `!command` work; `input()` is refused. Connections, GPUs and, \
once the kernel has used it, most of polars do not work there: the result then says what to do."""

WAY_ON = "Without a branch: Variables describes variables; Python runs in the kernel itself and asks the user."


def passive_bundle(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mimebundle without anything that could run, load or link.

    >>> sorted(passive_bundle({"text/html": "<b onclick=x()>1</b>", "text/plain": "1", "application/javascript": "x()"}))
    ['text/html', 'text/plain']
    """
    kept: dict[str, Any] = {}
    for kind in PICTURES:
        picture = data.get(kind)
        if isinstance(picture, str) and _BASE64.fullmatch(picture):
            kept[kind] = picture
    if isinstance(text := data.get("text/plain"), str):
        kept["text/plain"] = text
    page = data.get("text/html")
    if isinstance(page, str) and len(page) <= MAX_HTML and (shown := passive_html(page)):
        kept["text/html"] = shown
    return kept


def passive_html(page: str) -> str:
    """Return the tables and plain marks of a page; "" if nothing is left to be seen.

    >>> passive_html('<table onload=x()><tr><td colspan=2>a &lt; b<script>x()</script><a href="//e">c</a>')
    '<table><tr><td colspan="2">a &lt; bc</td></tr></table>'
    """
    rebuilt = _Rebuilt()
    rebuilt.feed(page)
    rebuilt.close()
    return rebuilt.whole() if rebuilt.has_text else ""


class _Rebuilt(html.parser.HTMLParser):
    """The page written anew, each element closed."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.has_text = False
        self._parts: list[str] = []
        self._open: list[str] = []
        self._dropped = 0

    def whole(self) -> str:
        return "".join((*self._parts, *(f"</{tag}>" for tag in reversed(self._open))))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _DROPPED:
            self._dropped += 1
        elif not self._dropped and tag in _EMPTY:
            self._parts.append(f"<{tag}>")
        elif not self._dropped and tag in _KEPT:
            spans = [
                f' {name}="{value}"'
                for name, value in attrs
                if name in ("colspan", "rowspan") and value and _NUMBER.fullmatch(value)
            ]
            self._parts.append(f"<{tag}{''.join(spans)}>")
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in _DROPPED:
            self._dropped = max(0, self._dropped - 1)
        elif not self._dropped and tag in self._open:
            while self._open[-1] != tag:
                self._parts.append(f"</{self._open.pop()}>")
            self._parts.append(f"</{self._open.pop()}>")

    def handle_data(self, data: str) -> None:
        if not self._dropped:
            self.has_text = self.has_text or not data.isspace()
            self._parts.append(html.escape(data))


class BranchOutput(ToolOutput):
    """The end of the code; `failed`: it raised an error, which stands in the result. `taken`: when the variables were."""

    failed: bool
    seconds: float
    taken: float


class BranchInput(ToolInput):
    """The input of Branch."""

    code: Annotated[str, Meta(description="The Python code to run.")]
    timeout_seconds: Annotated[
        int, Meta(ge=1, le=3_600, description=f"Interrupt the code after so many seconds ({SECONDS}).")
    ] = SECONDS


_outputs_here: contextvars.ContextVar[list[Mapping[str, Any]] | None] = contextvars.ContextVar("outputs", default=None)


@contextlib.contextmanager
def passive_outputs(outputs: list[Mapping[str, Any]]) -> Iterator[None]:
    """Have the calls of the block add their outputs to `outputs`, as a notebook may keep them: made passive."""
    token = _outputs_here.set(outputs)
    try:
        yield
    finally:
        _outputs_here.reset(token)


class Branches(Protocol):
    """The giver of branches to calls: `KernelCopies`, or a preview, which has one for all."""

    @property
    def setting(self) -> str: ...
    def use(self, owner: str, confinement: Confinement | None) -> AbstractAsyncContextManager[UsedBranch]: ...
    def own(self, owner: str) -> AbstractAsyncContextManager[UsedBranch | None]: ...
    def first_use(self) -> str: ...


def branch_tool(branches: Branches, unconfined: Callable[[], str | None], seconds: float | None = None) -> Tool:
    """Branch, in the branches of a conversation. `unconfined` says why this machine cannot confine them, None if it can.

    `seconds` bounds every call, `timeout_seconds` the call that has it.
    """

    async def prepare(_input: BranchInput) -> None:
        await asyncio.to_thread(unconfined)  # it imports the sandbox, and tries it once

    def facts(_input: BranchInput) -> Mapping[str, Any]:
        return {"cwd": kernel_folder(), "setting": branches.setting, "unconfined": unconfined() or ""}

    async def preview(input: BranchInput) -> Preview:
        confined = "a confined copy" if not unconfined() else "a copy"
        return Preview(f"Run Python in {confined} of this notebook's kernel", input.code, "code")

    @tool(
        name="Branch",
        other_names=("try_python", "explore_python", "python_sandbox"),
        output=BranchOutput,
        description=DESCRIPTION,
        access=ToolAccess("branch", "code"),
        category="kernel",
        read_only=True,
        has_effects=False,
        best_for="looking at data, trying and testing code",
        # as Python's: bounded piece by piece
        limits=ToolLimits(seconds=None, result_chars=HEAD_CHARS + TAIL_CHARS + 1_000),
        examples=(
            {"code": "df.groupby('city').price.describe()"},
            {"code": "from sklearn.model_selection import cross_val_score\ncross_val_score(model, X, y).mean()"},
        ),
        prepare=prepare,
        facts=facts,
        title=lambda input: code_title(input.code),
        preview=preview,
    )
    async def branch(input: BranchInput, ctx: ToolContext) -> ToolResult:
        output = CapturedOutput(asyncio.get_running_loop(), ctx.progress)
        allowed = input.timeout_seconds if seconds is None else min(input.timeout_seconds, seconds)
        started = time.perf_counter()
        try:
            async with branches.use(ctx.session_id, ctx.confinement) as used:
                if ctx.confinement is not None and (line := branches.first_use()):
                    ctx.emit(Notice(line))
                output.write(f"[{used.words}]\n")
                take = functools.partial(take_output, output, f"branch-{ctx.session_id}-")
                result = await _run(used.branch, input.code, allowed, take)  # type: ignore[arg-type]  # the kernel's own
                taken = used.branch.taken.at
        except NoBranch as error:
            raise ToolError(f"{error.reason} {WAY_ON}", code=ErrorCode.EXECUTION_ERROR) from None
        ran = time.perf_counter() - started
        if (outputs := _outputs_here.get()) is not None:
            outputs += [
                {**each, "data": passive_bundle(each["data"]), "metadata": {}} if "data" in each else each
                for each in result.outputs
            ]
        if result.text:
            output.write(f"\n[{result.text}]\n")
        content = await output.content()
        if result.status in ("ok", "error"):
            failed = result.status == "error"
            structured = BranchOutput(failed=failed, seconds=round(ran, 3), taken=taken)
            return ToolResult(content, is_error=failed, structured=structured)
        shown = content if isinstance(content, str) else "\n".join(each.get("text", "[picture]") for each in content)
        timed_out = result.status == "timeout"
        details = {"requested_timeout": allowed, "actual_execution_time": ran} if timed_out else {}
        code = ErrorCode.EXECUTION_TIMEOUT if timed_out else ErrorCode.EXECUTION_ERROR
        raise ToolError(shown, code=code, details=details)

    return branch


async def _run(branch: Branch, code: str, seconds: float, take: Callable[[Mapping[str, Any]], None]) -> BranchResult:
    """Run the code; cancelled, it interrupts it and waits for its end, as the next call may come at once."""
    running = asyncio.ensure_future(branch.run(code, timeout=seconds, on_output=take))
    cancelled = False
    while not running.done():
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError:
            cancelled = True
            branch.interrupt()
    if cancelled:
        raise asyncio.CancelledError
    return running.result()


def take_output(output: CapturedOutput, prefix: str, given: Mapping[str, Any]) -> None:
    """Take in an output of the branch (nbformat), as data: what a view gets of it is passive."""
    match given.get("output_type"):
        case "stream":
            output.write(str(given.get("text", "")))
        case "error":
            output.write("\n".join(map(str, given.get("traceback") or [given.get("evalue", "")])) + "\n")
        case "clear_output":
            output.clear(wait=given.get("wait") is True)
        case "display_data" | "execute_result" | "update_display_data":
            data = given.get("data")
            if not isinstance(data, Mapping):
                return
            named = str((given.get("transient") or {}).get("display_id") or "")
            # under a name of its own: the code must not update what the user's code displays
            found = display_of(data, f"{prefix}{named}" if named else "")
            display = replace(found, bundle=passive_bundle(data), metadata={}, key="")
            output.put(Update(display) if given["output_type"] == "update_display_data" else display)


async def ran_with(outputs: Sequence[Mapping[str, Any]], problem: str = "") -> Ran:
    """Return the run that gave `outputs` (nbformat). `problem`: why it was stopped; without one, the error that ended it."""
    text = await _text_of(outputs)
    errors = [output for output in outputs if output.get("output_type") == "error"]
    if not problem and errors:
        problem = f"{errors[-1].get('ename')}: {errors[-1].get('evalue')}"[:200].split("\n")[0]
    return Ran(text, problem)


async def _text_of(outputs: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of outputs (nbformat) as Claude gets it."""
    # nobody looks on: thousands of outputs come
    captured = CapturedOutput(asyncio.get_running_loop(), lambda *_, **__: None)
    for output in outputs:
        take_output(captured, "stability-", output)
    content = await captured.content()
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in content)

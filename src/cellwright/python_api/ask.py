"""`cellwright.ask` and `cellwright.stream`: the loop from Python, in scripts, servers and notebooks.

There is one conversation a process. In a kernel that loaded the extension it is the notebook's own: a cell, the
sidebar and `ask` then share one session, and questions appear in the cell that asks.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import os
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from concurrent.futures import CancelledError
from typing import Any, Unpack

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.calls.approval import CanUseTool
from cellwright.agent.prompt import Prompt
from cellwright.agent.structured_output import AnswerType
from cellwright.config.settings.settings_files import start_folder
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest, TrustCheck
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import Result, result_of
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Event
from cellwright.features.conversation import Conversation
from cellwright.features.process_conversation import ProcessConversation, registered
from cellwright.python_api.ask_option_types import AskOptions
from cellwright.python_api.ask_options import (
    ASK_DEFAULTS,
    SHARED,
    answer_type_of,
    callback_of,
    checked_options,
    run_options,
    spelled_out,
)
from cellwright.sessions.session import Session


async def stream_events(
    conversation: Conversation, request: RunRequest, can_use_tool: CanUseTool | None
) -> AsyncGenerator[Event]:
    """The events of the run of `request`, on the caller's loop; leaving the iteration cancels the run.

    Work that the run's tools have for this thread is done between the events.
    """
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[Event | None] = asyncio.Queue()

    def emit(event: Event) -> None:
        loop.call_soon_threadsafe(events.put_nowait, event)

    run = conversation.start(request, RunSurface(emit, can_use_tool))
    run.future.add_done_callback(lambda _: loop.call_soon_threadsafe(events.put_nowait, None))
    jobs = asyncio.create_task(conversation.jobs.work_until_done_async(run))
    try:
        while (event := await events.get()) is not None:
            yield event
    finally:
        run.cancel()
        with contextlib.suppress(asyncio.CancelledError, CellwrightError):
            await asyncio.wrap_future(run.future)
        await jobs


class ScriptConversation(Struct, frozen=True):
    """The conversation of a process that is no kernel: nothing shows its runs, and nobody answers."""

    conversation: Conversation
    origin: str = "Python"
    trust_checks: tuple[TrustCheck, ...] = ()

    @contextlib.contextmanager
    def surface(self) -> Iterator[RunSurface]:
        yield RunSurface()


_making = threading.Lock()


def _begin_anew() -> None:
    """In a forked process: the conversation that was is the parent's, as is the thread that may hold the lock."""
    global _making
    _making = threading.Lock()
    _script_conversation.cache_clear()


def process_conversation() -> ProcessConversation:
    """The notebook's where the extension is loaded, else a script's own in the current folder."""
    if (of_kernel := registered()) is not None:
        return of_kernel
    with _making:
        return _script_conversation()


@functools.cache
def _script_conversation() -> ScriptConversation:
    interface = "a Python program that imported cellwright"
    # whether the program asks again is not known
    conversation = Conversation(Host(cwd=start_folder(os.environ), interface=interface, one_prompt=True))
    atexit.register(_name_what_ends, conversation, os.getpid())
    return ScriptConversation(conversation)


def _name_what_ends(conversation: Conversation, process: int) -> None:
    """Say on stderr what ends with the program; in a forked process it is the parent's."""
    for line in conversation.still_at_work("this program") if os.getpid() == process else ():
        print(f"cellwright: {line}", file=sys.stderr)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


@spelled_out(ASK_DEFAULTS)
def ask(prompt: Prompt, **options: Unpack[AskOptions]) -> Result:
    """Have Claude work on `prompt` and give back what came of it; blocks, also inside a running notebook.

    `prompt` is a text, or a list of content blocks of the Messages API. All options have defaults:

    - `model`, `effort`, `fallback_models`: by their names; fallbacks go on, one after another, where the model is overloaded
      or not there. `provider="claude-code"` asks the model through Claude Code, by its sign-in. `mode` is a permission mode:
      "default", "plan", "acceptEdits", "dontAsk", "bypassPermissions".
    - `tools` come besides the built-in ones; with `builtin_tools=False`, only those of the built-in ones that they name.
      `mcp_servers` is a dict in the form of `.mcp.json` or the path of such a file. `agents` are definitions by name, dicts
      with `description`, `prompt`, and what else an agent's file may say (`tools`, `model`, …).
      `agent` is the name of one that works itself, with its prompt, tools and model.
    - `allow` and `deny` are permission rules such as `Bash(pytest *)`, `add_dirs` are folders to work in besides.
      `can_use_tool` is a coroutine function that is asked for what the policy does not decide, with a `ToolUse`, or with a
      tool's name, its input and a `ToolPermissionContext`; without one, what would ask is denied (in a notebook the cell
      asks). With `on_denied="error"` a call that needs a permission ends the run, with "skip" Claude goes on without it;
      nobody is asked. `hooks` are told what happens, and may say no: `{"PreToolUse": [HookMatcher("Bash", [check])]}`.
    - `max_turns` (requests), `budget` (US dollars) and `max_tokens` (of one answer) bound the run, `tool_timeout` (seconds)
      each call, `max_parallel_tools` the reading tools that run at once.
    - `context="code"` attaches the code of the project that fits the prompt best.
    - `branch=True` makes the run a preview, in a notebook's kernel: it works on copies, and the user accepts parts of it.
    - `numbers=False`: the numbers of the answer are not looked up, and `Result.numbers` is empty.
    - `system_prompt` stands in place of ours, `append_system_prompt` after it; a session that was begun with another one
      goes on in a fork.
    - `output_schema`, or `schema`, makes of the answer a value, `Result.value`: a pydantic model, dataclass, TypedDict, an
      annotation such as `list[Model]`, or a JSON schema (a dict).
    - `session` is a `Session`, or the id of an earlier one of this folder; None keeps nothing on disk. Without it the
      conversation of this process goes on, in a notebook that of its cells.

    Raises `RunError` when the run did not end by itself, `KeyboardInterrupt` when it was interrupted (`RunError` where
    `interrupt` did that), TypeError and `CellwrightError` for an option that cannot be meant so.

    >>> ask("Which tables are here?", session=None, allow=["Glob"], max_turns=2).text
    'There is one: sales.csv.'
    """
    return ask_in(process_conversation(), prompt, options)


@spelled_out(ASK_DEFAULTS)
async def stream(prompt: Prompt, **options: Unpack[AskOptions]) -> AsyncIterator[Event]:
    """The events of a run of `prompt` as they happen (`cellwright.events`); options as in `ask`.

    Leaving the loop cancels the run. What the model writes comes as it is written: `TextDelta`, `ThinkingDelta`,
    `ToolInputDelta`. The last event is a `RunEnd`; how the run ended stands there, nothing is raised for it. Raises
    TypeError and `CellwrightError` as `ask`, with the first step.

    >>> import asyncio
    >>> async def shown():
    ...     async for event in stream("Which tables are here?", session=None):
    ...         if type(event).__name__ == "TextDelta":
    ...             print(event.text, end="")
    >>> asyncio.run(shown())
    There is one: sales.csv.
    """
    async with contextlib.aclosing(stream_in(process_conversation(), prompt, options)) as events:
        async for event in events:
            yield event


def interrupt() -> bool:
    """Interrupt the run of `ask` or `stream` that goes on in this process, from any thread; False where none does.

    Calls that were begun are ended and answered, and the session can go on. `ask` then raises `RunError` with the code
    INTERRUPTED, and what there is as its `result`; `stream` ends with a `RunEnd`. Raises `CellwrightError` where code that
    Claude runs calls it.

    >>> interrupt()  # nothing goes on
    False
    """
    return process_conversation().conversation.runs.interrupt()


def ask_in(here: ProcessConversation, prompt: Prompt, options: Mapping[str, Any]) -> Result:
    """Do what `ask` says in the conversation `here`."""
    request, typed, can_use_tool = request_of(here, prompt, options)
    events: list[Event] = []
    jobs = here.conversation.jobs
    with here.surface() as surface:

        def emit(event: Event) -> None:
            events.append(event)
            surface.emit(event)

        shown = replace(surface, emit=emit, can_use_tool=can_use_tool or surface.can_use_tool)
        run = here.conversation.start(request, shown)
        try:
            jobs.work_until_done(run)
        except KeyboardInterrupt:
            run.cancel()
            jobs.work_until_done(run)
        try:
            end = run.result()
        except CancelledError:
            if not run.interrupted_by_program:
                raise KeyboardInterrupt("the run was interrupted") from None
            if run.last_event is None:  # it had not begun
                raise CellwrightError(ErrorCode.INTERRUPTED, "Interrupted.", recoverable=True) from None
            end = run.last_event
    return result_of(end, events, typed)


async def stream_in(here: ProcessConversation, prompt: Prompt, options: Mapping[str, Any]) -> AsyncGenerator[Event]:
    """Do what `stream` says in the conversation `here`."""
    conversation = here.conversation
    request, _, can_use_tool = request_of(here, prompt, options)
    # Python closes the iterator of a run that was left in the loop's next rounds
    # one makes the task that closes an iterator, one begins it; one to spare
    await conversation.runs.until_stopping_ended(3)
    async with contextlib.aclosing(stream_events(conversation, request, can_use_tool)) as events:
        async for event in events:
            yield event


def request_of(
    here: ProcessConversation, prompt: Prompt, options: Mapping[str, Any]
) -> tuple[RunRequest, AnswerType | None, CanUseTool | None]:
    """The request of a prompt, the type of its answer, and who is asked for permissions. Raises as `ask`."""
    options = checked_options(options, ASK_DEFAULTS)
    conversation = here.conversation
    typed, session = answer_type_of(options), options.get("session", SHARED)
    if session is None:
        session = Session.create(conversation.cwd, None)
    request = RunRequest(
        prompt=prompt,
        options=run_options(options, typed, conversation.cwd, conversation.in_force.environment),
        session=session if isinstance(session, Session) else None,
        resume=session if isinstance(session, str) else None,
        trust_checks=here.trust_checks,
        origin=here.origin,
    )
    return request, typed, callback_of(options)

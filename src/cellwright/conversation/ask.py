"""`cellwright.ask` and `cellwright.stream`: the loop from Python, in scripts, servers and notebooks.

There is one conversation a process. In a kernel that loaded the extension it is the notebook's own: a cell, the
sidebar and `ask` then share one session, and questions appear in the cell that asks.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar, Unpack

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.calls.approval import CanUseTool
from cellwright.agent.prompt import Prompt
from cellwright.agent.structured_output.answer import AnswerType, answer_type
from cellwright.agent.tool import Tool
from cellwright.config.settings.read import start_folder
from cellwright.conversation.conversation import Conversation
from cellwright.conversation.process_conversation import ProcessConversation, registered
from cellwright.conversation.runs.output_format import ON_DENIED, OnDenied
from cellwright.conversation.runs.request import RunRequest, RunSurface, TrustCheck
from cellwright.conversation.runs.run_options import Result, RunOptions, existing_folder, result_of
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Event
from cellwright.sessions.session import Session

if TYPE_CHECKING:
    from cellwright.agent.hooks.callbacks import GivenHooks


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


ROUNDS_UNTIL_CLOSED = 3
"""One makes the task that closes an iterator, one begins it; one to spare."""


class _Shared(Enum):
    SESSION = "the conversation's own session"


SHARED: Final = _Shared.SESSION


class ScriptConversation(Struct, frozen=True):
    """The conversation of a process that is no kernel: nothing shows its runs, and nobody answers."""

    conversation: Conversation
    origin: str = "Python"
    trust_checks: tuple[TrustCheck, ...] = ()

    @contextlib.contextmanager
    def surface(self) -> Iterator[RunSurface]:
        yield RunSurface()


_making = threading.Lock()


def process_conversation() -> ProcessConversation:
    """The notebook's where the extension is loaded, else a script's own in the current folder."""
    if (of_kernel := registered()) is not None:
        return of_kernel
    with _making:
        return _script_conversation()


@functools.cache
def _script_conversation() -> ScriptConversation:
    interface = "a Python program that imported cellwright"
    return ScriptConversation(Conversation(cwd=start_folder(os.environ), interface=interface))


class AskOptions(TypedDict, total=False):
    """The options of `ask` and `stream`, besides the prompt."""

    model: str | None
    mode: str | None
    tools: Sequence[Tool | str]
    builtin_tools: bool
    can_use_tool: CanUseTool | None
    hooks: GivenHooks
    allow: Sequence[str]
    deny: Sequence[str]
    add_dirs: Sequence[str | Path]
    on_denied: OnDenied | None
    max_turns: int | None
    budget: float | None
    effort: str | None
    fallback_models: Sequence[str]
    system_prompt: str | None
    append_system_prompt: str
    max_tokens: int | None
    tool_timeout: float | None
    session: Session | _Shared | None
    schema: Any


_DEFAULTS: AskOptions = {
    "model": None,
    "mode": None,
    "tools": (),
    "builtin_tools": True,
    "can_use_tool": None,
    "hooks": {},
    "allow": (),
    "deny": (),
    "add_dirs": (),
    "on_denied": None,
    "max_turns": None,
    "budget": None,
    "effort": None,
    "fallback_models": (),
    "system_prompt": None,
    "append_system_prompt": "",
    "max_tokens": None,
    "tool_timeout": None,
    "session": SHARED,
    "schema": None,
}

F = TypeVar("F", bound=Callable[..., Any])


def _spelled_out(function: F) -> F:
    """Shows each option in the function's signature, for `ask?` and completion."""
    signature = inspect.signature(function)
    prompt = next(iter(signature.parameters.values()))
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default) for name, default in _DEFAULTS.items()
    ]
    function.__signature__ = signature.replace(parameters=[prompt, *options])  # type: ignore[attr-defined]
    return function


@_spelled_out
def ask(prompt: Prompt, **options: Unpack[AskOptions]) -> Result:
    """Have Claude work on `prompt` and give back what came of it; blocks, also inside a running notebook.

    `tools` come besides the built-in ones; with `builtin_tools=False`, only those of the built-in ones that they name.
    `can_use_tool` is a coroutine that is asked for what the policy does not decide; without one, what would ask is denied
    (in a notebook the cell asks). `allow` and `deny` are permission rules such as `Bash(pytest *)`, `add_dirs` are folders
    to work in besides. With `on_denied="error"` a call that needs a permission ends the run, with "skip" Claude goes on
    without it; nobody is asked. `hooks` are told what happens, and may say no:
    `{"PreToolUse": [HookMatcher("Bash", [check])]}`.
    `fallback_models` go on, one after another, where the model is overloaded or not there. `system_prompt` stands in place
    of ours, `append_system_prompt` after it; a session that was begun with another one goes on in a fork.
    `budget` is in US dollars. `session=None` keeps nothing on disk. `schema` makes of the answer a value, `Result.value`: a
    pydantic model, dataclass, TypedDict, an annotation such as `list[Model]`, or a JSON schema (a dict).
    Raises `RunError` when the run did not end by itself, `KeyboardInterrupt` when it was interrupted.

    >>> ask("Which tables are here?", session=None, allow=["Glob"], max_turns=2).text
    'There is one: sales.csv.'
    """
    here = process_conversation()
    can_use_tool = options.get("can_use_tool")
    typed = _answer_type(options)
    events: list[Event] = []
    jobs = here.conversation.jobs
    request = replace(_request(here, prompt, options, typed), origin=here.origin)
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
            raise KeyboardInterrupt("the run was interrupted") from None
    return result_of(end, events, typed)


@_spelled_out
async def stream(prompt: Prompt, **options: Unpack[AskOptions]) -> AsyncIterator[Event]:
    """The events of a run as they happen (`cellwright.events`); options as in `ask`. Leaving the loop cancels the run.

    The last event is a `RunEnd`; how the run ended stands there, nothing is raised for it.
    """
    here = process_conversation()
    conversation = here.conversation
    request = _request(here, prompt, options, _answer_type(options))
    # Python closes the iterator of a run that was left in the loop's next rounds
    await conversation.runs.until_stopping_ended(ROUNDS_UNTIL_CLOSED)
    async with contextlib.aclosing(stream_events(conversation, request, options.get("can_use_tool"))) as events:
        async for event in events:
            yield event


def _answer_type(options: AskOptions) -> AnswerType | None:
    schema = options.get("schema")
    return None if schema is None else answer_type(schema)


def _request(here: ProcessConversation, prompt: Prompt, options: AskOptions, typed: AnswerType | None) -> RunRequest:
    if unknown := set(options) - set(_DEFAULTS):
        raise TypeError(f"unknown option: {', '.join(sorted(unknown))}; there are {', '.join(_DEFAULTS)}")
    given: AskOptions = {**_DEFAULTS, **options}
    session = given["session"]
    if given["on_denied"] not in (None, *ON_DENIED):
        message = f"on_denied is {given['on_denied']!r}; it is one of {', '.join(ON_DENIED)}. Nothing was sent."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    run_options = RunOptions(
        model=given["model"],
        mode=given["mode"],
        tools=tuple(tool for tool in given["tools"] if not isinstance(tool, str)),
        tool_names=tuple(tool for tool in given["tools"] if isinstance(tool, str)),
        builtin_tools=given["builtin_tools"],
        hooks=given["hooks"],
        allow=tuple(given["allow"]),
        deny=tuple(given["deny"]),
        add_dirs=tuple(map(existing_folder, given["add_dirs"])),
        on_denied=given["on_denied"],
        max_turns=given["max_turns"],
        budget_usd=given["budget"],
        effort=given["effort"],
        fallback_models=tuple(given["fallback_models"]) or None,
        system_prompt=given["system_prompt"],
        append_system_prompt=given["append_system_prompt"],
        max_tokens=given["max_tokens"],
        tool_timeout=given["tool_timeout"],
        answer_type=typed,
    )
    if session is None:
        session = Session.create(here.conversation.cwd, None)
    given_session = None if isinstance(session, _Shared) else session
    return RunRequest(prompt=prompt, options=run_options, session=given_session, trust_checks=here.trust_checks)

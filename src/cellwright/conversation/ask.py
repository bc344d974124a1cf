"""`cellwright.ask` and `cellwright.stream`: the loop from Python, in scripts, servers and notebooks.

There is one conversation a process. In a kernel that loaded the extension it is the notebook's own: a cell, the sidebar and
`ask` then share one session, and questions appear in the cell that asks.

The events of a run as an async iterator on the caller's loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar, Unpack

from cellwright.agent.calls.approval import CanUseTool
from cellwright.agent.prompt import Prompt
from cellwright.agent.structured_output.answer import AnswerType, answer_type
from cellwright.agent.thread import AgentTask
from cellwright.agent.tool import Tool
from cellwright.config.settings.read import start_folder
from cellwright.conversation import place_maker
from cellwright.conversation.conversation import Conversation
from cellwright.conversation.runs.run_options import Result, RunOptions, result_of
from cellwright.conversation.runs.run_queue import ConversationRun
from cellwright.conversation.runs.starting_run import belongs_nowhere
from cellwright.errors import CellwrightError
from cellwright.events import Emit, Event, RunEnd
from cellwright.sessions.session import Session

if TYPE_CHECKING:
    from cellwright.agent.hooks.callbacks import GivenHooks


async def stream_events(
    conversation: Conversation, start: Callable[[Emit], AgentTask[RunEnd]]
) -> AsyncGenerator[Event]:
    """The events of the run that `start(emit)` starts, on the caller's loop; leaving the iteration cancels the run.

    Work that the run's tools have for this thread is done between the events.
    """
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[Event | None] = asyncio.Queue()

    def emit(event: Event) -> None:
        loop.call_soon_threadsafe(events.put_nowait, event)

    task = start(emit)
    task.future.add_done_callback(lambda _: loop.call_soon_threadsafe(events.put_nowait, None))
    jobs = asyncio.create_task(conversation.jobs.work_until_done_async(task))
    try:
        while (event := await events.get()) is not None:
            yield event
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, CellwrightError):
            await asyncio.wrap_future(task.future)
        await jobs


class _Shared(Enum):
    SESSION = "the conversation's own session"


SHARED: Final = _Shared.SESSION


def _nothing() -> None:
    """What most faces do when their run's turn has come."""


@dataclass(frozen=True)
class RunSurface:
    """Where a run shows itself and asks: a sink of events and a coroutine that answers.

    `ask_user` reaches a person; None where nobody can be asked. `at_turn` is called when the run's turn has come; `place`
    says in words where that is. `belongs_to` is told the run before its first event.
    """

    emit: Emit
    can_use_tool: CanUseTool | None
    ask_user: CanUseTool | None = None
    at_turn: Callable[[], object] = _nothing
    place: str = "Python"
    belongs_to: Callable[[ConversationRun], object] = belongs_nowhere


@dataclass
class ProcessConversation:
    """The process's conversation, and how a run from Python shows itself there (None: it does not)."""

    conversation: Conversation
    open_face: Callable[[], AbstractContextManager[RunSurface]] | None = None


_lock = threading.Lock()
_place: ProcessConversation | None = None


def current_place() -> ProcessConversation:
    """The place of this process: the notebook's where the extension is loaded, else a script's own in the current folder."""
    global _place
    if place_maker.make is not None:
        return place_maker.make()
    with _lock:
        if _place is None:
            _place = ProcessConversation(
                Conversation(cwd=start_folder(os.environ), face="a Python program that imported cellwright")
            )
        return _place


class AskOptions(TypedDict, total=False):
    """What `ask` and `stream` take besides the prompt."""

    model: str | None
    mode: str | None
    tools: Sequence[Tool]
    builtin_tools: bool
    can_use_tool: CanUseTool | None
    hooks: GivenHooks
    allow: Sequence[str]
    deny: Sequence[str]
    max_turns: int | None
    budget: float | None
    effort: str | None
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
    "max_turns": None,
    "budget": None,
    "effort": None,
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

    `tools` come besides the built-in ones. `can_use_tool` is a coroutine that is asked for what the policy does not decide;
    without one, what would ask is denied (in a notebook the cell asks). `allow` and `deny` are permission rules such as
    `Bash(pytest *)`. `hooks` are told what happens, and may say no: `{"PreToolUse": [HookMatcher("Bash", [check])]}`.
    `budget` is in US dollars. `session=None` keeps nothing on disk. `schema` makes of the answer a value, `Result.value`: a
    pydantic model, dataclass, TypedDict, an annotation such as `list[Model]`, or a JSON schema (a dict).
    Raises `RunError` when the run did not end by itself, `KeyboardInterrupt` when it was interrupted.
    """
    place = current_place()
    can_use_tool = options.get("can_use_tool")
    typed = _answer_type(options)
    events: list[Event] = []
    with _face(place) as face:

        def emit(event: Event) -> None:
            events.append(event)
            face.emit(event)

        shown = replace(face, emit=emit, can_use_tool=can_use_tool or face.can_use_tool)
        task = _start(place.conversation, prompt, options, shown, typed)
        try:
            place.conversation.jobs.work_until_done(task)
        except KeyboardInterrupt:
            task.cancel()
            place.conversation.jobs.work_until_done(task)
        try:
            end = task.result()
        except CancelledError:
            raise KeyboardInterrupt("the run was interrupted") from None
    return result_of(end, events, typed)


@_spelled_out
async def stream(prompt: Prompt, **options: Unpack[AskOptions]) -> AsyncIterator[Event]:
    """The events of a run as they happen (`cellwright.events`); options as in `ask`. Leaving the loop cancels the run.

    The last event is a `RunEnd`; how the run ended stands there, nothing is raised for it.
    """
    conversation = current_place().conversation
    typed = _answer_type(options)

    def start(emit: Emit) -> AgentTask[RunEnd]:
        return _start(conversation, prompt, options, RunSurface(emit, options.get("can_use_tool")), typed)

    await conversation.until_left_run_ended()
    async with contextlib.aclosing(stream_events(conversation, start)) as events:
        async for event in events:
            yield event


def _answer_type(options: AskOptions) -> AnswerType | None:
    schema = options.get("schema")
    return None if schema is None else answer_type(schema)


def _start(
    conversation: Conversation,
    prompt: Prompt,
    options: AskOptions,
    face: RunSurface,
    typed: AnswerType | None,
) -> AgentTask[RunEnd]:
    if unknown := set(options) - set(_DEFAULTS):
        raise TypeError(f"unknown option: {', '.join(sorted(unknown))}; there are {', '.join(_DEFAULTS)}")
    given: AskOptions = {**_DEFAULTS, **options}
    session = given["session"]
    run_options = RunOptions(
        model=given["model"],
        mode=given["mode"],
        tools=tuple(given["tools"]),
        builtin_tools=given["builtin_tools"],
        hooks=given["hooks"],
        allow=tuple(given["allow"]),
        deny=tuple(given["deny"]),
        max_turns=given["max_turns"],
        budget_usd=given["budget"],
        effort=given["effort"],
        max_tokens=given["max_tokens"],
        tool_timeout=given["tool_timeout"],
        answer_type=typed,
    )
    if session is None:
        session = Session.create(conversation.cwd, None)
    return conversation.start(
        prompt,
        run_options,
        emit=face.emit,
        can_use_tool=face.can_use_tool,
        ask_user=face.ask_user,
        place=face.place,
        at_turn=face.at_turn,
        belongs_to=face.belongs_to,
        session=None if isinstance(session, _Shared) else session,
    )


@contextlib.contextmanager
def _face(place: ProcessConversation) -> Iterator[RunSurface]:
    if place.open_face is None:
        yield RunSurface(lambda _: None, None)
    else:
        with place.open_face() as face:
            yield face

"""`cellwright.Agent`: a conversation that a program has with Claude, with options that hold for all its prompts."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack

from msgspec import Struct

from cellwright.agent.calls.approval import CanUseTool
from cellwright.agent.context_usage import NAMES, ContextContents, context_parts, context_tokens
from cellwright.agent.prompt import Prompt, SteeringText
from cellwright.agent.structured_output import AnswerType
from cellwright.checkpoints.undo import What
from cellwright.commands.command import CommandCall, CommandPage, command_name
from cellwright.commands.registry import COMMANDS, answer_of, command_of, is_command
from cellwright.commands.undo import rewind_turns
from cellwright.config.settings.layers import SCOPES, Layer
from cellwright.config.settings.option_table import CHOSEN
from cellwright.config.settings.settings_files import InlineSettings
from cellwright.conversation.core import Host
from cellwright.conversation.resolve_options import full_name, model_of
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import refuse_agent_code
from cellwright.conversation.runs.run_options import Result, RunOptions, existing_folder
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Event
from cellwright.features.conversation import Conversation
from cellwright.model.models import limits
from cellwright.python_api.ask import ScriptConversation, ask_in, request_of, stream_in
from cellwright.python_api.ask_option_types import AgentOptions
from cellwright.python_api.ask_options import (
    AGENT_DEFAULTS,
    SHARED,
    SharedSession,
    answer_type_of,
    callback_of,
    checked_options,
    run_options,
    spelled_out,
)
from cellwright.sessions.session import Session
from cellwright.tools.shell.background import background_tasks

SOURCES = ("user", "project", "local")
"""The files of settings, by the names that claude-agent-sdk has for them."""

T = TypeVar("T")


class ContextUsage(Struct, frozen=True):
    """The contents of a conversation: about `tokens` of the `window` of `model` (None: not known), and its `parts` by name.

    >>> ContextUsage("claude-opus-5-5", 500_000, 1_000_000, {"Answers": 500_000}).share
    0.5
    """

    model: str
    tokens: int
    window: int | None
    parts: Mapping[str, int]

    @property
    def share(self) -> float | None:
        """The part of the window that is full, from 0 to 1; None where the window is not known."""
        return None if self.window is None else self.tokens / self.window


class Rewound(Struct, frozen=True):
    """The outcome of `Agent.rewind`: the files and cells that were changed back, and what was not, with the reasons.

    >>> Rewound(("a.py",), ("b.py: changed since by somebody else",)).changed
    ('a.py',)
    """

    changed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


class Agent:
    """A conversation with Claude, of a program's own: one session, options that hold for all its prompts.

    The options are those of `ask` but for `session`, and hold for each prompt unless that says otherwise. Besides them:
    `cwd` is the folder that is worked in (default: the current one); `session` a `Session`, or the id of an earlier one
    of that folder, to go on with, None for one that is kept nowhere (default: a new one), with `fork` in a copy of it;
    `setting_sources` are the files of settings that count, of "user", "project" and "local" (default: all), and
    `settings` are more of them, as a dict in Claude Code's form; `plugins` are folders of plugins that count besides.
    What the folder brings along counts once it is trusted, as ever.

    One prompt is at work at a time, others wait. Its methods may be called from any thread; `close` it, or use it in a
    `with` block. Raises TypeError and `CellwrightError` for an option that cannot be meant so, SESSION_NOT_FOUND.

    >>> with Agent(session=None, allow=["Glob"], max_turns=5) as agent:
    ...     first = agent.ask("Which tables are here?")
    ...     agent.set_mode("plan")
    ...     second = agent.ask("And which are missing?", max_turns=2)
    >>> first.text, first.session_id == second.session_id
    ('There is one: sales.csv.', True)
    """

    _one_prompt = False
    """True for one that is asked once, and closed."""

    @spelled_out(AGENT_DEFAULTS)
    def __init__(
        self,
        *,
        cwd: str | Path | None = None,
        session: Session | str | SharedSession | None = SHARED,
        fork: bool = False,
        setting_sources: Sequence[str] | None = None,
        settings: Mapping[str, Any] | None = None,
        plugins: Sequence[str | Path] = (),
        **options: Unpack[AgentOptions],
    ) -> None:
        folder = existing_folder(Path.cwd() if cwd is None else cwd)
        given = checked_options(options, AGENT_DEFAULTS)
        self._options = {name: value for name, value in given.items() if name not in CHOSEN}
        self._places = {"cwd": folder, "setting_sources": setting_sources, "settings": settings, "plugins": plugins}
        inline = _inline(settings, folder)
        self._conversation = Conversation(
            Host(
                cwd=folder,
                interface="a Python program that imported cellwright",
                inline_settings=lambda: inline,
                setting_scopes=_scopes(setting_sources),
                plugin_folders=[existing_folder(each) for each in plugins],
                one_prompt=self._one_prompt,
            )
        )
        self._here = ScriptConversation(self._conversation)
        try:
            # what is wrong with them is said here, and not at the first prompt
            answer_type_of(given), callback_of(given)
            run_options(given, None, folder, self._conversation.in_force.environment)
            self._open(session, fork=fork)
            for name in CHOSEN:
                if given.get(name) is not None:
                    self.command(f"/{name} {given[name]}")
        except BaseException:
            self.close()
            raise

    def _open(self, session: Session | str | SharedSession | None, *, fork: bool) -> None:
        sessions = self._conversation.sessions
        match session:
            case Session():
                sessions.use(session)
            case None:
                sessions.use(Session.create(self._conversation.cwd, None))
            case str():
                sessions.resume(session)
            case SharedSession():
                pass  # one begins with the first prompt
            case _:
                raise TypeError(f"session is {session!r:.200}; it is a `Session`, a session's id, or None.")
        if fork:
            sessions.fork_current()

    def __repr__(self) -> str:
        return f"Agent(cwd={str(self._conversation.cwd)!r}, session={self.session.id!r})"

    @property
    def session(self) -> Session:
        """The session of the conversation: its `id`, `messages`, `usage`, `cost_usd` (US dollars).

        >>> with Agent(session=None) as agent:
        ...     _ = agent.ask("Which tables are here?")
        ...     agent.session.messages[0]["role"], agent.session.cost_usd > 0
        ('user', True)
        """
        return self._conversation.sessions.current

    @spelled_out(AGENT_DEFAULTS)
    def ask(self, prompt: Prompt, **options: Unpack[AgentOptions]) -> Result:
        """Have Claude work on `prompt` and give back what came of it; blocks. `options` hold for this prompt alone.

        Raises as `cellwright.ask`.

        >>> with Agent(session=None) as agent:
        ...     agent.ask("Which tables are here?", budget=0.50).text
        'There is one: sales.csv.'
        """
        return ask_in(self._here, prompt, self._for_prompt(options))

    @spelled_out(AGENT_DEFAULTS)
    async def stream(self, prompt: Prompt, **options: Unpack[AgentOptions]) -> AsyncIterator[Event]:
        """The events of a run of `prompt` as they happen, as `cellwright.stream` has them; `options` hold for it alone.

        Raises as `cellwright.stream`.

        >>> from cellwright.events import TextDelta
        >>> async def shown():
        ...     async with Agent(session=None) as agent:
        ...         async for event in agent.stream("Which tables are here?"):
        ...             if isinstance(event, TextDelta):
        ...                 print(event.text, end="")
        >>> asyncio.run(shown())
        There is one: sales.csv.
        """
        async with contextlib.aclosing(stream_in(self._here, prompt, self._for_prompt(options))) as events:
            async for event in events:
                yield event

    def _for_prompt(self, options: Mapping[str, Any]) -> dict[str, Any]:
        given = {**self._options, **checked_options(options, AGENT_DEFAULTS)}
        if "schema" in options or "output_schema" in options:  # two names of one option
            given = {**given, "schema": options.get("schema"), "output_schema": options.get("output_schema")}
        return given

    def interrupt(self) -> bool:
        """Interrupt the prompt that is at work, from any thread; False where none is. See `cellwright.interrupt`.

        >>> with Agent(session=None) as agent:
        ...     agent.interrupt()
        False
        """
        return self._conversation.runs.interrupt()

    def steer(self, text: str, *, when: Literal["next_step", "end"] = "next_step") -> None:
        """Tell Claude `text` while it works.

        `when` is "next_step", or "end": then it is the next prompt of the same run, when that would end. Raises
        `CellwrightError` where no prompt is at work that could be told.

        >>> from cellwright.events import Steered, ToolStart
        >>> async def told():
        ...     async with Agent(session=None) as agent:
        ...         async for event in agent.stream("Which tables are here?"):
        ...             if isinstance(event, ToolStart):
        ...                 agent.steer("Only CSV files.")
        ...             elif isinstance(event, Steered):
        ...                 print(event.text, event.state)
        >>> asyncio.run(told())
        Only CSV files. waiting
        Only CSV files. delivered
        """
        if when not in ("next_step", "end"):
            raise TypeError(f"when is {when!r}; it is 'next_step' or 'end'.")
        how: Literal["steer", "queue"] = "steer" if when == "next_step" else "queue"
        self._conversation.runs.steer(SteeringText(secrets.token_hex(8), text, how))

    def set_model(self, model: str | None) -> None:
        """Go on with another `model` (a name, None for the settings'): a prompt at work turns to it with its next request.

        Another model reads the conversation anew, without the cache. Raises `CellwrightError` for a model that there is not
        or that settings exclude.

        >>> with Agent(session=None) as agent:
        ...     agent.set_model("sonnet")
        ...     agent.model
        'claude-sonnet-5-5'
        """
        self.command(f"/model {model or 'default'}")
        self._conversation.runs.choose_model(self.model)

    @property
    def model(self) -> str:
        """The model of the next prompt, by its full name. Raises `CellwrightError` for one that settings exclude.

        >>> Agent(session=None, model="haiku").model
        'claude-haiku-5-5'
        """
        in_force = self._conversation.in_force
        return full_name(model_of(RunOptions(), in_force.settings, in_force.environment), in_force.environment)

    def set_mode(self, mode: str) -> None:
        """Go on in another permission mode; it holds at once, also for a prompt at work.

        `mode` is "default", "plan", "acceptEdits", "dontAsk" or "bypassPermissions". Raises `CellwrightError` for one that
        there is not, or that settings do not allow.

        >>> with Agent(session=None) as agent:
        ...     agent.set_mode("plan")
        ...     agent.ask("Which tables are here?").events[0].mode
        'plan'
        """
        self.command(f"/mode {mode}")

    def fork(self, **options: Unpack[AgentOptions]) -> Agent:
        """Another agent that goes on from here on its own, with the same options but for those in `options`.

        Raises `CellwrightError` while a prompt is at work.

        >>> with Agent(session=None) as agent:
        ...     _ = agent.ask("Which tables are here?")
        ...     with agent.fork(model="haiku") as other:
        ...         other.session.id == agent.session.id, other.session.messages == agent.session.messages
        (False, True)
        """
        self._conversation.runs.refuse_while_running()
        choices = self._conversation.choices
        chosen = {name: value for name, value in choices.options.items() if value is not None}
        given: Any = {**self._places, **self._options, **chosen, **options}
        return Agent(session=self.session.fork(), **given)

    def rewind(self, turn: int, what: What = "both", *, force: bool = False) -> Rewound:
        """Take back the prompt number `turn`, from 1, and all after it, as `/rewind` does.

        `what` is "code" (files and notebook cells), "conversation", or "both". What somebody else has changed since is left
        as it is, unless `force`. What commands did besides cannot be taken back. Raises `CellwrightError` while a prompt is
        at work, where there is no such turn, and where checkpoints are switched off.

        >>> with Agent(session=None) as agent:
        ...     _ = agent.ask("Which tables are here?")
        ...     agent.rewind(1).changed, agent.session.messages
        ((), [])
        """
        refuse_agent_code("take back what it did")
        if what not in ("code", "conversation", "both"):
            raise TypeError(f"what is {what!r}; it is 'code', 'conversation' or 'both'.")
        changed, left = self._on_thread(rewind_turns(self._conversation, turn, what, force=force))
        return Rewound(tuple(changed), tuple(left))

    def wait_for_background(self, seconds: float | None = None) -> tuple[str, ...]:
        """Wait until a command or an agent in the background has ended, and say which; blocks, for `seconds` at most.

        Nothing is asked of a model: Claude is told of it with the next prompt, which is the program's to send. Gives ()
        where nothing is in the background, and when the time is over.

        >>> with Agent(session=None) as agent:
        ...     while agent.wait_for_background():
        ...         _ = agent.ask("Go on with what has ended.")
        """
        return self._on_thread(self._next_ending(seconds))

    async def _next_ending(self, seconds: float | None) -> tuple[str, ...]:
        session_id = self.session.id
        waiting: dict[asyncio.Future[Any], Callable[[], str]] = {}
        for agent in self._conversation.features.subagents.background:
            if agent.session_id == session_id and not agent.reported:
                waiting[agent.task] = functools.partial("The agent {0.type} ({0.id}) {0.state}.".format, agent)
        for task in background_tasks().all():
            if task.session_id == session_id and not task.reported:
                waiting[task.run.ended] = functools.partial("{0.status}: {0.shown_command}".format, task)
        if not waiting:
            return ()
        done, _ = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return tuple(told() for future, told in waiting.items() if future in done)

    def context_usage(self) -> ContextUsage:
        """The fill of the context window, and its parts, in tokens; estimated between the API's own counts.

        >>> with Agent(session=None) as agent:
        ...     _ = agent.ask("Which tables are here?")
        ...     agent.context_usage().tokens > 0
        True
        """
        session = self.session
        contents, used, model = self._conversation.thread.call(
            lambda: (ContextContents.of(session), context_tokens(session), session.last_model)
        )
        model = model or self.model
        size = limits(model)
        parts = {NAMES[part.name]: part.tokens for part in context_parts(contents)}
        return ContextUsage(model, used, size.context_window if size.known else None, parts)

    def command(self, line: str) -> CommandPage:
        """Do the slash command `line`, such as "/cost" or "/tasks stop ID", and give its page; `page.plain()` is a text.

        Where a command would ask, nothing is done, unless `yes` follows it. Raises `CellwrightError` for a command that
        there is not, and what the command raises.

        >>> with Agent(session=None) as agent:
        ...     print(agent.command("/tasks").plain())
        Runs
          Claude is not working.
        """
        refuse_agent_code("do commands for the user")
        if not isinstance(line, str) or not is_command(command_name(line.strip()) or ""):
            known = ", ".join(f"/{each}" for each in COMMANDS)
            raise CellwrightError(
                ErrorCode.INVALID_PARAMETERS, f"Command {line!r:.200} was not found. Available: {known}."
            )
        command, text = command_of(line.strip())
        return self._on_thread(answer_of(command, CommandCall(self._conversation, RunOptions(), text)))

    def _on_thread(self, work: Coroutine[Any, Any, T]) -> T:
        if self._conversation.thread.is_current():
            return _at_once(work)
        task = self._conversation.thread.submit(work)
        try:
            return task.future.result()
        except CancelledError:
            raise CellwrightError(ErrorCode.INTERRUPTED, "Interrupted.", recoverable=True) from None
        except KeyboardInterrupt:
            task.cancel()
            raise

    def close(self) -> None:
        """End what goes on, and what was begun in the background, with a warning; the session stays on disk.

        >>> agent = Agent(session=None)
        >>> agent.close()
        """
        if (session := self._conversation.sessions.started) is not None:
            for line in self._conversation.still_at_work("this agent", session.id):
                warnings.warn(line, RuntimeWarning, stacklevel=2)
        with contextlib.suppress(TimeoutError):  # a tool that cannot be stopped does not keep the program
            self._conversation.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)


def conversation_of(agent: Agent) -> Conversation:
    """The conversation under `agent`, for interfaces of other libraries that are made of it."""
    return agent._conversation


def agents_request(agent: Agent, prompt: Prompt) -> tuple[RunRequest, AnswerType | None, CanUseTool | None]:
    """The start of a run of `prompt`: the request, the type of its answer, who is asked. Raises as `Agent.ask`."""
    return request_of(agent._here, prompt, agent._for_prompt({}))


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    """Do what waits for nothing, on the agent's own thread, as a hook or `can_use_tool` may ask for it."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    message = "This waits for the agent's own thread, which calls it. Use `asyncio.to_thread`, or call it elsewhere."
    raise CellwrightError(ErrorCode.EXECUTION_ERROR, message)


def _scopes(names: Sequence[str] | None) -> tuple[Any, ...]:
    """The scopes of settings that count. Raises TypeError for a name that there is not."""
    if names is None:
        return SCOPES
    if isinstance(names, str) or not set(names) <= set(SOURCES):
        raise TypeError(f"setting_sources is {names!r:.200}; it is a list of {', '.join(SOURCES)}.")
    return tuple(scope for scope in SCOPES if scope in names or scope not in SOURCES)


def _inline(settings: Mapping[str, Any] | None, folder: Path) -> tuple[InlineSettings, ...]:
    if settings is None:
        return ()
    if not isinstance(settings, Mapping):
        raise TypeError(f"settings is {settings!r:.200}; it is a dict, as in a settings file.")
    return ((Layer(scope="options", label="settings= of the program", root=folder, folder=folder), settings),)

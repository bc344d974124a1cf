"""The seam: `Feature`, a base class of no-ops, a run as its features see it, and what both have in common.

Observers of a conversation are told each event of each run, whichever face it was started from. A list that Claude is told
once (the skills there are, the agents there are) is told again when it has changed.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.calls.approval import Container
from cellwright.agent.prompt import (
    ContextItem,
    ContextItems,
    ContextProvider,
    FullPrompt,
    Prompt,
    PromptContext,
    environment_text,
    text_context,
)
from cellwright.agent.tool import Tool
from cellwright.config.settings.settings import Settings
from cellwright.conversation.runs.kinds import RunKind, TrustCheck
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode, log_fault
from cellwright.events import Event
from cellwright.sessions.api_messages import PLAN_MODE
from cellwright.sessions.session import Session
from cellwright.text import visible_line

if TYPE_CHECKING:
    from cellwright.conversation.runs.run import Run
    from cellwright.sessions.session import Session

logger = logging.getLogger(__name__)


FAILED = "an observer of the conversation failed"


class RunInfo(Struct, frozen=True, kw_only=True):
    """A run as its features see it while it is resolved; `options` are those that it was asked for with."""

    prompt: Prompt
    options: RunOptions
    kind: RunKind
    session: Session

    @property
    def has_servers(self) -> bool:
        """Return whether MCP servers take part."""
        return self.kind.keeps and self.options.has_servers


class PromptCall(Struct, frozen=True):
    """A prompt that calls something: `find` gets what is sent for it, or raises and nothing is sent.

    `expansion` has the fields that UserPromptExpansion hooks receive.
    """

    find: Callable[[], Awaitable[Sequence[ContextItem]]]
    expansion: Mapping[str, Any]


class Feature:
    """An ability of a conversation besides talking to the model. A base class of no-ops: a feature overrides what it needs.

    Features are asked in the order of `standard.py`. A run is resolved on a thread that may wait for files; the `async`
    methods, and what `context` and `after_summary` return, are called on the agent's loop.
    """

    in_dry_runs = True
    """It takes part in a run that only shows what would be sent."""

    in_replays = False
    """It takes part in a run that plays a recording."""

    instructs = False
    """Its context is instructions: after a summary they come first, and also if no run asks for the summary."""

    previews = False
    """It makes runs previews that ask for it."""

    trust_checks: Sequence[TrustCheck] = ()
    """The questions that may have to be asked before a run, if the run is kept."""

    observer: Observer | None = None
    """The observer that looks on at the conversation for it."""

    @property
    def works_on(self) -> bool:
        """True while it works beside the runs, under the settings of the last."""
        return False

    @property
    def is_open(self) -> bool:
        """True if `close` has something to end."""
        return False

    def run_added(self, run: Run) -> None:
        """A run was asked for: whatever subscribes to its bus here receives each event before anyone else."""

    def begin(self, run: RunInfo) -> None:
        """A run is about to be resolved: its session and options are known, the settings not yet read anew."""

    def options(self, run: RunInfo, options: RunOptions) -> RunOptions:
        """The options with what the feature adds to them. Raises `CellwrightError`: then nothing is sent."""
        return options

    def agent(self, agent: AgentSetup, options: RunOptions) -> AgentSetup:
        """`agent`, of a run or of none, as the feature needs it."""
        return agent

    def for_run(self, run: RunInfo, agent: AgentSetup) -> AgentSetup:
        """`agent` as the feature needs it in this run; the last feature of the list is asked first."""
        return agent

    def tools(self, options: RunOptions) -> Sequence[Tool]:
        """The tools that come and go while Claude works, as they are now."""
        return ()

    def listed(self, agent: AgentSetup) -> str:
        """The things that Claude could load or start, as a list that stands with where it works; "" for nothing."""
        return ""

    def notices(self, run: RunInfo) -> Sequence[str]:
        """The facts that the user must know with this run; each is shown once in a conversation."""
        return ()

    def call(self, run: RunInfo, prompt: PromptContext) -> PromptCall | None:
        """The call that the prompt is, if it calls something of this feature."""
        return None

    def context(self, run: RunInfo, prompt: PromptContext) -> ContextProvider | None:
        """Find what is sent with the prompt: here what files say, on the loop whatever else it takes."""
        return None

    async def get_ready(self, run: RunInfo) -> bool:
        """Wait for what the first request needs; True if tools may have come meanwhile."""
        return False

    async def before_run(self, session: Session) -> None:
        """The run begins: its settings are in force, nothing was sent."""

    async def after_calls(self, paths: Sequence[Path], session: Session, agent: AgentSetup) -> Sequence[ContextItem]:
        """Find what Claude must know after a batch of calls that touched `paths`; with none, before it ends."""
        return ()

    def after_summary(self, run: RunInfo | None) -> ContextProvider | None:
        """Find what is sent again behind a summary, in `run` or in none."""
        return None

    async def answered(self, answer: str, session: Session, options: RunOptions) -> Sequence[Event]:
        """Find the events that describe the finished `answer` of a run with `options`, sent before its end."""
        return ()

    def session_left(self, because: str) -> None:
        """The conversation leaves its session; `because` is the reason that SessionEnd hooks receive."""

    async def close(self) -> None:
        """End what is open."""


def checked(prompt: Prompt) -> Prompt:
    """The prompt without empty texts: the API refuses them, and would refuse each later request of the session for them.

    Raises `CellwrightError` INVALID_PARAMETERS when nothing is left.
    """
    kept = [block for block in _blocks(prompt) if block.get("type") != "text" or str(block.get("text", "")).strip()]
    if not kept:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, "The prompt is empty. Nothing was sent.")
    return prompt if len(kept) == len(_blocks(prompt)) else kept


def with_surroundings(
    prompt: Prompt,
    session: Session,
    agent: AgentSetup,
    cwd: Path,
    interface: str,
    settings: Settings,
    list_skills: Callable[[AgentSetup], str],
) -> FullPrompt:
    """The prompt with, when it is the session's first, where Claude works and its skills; in plan mode, how to plan."""
    before = place_blocks(agent, cwd, interface, settings, list_skills) if session.is_fresh else ()
    return FullPrompt(words=tuple(_blocks(prompt)), before=before, after=mode_blocks(session, agent))


Surroundings = Callable[[Session, AgentSetup], Sequence[ContextItem]]
"""Tells where Claude works, and in which mode."""


def place_blocks(
    agent: AgentSetup, cwd: Path, interface: str, settings: Settings, list_skills: Callable[[AgentSetup], str]
) -> tuple[ContextItem, ...]:
    """Tell where Claude works, its skills, and the user's general wishes."""
    found = [text_context("Where Claude works", "environment", environment_text(cwd, interface, list_skills(agent)))]
    if (container := settings.sandbox.container.container) is not None:
        found.append(text_context("The container of commands", "environment", _container_text(container)))
    if settings.language:
        text = f"<language>The user wants your answers in: {settings.language}</language>"
        found.append(text_context("The language of answers", "environment", text))
    if attribution := _attribution_text(settings):
        found.append(text_context("Attribution of commits", "environment", attribution))
    return tuple(found)


def _container_text(container: Container) -> str:
    reaches = "every host" if container.network else "no network"
    return (
        f"<container>Bash, RunTests and fresh kernels run in the container {visible_line(container.name)}: its programs and "
        f"packages, {reaches}, the session's folders at the same paths. What a command installs there is seen only by "
        "commands that the user allows. All other tools run on the user's machine.</container>"
    )


def mode_blocks(session: Session, agent: AgentSetup) -> tuple[ContextItem, ...]:
    """Tell how to plan, in plan mode."""
    plans = (session.mode or agent.policy.mode) == "plan" and any(tool.access.kind == "plan" for tool in agent.tools)
    return (text_context("Plan mode", "mode", PLAN_MODE),) if plans else ()


def _attribution_text(settings: Settings) -> str:
    """Tell what the user wants commits and pull requests to say of Claude; nothing where they say nothing of it."""
    wishes: list[str] = []
    for what, text in (
        ("the message of each commit that you make", settings.attribution_commit),
        ("the description of each pull request that you open", settings.attribution_pr),
    ):
        if text is not None:
            wishes.append(f"End {what} with:\n{text}" if text else f"Do not name yourself in {what}.")
    joined = "\n".join(wishes)
    return f"<attribution>\n{joined}\n</attribution>" if wishes else ""


def gather_context(full: FullPrompt, providers: Sequence[ContextProvider], prompt_context: PromptContext) -> FullPrompt:
    """`full` with all that `providers` find, when the run has begun."""

    async def collect_context() -> ContextItems:
        asked = [_asked(provider, prompt_context) for provider in providers]
        # most know at once, and a task for each would hold up the request
        waited_for = (each for each in asked if not isinstance(each, ContextItems))
        # as they are: a coroutine around each would lose the one inside when the run is stopped before it begins
        answers = iter(await asyncio.gather(*waited_for, return_exceptions=True))
        found = [each if isinstance(each, ContextItems) else _found(next(answers)) for each in asked]
        return ContextItems(
            before=tuple(part for each in found for part in each.before),
            after=tuple(part for each in found for part in each.after),
            notices=tuple(notice for each in found for notice in each.notices),
            extensions=next((each.extensions for each in found if each.extensions is not None), None),
        )

    return replace(full, collect_context=collect_context)


def with_call(full: FullPrompt, call: PromptCall) -> FullPrompt:
    """`full`, which makes `call`, with what that finds; if nothing can be found, the prompt is not sent."""
    before = full.collect_context

    async def collect_context() -> ContextItems:
        told = await call.find()
        found = ContextItems() if before is None else await before()
        return replace(found, after=(*told, *found.after))

    return replace(full, collect_context=collect_context, expansion=call.expansion)


async def provided(provider: ContextProvider, prompt_context: PromptContext) -> ContextItems:
    """Ask `provider`; where it fails, the user is told."""
    answer = _asked(provider, prompt_context)
    try:
        return answer if isinstance(answer, ContextItems) else await answer
    except Exception as error:  # noqa: BLE001  the user is notified
        return _untold(error)


def _asked(provider: ContextProvider, prompt_context: PromptContext) -> ContextItems | Awaitable[ContextItems]:
    try:
        return provider(prompt_context)
    except Exception as error:  # noqa: BLE001  the user is notified
        return _untold(error)


def _found(answer: ContextItems | BaseException) -> ContextItems:
    if isinstance(answer, Exception):
        return _untold(answer)
    if isinstance(answer, BaseException):
        raise answer
    return answer


def read_ahead(reader: Callable[[PromptContext], ContextItems], prompt_context: PromptContext) -> ContextProvider:
    """Ask `reader` now, on this thread, which may wait for files; gives what tells what it found."""
    try:
        found = reader(prompt_context)
    except Exception as error:  # noqa: BLE001  it is told
        found = _untold(error)
    return lambda _context: found


def _untold(error: Exception) -> ContextItems:
    # what is told besides is a help, made of whatever a notebook holds: without it the prompt is answered all the same
    log_fault(logger, "something could not be told with a prompt", error=error)
    return ContextItems(notices=(f"Some context could not be sent with the prompt: {type(error).__name__}: {error}",))


def _blocks(prompt: Prompt) -> list[Any]:
    return [{"type": "text", "text": prompt}] if isinstance(prompt, str) else list(prompt)


def refusal(prompt_context: PromptContext, tool: Tool, tool_input: dict[str, Any]) -> str:
    """Explain why the policy, as it stands for this run's calls, does not let it be read unasked; "" when it does."""
    session, policy = prompt_context.session, prompt_context.agent.policy
    policy = policy.allowing(session.granted)
    if session.mode is not None:
        policy = policy.in_mode(session.mode)
    decision = policy.decide(tool, tool_input)
    if decision.behavior == "allow":
        return ""
    way = "Claude may ask to read it." if decision.behavior == "ask" else ""
    return f"{decision.reason} {way}".strip()


async def without_secrets(text: str, prompt_context: PromptContext, what: str) -> tuple[str, list[str]]:
    """`text` without its secrets, and what the user is told where there were any: `what` names the text."""
    if (redaction := prompt_context.agent.redaction) is None:
        return text, []
    cleaned = await asyncio.to_thread(redaction.clean, text)
    return cleaned.text, [f"Kept from Claude in {what}: {', '.join(cleaned.kinds)}."] if cleaned.kinds else []


class Observer(Protocol):
    """One who looks on. Called on whatever thread it happens on, for a run's events the agent's; must not block."""

    def run_added(self, run: Run) -> None:
        """Somebody has asked for a run; it may have to wait for its turn. Before its first event."""

    def on_event(self, run: Run, event: Event) -> None:
        """An event of a run, on the agent's thread, in order."""

    def run_ended(self, run: Run) -> None:
        """The run is over, or was taken out of the line; nothing of it comes any more."""

    def session_changed(self, session: Session) -> None:
        """The conversation goes on with another session, or with less of this one (a turn was taken back).

        Also called when the session was given a title.
        """


class Observers:
    """Tells observers. A fault of one is logged: it can neither end a run nor keep the others from being told."""

    def __init__(self) -> None:
        # replaced, never changed: it is read on several threads
        self._observers: tuple[Observer, ...] = ()

    def add(self, observer: Observer) -> Callable[[], None]:
        """Tell `observer` from now on; gives how to stop that."""
        self._observers = (*self._observers, observer)

        def remove() -> None:
            self._observers = tuple(other for other in self._observers if other is not observer)

        return remove

    def run_added(self, run: Run) -> None:
        """Tell of the run, and from now on of its events."""
        run.bus.subscribe(functools.partial(self._on_event, run))
        self._notify(lambda observer: observer.run_added(run))

    def run_ended(self, run: Run) -> None:
        self._notify(lambda observer: observer.run_ended(run))

    def session_changed(self, session: Session) -> None:
        self._notify(lambda observer: observer.session_changed(session))

    def _on_event(self, run: Run, event: Event) -> None:
        for observer in self._observers:  # not by `_notify`: this is done for each delta
            try:
                observer.on_event(run, event)
            except Exception:  # noqa: BLE001  whoever looks on must not be able to break what they look at
                log_fault(logger, FAILED)

    def _notify(self, notify: Callable[[Observer], None]) -> None:
        for observer in self._observers:
            try:
                notify(observer)
            except Exception:  # noqa: BLE001  whoever looks on must not be able to break what they look at
                log_fault(logger, FAILED)


def unheard(**_news: object) -> None:
    """Ignore how far a tool is: no card shows it."""


def listing(tag: str, text: str) -> str:
    """`text` between tags with a digest; "" for no text."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"<{tag} digest={digest}>\n{text}\n</{tag}>" if text else ""


def is_in_history(tag: str, block: str, session: Session) -> bool:
    """Return whether `block` is the listing of `tag` that `session` was told last; an empty one is never news."""
    if not block:
        return True
    opening = f"<{tag} digest=".encode()
    for message in reversed(session.encoded):
        if (at := message.rfind(opening)) >= 0:
            return message.startswith(block.partition(">")[0].encode() + b">", at)
    return False


def listed_line(name: str, description: str, room: int) -> str:
    """One line of a listing, with as much of the description as there is room for."""
    if len(description) > room:
        description = description[: max(room - 1, 0)].rstrip() + "…"
    return f"- {name}: {description}" if description.strip("…") else f"- {name}"

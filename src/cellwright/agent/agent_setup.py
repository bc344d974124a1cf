"""AgentSetup: a model with a system prompt, tools and a policy, as data; `run_agent` of loop.py is what it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.calls.approval import CanUseTool, Policy
from cellwright.agent.calls.file_blocks import EndProposals
from cellwright.agent.hooks.make_hooks import as_hooks
from cellwright.agent.hooks.protocol import NO_HOOKS, Hooks
from cellwright.agent.prompt import ContextItem
from cellwright.agent.spending import USUAL_LIMITS, RunLimits
from cellwright.agent.structured_output import AnswerType
from cellwright.agent.tool import TOOL_SEARCH, Tool
from cellwright.events import Event, TurnChanged
from cellwright.model.models import COMPACT_AT, limits
from cellwright.model.provider import Provider, RequestOptions
from cellwright.redaction.redaction import Redaction

if TYPE_CHECKING:
    from pathlib import Path

    from cellwright.agent.hooks.callbacks import HookCallbacks
    from cellwright.sessions.session import Session


class AgentFeatures:
    """The abilities of an agent besides talking to the model. A base class of no-ops, called on the agent's loop."""

    @property
    def is_preview(self) -> bool:
        """True while its calls work on copies: nothing of it may go on or be made elsewhere."""
        return False

    @property
    def has_next_prompt(self) -> bool:
        """True if a prompt may follow: it reports the background work that has ended by then."""
        return False

    def tools(self) -> Sequence[Tool]:
        """The tools that come and go while it works (those of MCP servers), as they are now, besides `AgentSetup.tools`."""
        return ()

    async def after_calls(self, paths: Sequence[Path], session: Session, agent: AgentSetup) -> Sequence[ContextItem]:
        """Find what Claude must know after a batch of calls that read or changed `paths`; with none, before it ends."""
        return ()

    async def after_summary(self, session: Session, agent: AgentSetup) -> Sequence[ContextItem]:
        """Find what is sent again behind a summary; raises nothing."""
        return ()

    def on_request_sent(self) -> None:
        """A request has left, as far as its provider knows."""

    async def answered(self, answer: str, session: Session) -> Sequence[Event]:
        """Find the events that describe the finished `answer`, sent before the run's end."""
        return ()


NO_FEATURES = AgentFeatures()


class OtherTools(AgentFeatures):
    """The features of another agent, but for the tools that come and go."""

    def __init__(self, others: AgentFeatures, tools: Callable[[], Sequence[Tool]] = tuple) -> None:
        self.others = others
        self.tools = tools  # type: ignore[method-assign]  # asked for in its place

    @property
    def is_preview(self) -> bool:
        return self.others.is_preview

    @property
    def has_next_prompt(self) -> bool:
        return self.others.has_next_prompt

    async def after_calls(self, paths: Sequence[Path], session: Session, agent: AgentSetup) -> Sequence[ContextItem]:
        return await self.others.after_calls(paths, session, agent)

    async def after_summary(self, session: Session, agent: AgentSetup) -> Sequence[ContextItem]:
        return await self.others.after_summary(session, agent)

    def on_request_sent(self) -> None:
        self.others.on_request_sent()

    async def answered(self, answer: str, session: Session) -> Sequence[Event]:
        return await self.others.answered(answer, session)


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelSettings(RequestOptions):
    """The options of requests to a model, and the other models that may be asked instead.

    `max_tokens` bounds one answer. `plan_model` answers while the session is in plan mode. `fallback_models` take over for
    the rest of a run, one after another, when a model is overloaded or unknown.
    """

    max_tokens: int = 32_000
    plan_model: str | None = None
    fallback_models: Sequence[str] = ()


USUAL_MODEL_SETTINGS = ModelSettings()


class CompactionSettings(Struct, frozen=True, kw_only=True):
    """When a conversation is summed up by itself: at the part `share` of the model's window, or of `window` tokens if that
    is less. `own_api`: by the API's own compaction where it is there. `clear_tool_results`: before that, the API leaves old
    results of tools out where they are many (context editing).
    """

    automatic: bool = True
    share: float = COMPACT_AT
    window: int | None = None
    own_api: bool = False
    clear_tool_results: bool = False

    def window_of(self, model: str) -> int:
        """The tokens of the window of `model` that may be used."""
        window = limits(model).context_window
        return min(window, self.window or window)

    def limit(self, model: str) -> int:
        """The tokens at which a conversation with `model` is summed up."""
        return round(self.share * self.window_of(model))

    def summary_tokens(self, model: str) -> int:
        """The most that a summary by `model` may take; of a small window of another model than Claude, a quarter."""
        # the most that a summary may take, its thinking included
        most = min(16_000, limits(model).max_output)
        return most if limits(model).known else min(most, self.window_of(model) // 4)

    def results_cleared_at(self, model: str) -> int | None:
        """The tokens from which on the API leaves old results of tools out in requests to `model`; None: it keeps them."""
        return self.limit(model) // 2 if self.clear_tool_results else None


USUAL_COMPACTION = CompactionSettings()


@dataclass(frozen=True, kw_only=True, eq=False)
class FinalAnswer:
    """The type of the last answer of a run, and the use of it.

    Without a `type` it is text. `proposals`: what is offered to the user at the end, as its blocks that name files.
    """

    type: AnswerType | None = None
    proposals: EndProposals | None = None


TEXT_ANSWER = FinalAnswer()


class TurnRecord(Protocol):
    """The record kept of one run. None of it raises: a turn that cannot be taken back is still a turn."""

    async def before_call(self, tool: Tool, tool_input: Mapping[str, Any]) -> None:
        """`tool` runs now, with `tool_input`."""

    async def after_call(self, tool: Tool) -> None:
        """The call of `tool` is over, and so are the hooks that were told of it."""

    def end(self) -> TurnChanged | None:
        """The run is over; what it changed, if anything."""


class TurnRecords(Protocol):
    """The keeper of what runs change."""

    def begin(self, session: Session, prompt: str, seq: int) -> TurnRecord:
        """A run of `prompt` begins; `seq` is the number of the last event of `session` before it."""


class _NoCheckpoints:
    def begin(self, _session: Session, _prompt: str, _seq: int) -> TurnRecord:
        return self

    async def before_call(self, _tool: Tool, _tool_input: Mapping[str, Any]) -> None:
        pass

    async def after_call(self, _tool: Tool) -> None:
        pass

    def end(self) -> TurnChanged | None:
        return None


NO_CHECKPOINTS = _NoCheckpoints()
"""The record for where turns cannot be taken back."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)  # each method is compiled at import
class AgentSetup:
    """A model with a system prompt, tools and a policy. Frozen: a variant is `dataclasses.replace(agent, …)`.

    `hooks` are told what happens, by event:
    `{"PreToolUse": [HookMatcher("Bash", [check])]}`, where `check` is `async (input, tool_use_id, context) -> dict`.
    `features` find what Claude must know besides, and tools that come and go. `compaction` says when a conversation that
    fills the context window is summed up.
    """

    provider: Provider
    model: str
    model_settings: ModelSettings = USUAL_MODEL_SETTINGS
    system: Sequence[Mapping[str, Any]]
    tools: Sequence[Tool]
    policy: Policy
    can_use_tool: CanUseTool | None = None
    limits: RunLimits = USUAL_LIMITS
    hooks: Hooks | HookCallbacks = NO_HOOKS
    features: AgentFeatures = NO_FEATURES
    redaction: Redaction | None = None
    checkpoints: TurnRecords = NO_CHECKPOINTS
    compaction: CompactionSettings = USUAL_COMPACTION
    final_answer: FinalAnswer = TEXT_ANSWER

    def __post_init__(self) -> None:
        # what is wrong with them is said here, and not when a run begins
        if names := [tool for tool in self.tools if isinstance(tool, str)]:
            given = ", ".join(map(repr, names))
            raise TypeError(f"tools are `Tool` objects: cellwright.builtin_tools({given}) gives those of these names")
        object.__setattr__(self, "hooks", as_hooks(self.hooks))

    @property
    def offered_tools(self) -> list[Tool]:
        """The tools that a session which begins is told of: what a rule denies as a whole would only cost tokens."""
        return self.visible_tools(self.tools)

    def visible_tools(self, tools: Sequence[Tool]) -> list[Tool]:
        """Those of `tools` that no rule denies as a whole, as a session that begins is told of them."""
        # as it is now: a policy that follows the settings looks at their files whenever it is asked
        policy = self.policy.allowing(())
        told = [tool for tool in tools if not policy.hides(tool)]
        if TOOL_SEARCH not in [tool.name for tool in told]:  # nothing would load them
            told = [replace(tool, defer_loading=False) if tool.defer_loading else tool for tool in told]
        return told

    @property
    def tool_params(self) -> list[dict[str, Any]]:
        """The same as the Messages API has them."""
        return self.params_of(self.tools)

    def params_of(self, tools: Sequence[Tool]) -> list[dict[str, Any]]:
        """The definitions of those of `tools` that no rule denies as a whole, as a session that begins has them."""
        return [tool.to_param() for tool in self.visible_tools(tools)]

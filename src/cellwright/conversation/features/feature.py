"""The seam: `Feature`, a base class of no-ops, and a run as its features see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.prompt import ContextItem, ContextProvider, Prompt, PromptContext
from cellwright.agent.tool import Tool
from cellwright.conversation.runs.kinds import RunKind, TrustCheck
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.events import Event
from cellwright.sessions.session import Session

if TYPE_CHECKING:
    from cellwright.conversation.observers import Observer
    from cellwright.conversation.runs.run import Run


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

"""The kinds of run, and the request that starts a run of a conversation.

A kind says which features take part, who answers, and what is kept. A run asks its kind; nothing else tells them apart.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct, field

from cellwright.agent.agent_setup import NO_CHECKPOINTS, AgentSetup, CompactionSettings, OtherTools
from cellwright.agent.context_usage import prompt_sections
from cellwright.agent.prompt import ContextProvider, FullPrompt, Prompt, Steering
from cellwright.agent.spending import NO_SHARED_BUDGETS
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.events import TurnEnd
from cellwright.model.provider import Provider, ProviderEvent, Request
from cellwright.sessions.session import Session

if TYPE_CHECKING:
    from cellwright.agent.recording.replay import EditTarget, ReplayedTurn
    from cellwright.agent.structured_output import AnswerType
    from cellwright.config.settings.settings_in_force import TrustQuestion


CellActionName = Literal["fix", "edit", "explain", "document"]


class TrustCheck(Protocol):
    """Something that may have to ask the user before a run."""

    def question(self) -> TrustQuestion | None: ...

    def answer(self, question: TrustQuestion, *, yes: bool, chosen: str = "") -> None:
        """The user said yes or no; `chosen` is the one of `question.also` that they took, else empty."""


class ReplayDecision(Protocol):
    """The decision whether a run is played from a recording."""

    @property
    def trust_checks(self) -> Sequence[TrustCheck]:
        """The questions that may have to be asked about it before."""

    def kind(self) -> RunKind:
        """The kind that the run is; called once, when the questions are answered."""


class TakesPart(Protocol):
    """A feature's word on the kinds of run in which it takes part, besides live ones."""

    in_dry_runs: bool
    in_replays: bool


class Live:
    """The model answers: every feature takes part, and all of it is kept."""

    keeps = True
    """The session, the user's notices and those who look on take note of the run."""

    reads_calls = True
    """A prompt may call a skill, or the prompt of an MCP server."""

    @property
    def trust_checks(self) -> Sequence[TrustCheck]:
        """The questions of this kind that may have to be asked before the run."""
        return ()

    def decided(self) -> RunKind:
        """The kind that the run is, when the user has answered what had to be asked; called once."""
        return self

    def takes(self, _feature: TakesPart) -> bool:
        """Return whether the feature takes part."""
        return True

    def provider(self, usual: Callable[[], Provider]) -> Provider:
        """The way to who answers; `usual` gives that to the model."""
        return usual()

    def agent(self, agent: AgentSetup, _place: Callable[[], EditTarget], _steering: Steering) -> AgentSetup:
        """`agent` as one that works in a run of this kind; `place` is where recorded edits are made again."""
        return agent

    def prompt(self, full: FullPrompt) -> FullPrompt:
        """`full` as a run of this kind sends it."""
        return full


class DryRun(Live):
    """Nothing is sent, changed or paid for: it keeps the one request that would be sent, and answers with nothing."""

    keeps = False

    def __init__(self) -> None:
        self.request: Request | None = None

    def takes(self, feature: TakesPart) -> bool:
        return feature.in_dry_runs

    def provider(self, _usual: Callable[[], Provider]) -> Provider:
        return self

    def agent(self, agent: AgentSetup, _place: Callable[[], EditTarget], _steering: Steering) -> AgentSetup:
        # that its own budget is too small is worth knowing
        return replace(
            agent, checkpoints=NO_CHECKPOINTS, limits=replace(agent.limits, shared_budgets=NO_SHARED_BUDGETS)
        )

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """Keep `request`, as a provider."""
        self.request = request
        message = {"role": "assistant", "content": []}
        yield TurnEnd(message, "end_turn", {}, request.model, cost_usd=0.0)

    def summary(self, typed: AnswerType | None = None) -> dict[str, Any]:
        """The request in its parts, as JSON. Call it when the run is over. `typed` would be what the answer has to be."""
        assert self.request is not None, "the run ended before it asked"
        request = self.request
        size = len(request.system) + len(request.tools) + sum(len(message) for message in request.messages)
        return {
            "model": request.model,
            "max_tokens": request.max_tokens,
            **request.options.chosen,
            "output_format": None if typed is None else typed.output_format,
            # bytes of JSON a token, on average; the exact count is the API's, and asking for it would send the request
            "about_input_tokens": round(size / 3.5),
            "sections": {part.name: part.tokens for part in prompt_sections(request.system)},
            "system": json.loads(request.system),
            "tools": json.loads(request.tools),
            "messages": [json.loads(message) for message in request.messages],
        }


class Replay(Live):
    """A recorded turn is played: only what can be compared with the recording is sent, and the model is not asked."""

    reads_calls = False

    def __init__(self, turn: ReplayedTurn) -> None:
        self._turn = turn

    def takes(self, feature: TakesPart) -> bool:
        return feature.in_replays

    def provider(self, _usual: Callable[[], Provider]) -> Provider:
        return self._turn

    def agent(self, agent: AgentSetup, place: Callable[[], EditTarget], steering: Steering) -> AgentSetup:
        steering.close("This run plays a recording: what Claude says in it is known already.")
        return replace(
            self._turn.played_by(agent, place()),
            final_answer=replace(agent.final_answer, proposals=None),
            compaction=CompactionSettings(automatic=False),
            features=OtherTools(agent.features),
        )

    def prompt(self, full: FullPrompt) -> FullPrompt:
        return self._turn.checked(full)


class Recorded(Live):
    """A run that may be a `Replay` or `Live`: its recording says so when the user's questions are answered."""

    def __init__(self, decision: ReplayDecision) -> None:
        self._decision = decision

    @property
    def trust_checks(self) -> Sequence[TrustCheck]:
        return self._decision.trust_checks

    def decided(self) -> RunKind:
        return self._decision.kind()


RunKind = Live
"""Every kind is a `Live` one but for what it overrides."""

LIVE = Live()


def unsaved_copy(session: Session) -> Session:
    """A session in memory with what `session` holds, so that trying something out leaves no trace."""
    copy = Session.create(session.cwd, None)
    if session.encoded:
        copy.begin(model=session.model, system=json.loads(session.system), tools=json.loads(session.tools))
        for message in session.messages:
            copy.append(message)
    return copy


def shown(summary: dict[str, Any]) -> str:
    """The summary for people: sizes, names, and the messages' text."""
    lines = [
        f"Nothing was sent. This would be a request of about {summary['about_input_tokens']:,} tokens "
        f"to {summary['model']}, for an answer of at most {summary['max_tokens']:,}.",
        "",
        *([f"answer: {json.dumps(schema['schema'])}"] if (schema := summary["output_format"]) else []),
        f"tools: {', '.join(tool['name'] for tool in summary['tools']) or 'none'}",
        "",
        f"system ({', '.join(f'{name}: {tokens:,}' for name, tokens in summary['sections'].items())} tokens):",
        *(block.get("text", "") for block in summary["system"]),
    ]
    for message in summary["messages"]:
        lines += ["", f"{message['role']}:"]
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        lines += [block["text"] if block["type"] == "text" else json.dumps(block) for block in blocks]
    return "\n".join(lines)


class CellAction(Struct, frozen=True, kw_only=True):
    """An action on the cell `id` of the notebook that its page knows as `path`; `words` are what the user said besides.

    `label` is the cell in words (`cell [3]`), `error` the kind of error that its output shows.
    """

    name: CellActionName
    path: str
    id: str
    label: str
    error: str = ""
    words: str = ""


class RunRequest(Struct, frozen=True, kw_only=True):
    """A question to Claude, and how it is to be answered.

    `context` finds what Claude is told besides the prompt and what it mentions. `origin` says in words where it was
    asked for; `background`: no thread waits for its end. What it needs of the session is looked at when its turn has
    come: then it goes on with a new one (`new_session`), or with the one of the id `resume`. `session` stands in for the
    conversation's own for this run; `kind` says whether it is a live one, a dry run or a replay. Each of
    `trust_checks` may have a question about trust before it, besides the settings. `cell_action` is the action on a
    cell that `prompt` is the title of.
    """

    prompt: Prompt
    options: RunOptions = field(default_factory=RunOptions)
    context: tuple[ContextProvider, ...] = ()
    origin: str = "Python"
    background: bool = False
    new_session: bool = False
    resume: str | None = None
    session: Session | None = None
    kind: RunKind = LIVE
    trust_checks: tuple[TrustCheck, ...] = ()
    cell_action: CellAction | None = None

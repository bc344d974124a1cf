"""Replay: recorded turns played again. No request is sent; effects on files and the namespace happen again."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.calls.approval import Decision, PolicyAround
from cellwright.agent.prompt import ContextItems, FullPrompt, Prompt
from cellwright.agent.recording.recordings import (
    RecordedMessage,
    RecordedTurn,
    in_project,
    is_trusted,
    parse_recording,
    prompt_key,
    prompt_text,
    read_recording,
    trust,
)
from cellwright.agent.recording.replay_drift import (
    Drift,
    Unchecked,
    context_digests,
    context_drift,
    later_changes,
    later_states,
    recorded_id,
    result_drift,
)
from cellwright.agent.recording.replayed_tools import EditTarget, ReplayedCalls, replayed_tools
from cellwright.agent.spending.run_spending import NO_SHARED_BUDGETS
from cellwright.agent.tool import Tool
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Event, TextDelta, ThinkingDelta, ToolEnd, ToolInputDelta, TurnEnd
from cellwright.model.provider import ProviderEvent, Request


class UntrustedRecording(CellwrightError):
    """The recording is somebody else's, or was altered: ask the user, then `Replay.trust`."""


class Replay:
    """The recording at `path`, played in the folder `project`. One for each process and file: it counts equal prompts."""

    def __init__(self, path: Path, project: Path) -> None:
        self.path = path.absolute()
        self.project = project
        # read once: what is played is what was checked
        self._state = _file_state(self.path)
        self._data = read_recording(self.path)
        self._turns = [in_project(turn, project) for turn in parse_recording(self._data, self.path)]
        self._later = later_states(self._turns, project)
        self._changes = later_changes(self._turns, project, self.path)
        self._played: Counter[str] = Counter()
        self.trusted = is_trusted(self._data)

    def trust(self) -> None:
        """The user said that this recording, as it is, may be played."""
        trust(self._data)
        self.trusted = True

    def is_outdated(self) -> bool:
        """Return whether the file has changed since it was read."""
        return _file_state(self.path) != self._state

    def turn(self, prompt: Prompt, *, nth: int | None = None) -> ReplayedTurn:
        """The next turn recorded for `prompt`; the `nth` (from 1) among equals where the caller counts.

        `UntrustedRecording` before the user has confirmed a foreign recording; `CellwrightError` (INVALID_PARAMETERS)
        when there is no such turn, with what is different in the nearest prompt.
        """
        if not self.trusted:
            raise UntrustedRecording(
                ErrorCode.PERMISSION_DENIED,
                f"The recording {self.path} was not made by you, or was changed since. Playing it runs its Python code "
                "and writes its files. Look at it, and confirm that it may be played.",
                details={"path": str(self.path)},
            )
        text = prompt_text(prompt)
        key = prompt_key(text, self.project)
        ordinal = nth or self._played[key] + 1
        if (turn := self._recorded(key, ordinal)) is None:
            raise self._not_found(text, key, ordinal)
        self._played[key] = ordinal
        return ReplayedTurn(turn, self)

    def holds(self, prompt: Prompt, *, nth: int = 1) -> bool:
        """Return whether there is such a turn."""
        return self._recorded(prompt_key(prompt_text(prompt), self.project), nth) is not None

    def _recorded(self, key: str, ordinal: int) -> RecordedTurn | None:
        return next((turn for turn in self._turns if (turn.key, turn.ordinal) == (key, ordinal)), None)

    def calls(self, turn: RecordedTurn) -> ReplayedCalls:
        """Return the outcomes of the turn's calls, as its tools need them."""
        by_id = {call.tool_use_id: call for call in turn.calls}
        later = {name: self._later[turn.key, turn.ordinal, name] for name in by_id}
        changes = {name: self._changes[turn.key, turn.ordinal, name] for name in ("", *by_id)}
        return ReplayedCalls(by_id, turn.contents, later, self.project, changes)

    def _not_found(self, text: str, key: str, ordinal: int) -> CellwrightError:
        details = {"path": str(self.path), "ordinal": ordinal}
        recorded = max((turn.ordinal for turn in self._turns if turn.key == key), default=0)
        if recorded:
            message = f"This prompt was recorded {recorded} time(s) in {self.path}, and that was played already. "
            message += "Restart the kernel to play it from the beginning, or record again."
        elif not self._turns:
            message = f"The recording {self.path} holds no turns. Record again."
        else:
            diff = _difference(_nearest([turn.prompt for turn in self._turns], text), text)
            message = f"This prompt is not in the recording {self.path}. The nearest one differs:\n{diff}\n"
            message += "Restore the recorded prompt, or record again."
        return CellwrightError(ErrorCode.INVALID_PARAMETERS, message, details=details)


class ReplayedTurn:
    """One recorded turn that is played: a `Provider` and the tools that go with it.

    `drift` gets what is not as it was when the turn was recorded, `unchecked` what nobody can tell of; `on_event` is to be
    told of the run's events.
    """

    def __init__(self, turn: RecordedTurn, replay: Replay) -> None:
        self.turn = turn
        self.drift: list[Drift] = []
        self.unchecked: Counter[Unchecked] = Counter()
        self._calls = replay.calls(turn)
        self._messages = iter(turn.messages)
        self._inputs = {
            block["id"]: block["input"]
            for recorded in turn.messages
            for block in recorded.message["content"]
            if block["type"] == "tool_use"
        }

    def played_by(self, agent: AgentSetup, target: EditTarget) -> AgentSetup:
        """`agent` as one that plays this turn: run it on the turn's prompt. `place` is where edits are made again."""
        if agent.redaction is not None:
            self._calls = structs.replace(self._calls, redaction=agent.redaction)
        return replace(
            agent,
            provider=self,
            tools=replayed_tools(agent.tools, self._calls, target, self.drift.append, self._not_checked),
            policy=RecordedApproval(agent.policy),
            # nothing is asked of the model, nothing is spent
            limits=replace(agent.limits, max_turns=None, budget_usd=None, shared_budgets=NO_SHARED_BUDGETS),
        )

    def checked(self, full: FullPrompt) -> FullPrompt:
        """`full`, of which views are shown nothing and whose context is held against what was told then."""
        collect, then = full.collect_context, self.turn.context
        if collect is None or then is None:
            return structs.replace(full, collect_context=None)

        async def collect_and_compare() -> ContextItems:
            found = await collect()
            parts = [part.as_attached() for part in (*full.before, *found.before, *found.after, *full.after)]
            now = context_digests(parts, self._calls.project)
            changed_later = self._calls.changes[""].paths
            self.drift += context_drift(then, now, changed_later, self._calls.project)
            return found

        return structs.replace(full, collect_context=collect_and_compare, tells_silently=True)

    def _not_checked(self, what: Unchecked) -> None:
        self.unchecked[what] += 1

    def on_event(self, event: Event) -> None:
        """Hold what a call that ran again gave against what it gave then."""
        if not isinstance(event, ToolEnd):
            return
        then = self._calls.calls.get(recorded_id(event.tool_use_id))
        if then is None or not self._calls.runs_again(then):
            return
        tool_input = self._inputs.get(then.tool_use_id, {})
        drift = result_drift(then, tool_input, event, self._calls.project, self._calls.redaction)
        if drift is not None:
            self.drift.append(drift)

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """The turn's next message. Its call ids are made unique in the session, which may play a turn twice."""
        recorded = next(self._messages, None)
        if recorded is None:
            message = "The recording of this turn ends here: what the tools gave back led to more than was recorded."
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, f"{message} Record it again.")
        recorded = structs.replace(recorded, message=_with_ids(recorded.message, f"_{len(request.messages)}"))
        for event in _deltas(recorded.message["content"]):
            yield event
        yield _turn_end(recorded)


class RecordedApproval(PolicyAround, frozen=True):
    """A policy while a trusted recording is played: what it asks was answered then; what it denies stays denied."""

    def decide(self, tool: Tool, tool_input: Mapping[str, Any]) -> Decision:
        """As the policy decides, with "allow" in place of "ask"."""
        decision = self.base.decide(tool, tool_input)
        if decision.behavior == "ask":
            reason = "It comes from a recording that you trust."
            return Decision("allow", reason, confinement=decision.confinement)
        return decision


def _file_state(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None  # reading it says why
    return status.st_mtime_ns, status.st_size


def _with_ids(message: Mapping[str, Any], suffix: str) -> dict[str, Any]:
    content = []
    for block in message["content"]:
        ids = {name: block[name] + suffix for name in ("id", "tool_use_id") if name in block}
        content.append({**block, **ids})
    return {**message, "content": content}


def _deltas(content: Sequence[Mapping[str, Any]]) -> Iterator[ProviderEvent]:
    for index, block in enumerate(content):
        match block["type"]:
            case "text":
                yield TextDelta(block["text"], index)
            case "thinking":
                yield ThinkingDelta(block["thinking"], index)
            case "tool_use":
                yield ToolInputDelta(block["id"], block["name"], "", index)
                yield ToolInputDelta(block["id"], block["name"], json.dumps(block["input"], ensure_ascii=False), index)


def _turn_end(recorded: RecordedMessage) -> TurnEnd:
    # thinking was shown; without the conversation it was signed for, the API would refuse it in a later request
    content = [block for block in recorded.message["content"] if block["type"] != "thinking"]
    return TurnEnd(
        message={**recorded.message, "content": content},
        stop_reason=recorded.stop_reason,
        usage=recorded.usage,
        model=recorded.model,
        cost_usd=0.0,
        context_tokens=recorded.context_tokens,
        replayed=True,
    )


def _nearest(prompts: Sequence[str], text: str) -> str:
    return max(prompts, key=lambda prompt: difflib.SequenceMatcher(None, prompt, text, autojunk=False).ratio())


def _difference(recorded: str, text: str) -> str:
    lines = difflib.unified_diff(recorded.splitlines(), text.splitlines(), "recorded", "this prompt", n=1, lineterm="")
    shown = list(lines)
    return "\n".join(shown[:20] + (["…"] if len(shown) > 20 else []))

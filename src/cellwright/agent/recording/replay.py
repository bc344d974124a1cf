"""Replay: recorded turns played again. No request is sent; effects on files and the namespace happen again.

Some tools run again, edits are made once, all others give what they gave then.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field, structs

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.calls.approval import Decision, PolicyAround
from cellwright.agent.calls.tool_names import changes_cells, written_tools
from cellwright.agent.calls.tool_results import bounded
from cellwright.agent.prompt import ContextItems, FullPrompt, Prompt
from cellwright.agent.recording.recordings import (
    Edit,
    RecordedCall,
    RecordedMessage,
    RecordedTurn,
    content_bytes,
    content_hash,
    edits_of,
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
    LaterChanges,
    States,
    Unchecked,
    cell_place,
    context_digests,
    context_drift,
    is_checked,
    later_changes,
    later_states,
    listing_drift,
    real_path,
    recorded_id,
    result_drift,
    state_of,
    text_of,
    unchecked_name,
)
from cellwright.agent.spending import NO_SHARED_BUDGETS
from cellwright.agent.tool import Content, Tool, ToolContext, ToolResult
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.events import Event, TextDelta, ThinkingDelta, ToolEnd, ToolInputDelta, TurnEnd
from cellwright.model.provider import ProviderEvent, Request
from cellwright.redaction.redaction import Redaction

OnDrift = Callable[[Drift], None]


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
            prompts = [turn.prompt for turn in self._turns]
            recorded_text = max(
                prompts, key=lambda prompt: difflib.SequenceMatcher(None, prompt, text, autojunk=False).ratio()
            )
            lines = list(
                difflib.unified_diff(
                    recorded_text.splitlines(), text.splitlines(), "recorded", "this prompt", n=1, lineterm=""
                )
            )
            diff = "\n".join(lines[:20] + (["…"] if len(lines) > 20 else []))
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


class EditTarget(Protocol):
    """The place where edits are made again. Both raise ToolError, touching nothing, where something else is there."""

    async def write_file(self, edit: Edit, content: bytes) -> None:
        """Give the file of `edit` its recorded content. OSError when it cannot be written."""

    async def edit_cell(self, tool_input: Mapping[str, Any], display: Mapping[str, Any], later: States) -> bool:
        """Change a cell as a recorded call did; False: the notebook is to be written as any other file."""


class ReplayedCalls(Struct, frozen=True):
    """The outcomes of a turn's calls, by their recorded id, and what playing them again takes.

    `contents` holds files' contents by hash, as the recording keeps them. `later` holds, for each call, the states that
    the recording knows of its files for any time after it.
    """

    calls: Mapping[str, RecordedCall]
    contents: Mapping[str, str]
    later: Mapping[str, Mapping[Path, States]]
    project: Path
    changes: Mapping[str, LaterChanges]
    """The changes of the recording from each call on, and from the prompt on under the name ""."""
    redaction: Redaction = field(default_factory=Redaction)
    """The redaction that takes secrets out of results."""

    def of(self, ctx: ToolContext) -> RecordedCall:
        """The recorded call that is played now."""
        return self.calls[recorded_id(ctx.tool_use_id)]

    def runs_again(self, call: RecordedCall) -> bool:
        """True for a call that is run again, and gives what it gives now: later ones need what it left, or views show it."""
        tool = written_tools().get(call.name)
        is_repeated = tool is not None and tool.access.kind in ("python", "cells", "todos") and not tool.read_only
        return is_repeated and call.status in ("success", "error")

    def later_of(self, call: RecordedCall, path: Path) -> States:
        return self.later[call.tool_use_id].get(path, frozenset())


def replayed_tools(
    tools: Sequence[Tool],
    recorded: ReplayedCalls,
    edit_target: EditTarget,
    on_drift: OnDrift,
    on_unchecked: Callable[[Unchecked], None],
) -> list[Tool]:
    """The tools of a turn that is played, with stand-ins for those that are not there.

    Edits are made again in `edit_target`; `on_drift` gets what differs, `on_unchecked` the name of each call of which nobody
    can tell.
    """
    missing = {call.name for call in recorded.calls.values()} - {tool.name for tool in tools}
    stand_ins = [
        Tool(name=name, description="Played from a recording.", input_schema={"type": "object"}, call=_not_available)
        for name in sorted(missing)
    ]
    return [_replayed(tool, recorded, edit_target, on_drift, on_unchecked) for tool in (*tools, *stand_ins)]


async def _not_available(tool_input: dict[str, Any], ctx: ToolContext) -> ToolResult:
    raise ToolError("This tool is not available here, so its effects cannot be played.", code=ErrorCode.TOOL_NOT_FOUND)


def _replayed(
    tool: Tool,
    recorded: ReplayedCalls,
    edit_target: EditTarget,
    on_drift: OnDrift,
    on_unchecked: Callable[[Unchecked], None],
) -> Tool:
    async def call(tool_input: dict[str, Any], ctx: ToolContext) -> ToolResult | Content:
        then = recorded.of(ctx)
        if recorded.runs_again(then):
            return _bounded(await tool.call(tool_input, ctx), tool)
        if then.status == "success":
            try:
                if tool.access.kind == "edit":
                    await _apply_once(tool, tool_input, then, recorded, edit_target)
                elif tool.access.kind == "patch" and _is_as_before(then, recorded):
                    # the policy judged its input whole, and its files are as they were
                    return _bounded(await tool.call(tool_input, ctx), tool)
            except ToolError as error:
                on_drift(Drift("cell" if changes_cells(tool.name) else "file", error.message))
                raise
            found = await _compared(tool, tool_input, then, recorded, ctx)
            for drift in found or ():
                on_drift(drift)
            if found is None:
                on_unchecked(unchecked_name(tool))
        return _as_recorded(then, ctx)

    # nothing is asked of anybody, so nothing need be waited for; a recorded result was bounded when it was made
    limits = structs.replace(tool.limits, calls_per_minute=None, result_chars=sys.maxsize)
    return structs.replace(tool, call=call, limits=limits)


_LOOKS_AT_NOTHING = frozenset({"edit", "patch", "todos", "notes", "question", "plan", "skill"})
"""Calls whose results depend on nothing that is not compared with the effect itself."""


async def _compared(
    tool: Tool, tool_input: dict[str, Any], then: RecordedCall, recorded: ReplayedCalls, ctx: ToolContext
) -> list[Drift] | None:
    """Hold what a call looked at against what is there now; None where nobody can tell."""
    if tool.access.kind in _LOOKS_AT_NOTHING:
        return []
    if tool.access.kind == "read":
        return _changed_files(then, recorded)
    if not is_checked(tool):
        return None
    unseen = structs.replace(ctx, progress=lambda *_, **__: None)
    try:  # again, only to be compared; its own failure is an answer, too
        now = _bounded(await tool.call(tool_input, unseen), tool)
        text = recorded.redaction.clean(text_of(now.content)).text
    except ToolError as error:
        text = error.message
    drift = listing_drift(then, text, recorded.changes[then.tool_use_id], recorded.project)
    return None if drift == "unknown" else [] if drift is None else [drift]


def _bounded(value: ToolResult | Content, tool: Tool) -> ToolResult:
    """A call's result of now, as much of it as the model would have got then."""
    result = value if isinstance(value, ToolResult) else ToolResult(value)
    return structs.replace(result, content=bounded(result.content, tool.limits.result_chars))


def _as_recorded(then: RecordedCall, ctx: ToolContext) -> ToolResult:
    for news in then.progress or ():
        ctx.progress(**news)
    if then.status == "timeout":
        raise ToolError(text_of(then.content), code=ErrorCode.EXECUTION_TIMEOUT)
    return ToolResult(then.content, then.display, is_error=then.status != "success", structured=then.structured)


def _changed_files(then: RecordedCall, recorded: ReplayedCalls) -> list[Drift]:
    """Find the files that were read and hold something else now, which no later step of the recording explains."""
    drifts: list[Drift] = []
    for name, state in then.files:
        path = real_path(name)
        try:
            now = state_of(path)
        except OSError as error:
            drifts.append(Drift("file", f"{path} was read then and cannot be read now: {error.strerror}."))
            continue
        if now == state or now in recorded.later_of(then, path):
            continue
        what = "is not there any more" if now is None else "has changed since"
        drifts.append(Drift("file", f"{path} was read for this answer, and {what}."))
    return drifts


async def _apply_once(
    tool: Tool, tool_input: Mapping[str, Any], then: RecordedCall, recorded: ReplayedCalls, edit_target: EditTarget
) -> None:
    """Bring the file from the state before to the recorded one; ToolError, and nothing touched, if it is in neither."""
    if changes_cells(tool.name):
        cell = cell_place(then.display, recorded.project)
        later = recorded.later_of(then, cell) if cell is not None else frozenset()
        if await edit_target.edit_cell(tool_input, then.display or {}, later):
            return
    edits = edits_of(then.display, recorded.project)
    # what the policy was asked about is the path of the input
    if len(edits) != 1 or edits[0].path != (recorded.project / str(tool_input.get(tool.access.field))).resolve():
        raise ToolError(
            f"The recording does not say which file {tool.name} changed, so nothing was changed. Record again."
        )
    (edit,) = edits
    if _is_applied(edit, then, recorded):
        return
    kept = recorded.contents.get(edit.after or "")
    if kept is None:
        raise ToolError(
            f"The recording does not hold the new content of {edit.path} (it was too large, or had secrets in it), "
            "so the file was left as it is. Make the change by hand, or record again.",
            code=ErrorCode.FILE_ACCESS_ERROR,
        )
    try:
        await edit_target.write_file(edit, content_bytes(kept))
    except OSError as error:
        raise ToolError(f"{edit.path} cannot be written: {error}.", code=ErrorCode.FILE_ACCESS_ERROR) from error


def _is_as_before(then: RecordedCall, recorded: ReplayedCalls) -> bool:
    """Return whether a patch's files are as before it; False if it is made already, ToolError for anything else."""
    made = {_is_applied(edit, then, recorded) for edit in edits_of(then.display, recorded.project)}
    if len(made) > 1:
        raise ToolError(
            "Some files of the patch are as they were before it and others as it left them. Nothing was written. "
            "Bring them back to one of the two, or record again.",
            code=ErrorCode.FILE_ACCESS_ERROR,
        )
    return made == {False}


def _is_applied(edit: Edit, then: RecordedCall, recorded: ReplayedCalls) -> bool:
    """Return whether the file is as the edit or a later step left it; ToolError where it is not as before either."""
    try:
        now = content_hash(edit.path)
    except OSError as error:
        raise ToolError(f"{edit.path} cannot be read: {error}.", code=ErrorCode.FILE_ACCESS_ERROR) from error
    if now == edit.after or (now != edit.before and now in recorded.later_of(then, edit.path)):
        return True
    if now != edit.before:
        raise _drift(edit, now)
    return False


def _drift(edit: Edit, now: str | None) -> ToolError:
    if now is None:
        problem = f"{edit.path} is not there any more; it was when this turn was recorded. Nothing was written."
    elif edit.before is None:
        problem = f"{edit.path} is there already, with another content than this turn gave it. It was left untouched."
    else:
        problem = f"{edit.path} is not as it was when this turn was recorded. It was left untouched."
    return ToolError(
        f"{problem} Bring it back to that state, or record again.",
        code=ErrorCode.FILE_ACCESS_ERROR,
        details={"path": str(edit.path), "expected_sha256": edit.before, "found_sha256": now},
    )

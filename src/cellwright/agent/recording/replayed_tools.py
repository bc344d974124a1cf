"""Tools while a recorded turn is played: some run again, edits are made once, all others give what they gave then."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.agent.calls.tool_results import bounded
from cellwright.agent.calls.written_tools import changes_cells, written_tools
from cellwright.agent.recording.recorded_edits import Edit, content_bytes, content_hash, edits_of
from cellwright.agent.recording.recordings import RecordedCall
from cellwright.agent.recording.replay_drift import (
    Drift,
    LaterChanges,
    States,
    Unchecked,
    cell_place,
    is_checked,
    listing_drift,
    real_path,
    recorded_id,
    state_of,
    text_of,
    unchecked_name,
)
from cellwright.agent.tool import Content, Tool, ToolContext, ToolResult
from cellwright.errors import ErrorCode, ToolError
from cellwright.redaction.redaction import Redaction

OnDrift = Callable[[Drift], None]


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
    limits = replace(tool.limits, calls_per_minute=None, result_chars=sys.maxsize)
    return replace(tool, call=call, limits=limits)


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
    try:  # again, unseen; its own failure is an answer, too
        now = _bounded(await tool.call(tool_input, replace(ctx, progress=_unseen)), tool)
        text = recorded.redaction.clean(text_of(now.content)).text
    except ToolError as error:
        text = error.message
    drift = listing_drift(then, text, recorded.changes[then.tool_use_id], recorded.project)
    return None if drift == "unknown" else [] if drift is None else [drift]


def _unseen(*_: object, **__: object) -> None:
    """Show nothing: it is made again only to be compared."""


def _bounded(value: ToolResult | Content, tool: Tool) -> ToolResult:
    """A call's result of now, as much of it as the model would have got then."""
    result = value if isinstance(value, ToolResult) else ToolResult(value)
    return replace(result, content=bounded(result.content, tool.limits.result_chars))


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
    now = _hash_now(edit)
    if now == edit.after or (now != edit.before and now in recorded.later_of(then, edit.path)):
        return True
    if now != edit.before:
        raise _drift(edit, now)
    return False


def _hash_now(edit: Edit) -> str | None:
    try:
        return content_hash(edit.path)
    except OSError as error:
        raise ToolError(f"{edit.path} cannot be read: {error}.", code=ErrorCode.FILE_ACCESS_ERROR) from error


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

"""Tools while a recorded turn is played: some run again, edits are made once, all others give what they gave then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cellwright.agent.recorded_edits import Edit, apply_edit, content_bytes, content_hash, edit_of
from cellwright.agent.recordings import RecordedCall
from cellwright.agent.tool import Tool, ToolContext, ToolError, ToolResult
from cellwright.errors import ErrorCode

EDITS = frozenset({"Write", "Edit", "MultiEdit", "EditSymbol", "NotebookEdit"})

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ReplayedCalls:
    """What became of a turn's calls, by their recorded id, and what playing them again takes.

    `contents` holds files' contents by hash, as the recording keeps them. `later` holds, for each call that edited a
    file, the states that later edits of the recording gave that file.
    """

    calls: Mapping[str, RecordedCall]
    contents: Mapping[str, str]
    later: Mapping[str, frozenset[str]]
    project: Path
    run_again: frozenset[str]

    def of(self, ctx: ToolContext) -> RecordedCall:
        """The recorded call that is played now; its id in the session has a suffix."""
        return self.calls[ctx.tool_use_id.rpartition("_")[0]]


def replayed_tools(tools: Sequence[Tool], recorded: ReplayedCalls, tell: Tell) -> list[Tool]:
    """The tools of a turn that is played, with stand-ins for those that are not there; `tell` gets what went wrong."""
    missing = {call.name for call in recorded.calls.values()} - {tool.name for tool in tools}
    stand_ins = [
        Tool(name=name, description="Played from a recording.", input_schema={"type": "object"}, call=_not_available)
        for name in sorted(missing)
    ]
    return [_replayed(tool, recorded, tell) for tool in (*tools, *stand_ins)]


async def _not_available(tool_input: dict[str, Any], ctx: ToolContext) -> ToolResult:
    raise ToolError("This tool is not available here, and what it did cannot be played.", code=ErrorCode.TOOL_NOT_FOUND)


def _replayed(tool: Tool, recorded: ReplayedCalls, tell: Tell) -> Tool:
    async def call(tool_input: dict[str, Any], ctx: ToolContext) -> Any:
        then = recorded.of(ctx)
        if tool.name in recorded.run_again and then.status in ("success", "error"):
            return await tool.call(tool_input, ctx)
        if tool.name in EDITS and then.status == "success":
            try:
                _make_once(tool, tool_input, then, recorded)
            except ToolError as error:
                tell(error.message)
                raise
        return _as_recorded(then, ctx)

    return replace(tool, call=call)


def _as_recorded(then: RecordedCall, ctx: ToolContext) -> ToolResult:
    for news in then.progress or ():
        ctx.progress(**news)
    if then.status == "timeout":
        raise ToolError(str(then.content), code=ErrorCode.EXECUTION_TIMEOUT)
    return ToolResult(then.content, then.display, is_error=then.status != "success")


def _make_once(tool: Tool, tool_input: Mapping[str, Any], then: RecordedCall, recorded: ReplayedCalls) -> None:
    """Bring the file from the state before to the recorded one; ToolError, and nothing touched, if it is in neither."""
    edit = edit_of(then.display, recorded.project)
    # what the policy was asked about is the path of the input
    if edit is None or edit.path != (recorded.project / str(tool_input.get(tool.rule_key))).resolve():
        raise ToolError(
            f"The recording does not say which file {tool.name} changed, so nothing was changed. Record again."
        )
    now = _hash_now(edit)
    if now == edit.after or (now != edit.before and now in recorded.later[then.tool_use_id]):
        return
    if now != edit.before:
        raise _drift(edit, now)
    kept = recorded.contents.get(edit.after)
    if kept is None:
        raise ToolError(
            f"The recording does not hold the new content of {edit.path} (it was too large, or had secrets in it), "
            "so the file was left as it is. Make the change by hand, or record again.",
            code=ErrorCode.FILE_ACCESS_ERROR,
        )
    try:
        apply_edit(edit, content_bytes(kept))
    except OSError as error:
        raise ToolError(f"{edit.path} cannot be written: {error}.", code=ErrorCode.FILE_ACCESS_ERROR) from error


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

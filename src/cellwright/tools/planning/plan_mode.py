"""EnterPlanMode and ExitPlanMode: look and think first, change something only when the user has approved of the plan.

That nothing is changed meanwhile is the policy's to see to, in mode `plan`; what is said here only helps Claude to plan.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from cellwright.agent.tool import Tool, ToolContext, ToolLimits, ToolResult
from cellwright.errors import ToolError
from cellwright.events import Preview
from cellwright.sessions.turns import PLAN_MODE
from cellwright.tools.files.atomic_write import write_atomically
from cellwright.tools.paths import file_errors, real_path, shown_path
from cellwright.tools.schema import object_schema

APPROVED_MODES = {"approve": "default", "accept_edits": "acceptEdits"}
"""The mode that each way of approving leads to."""

NEVER_ASKS = frozenset({"bypassPermissions", "dontAsk"})

ENTER_DESCRIPTION = """\
Begin to plan: until the user approves of your plan you can read and search, and change nothing. For work with more \
than one sensible way, or with changes in many places; not for what is clear and small."""

EXIT_DESCRIPTION = """\
Show the user your plan and ask to begin. Only in plan mode, when the plan is whole: put open questions first \
(AskUserQuestion). Not for a task that only looks something up."""


def plan_tools(project: Path, plans_directory: Path | None = None) -> tuple[Tool, Tool]:
    """The two tools. Approved plans are kept in `plans_directory` where one is given; it must be in `project`."""

    async def leave(tool_input: dict[str, Any], ctx: ToolContext) -> ToolResult:
        if ctx.mode != "plan":
            raise ToolError("Plan mode is off: there is nothing to approve. Go on with the work.")
        plan = str(tool_input["plan"])
        mode = ctx.set_mode(APPROVED_MODES[tool_input.get("decision", "approve")])
        if mode == "plan":
            raise ToolError(
                "The user approves, but the administrator's settings leave no mode other than plan. End here."
            )
        kept = await asyncio.to_thread(_kept, plan, project, plans_directory) if plans_directory is not None else ""
        edited = _proposed(ctx) not in (None, plan.strip())
        told = [f"The user approved of the plan{', after editing it' if edited else ''}. Plan mode is off: begin."]
        if mode == "acceptEdits":
            told.append("Edits of files in the project are allowed without asking.")
        if feedback := tool_input.get("feedback", "").strip():
            told.append(f"The user's remark: {feedback}")
        if kept:
            told.append(kept)
        if edited:
            told.append(f"What is to be done is the plan as edited:\n\n{plan}")
        display = {"plan": plan, "plan_was_edited": edited, "mode": mode}
        return ToolResult("\n".join(told), display=display)

    return _enter_tool(), _exit_tool(leave)


def _enter_tool() -> Tool:
    async def enter(_tool_input: dict[str, Any], ctx: ToolContext) -> ToolResult:
        if ctx.mode in NEVER_ASKS:
            raise ToolError(
                f"In mode {ctx.mode} the user is never asked, so nobody could approve of a plan. "
                "Think the work through, say briefly what you will do, and do it."
            )
        if ctx.mode != "plan":
            ctx.set_mode("plan")
        return ToolResult(PLAN_MODE)

    return Tool(
        name="EnterPlanMode",
        description=ENTER_DESCRIPTION,
        input_schema=object_schema({}, []),
        call=enter,
        limits=ToolLimits(seconds=10),
        category="planning",
        input_examples=[{}],
        title=lambda _tool_input: "plan before anything is changed",
    )


def _exit_tool(leave: Callable[[dict[str, Any], ToolContext], Awaitable[ToolResult]]) -> Tool:
    plan = {
        "type": "string",
        "minLength": 1,
        "maxLength": 100_000,
        "description": "The whole plan, in Markdown.",
    }
    decision = {"enum": [*APPROVED_MODES], "description": "How the user approved: `accept_edits` asks for no edit."}
    feedback = {"type": "string", "description": "What the user said with it."}
    return Tool(
        name="ExitPlanMode",
        description=EXIT_DESCRIPTION,
        input_schema=object_schema({"plan": plan}, ["plan"]),
        answered_schema=object_schema({"plan": plan, "decision": decision, "feedback": feedback}, ["plan"]),
        call=leave,
        limits=ToolLimits(seconds=10),
        category="planning",
        input_examples=[
            {"plan": "1. `loader.py`: read dates with their time zone.\n2. A test for it.\n3. Run the tests."}
        ],
        asks="plan",
        title=lambda tool_input: heading(tool_input["plan"]),
        preview=_preview,
    )


async def _preview(tool_input: Mapping[str, Any]) -> Preview:
    return Preview("Claude's plan: may the work begin?", tool_input["plan"])


def heading(plan: str) -> str:
    """The first line of a plan that says something, without its marks."""
    lines = (line.strip("#*-_ \t`") for line in plan.splitlines())
    return next((line for line in lines if line), "plan")[:120]


def _proposed(ctx: ToolContext) -> str | None:
    """The plan as Claude wrote it in this call."""
    for message in reversed(ctx.history()):
        content: str | Sequence[Mapping[str, Any]] = message["content"]
        for block in content if not isinstance(content, str) else ():
            if block.get("type") == "tool_use" and block["id"] == ctx.tool_use_id:
                return str(block["input"]["plan"]).strip()
    return None


def _kept(plan: str, project: Path, folder: Path) -> str:
    """Write the plan into a new file of `folder`; where it is, or why it is not there."""
    path = real_path(project / folder) / _file_name(plan)
    shown = shown_path(project, path)
    if not path.is_relative_to(real_path(project)):
        return f"The plan was not kept in a file: the setting plansDirectory leads out of the project ({shown})."
    try:
        with file_errors(shown):
            write_atomically(path, (plan.rstrip() + "\n").encode(), replacing=None)
    except ToolError as problem:
        # the user has approved: a full disk must not undo that
        return f"The plan was not kept in a file: {problem.message}"
    return f"The plan is kept in {shown}."


def _file_name(plan: str) -> str:
    words = re.findall(r"[a-z0-9]+", heading(plan).lower())[:6]
    # the last part keeps two plans of one minute apart
    return f"{datetime.now().astimezone():%Y-%m-%d-%H%M}-{'-'.join(words) or 'plan'}-{secrets.token_hex(2)}.md"

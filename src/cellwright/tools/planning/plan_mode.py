"""EnterPlanMode and ExitPlanMode: Claude only looks, shows its plan, and changes something when the user has approved of it.

The policy, in mode `plan`, sees to it that nothing is changed before; the words here only help Claude to plan. The user's
answer comes back as the call's input: the plan, perhaps edited, with `decision` and `feedback`, which the model does not
see and cannot fill.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolResult, tool
from cellwright.errors import ToolError
from cellwright.events import Preview
from cellwright.sessions.api_messages import PLAN_MODE
from cellwright.sessions.project_writes import check_way, within
from cellwright.tools.files.atomic_write import write_atomically
from cellwright.tools.files.staged_file import FileChanged
from cellwright.tools.paths import file_errors, shown_path

Decision = Literal["approve", "accept_edits"]

APPROVED_MODES: Mapping[Decision, str] = {"approve": "default", "accept_edits": "acceptEdits"}
"""The mode that each way of approving leads to."""

EXIT_DESCRIPTION = """\
Show the user your plan and ask to begin. Only in plan mode, when the plan is whole: put open questions first \
(AskUserQuestion). Not for a task that only looks something up."""

NEVER_ASKS = frozenset({"bypassPermissions", "dontAsk"})

ENTER_DESCRIPTION = """\
Begin to plan: until the user approves of your plan you can read and search, and change nothing. For work with more \
than one sensible way, or with changes in many places; not for small, clear tasks."""


class ExitPlanModeInput(ToolInput):
    """The input of ExitPlanMode."""

    ignored: ClassVar = ("allowedPrompts", "planFilePath")

    plan: Annotated[str, Meta(min_length=1, max_length=100_000, description="The whole plan, in Markdown.")]


class ApprovedPlanInput(ExitPlanModeInput):
    """The call with the user's approval, as it runs."""

    decision: Annotated[Decision, Meta(description="How the user approved: `accept_edits` asks for no edit.")] = (
        "approve"
    )
    feedback: Annotated[str, Meta(description="What the user said with it.")] = ""


class PlanOutput(ToolOutput):
    """The plan that the user approved: an id of its own, as `file` where it is kept, and the mode that work begins in.

    A plan that is not approved is an error of the call, with the code PERMISSION_DENIED.
    """

    plan_id: str
    status: Literal["approved"]
    decision: Decision
    edited: bool
    mode: str
    feedback: str
    file: str | None


def exit_plan_mode_tool(project: Path, plans_directory: Path | None = None) -> Tool:
    """ExitPlanMode. Approved plans are kept in `plans_directory` where one is given; it must be in `project`."""

    @tool(
        name="ExitPlanMode",
        output=PlanOutput,
        description=EXIT_DESCRIPTION,
        access=ToolAccess("plan"),
        category="planning",
        everyday=True,
        examples=[{"plan": "1. `loader.py`: read dates with their time zone.\n2. A test for it.\n3. Run the tests."}],
        offered=ExitPlanModeInput,
        asks="plan",
        title=lambda input: heading(input.plan),
        preview=_preview,
    )
    async def exit_plan_mode(input: ApprovedPlanInput, ctx: ToolContext) -> ToolResult:
        if ctx.mode != "plan":
            raise ToolError("Plan mode is off: there is nothing to approve. Go on with the work.")
        mode = ctx.set_mode(APPROVED_MODES[input.decision])
        if mode == "plan":
            raise ToolError(
                "The user approves, but the administrator's settings leave no mode other than plan. End here."
            )
        plan = input.plan
        kept, file = "", None
        if plans_directory is not None:
            kept, file = await asyncio.to_thread(_kept, plan, project, plans_directory)
        edited = _proposed(ctx) not in (None, plan.strip())
        sentences = [f"The user approved of the plan{', after editing it' if edited else ''}. Plan mode is off: begin."]
        if mode == "acceptEdits":
            sentences.append("Edits of files in the project are allowed without asking.")
        if feedback := input.feedback.strip():
            sentences.append(f"The user's remark: {feedback}")
        if kept:
            sentences.append(kept)
        if edited:
            sentences.append(f"Carry out the plan as edited:\n\n{plan}")
        output = PlanOutput(
            plan_id=ctx.tool_use_id,
            status="approved",
            decision=input.decision,
            edited=edited,
            mode=mode,
            feedback=feedback,
            file=None if file is None else file.as_posix(),
        )
        display = {"plan": plan, "plan_was_edited": edited, "mode": mode}
        return ToolResult("\n".join(sentences), display, structured=output)

    return exit_plan_mode


async def _preview(input: ExitPlanModeInput) -> Preview:
    return Preview("Review Claude's plan", input.plan)


def heading(plan: str) -> str:
    """The first line of a plan that says something, without its marks."""
    lines = (line.strip("#*-_ \t").replace("`", "") for line in plan.splitlines())
    return next((line for line in lines if line), "plan")[:120]


def _proposed(ctx: ToolContext) -> str | None:
    """The plan as Claude wrote it in this call."""
    for message in reversed(ctx.history()):
        content: str | Sequence[Mapping[str, Any]] = message["content"]
        for block in content if not isinstance(content, str) else ():
            if block.get("type") == "tool_use" and block["id"] == ctx.tool_use_id:
                return str(block["input"]["plan"]).strip()
    return None


def _kept(plan: str, project: Path, folder: Path) -> tuple[str, Path | None]:
    """Write the plan into a new file of `folder`; where it is, or why it is not there, in words, and the file."""
    words = re.findall(r"[a-z0-9]+", heading(plan).lower())[:6]
    # the last part keeps two plans of one minute apart
    name = f"{datetime.now().astimezone():%Y-%m-%d-%H%M}-{'-'.join(words) or 'plan'}-{secrets.token_hex(2)}.md"
    path = Path(os.path.normpath(project / folder)) / name
    display_path = shown_path(project, path)
    if within(project, path) is None:
        return (
            f"The plan was not kept in a file: the setting plansDirectory leads out of the project ({display_path}).",
            None,
        )
    try:
        with file_errors(display_path):
            write_atomically(check_way(project, path), (plan.rstrip() + "\n").encode(), replacing=None)
    except ToolError as problem:
        # the user has approved: a full disk must not undo that
        return f"The plan was not kept in a file: {problem.message}", None
    except FileChanged:
        return f"The plan was not kept in a file: the folder of {display_path} changed meanwhile.", None
    return f"The plan is kept in {display_path}.", path


class EnterPlanModeInput(ToolInput):
    """The input of EnterPlanMode, which takes nothing."""


class ModeOutput(ToolOutput):
    """The permission mode that the session is in now."""

    mode: str


def enter_plan_mode_tool() -> Tool:
    """EnterPlanMode."""

    @tool(
        name="EnterPlanMode",
        rarely_used=True,
        output=ModeOutput,
        description=ENTER_DESCRIPTION,
        access=ToolAccess("notes"),
        category="planning",
        examples=[{}],
        title=lambda _given: "Plan before anything is changed",
    )
    async def enter_plan_mode(_given: EnterPlanModeInput, ctx: ToolContext) -> ToolResult:
        if ctx.mode in NEVER_ASKS:
            raise ToolError(
                f"In mode {ctx.mode} the user is never asked, so a plan could not be approved. "
                "Think the work through, say briefly what you will do, and do it."
            )
        if ctx.mode != "plan":
            ctx.set_mode("plan")
        return ToolResult(PLAN_MODE, structured=ModeOutput(mode="plan"))

    return enter_plan_mode

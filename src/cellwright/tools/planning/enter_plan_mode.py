"""EnterPlanMode: from here on Claude only looks, until the user has approved of its plan (`exit_plan_mode.py`).

The policy, in mode `plan`, sees to it that nothing is changed meanwhile; the words here only help Claude to plan.
"""

from __future__ import annotations

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolResult, tool
from cellwright.errors import ToolError
from cellwright.sessions.api_messages import PLAN_MODE

NEVER_ASKS = frozenset({"bypassPermissions", "dontAsk"})

DESCRIPTION = """\
Begin to plan: until the user approves of your plan you can read and search, and change nothing. For work with more \
than one sensible way, or with changes in many places; not for small, clear tasks."""


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
        description=DESCRIPTION,
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

"""`/btw` and `/goal`: a question beside the conversation, and what Claude is to reach before it ends."""

from __future__ import annotations

from cellwright.commands.command import CommandCall, CommandPage, Section
from cellwright.commands.sessions.sessions import price
from cellwright.errors import CellwrightError, ErrorCode

BTW = "QUESTION"
GOAL = "[GOAL | clear]"
MAX_GOAL_CHARS = 4_000


async def btw_page(call: CommandCall) -> CommandPage:
    """Answer a question from what was said so far, without adding to it; while Claude works as well."""
    if not call.text:
        message = "/btw takes a question about the conversation, such as `/btw which file was that in?`"
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    answer = await call.conversation.ask_beside(call.options, call.text)
    cost = "Its cost is unknown" if answer.cost_usd is None else f"It cost {price(answer.cost_usd)}"
    text = f"{cost}. Question and answer are not part of the conversation."
    return CommandPage([Section("By the way", answer=answer.text), Section("Beside the conversation", text=text)])


def goal_page(call: CommandCall) -> CommandPage:
    """Show the goal, set one, or go on without one."""
    goal = call.conversation.features.goal
    if call.text.lower() in ("clear", "off", "none"):
        had = goal.condition
        goal.clear()
        return CommandPage([Section("Goal", text=f"Given up: {had}" if had else "There was no goal.")])
    if len(call.text) > MAX_GOAL_CHARS:
        message = f"A goal has at most {MAX_GOAL_CHARS:,} characters; this one has {len(call.text):,}."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    if call.text:
        goal.set(call.text)
    if not goal.condition:
        return CommandPage([Section("Goal", text="No goal is set. /goal GOAL sets one.")])
    text = (
        "It holds from your next prompt on (“continue” will do). Whenever Claude wants to end, the small model reads the "
        "conversation and sends it back to work while the goal is not met, up to 8 times for each prompt. A budget and "
        "Stop end it at any time; /goal clear gives the goal up, and so does another session."
    )
    return CommandPage([Section("Goal", text=f"{goal.condition}\n{text}")])

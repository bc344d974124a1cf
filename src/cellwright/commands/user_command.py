"""`!command`: the user's own command, its output on a page, and Claude told of it with the next prompt."""

from __future__ import annotations

from typing import Any

from cellwright.commands.command import CommandCall, CommandPage, Section
from cellwright.errors import CellwrightError, ErrorCode, ToolError


async def user_command_page(call: CommandCall) -> CommandPage:
    """Run the command that `call.text` is, and show how it ended. Raises CellwrightError."""
    if not call.text:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, "Write the command after the `!`. Nothing was run.")
    try:
        result = await call.conversation.features.user_commands.run(call.text, _not_shown_live)
    except ToolError as error:
        raise CellwrightError(error.code, error.message) from error
    ending = f" · {result.ending}" if result.ending else ""
    told = "Claude learns of it with your next prompt."
    return CommandPage([Section(f"{result.title}{ending}", code=result.text.rstrip("\n") or "(no output)", text=told)])


def _not_shown_live(**_news: Any) -> None:
    """The page comes when it has ended."""

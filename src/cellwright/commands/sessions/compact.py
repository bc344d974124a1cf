"""`/compact`: the conversation so far summed up, so that there is room to go on."""

from __future__ import annotations

from cellwright.agent.context.summary import compacted_line
from cellwright.commands.command import CommandCall, CommandPage, Section

COMPACT = "[FOCUS]"


async def compact_page(call: CommandCall) -> CommandPage:
    """Sum up the conversation, with attention to what stands behind the command, and show the summary."""
    event = await call.conversation.compact(call.options, call.text, call.emit)
    text = "Claude goes on from this. Nothing is deleted: the panel, /export and /rewind have the whole conversation."
    return CommandPage([Section(compacted_line(event), text=text), Section("Summary", text=event.summary)])

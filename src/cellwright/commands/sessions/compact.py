"""`/compact` and `/autocompact`: the conversation summed up, now, or by itself when it fills the window."""

from __future__ import annotations

from cellwright.agent.agent_setup import CompactionSettings
from cellwright.agent.context.summary import compacted_line
from cellwright.commands.command import CommandCall, CommandPage, Section
from cellwright.commands.model_and_mode import choose
from cellwright.conversation.resolve_options import compaction_settings
from cellwright.errors import CellwrightError, ErrorCode

COMPACT = "[FOCUS]"
AUTOCOMPACT = "[on | off | SHARE %]"
MIN_SHARE, MAX_SHARE = 10, 95


async def compact_page(call: CommandCall) -> CommandPage:
    """Sum up the conversation, with attention to what stands behind the command, and show the summary."""
    event = await call.conversation.compact(call.options, call.text, call.emit)
    text = "Claude continues from this. Nothing is deleted: the panel, /export and /rewind have the whole conversation."
    return CommandPage([Section(compacted_line(event), text=text), Section("Summary", text=event.summary)])


def autocompact_page(call: CommandCall) -> CommandPage:
    """Show when the conversation is summed up by itself, or have it done at another share of the window, or never."""
    conversation, word = call.conversation, call.text.lower()
    if word in ("on", "off"):
        choose(conversation, compacts=word == "on")
    elif word:
        percent = word.removesuffix("%").strip()
        if not percent.isdecimal() or not MIN_SHARE <= int(percent) <= MAX_SHARE:
            message = f"/autocompact takes on, off, or a share of the window from {MIN_SHARE}% to {MAX_SHARE}%."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
        choose(conversation, compacts=True, compact_share=int(percent) / 100)
    now = compaction_settings(conversation.in_force.settings, conversation.in_force.environment)
    text = _sentence(now)
    if word == "on" and not now.automatic:
        text += " An environment variable or the administrator switches it off."
    return CommandPage([Section("Compaction", text=f"{text} /compact does it now.")])


def _sentence(now: CompactionSettings) -> str:
    if not now.automatic:
        return "The conversation is not summarised automatically: when it fills the window, Claude stops."
    window = "the model's window" if now.window is None else f"{now.window:,} tokens, or of the model's window if less"
    return f"The conversation is summarised automatically when it fills {now.share:.0%} of {window}."

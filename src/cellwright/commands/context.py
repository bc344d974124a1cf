"""`/context`: what fills the conversation's context, as a small list of bars."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from cellwright.agent.context_usage import (
    NAMES,
    ContextContents,
    ToldPart,
    context_parts,
    context_tokens,
    told_sections,
    told_tools,
)
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.conversation.resolve_options import model_of
from cellwright.model.models import limits

BAR_CHARS = 20


async def context_page(call: CommandCall) -> CommandPage:
    """Show how full the context is, and of what."""
    conversation = call.conversation
    session = conversation.sessions.current
    if not session.encoded:
        return CommandPage(
            [Section("Context", text="Nothing was said yet in this conversation, so its context is empty.")]
        )
    model = session.last_model or model_of(
        call.options, conversation.in_force.settings, conversation.in_force.environment
    )
    known = limits(model)
    used = context_tokens(session)
    contents = ContextContents.of(session)
    parts = await asyncio.to_thread(context_parts, contents)
    whole = known.context_window if known.known else sum(part.tokens for part in parts)
    rows: list[Row] = [("part", "tokens", "share", "")]
    rows += [_row(NAMES[part.name], part.tokens, whole) for part in parts]
    if known.known:
        rows.append(_row("Free", max(0, whole - used), whole))
    window = f" of {whole:,} ({used / whole:.1%})" if known.known else ""
    text = f"About {used:,} tokens{window}, {model}. How they are shared out is estimated by size."
    tools, sections = told_tools(contents), told_sections(contents.system)
    return CommandPage(
        [
            Section("Context", rows, text),
            Section("Told before the first word: tools", [("tool", "tokens", ""), *map(_told, tools)], _sum(tools)),
            Section("… and the system prompt", [("section", "tokens", ""), *map(_told, sections)], _sum(sections)),
        ]
    )


def _told(part: ToldPart) -> Row:
    return part.name, f"{part.tokens:,}", "only when ToolSearch has loaded it" if part.deferred else ""


def _sum(parts: Sequence[ToldPart]) -> str:
    return f"About {sum(part.tokens for part in parts if not part.deferred):,} tokens, once in a session."


def _row(name: str, tokens: int, whole: int) -> Row:
    share = tokens / max(whole, 1)
    filled = max(1, round(share * BAR_CHARS)) if tokens else 0
    return name, f"{tokens:,}", f"{share:.1%}", "█" * filled + "░" * (BAR_CHARS - filled)

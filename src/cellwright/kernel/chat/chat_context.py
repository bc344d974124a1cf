"""What fills the context of the conversation, for a panel that asks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cellwright.agent.context_usage import ContextContents, context_parts, context_tokens
from cellwright.model.models import limits

if TYPE_CHECKING:
    from cellwright.kernel.chat.chat import Chat
    from cellwright.kernel.chat.connections import Connection


def serve_context(chat: Chat) -> None:
    """Answer `context`."""

    async def context(_panel: Connection, _params: Mapping[str, Any]) -> dict[str, Any]:
        session = chat.conversation.session
        model = limits(session.last_model or chat.state.choices.model)
        tokens, contents = context_tokens(session), ContextContents.of(session)
        parts = await asyncio.to_thread(context_parts, contents)
        return {
            "parts": [{"name": part.name, "tokens": part.tokens} for part in parts],
            "tokens": tokens if parts else 0,
            "window": model.context_window if model.known else None,
        }

    chat.serve("context", context)

"""Where the key comes from, for panels: the one that has none shows how to give one. The key itself goes another way."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cellwright.commands.status import NO_KEY, key_source
from cellwright.config.kept_key import address_of

if TYPE_CHECKING:
    from cellwright.kernel.chat.chat import Chat
    from cellwright.kernel.chat.connections import PanelConnection


def serve_key(chat: Chat) -> None:
    """Answer `key`."""
    conversation = chat.conversation

    async def key(_panel: PanelConnection, _params: Mapping[str, Any]) -> dict[str, Any]:
        settings, environment = conversation.in_force.settings, conversation.in_force.environment
        source: str | None = await asyncio.to_thread(key_source, settings, environment)  # looks at files
        if source == NO_KEY:
            source = settings.provider if settings.provider != "api" else None
        return {
            "source": "given by the program" if conversation.model.is_given else source,
            "own_credentials": settings.own_credentials,
            "address": address_of(environment),
        }

    chat.serve("key", key)

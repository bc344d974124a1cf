"""The last lines of the log, for a panel that asks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cellwright.agent.log_file import last_lines
from cellwright.kernel.chat.params import optional

if TYPE_CHECKING:
    from cellwright.kernel.chat.chat import Chat
    from cellwright.kernel.chat.connections import Connection

LINES = 200
MOST_LINES = 2_000


def serve_log(chat: Chat) -> None:
    """Answer `log`."""

    async def log(_panel: Connection, params: Mapping[str, Any]) -> dict[str, Any]:
        limit = optional(params, "limit", int) or LINES
        return {"lines": await asyncio.to_thread(last_lines, max(1, min(limit, MOST_LINES)))}

    chat.serve("log", log)

"""The panel's start page: where the key comes from, the variables there are, and this notebook's earlier conversation.

The key itself goes another way: to the server, or into a field of a cell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cellwright.config.credentials.key_source import NO_KEY, key_source
from cellwright.config.credentials.stored_key import address_of
from cellwright.kernel.namespace.cell_log import type_name_of
from cellwright.model.credentials import is_scripted
from cellwright.sessions.catalog.catalog import Catalog, CatalogEntry
from cellwright.sessions.catalog.metadata import read_about

if TYPE_CHECKING:
    from cellwright.kernel.chat.chat import Chat
    from cellwright.kernel.chat.connections import PanelConnection

MAX_SESSIONS = 40
"""The newest sessions of the folder among which this notebook's is looked for."""

NO_VARIABLES = ("module", "function", "builtin_function_or_method", "type", "ABCMeta")
"""Types of names that nobody calls variables."""


def serve_start(chat: Chat) -> None:
    """Answer `start`."""
    catalog = Catalog()

    async def start(_panel: PanelConnection, _params: Mapping[str, Any]) -> dict[str, Any]:
        variables = _variables(chat)
        # these look at files
        key = await asyncio.to_thread(_key, chat)
        earlier = await asyncio.to_thread(_earlier, chat, catalog)
        return {
            "key": key,
            "variables": variables[:30],
            "variable_count": len(variables),
            "earlier": None if earlier is None else earlier.to_json(),
        }

    chat.serve("start", start)


def _key(chat: Chat) -> dict[str, Any]:
    conversation = chat.conversation
    settings, environment = conversation.in_force.settings, conversation.in_force.environment
    source: str | None = key_source(settings, environment)
    if source == NO_KEY or is_scripted(environment):
        from cellwright.kernel.magic.demo import choose_model_in_demo  # most have a key

        choose_model_in_demo(conversation)
        environment = conversation.in_force.environment
        source = key_source(settings, environment)
        chat.on_loop(chat.state.changed)
    if source == NO_KEY:
        source = settings.provider if settings.provider != "api" else None
    return {
        "source": "given by the program" if conversation.model.is_given else source,
        "own_credentials": settings.own_credentials,
        "address": address_of(environment),
    }


def _variables(chat: Chat) -> list[dict[str, str]]:
    shell = chat.shell
    names = [name for name in list(shell.user_ns) if not name.startswith("_") and name not in shell.user_ns_hidden]
    typed = [(name, type_name_of(shell.user_ns.get(name))) for name in names]
    return [{"name": name, "type": kind} for name, kind in typed if kind not in NO_VARIABLES]


def _earlier(chat: Chat, catalog: Catalog) -> CatalogEntry | None:
    """The conversation that this notebook had last, in another kernel or before a restart."""
    own = chat.notebooks.own()
    if own is None or (current := chat.conversation.sessions.current).encoded:
        return None
    for entry in catalog.entries(chat.conversation.cwd, limit=MAX_SESSIONS):
        is_other = entry.id != current.id and not entry.in_use and not entry.damaged and entry.turns > 0
        if is_other and read_about(entry.path).notebook == own.path.name:
            return entry
    return None

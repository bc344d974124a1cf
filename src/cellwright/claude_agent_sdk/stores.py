"""Stores of sessions: one in memory, and the functions that work on stores, which are not there.

Sessions here are files below `$CELLWRIGHT_HOME`; nothing mirrors them elsewhere.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn

from cellwright.claude_agent_sdk.errors import ClaudeSDKError
from cellwright.claude_agent_sdk.types import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
)


class InMemorySessionStore(SessionStore):
    """A store that ends with the process; it keeps no summaries."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str, str], list[SessionStoreEntry]] = {}
        self._times: dict[tuple[str, str, str], int] = {}

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        place = _place(key)
        self._entries.setdefault(place, []).extend(entries)
        latest = max(self._times.values(), default=0)
        self._times[place] = max(int(time.time() * 1000), latest + 1)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        entries = self._entries.get(_place(key))
        return None if entries is None else list(entries)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        return [
            {"session_id": session, "mtime": self._times[project, session, path]}
            for project, session, path in self._entries
            if project == project_key and not path
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        return []

    async def delete(self, key: SessionKey) -> None:
        project, session, path = _place(key)
        for place in list(self._entries):
            if place == (project, session, path) or (not path and place[:2] == (project, session)):
                del self._entries[place], self._times[place]

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        of_session = (key["project_key"], key["session_id"])
        return [path for *session, path in self._entries if tuple(session) == of_session and path]

    def get_entries(self, key: SessionKey) -> list[SessionStoreEntry]:
        """The entries of `key`, none if it is not there."""
        return list(self._entries.get(_place(key), ()))

    @property
    def size(self) -> int:
        """The number of sessions."""
        return sum(not path for _, _, path in self._entries)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._times.clear()


def _place(key: SessionKey) -> tuple[str, str, str]:
    return key["project_key"], key["session_id"], key.get("subpath") or ""


def project_key_for_directory(directory: str | Path | None = None) -> str:
    """The name of a folder as the key of a store: its path with `-` for what is no letter or digit.

    >>> project_key_for_directory("/")
    '-'
    """
    return re.sub(r"[^A-Za-z0-9]", "-", str(Path("." if directory is None else directory).resolve()))


def _not_there(name: str) -> NoReturn:
    message = (
        f"{name} is not there: sessions are files below $CELLWRIGHT_HOME, and no store holds them. See `list_sessions`."
    )
    raise ClaudeSDKError(message)


def _of_store(name: str) -> Callable[..., Awaitable[Any]]:
    async def refuse(*_arguments: Any, **_options: Any) -> Any:
        """Raises ClaudeSDKError: sessions are in no store."""
        _not_there(name)

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


def fold_session_summary(prev: Any, key: SessionKey, entries: list[SessionStoreEntry]) -> SessionSummaryEntry:
    """Raises ClaudeSDKError: sessions are in no store."""
    _not_there("fold_session_summary")


import_session_to_store = _of_store("import_session_to_store")
list_sessions_from_store = _of_store("list_sessions_from_store")
get_session_info_from_store = _of_store("get_session_info_from_store")
get_session_messages_from_store = _of_store("get_session_messages_from_store")
list_subagents_from_store = _of_store("list_subagents_from_store")
get_subagent_messages_from_store = _of_store("get_subagent_messages_from_store")
rename_session_via_store = _of_store("rename_session_via_store")
tag_session_via_store = _of_store("tag_session_via_store")
delete_session_via_store = _of_store("delete_session_via_store")
fork_session_via_store = _of_store("fork_session_via_store")

"""`list_sessions` and its like over `cellwright.Catalog`, and stores of sessions.

The sessions are those that were held here, in any folder or in one: files below `$CELLWRIGHT_HOME`. Nothing mirrors them
elsewhere: of stores there is one in memory, and functions that say so.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from cellwright.claude_agent_sdk.types import (
    ClaudeSDKError,
    SDKSessionInfo,
    SessionKey,
    SessionListSubkeysKey,
    SessionMessage,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
)
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.catalog.catalog import Catalog, CatalogEntry
from cellwright.sessions.transcripts.transcript import read_messages

T = TypeVar("T")


@dataclass
class ForkSessionResult:
    """The id of the copy."""

    session_id: str


def list_sessions(
    directory: str | None = None, limit: int | None = None, offset: int = 0, include_worktrees: bool = True
) -> list[SDKSessionInfo]:
    """The sessions of a folder, or of all, the newest first; those of a project's worktrees are its own in any case."""
    entries = Catalog().entries(_folder(directory), limit=100_000 if limit is None else limit, offset=offset)
    return [_info(entry) for entry in entries]


def get_session_info(session_id: str, directory: str | None = None) -> SDKSessionInfo | None:
    """The session of this id, None if it is not known."""
    try:
        return _info(Catalog().entry(session_id, _folder(directory)))
    except CellwrightError as error:
        if error.code is ErrorCode.SESSION_NOT_FOUND:
            return None
        raise ClaudeSDKError(error.message) from error


def get_session_messages(
    session_id: str, directory: str | None = None, limit: int | None = None, offset: int = 0
) -> list[SessionMessage]:
    """The messages of a session, as the API has them, in order; none if it is not known."""
    info = _path(session_id, directory)
    return [] if info is None else _page(_messages(info, session_id), limit, offset)


def list_subagents(session_id: str, directory: str | None = None) -> list[str]:
    """The ids of the agents that worked in a session."""
    folder = _agents(session_id, directory)
    return [] if folder is None else sorted(path.stem for path in folder.glob("*.jsonl"))


def get_subagent_messages(
    session_id: str, agent_id: str, directory: str | None = None, limit: int | None = None, offset: int = 0
) -> list[SessionMessage]:
    """The messages of an agent, in order; none if it is not known."""
    if agent_id not in list_subagents(session_id, directory):
        return []
    folder = _agents(session_id, directory)
    assert folder is not None, "the agent was found there"
    return _page(_messages(folder / f"{agent_id}.jsonl", session_id, agent_id), limit, offset)


def rename_session(session_id: str, title: str, directory: str | None = None) -> None:
    """Give a session a title. Raises FileNotFoundError, ValueError for a title without letters."""
    if not title.strip():
        raise ValueError("title must not be empty")
    _changed(lambda: Catalog().rename(session_id, title.strip(), _folder(directory)))


def tag_session(session_id: str, tag: str | None, directory: str | None = None) -> None:
    """Give a session one tag, None for none. Raises FileNotFoundError, ValueError for an empty tag."""
    if tag is not None and not tag.strip():
        raise ValueError("tag must not be empty: None takes it away")
    _changed(lambda: Catalog().tag(session_id, [] if tag is None else [tag.strip()], _folder(directory)))


def delete_session(session_id: str, directory: str | None = None) -> None:
    """Delete a session and what its agents said. Raises FileNotFoundError."""
    _changed(lambda: Catalog().delete(session_id, _folder(directory)))


def fork_session(
    session_id: str, directory: str | None = None, up_to_message_id: str | None = None, title: str | None = None
) -> ForkSessionResult:
    """Copy a session, up to the prompt that `up_to_message_id` belongs to if that is given.

    Raises FileNotFoundError, ValueError for a message that is not in it.
    """
    turn = None
    if up_to_message_id is not None:
        messages = get_session_messages(session_id, directory)
        ids = [message.uuid for message in messages]
        if up_to_message_id not in ids:
            raise ValueError(f"the session {session_id} has no message {up_to_message_id}")
        turn = sum(_is_prompt(each.message) for each in messages[: ids.index(up_to_message_id) + 1])

    def fork() -> str:
        session = Catalog().fork(session_id, turn, _folder(directory))
        try:
            return session.id
        finally:
            session.close()

    made = _changed(fork)
    if title is not None:
        rename_session(made, title, directory)
    return ForkSessionResult(made)


def _changed(change: Callable[[], T]) -> T:
    try:
        return change()
    except CellwrightError as error:
        if error.code is ErrorCode.SESSION_NOT_FOUND:
            raise FileNotFoundError(error.message) from error
        raise ClaudeSDKError(error.message) from error


def _folder(directory: str | None) -> Path | None:
    return None if directory is None else Path(directory).expanduser().resolve()


def _path(session_id: str, directory: str | None) -> Path | None:
    try:
        return Catalog().entry(session_id, _folder(directory)).path
    except CellwrightError:
        return None


def _agents(session_id: str, directory: str | None) -> Path | None:
    path = _path(session_id, directory)
    return None if path is None else path.with_suffix("") / "subagents"


def _info(entry: CatalogEntry) -> SDKSessionInfo:
    return SDKSessionInfo(
        session_id=entry.id,
        summary=entry.title,
        last_modified=round(entry.updated * 1000),
        file_size=entry.size,
        custom_title=entry.title if entry.title_by == "user" else None,
        first_prompt=None if entry.title_by else entry.title,
        cwd=entry.cwd,
        tag=entry.tags[0] if entry.tags else None,
        created_at=round(entry.created * 1000),
    )


def _messages(path: Path, session_id: str, agent_id: str | None = None) -> list[SessionMessage]:
    """The messages of a transcript; their ids follow from their places."""
    owner = f"{session_id}/{agent_id or ''}"
    return [
        SessionMessage(
            message["role"],
            str(uuid.uuid5(uuid.NAMESPACE_URL, f"{owner}/{place}")),
            session_id,
            message,
            parent_agent_id=agent_id,
        )
        for place, message in enumerate(read_messages(path))
    ]


def _is_prompt(message: dict[str, Any]) -> bool:
    content = message["content"]
    return message["role"] == "user" and (
        isinstance(content, str) or not any(block["type"] == "tool_result" for block in content)
    )


def _page(messages: Iterable[SessionMessage], limit: int | None, offset: int) -> list[SessionMessage]:
    rest = list(messages)[offset:]
    return rest if not limit else rest[:limit]


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

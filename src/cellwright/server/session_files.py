"""The user's sessions as clients see them: those of folders below the server's root, unless the administrator shows all.

It reads and writes files and SQLite, so it belongs on a worker thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.server.api_error import ApiError

if TYPE_CHECKING:
    from cellwright.catalog.catalog import Catalog, Entry
    from cellwright.export.exchanges import Exchange

Format = Literal["markdown", "notebook", "json"]

_PAGE = 200
_MEDIA = {"markdown": "text/markdown", "notebook": "application/x-ipynb+json", "json": "application/json"}
_ENDING = {"markdown": "md", "notebook": "ipynb", "json": "json"}


class Exported(NamedTuple):
    """A session written down, as a file to save."""

    name: str
    media_type: str
    text: str


@dataclass(frozen=True, slots=True)
class SessionFiles:
    """`root` is the server's root; with `everywhere` the sessions of other folders are shown as well."""

    root: Path
    everywhere: bool = False

    def found(self, query: str, folder: Path | None, limit: int, offset: int) -> tuple[list[Entry], bool]:
        """A page of the list, best or newest first, and whether there are more."""
        wanted = offset + limit + 1
        entries: list[Entry] = []
        for entry in self._all(query, folder):
            entries.append(entry)
            if len(entries) == wanted:
                break
        return entries[offset : offset + limit], len(entries) == wanted

    def _all(self, query: str, folder: Path | None) -> Iterator[Entry]:
        catalog, start = _catalog(), 0
        while page := catalog.search(query, folder, limit=_PAGE, offset=start):
            yield from (entry for entry in page if self._is_shown(entry))
            if len(page) < _PAGE:
                return
            start += _PAGE

    def entry(self, session_id: str) -> Entry:
        """The session of exactly this id. Raises CellwrightError SESSION_NOT_FOUND."""
        missing = CellwrightError(ErrorCode.SESSION_NOT_FOUND, f"There is no session {session_id!r} here.")
        try:
            entry = _catalog().entry(session_id)
        except CellwrightError:
            raise missing from None  # its message would name other sessions, perhaps of other folders
        if entry.id != session_id or not self._is_shown(entry):
            raise missing
        return entry

    def rename(self, session_id: str, title: str) -> Entry:
        """Give it a title; "" takes it back."""
        return _catalog().rename(self.entry(session_id).id, title)

    def delete(self, session_id: str) -> None:
        """Delete it with what belongs to it. Raises ApiError 409 while it is in use."""
        entry = self.entry(session_id)
        if entry.in_use:
            raise ApiError(409, "CONFLICT", f"Session {session_id} is in use; go on with another in its kernel first.")
        _catalog().delete(entry.id)

    def export(self, session_id: str, form: Format) -> Exported:
        """The conversation written down, secrets left out. Images stay inside a notebook; Markdown leaves them out."""
        from cellwright.agent.secret_scan import SecretScan, require_detect_secrets  # every server imports this module
        from cellwright.agent.transcript import read_messages
        from cellwright.export.exchanges import exchanges_of

        entry = self.entry(session_id)
        require_detect_secrets()
        messages = SecretScan(os.environ).clean(read_messages(entry.path))
        text = _written(form, messages, exchanges_of(messages), entry)
        return Exported(f"claude-{entry.id}.{_ENDING[form]}", _MEDIA[form], text)

    def _is_shown(self, entry: Entry) -> bool:
        return self.everywhere or (entry.cwd != "" and Path(entry.cwd).resolve().is_relative_to(self.root))


def _catalog() -> Catalog:
    from cellwright.catalog.catalog import Catalog  # a quarter of a second, and every server imports this module

    return Catalog()


def _written(form: Format, messages: Sequence[Mapping[str, Any]], exchanges: Sequence[Exchange], entry: Entry) -> str:
    from cellwright.export.as_json import as_json  # as above
    from cellwright.export.as_markdown import as_markdown
    from cellwright.export.as_notebook import as_notebook

    about = f"{entry.model} · {len(exchanges)} turns"
    if form == "json":
        return as_json(messages, session=entry.id, model=entry.model)
    if form == "notebook":
        return as_notebook(exchanges, title=entry.title, about=about)
    return as_markdown(exchanges, title=entry.title, about=about, folder=f"{entry.id}_files").text

"""Sessions over HTTP: list, search, get, export, rename, delete.

Clients see the sessions of folders below the server's root, unless the administrator shows all. `SessionFiles` reads
and writes files and SQLite, so it belongs on a worker thread.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from tornado.web import authenticated

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.server.api_error import RouteError
from cellwright.server.routes.base_handler import CellwrightRoute, may_read, may_write
from cellwright.server.runs.runs import ClientRuns, folder_below
from cellwright.sessions.transcripts.transcript import read_messages

if TYPE_CHECKING:
    from cellwright.sessions.catalog.catalog import Catalog, CatalogEntry

_PAGE = 200


class ExportedFile(NamedTuple):
    """A session written down, as a file to save."""

    name: str
    media_type: str
    text: str


class SessionFiles(Struct, frozen=True):
    """`root` is the server's root; with `everywhere` the sessions of other folders are shown as well."""

    root: Path
    everywhere: bool = False

    def found(self, query: str, folder: Path | None, limit: int, offset: int) -> tuple[list[CatalogEntry], bool]:
        """A page of the list, best or newest first, and whether there are more."""
        needed = offset + limit + 1
        entries: list[CatalogEntry] = []
        for entry in self._all(query, folder):
            entries.append(entry)
            if len(entries) == needed:
                break
        return entries[offset : offset + limit], len(entries) == needed

    def _all(self, query: str, folder: Path | None) -> Iterator[CatalogEntry]:
        catalog, start = _catalog(), 0
        while page := catalog.search(query, folder, limit=_PAGE, offset=start):
            yield from (entry for entry in page if self._is_shown(entry))
            if len(page) < _PAGE:
                return
            start += _PAGE

    def entry(self, session_id: str) -> CatalogEntry:
        """The session of exactly this id. Raises CellwrightError SESSION_NOT_FOUND."""
        missing = CellwrightError(ErrorCode.SESSION_NOT_FOUND, f"Session {session_id!r} was not found.")
        try:
            entry = _catalog().entry(session_id)
        except CellwrightError:
            raise missing from None  # its message would name other sessions, perhaps of other folders
        if entry.id != session_id or not self._is_shown(entry):
            raise missing
        return entry

    def rename(self, session_id: str, title: str) -> CatalogEntry:
        """Give it a title; "" takes it back."""
        return _catalog().rename(self.entry(session_id).id, title)

    def delete(self, session_id: str) -> None:
        """Delete it with what belongs to it. Raises ApiError 409 while it is in use."""
        entry = self.entry(session_id)
        if entry.in_use:
            raise RouteError(
                409,
                "CONFLICT",
                f"Session {session_id} is open elsewhere; switch to another session in its kernel first.",
            )
        _catalog().delete(entry.id)

    def export(self, session_id: str, form: str) -> ExportedFile:
        """The conversation written down, secrets replaced, its images in the text. Raises CellwrightError."""
        from cellwright.sessions.export import FORMATS, exported  # takes long, and every server imports this module

        entry = self.entry(session_id)
        messages = read_messages(entry.path)
        written = exported(form, messages, session=entry.id, model=entry.model, environ=os.environ, title=entry.title)
        return ExportedFile(f"claude-{entry.id}{FORMATS[form].ending}", FORMATS[form].media_type, written.text)

    def _is_shown(self, entry: CatalogEntry) -> bool:
        if self.everywhere or not entry.cwd:
            return self.everywhere
        try:
            return Path(entry.cwd).resolve().is_relative_to(self.root)
        except (OSError, RuntimeError, ValueError):  # links in a circle where it was: it hides no other session
            return False


def _catalog() -> Catalog:
    from cellwright.sessions.catalog.catalog import (
        Catalog,  # a quarter of a second, and every server imports this module
    )

    return Catalog()


class _SessionRoute(CellwrightRoute):
    def initialize(self, runs: ClientRuns, **settings: Any) -> None:
        super().initialize(runs)
        self.sessions: SessionFiles = settings["sessions"]


class SessionsRoute(_SessionRoute):
    """`GET sessions?query=&folder=&limit=&offset=`"""

    @authenticated
    @may_read
    async def get(self) -> None:
        limit, offset = self.number("limit", 50, 1, 200), self.number("offset", 0, 0, 100_000)
        folder = self.get_query_argument("folder", None)
        cwd = None if folder is None else folder_below(str(self.sessions.root), folder)
        found, more = await asyncio.to_thread(self.sessions.found, self.argument("query"), cwd, limit, offset)
        self.answer({"sessions": [entry.to_json() for entry in found], "more": more})


class SessionRoute(_SessionRoute):
    """`GET`, `PATCH` and `DELETE sessions/{id}`"""

    @authenticated
    @may_read
    async def get(self, session_id: str) -> None:
        self.answer((await asyncio.to_thread(self.sessions.entry, session_id)).to_json())

    @authenticated
    @may_write
    async def patch(self, session_id: str) -> None:
        title = self.body("Rename")["title"]
        self.answer((await asyncio.to_thread(self.sessions.rename, session_id, title)).to_json())

    @authenticated
    @may_write
    async def delete(self, session_id: str) -> None:
        await asyncio.to_thread(self.sessions.delete, session_id)
        self.set_status(204)
        self.finish()


class SessionExportRoute(_SessionRoute):
    """`GET sessions/{id}/export?format=`"""

    @authenticated
    @may_read
    async def get(self, session_id: str) -> None:
        form = self.choice("format", "notebook", "json", "markdown")
        exported = await asyncio.to_thread(self.sessions.export, session_id, form)
        self.set_attachment_header(exported.name)
        self.finish(exported.text.encode("utf-8", "replace"), set_content_type=f"{exported.media_type}; charset=utf-8")

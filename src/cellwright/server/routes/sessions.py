"""Sessions over HTTP: list, search, get, export, rename, delete."""

from __future__ import annotations

import asyncio
from typing import Any

from tornado.web import authenticated

from cellwright.server.routes.base import CellwrightRoute, may_read, may_write
from cellwright.server.runs.own_kernels import folder_below
from cellwright.server.runs.runs import Runs
from cellwright.server.session_files import SessionFiles


class _SessionRoute(CellwrightRoute):
    def initialize(self, runs: Runs, **settings: Any) -> None:
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

"""The routes for the panel's first page: a key to be kept, and the demo.

A key is tried, kept as `cellwright auth login` keeps it, and taken away again. It comes in a request's body and goes into
the keyring or the file; no answer, address or log line has it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tornado.web import authenticated

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.server.api_error import RouteError
from cellwright.server.routes.base import CellwrightRoute, may_read, may_write
from cellwright.server.routes.info import FolderRoute
from cellwright.server.runs.runs import ClientRuns

PROXIED = "the server's own key"


class DemoRoute(CellwrightRoute):
    """`POST demo`"""

    @authenticated
    @may_write
    async def post(self) -> None:
        from cellwright.terminal.demo.demo_project import NOTEBOOK, project_in  # few open it

        root = Path(self.settings["server_root_dir"]).expanduser().resolve()
        try:
            project = await asyncio.to_thread(project_in, root)
        except OSError as error:
            message = f"The demo's project cannot be written into {root}: {error.strerror}."
            raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from None
        self.answer({"path": f"{project.name}/{NOTEBOOK}"})


class KeyRoute(FolderRoute):
    """`GET key?folder=`, `PUT key?folder=`, `DELETE key?folder=`"""

    def initialize(self, runs: ClientRuns, **settings: Any) -> None:
        super().initialize(runs)
        self._proxied: bool = settings["proxied"]

    @authenticated
    @may_read
    async def get(self) -> None:
        self.answer(await asyncio.to_thread(self._report))

    @authenticated
    @may_write
    async def put(self) -> None:
        text = self.body("Key")["key"]
        if self._proxied:
            message = "On this server requests go out with the server's own key. Nothing was kept."
            raise CellwrightError(ErrorCode.PERMISSION_DENIED, message)
        from cellwright.config.entered_key import place_words, try_and_keep  # few enter one

        settings, environ = await asyncio.to_thread(self._in_force)
        try:
            kept = await try_and_keep(
                text, environ, helper=settings.api_key_helper, own_credentials=settings.own_credentials
            )
        except CellwrightError as error:
            if error.code in (ErrorCode.PERMISSION_DENIED, ErrorCode.INVALID_PARAMETERS, ErrorCode.FILE_ACCESS_ERROR):
                raise
            # what the model's server says of the key is no fault of this server, nor of who may use it
            raise RouteError(409, str(error.code), error.message) from None
        self.answer(
            {
                **await asyncio.to_thread(self._report),
                "kept_in": place_words(kept.place),
                "tried": kept.tried,
                "overruled_by": kept.overruled_by,
            }
        )

    @authenticated
    @may_write
    async def delete(self) -> None:
        from cellwright.config.kept_key import forget

        await asyncio.to_thread(forget)
        self.answer(await asyncio.to_thread(self._report))

    def _report(self) -> dict[str, Any]:
        from cellwright.commands.status import NO_KEY, key_source

        settings, environ = self._in_force()
        source = PROXIED if self._proxied else key_source(settings, environ)
        has_way = source != NO_KEY or settings.provider == "claude-code"
        return {
            "source": (source if source != NO_KEY else settings.provider) if has_way else None,
            "own_credentials": settings.own_credentials and not self._proxied,
        }

    def _in_force(self) -> tuple[Any, Mapping[str, str]]:
        from cellwright.config.settings.settings_in_force import SettingsInForce  # few ask for them

        in_force = SettingsInForce(self.folder(), dict(os.environ))
        return in_force.settings, in_force.environment

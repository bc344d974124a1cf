"""The routes for the panel's first page: a key or a cloud to be kept, and the demo.

A key is tried, kept as `cellwright auth login` keeps it, and taken away again. It comes in a request's body and goes into
the keyring or the file; no answer, address or log line has it. A cloud is tried, and written into the user's settings.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

from tornado.web import authenticated

from cellwright.config.credentials.stored_key import forget
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.server.api_error import RouteError
from cellwright.server.routes.base_handler import CellwrightRoute, may_read, may_write
from cellwright.server.routes.info import FolderRoute
from cellwright.server.runs.runs import ClientRuns, server_root

PROXIED = "the server's own key"


class DemoRoute(CellwrightRoute):
    """`POST demo`"""

    @authenticated
    @may_write
    async def post(self) -> None:
        from cellwright.terminal.demo.demo import NOTEBOOK, project_in  # few open it

        root = server_root(self.settings["server_root_dir"])
        try:
            project = await asyncio.to_thread(project_in, root)
        except OSError as error:
            message = f"The demo's project cannot be written into {root}: {error.strerror}."
            raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from None
        self.answer({"path": f"{project.name}/{NOTEBOOK}"})


@contextlib.contextmanager
def _said_by_others() -> Iterator[None]:
    """Answer 409 where a model's server refuses a credential: no fault of this server, nor of who may use it."""
    try:
        yield
    except CellwrightError as error:
        if error.code in (ErrorCode.PERMISSION_DENIED, ErrorCode.INVALID_PARAMETERS, ErrorCode.FILE_ACCESS_ERROR):
            raise
        raise RouteError(409, str(error.code), error.message) from None


class CredentialRoute(FolderRoute):
    """The part that routes of credentials share: which one is in force in the folder."""

    def initialize(self, runs: ClientRuns, **settings: Any) -> None:
        super().initialize(runs)
        self._proxied: bool = settings["proxied"]

    def refuse_if_proxied(self) -> None:
        """Raises `CellwrightError` where the server's own key is the one that counts."""
        if self._proxied:
            message = "On this server requests go out with the server's own key. Nothing was kept."
            raise CellwrightError(ErrorCode.PERMISSION_DENIED, message)

    def report(self) -> dict[str, Any]:
        from cellwright.config.credentials.entered_key import NO_KEY, key_source

        settings, environ = self.in_force()
        source = PROXIED if self._proxied else key_source(settings, environ)
        has_way = source != NO_KEY or settings.provider == "claude-code"
        return {
            "source": (source if source != NO_KEY else settings.provider) if has_way else None,
            "own_credentials": settings.own_credentials and not self._proxied,
        }

    def in_force(self) -> tuple[Any, Mapping[str, str]]:
        from cellwright.config.settings.settings_in_force import SettingsInForce  # few ask for them

        in_force = SettingsInForce(self.folder(), dict(os.environ))
        return in_force.settings, in_force.environment


class KeyRoute(CredentialRoute):
    """`GET key?folder=`, `PUT key?folder=`, `DELETE key?folder=`"""

    @authenticated
    @may_read
    async def get(self) -> None:
        self.answer(await asyncio.to_thread(self.report))

    @authenticated
    @may_write
    async def put(self) -> None:
        from cellwright.config.credentials.entered_key import place_words, try_and_keep  # few enter one

        text = self.body("Key")["key"]
        self.refuse_if_proxied()
        settings, environ = await asyncio.to_thread(self.in_force)
        with _said_by_others():
            kept = await try_and_keep(
                text, environ, helper=settings.api_key_helper, own_credentials=settings.own_credentials
            )
        self.answer(
            {
                **await asyncio.to_thread(self.report),
                "kept_in": place_words(kept.place),
                "tried": kept.tried,
                "overruled_by": kept.overruled_by,
            }
        )

    @authenticated
    @may_write
    async def delete(self) -> None:
        await asyncio.to_thread(forget)
        self.answer(await asyncio.to_thread(self.report))


class CloudRoute(CredentialRoute):
    """`GET cloud?folder=`, `PUT cloud?folder=`"""

    @authenticated
    @may_read
    async def get(self) -> None:
        from cellwright.config.credentials.entered_cloud import forms  # few look at them

        self.answer({"clouds": await asyncio.to_thread(forms)})

    @authenticated
    @may_write
    async def put(self) -> None:
        asked = self.body("Cloud")
        self.refuse_if_proxied()
        from cellwright.config.credentials.entered_cloud import try_and_keep_cloud
        from cellwright.conversation.resolve_options import model_of
        from cellwright.conversation.runs.run_options import RunOptions

        settings, environ = await asyncio.to_thread(self.in_force)
        with _said_by_others():
            kept = await try_and_keep_cloud(
                asked["id"],
                asked["values"],
                asked.get("key", ""),
                environ,
                model=model_of(RunOptions(), settings, environ),
                own_credentials=settings.own_credentials,
            )
        report = await asyncio.to_thread(self.report)
        self.answer({**report, "kept_in": str(kept.file), "tried": kept.tried, "overruled_by": kept.overruled_by})

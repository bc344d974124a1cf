"""Routes for all sessions of the server on one screen. Whoever may use kernels sees what Claude does in them."""

from __future__ import annotations

from typing import Any

from tornado.web import authenticated

from cellwright.server.overview import SessionsOverview
from cellwright.server.routes.base_handler import CellwrightRoute, may_execute, may_read, may_use_kernels
from cellwright.server.runs.runs import ClientRuns


class OverviewRoute(CellwrightRoute):
    """`GET overview`"""

    def initialize(self, runs: ClientRuns, **settings: Any) -> None:
        super().initialize(runs)
        self.overview: SessionsOverview = settings["overview"]

    @authenticated
    @may_read
    @may_use_kernels
    async def get(self) -> None:
        self.answer(await self.overview.report())


class StopTaskRoute(CellwrightRoute):
    """`POST kernels/{id}/stop`"""

    def initialize(self, runs: ClientRuns, **settings: Any) -> None:
        super().initialize(runs)
        self.overview: SessionsOverview = settings["overview"]

    @authenticated
    @may_execute
    @may_use_kernels
    async def post(self, kernel_id: str) -> None:
        await self.overview.stop(kernel_id, self.body("StopTask")["id"])
        self.answer({})

"""Routes for what clients may know before a run: versions, kernels, limits, checks, settings, models, recordings."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import jupyter_server
from msgspec.structs import asdict
from tornado.web import authenticated

from cellwright.server.listed_models import ListedModels
from cellwright.server.routes.base_handler import CellwrightRoute, description, may_read
from cellwright.server.runs.own_kernels import folder_below, server_root
from cellwright.server.runs.runs import ClientRuns
from cellwright.version import VERSION


class FolderRoute(CellwrightRoute):
    """The base of routes that answer for a folder below the server's root."""

    def folder(self) -> Path:
        """The folder that the parameter `folder` means. Raises ApiError."""
        return folder_below(self.settings["server_root_dir"], self.argument("folder"))


class StatusRoute(CellwrightRoute):
    """`GET status`"""

    @authenticated
    @may_read
    async def get(self) -> None:
        runs = self.runs
        status = {
            "version": VERSION,
            "jupyter_server": jupyter_server.__version__,
            "kernels": runs.relays.kernels(),
            "runs": runs.running,
            "limits": asdict(runs.limits),
        }
        self.answer(status)


class OpenApiRoute(CellwrightRoute):
    """`GET openapi.json`"""

    @authenticated
    @may_read
    async def get(self) -> None:
        self.answer({**description(), "servers": [{"url": f"{self.base_url}cellwright/api"}]})


class DoctorRoute(FolderRoute):
    """`GET doctor?folder=&offline=`"""

    @authenticated
    @may_read
    async def get(self) -> None:
        from cellwright.doctor.examination import ExaminedEnvironment, examine  # all that it looks at; few ask for it

        offline = self.choice("offline", "true", "false") == "true"
        examination = await asyncio.to_thread(examine, ExaminedEnvironment(self.folder()), offline=offline)
        self.answer(examination.to_json())


class SettingsRoute(FolderRoute):
    """`GET settings?folder=`"""

    @authenticated
    @may_read
    async def get(self) -> None:
        from cellwright.server.routes.settings_report import settings_report  # the settings' modules; few ask for them

        self.answer(await asyncio.to_thread(settings_report, self.folder(), dict(os.environ)))


class ModelsRoute(FolderRoute):
    """`GET models?folder=`"""

    def initialize(self, runs: ClientRuns, **settings: Any) -> None:
        super().initialize(runs)
        self._listed: ListedModels = settings["listed"]

    @authenticated
    @may_read
    async def get(self) -> None:
        from cellwright.config.settings.settings import load_settings  # as above
        from cellwright.server.routes.settings_report import models_report

        environ = dict(os.environ)
        settings = await asyncio.to_thread(load_settings, self.folder(), environ)
        listed = await self._listed.of({**environ, **settings.env})
        self.answer(models_report(settings, environ, listed))


class StaleNumbersRoute(FolderRoute):
    """`POST stale-numbers?folder=`"""

    @authenticated
    @may_read
    async def post(self) -> None:
        from cellwright.features.numbers.stale import stale_answers  # as above
        from cellwright.tools.notebook.open_notebook import Cell

        cells = [
            Cell(
                id=cell["id"],
                cell_type="code",
                source=cell["source"],
                position=position,
                execution_count=cell["execution_count"],
                outputs=tuple(cell["outputs"]),
            )
            for position, cell in enumerate(self.body("NotebookCells")["cells"])
        ]
        self.answer({"answers": await asyncio.to_thread(stale_answers, cells, self.folder())})


class CassettesRoute(FolderRoute):
    """`GET cassettes?folder=`"""

    @authenticated
    @may_read
    async def get(self) -> None:
        from cellwright.server.routes.recordings_index import recordings_in  # as above

        root = server_root(self.settings["server_root_dir"])
        self.answer({"cassettes": await asyncio.to_thread(recordings_in, self.folder(), root)})

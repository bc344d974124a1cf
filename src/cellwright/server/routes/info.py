"""Routes for what clients may know before a run: versions, kernels, limits, checks, settings, models, recordings."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jupyter_server
from msgspec.structs import asdict
from tornado.web import authenticated

from cellwright.agent.recording.recordings import FORMAT, FORMAT_KEY
from cellwright.server.listed_models import ListedModels
from cellwright.server.routes.base_handler import CellwrightRoute, description, may_read
from cellwright.server.runs.runs import ClientRuns, folder_below, server_root
from cellwright.tools.notebook.open_notebook import Cell
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
        from cellwright.server.routes.settings_report import models_report  # as above

        self.answer(await models_report(self.folder(), dict(os.environ), self._listed))


class StaleNumbersRoute(FolderRoute):
    """`POST stale-numbers?folder=`"""

    @authenticated
    @may_read
    async def post(self) -> None:
        from cellwright.features.numbers.stale import stale_answers  # as above

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
        root = server_root(self.settings["server_root_dir"])
        self.answer({"cassettes": await asyncio.to_thread(_recordings_in, self.folder(), root)})


def _recordings_in(folder: Path, root: Path) -> list[dict[str, Any]]:
    """`{"path", "format", "turns", "size", "modified"}` of each recording in a folder and below it, by path.

    Those are what can be played again without a request. Links are not followed. At most 20,000 files are looked at, and
    500 recordings found.
    """
    found: list[dict[str, Any]] = []
    for path in itertools.islice(_lines_files(folder), 20_000):
        if len(found) >= 500:
            break
        try:
            about = _recording_json(path)
        except (OSError, ValueError):
            continue  # no recording, or gone while we look
        if about is not None:
            found.append({"path": path.relative_to(root).as_posix(), **about})
    return sorted(found, key=lambda each: str(each["path"]))


def _lines_files(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        folders[:] = [
            name for name in folders if not name.startswith(".") and name not in ("node_modules", "__pycache__")
        ]
        yield from (Path(here, name) for name in names if name.endswith(".jsonl"))


def _recording_json(path: Path) -> dict[str, Any] | None:
    if path.is_symlink():
        return None
    with path.open("rb") as file:
        header = json.loads(file.readline(1_000))
        if not isinstance(header, dict) or FORMAT_KEY not in header:
            return None
        turns = sum(1 for line in file if line.strip())
    status = path.stat()
    number = header[FORMAT_KEY]
    return {
        "format": number,
        "turns": turns if number == FORMAT else None,
        "size": status.st_size,
        "modified": status.st_mtime,
    }

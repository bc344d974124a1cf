"""Which handler serves what. The patterns stand below the server's base URL; `openapi.json` describes each of them."""

from __future__ import annotations

from typing import Any

from cellwright.server.api_handler import CellwrightHandler, NoSuchRoute
from cellwright.server.info_handlers import (
    CassettesHandler,
    DoctorHandler,
    ModelsHandler,
    OpenApiHandler,
    SettingsHandler,
    StatusHandler,
)
from cellwright.server.run_handlers import (
    AnswerHandler,
    KernelRunHandler,
    OwnKernelRunHandler,
    RunEventsHandler,
    RunHandler,
    SteerHandler,
    StopHandler,
)
from cellwright.server.runs import Runs
from cellwright.server.session_files import SessionFiles
from cellwright.server.session_handlers import SessionExportHandler, SessionHandler, SessionsHandler

ROOT = r"/cellwright/api"

Route = tuple[str, type[CellwrightHandler], dict[str, Any]]


def routes(runs: Runs, sessions: SessionFiles) -> list[Route]:
    """All of them, the one that answers for the rest last."""
    own = {"runs": runs}
    of_sessions = {"runs": runs, "sessions": sessions}
    part = r"([^/]+)"
    return [
        (rf"{ROOT}/status", StatusHandler, own),
        (rf"{ROOT}/openapi\.json", OpenApiHandler, own),
        (rf"{ROOT}/doctor", DoctorHandler, own),
        (rf"{ROOT}/settings", SettingsHandler, own),
        (rf"{ROOT}/models", ModelsHandler, own),
        (rf"{ROOT}/cassettes", CassettesHandler, own),
        (rf"{ROOT}/sessions", SessionsHandler, of_sessions),
        (rf"{ROOT}/sessions/{part}", SessionHandler, of_sessions),
        (rf"{ROOT}/sessions/{part}/export", SessionExportHandler, of_sessions),
        (rf"{ROOT}/run", OwnKernelRunHandler, own),
        (rf"{ROOT}/kernels/{part}/run", KernelRunHandler, own),
        (rf"{ROOT}/runs/{part}", RunHandler, own),
        (rf"{ROOT}/runs/{part}/events", RunEventsHandler, own),
        (rf"{ROOT}/runs/{part}/answers/{part}", AnswerHandler, own),
        (rf"{ROOT}/runs/{part}/steer", SteerHandler, own),
        (rf"{ROOT}/runs/{part}/stop", StopHandler, own),
    ]


def no_such_route(runs: Runs) -> Route:
    """What answers for everything else below the interface's path; the last of all."""
    return (rf"{ROOT}(?:/.*)?", NoSuchRoute, {"runs": runs})

"""The table of routes: which handler serves which path.

The patterns stand below the server's base URL; `openapi.json` describes each of them.
"""

from __future__ import annotations

from typing import Any

from cellwright.server.listed_models import ListedModels
from cellwright.server.overview import OverviewRoute, SessionsOverview, StopTaskRoute
from cellwright.server.routes.base_handler import CellwrightRoute, NoSuchRoute
from cellwright.server.routes.credentials import CloudRoute, DemoRoute, KeyRoute
from cellwright.server.routes.info import (
    CassettesRoute,
    DoctorRoute,
    ModelsRoute,
    OpenApiRoute,
    SettingsRoute,
    StaleNumbersRoute,
    StatusRoute,
)
from cellwright.server.routes.runs import (
    AnswerRoute,
    KernelRunRoute,
    OwnKernelRunRoute,
    RunEventsRoute,
    RunRoute,
    SteerRoute,
    StopRoute,
)
from cellwright.server.routes.sessions import SessionExportRoute, SessionFiles, SessionRoute, SessionsRoute
from cellwright.server.runs.runs import ClientRuns

ROOT = r"/cellwright/api"

Served = tuple[str, type[CellwrightRoute], dict[str, Any]]


def routes(
    runs: ClientRuns, sessions: SessionFiles, listed: ListedModels, overview: SessionsOverview, *, proxied: bool
) -> list[Served]:
    """All of them but `no_such_route`. `proxied`: requests of kernels go out with the server's own key."""
    own = {"runs": runs}
    of_sessions = {"runs": runs, "sessions": sessions}
    of_overview = {"runs": runs, "overview": overview}
    part = r"([^/]+)"
    return [
        (rf"{ROOT}/status", StatusRoute, own),
        (rf"{ROOT}/openapi\.json", OpenApiRoute, own),
        (rf"{ROOT}/doctor", DoctorRoute, own),
        (rf"{ROOT}/settings", SettingsRoute, own),
        (rf"{ROOT}/models", ModelsRoute, {"runs": runs, "listed": listed}),
        (rf"{ROOT}/key", KeyRoute, {"runs": runs, "proxied": proxied}),
        (rf"{ROOT}/cloud", CloudRoute, {"runs": runs, "proxied": proxied}),
        (rf"{ROOT}/demo", DemoRoute, own),
        (rf"{ROOT}/cassettes", CassettesRoute, own),
        (rf"{ROOT}/stale-numbers", StaleNumbersRoute, own),
        (rf"{ROOT}/sessions", SessionsRoute, of_sessions),
        (rf"{ROOT}/sessions/{part}", SessionRoute, of_sessions),
        (rf"{ROOT}/sessions/{part}/export", SessionExportRoute, of_sessions),
        (rf"{ROOT}/overview", OverviewRoute, of_overview),
        (rf"{ROOT}/kernels/{part}/stop", StopTaskRoute, of_overview),
        (rf"{ROOT}/run", OwnKernelRunRoute, own),
        (rf"{ROOT}/kernels/{part}/run", KernelRunRoute, own),
        (rf"{ROOT}/runs/{part}", RunRoute, own),
        (rf"{ROOT}/runs/{part}/events", RunEventsRoute, own),
        (rf"{ROOT}/runs/{part}/answers/{part}", AnswerRoute, own),
        (rf"{ROOT}/runs/{part}/steer", SteerRoute, own),
        (rf"{ROOT}/runs/{part}/stop", StopRoute, own),
    ]


def no_such_route(runs: ClientRuns) -> Served:
    """Build the route that answers for everything else below the interface's path; the last of all."""
    return (rf"{ROOT}(?:/.*)?", NoSuchRoute, {"runs": runs})

"""Cellwright in Jupyter Server: the administrator's traits, and the composition root of this process.

`c.CellwrightApp.…` in a `jupyter_server_config.py` sets the traits. An error here is logged by Jupyter Server, the
interface is then missing, and the server starts all the same; only a configuration that is wrong keeps it from that,
since it may have been meant to forbid something.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_server.extension.application import ExtensionApp
from msgspec.structs import fields
from traitlets import Bool, Float, Integer, TraitError

from cellwright.server import administration
from cellwright.server.administration import Administration
from cellwright.server.listed_models import ListedModels
from cellwright.server.overview import SessionsOverview
from cellwright.server.policy import PolicyTraits, ProxyTraits
from cellwright.server.routes.routes import no_such_route, routes
from cellwright.server.routes.sessions import SessionFiles
from cellwright.server.runs.runs import ClientRuns, RunLimits, RunReports
from cellwright.server.server_page import page_maker, served_notebooks
from cellwright.version import VERSION

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

    from cellwright.server.routes.mcp import UsersMcpServers


class CellwrightApp(PolicyTraits, ProxyTraits, ExtensionApp):
    """Claude inside the Jupyter kernel: the REST interface under `/cellwright/api`, its limits and policies."""

    name = "cellwright"
    version = VERSION
    load_other_extensions = True

    max_runs = Integer(16, min=1, help="The most runs at once on this server.").tag(config=True)
    max_runs_per_user = Integer(4, min=1, help="The most runs at once of one user.").tag(config=True)
    runs_per_minute = Integer(30, min=1, help="How many runs one user may begin in a minute.").tag(config=True)
    max_own_kernels = Integer(
        8, min=0, help="How many kernels may be there at once that were started for runs (`POST run`)."
    ).tag(config=True)
    max_request_bytes = Integer(
        20_000_000, min=1, help="The largest body of a request, attachments included, in bytes."
    ).tag(config=True)
    max_event_bytes = Integer(
        32_000_000, min=1, help="How much of one run's events is kept for readers, in bytes; the oldest go first."
    ).tag(config=True)
    finished_run_seconds = Float(
        900.0, min=0.0, help="How long the events of a run that is over can be read, in seconds."
    ).tag(config=True)
    max_finished_runs = Integer(100, min=1, help="How many runs that are over are kept for that time.").tag(config=True)
    own_kernel_idle_seconds = Float(
        1800.0,
        min=0.1,
        help="After so long without a run a kernel that a client kept (`keep`) is shut down, in seconds.",
    ).tag(config=True)
    kernel_connect_seconds = Float(
        60.0, min=1.0, help="How long a kernel may take to answer when a run is asked for, in seconds."
    ).tag(config=True)
    heartbeat_seconds = Float(
        15.0, min=0.05, help="How often a stream without events says that it is there, in seconds."
    ).tag(config=True)
    sessions_outside_root = Bool(
        False, help="Show sessions of folders outside the server's root as well, where their user is the same."
    ).tag(config=True)
    mcp_server = Bool(
        False,
        help="Offer files and notebooks below the server's root, and their kernels, to MCP clients at /cellwright/mcp, with "
        "Jupyter's own authentication and under the permission rules of the settings (`cellwright docs mcp`).",
    ).tag(config=True)
    report_runs = Bool(
        False, help="Report runs to Jupyter's event system, without content (urn:cellwright:events:run:v1)."
    ).tag(config=True)

    runs: ClientRuns | None = None
    overview: SessionsOverview | None = None
    administration: Administration | None = None
    mcp_servers: UsersMcpServers | None = None

    def _link_jupyter_server_extension(self, serverapp: ServerApp) -> None:
        try:
            super()._link_jupyter_server_extension(serverapp)
        except TraitError as error:
            # Jupyter Server would go on without the extension, and so without the policy: as with a bad word in its own
            # configuration, nothing starts before it is mended
            serverapp.log.critical("Bad config for Cellwright: %s", error)
            serverapp.exit(1)

    def initialize_handlers(self) -> None:
        # first: whatever fails after it, no kernel gets more than the administrator wants
        self.administration = administration.administer(self, self.policy(), self.serverapp)
        server = self.settings
        root = Path(self.serverapp.root_dir).resolve()  # type: ignore[union-attr]  # a linked extension has its server
        reports = RunReports(server["event_logger"] if self.report_runs else None)
        limits = RunLimits(**{field.name: getattr(self, field.name) for field in fields(RunLimits)})
        self.runs = ClientRuns(server["kernel_manager"], limits, reports, page_maker(self.serverapp))
        proxy = self.administration.proxy
        listed = ListedModels(proxy.upstream if proxy is not None else None)
        sessions = SessionFiles(root, everywhere=self.sessions_outside_root)
        kernels, notebooks = server["kernel_manager"], server["session_manager"]
        self.overview = SessionsOverview(kernels, notebooks, server.get("event_logger"))
        self.handlers.extend(routes(self.runs, sessions, listed, self.overview, proxied=self.anthropic_proxy))
        self.handlers.extend(administration.routes(self.administration, self.runs))
        self.handlers.append(no_such_route(self.runs))
        if self.mcp_server:
            self._serve_mcp(root, self.runs)

    def _serve_mcp(self, root: Path, runs: ClientRuns) -> None:
        # few servers are MCP servers
        from cellwright.server.routes.mcp import (
            DOCUMENTS,
            PATTERN,
            DocumentsRoute,
            McpRoute,
            UnavailableMcpRoute,
            UsersMcpServers,
        )
        from cellwright.server.runs.kernel_calls import KernelAccess, UnsavedDocuments
        from cellwright.tools.mcp.installed_extras import extra_problem

        if problem := extra_problem("mcp"):
            self.log.error("Cellwright: mcp_server does not work. %s", problem)
            self.handlers.append((PATTERN, UnavailableMcpRoute, {"runs": runs, "problem": problem}))
            return
        server, served = self.settings, served_notebooks(self.serverapp)
        unsaved = UnsavedDocuments(root)
        access = KernelAccess(server["kernel_manager"], server["session_manager"], runs.relays, served, unsaved, root)
        self.mcp_servers = UsersMcpServers(access)
        self.handlers.append((DOCUMENTS, DocumentsRoute, {"runs": runs, "unsaved": unsaved}))
        # pages say what they hold unsaved only where somebody wants to know
        self.serverapp.web_app.settings.setdefault("page_config_data", {})["cellwrightDocuments"] = True  # type: ignore[union-attr]
        self.handlers.append((PATTERN, McpRoute, {"runs": runs, "servers": self.mcp_servers}))

    async def stop_extension(self) -> None:
        if self.mcp_servers is not None:
            await self.mcp_servers.close()
        if self.overview is not None:
            await self.overview.close()
        if self.runs is not None:
            await self.runs.close()
        if self.administration is not None:
            await self.administration.aclose()

    def current_activity(self) -> dict[str, Any] | None:
        """Report what keeps the server from shutting down for idleness."""
        return {"runs": self.runs.running} if self.runs is not None and self.runs.running else None

"""`python -m cellwright.server.hub_proxy`: the proxy as a service of JupyterHub, out of reach of users' code.

It runs under the Hub's account, so the key, the budgets and the log are out of reach of everything that runs as a
user. Users are known by the tokens that the Hub gives their servers. `c.HubProxy.…` in the file that `--config` names
takes the same traits as `c.CellwrightApp` for the proxy and for what concerns requests. docs/jupyterhub.md shows it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from urllib.parse import urlsplit

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application as WebApplication
from traitlets import Unicode
from traitlets.config import Application

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.transports.own_proxies import FACTS
from cellwright.server.admin.policy import PolicyTraits
from cellwright.server.admin.proxy_traits import ProxyTraits
from cellwright.server.proxy.hub_users import HubUsers
from cellwright.server.proxy.kernel_access import forget_credentials
from cellwright.server.proxy.proxied_request import ProxiedRequest, UpstreamFacts
from cellwright.server.proxy.proxy import Proxy


class HubProxy(PolicyTraits, ProxyTraits, Application):
    """A proxy of the Messages API for the users of a JupyterHub."""

    name = "cellwright-hub-proxy"
    config_file = Unicode("", help="A file of settings (`c.HubProxy.budget_usd_per_day = 2`).").tag(config=True)
    aliases = {"config": "HubProxy.config_file"}  # noqa: RUF012  traitlets' own form

    def start(self) -> None:
        if self.config_file:
            self.load_config_file(self.config_file)
        try:
            asyncio.run(self._serve())
        except (CellwrightError, KeyError, OSError) as error:
            missing = f"the Hub did not set {error}: start it as a service of JupyterHub"
            self.log.critical("%s", missing if isinstance(error, KeyError) else error)
            self.exit(1)

    async def _serve(self) -> None:
        if self.budget_usd_per_kernel is not None:
            message = "budget_usd_per_kernel: the Hub's proxy knows users, and no kernels. Set budget_usd_per_day."
            raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
        address = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
        users = HubUsers(os.environ["JUPYTERHUB_API_URL"])
        upstream = self.upstream(os.environ)
        forget_credentials(os.environ, upstream.holds_key)
        proxy = Proxy(
            upstream=upstream,
            rules=self.proxy_limits(self.policy()),
            folder=self.proxy_place(),
            authenticate=users.caller_of,
        )
        address_here = re.escape(os.environ["JUPYTERHUB_SERVICE_PREFIX"].rstrip("/")) + "/anthropic"
        routes = [
            (address_here + FACTS, UpstreamFacts, {"proxy": proxy}),
            (address_here + r"(/.*)?", ProxiedRequest, {"proxy": proxy}),
        ]
        server = HTTPServer(WebApplication(routes))
        sockets = bind_sockets(80 if address.port is None else address.port, address.hostname or "127.0.0.1")
        server.add_sockets(sockets)
        self.log.info("port %s: requests for messages go to %s", sockets[0].getsockname()[1], upstream.url)
        ended = asyncio.Event()
        for ending in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):  # Windows has no such handlers
                asyncio.get_running_loop().add_signal_handler(ending, ended.set)
        await ended.wait()
        server.stop()
        await users.aclose()
        await proxy.aclose()


if __name__ == "__main__":
    HubProxy.launch_instance()

"""`python -m cellwright.server.hub_proxy`: the proxy as a service of JupyterHub, out of reach of users' code.

It runs under the Hub's account, so the key, the budgets and the log are out of reach of everything that runs as a
user. Users are known by the tokens that the Hub gives their servers. `c.HubProxy.…` in the file that `--config` names
takes the same traits as `c.CellwrightApp` for the proxy and for what concerns requests. docs/jupyterhub.md shows it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import signal
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx2
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application as WebApplication
from traitlets import Unicode
from traitlets.config import Application

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.betas import FACTS
from cellwright.server.policy import PolicyTraits, ProxyTraits
from cellwright.server.proxy.kernel_access import forget_credentials
from cellwright.server.proxy.proxied_request import ProxiedRequest, UpstreamFacts
from cellwright.server.proxy.proxy import Proxy, ProxyCaller

_OPENING = ("access:servers", "access:services")
"""A token that opens a user's server can spend by it anyway; one for less than that cannot."""


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


class HubUsers:
    """Asks the Hub at `api_url` whose a token is (`GET /hub/api/user`), and remembers its answers for a while.

    It remembers also that a token is none.
    """

    def __init__(self, api_url: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = api_url.rstrip("/") + "/user"
        self._clock = clock
        self._known: dict[bytes, tuple[float, ProxyCaller | None]] = {}
        self._client: httpx2.AsyncClient | None = None

    async def caller_of(self, token: str) -> ProxyCaller | None:
        """The user whose token it is; None for one that opens nothing, and where the Hub does not answer."""
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            return None
        digest = hashlib.sha256(token.encode()).digest()
        until, caller = self._known.get(digest, (0.0, None))
        if until > self._clock():
            return caller
        answered, caller = await self._ask(token)
        if answered:
            if len(self._known) >= 10_000:
                self._known.clear()
            # so long may a token that was taken back still be good, and the Hub is not asked again
            self._known[digest] = (self._clock() + 30.0, caller)
        return caller

    async def _ask(self, token: str) -> tuple[bool, ProxyCaller | None]:
        if self._client is None:
            self._client = httpx2.AsyncClient(timeout=10.0)
        try:
            answer = await self._client.get(self._url, headers={"authorization": f"token {token}"})
        except httpx2.TransportError:
            return False, None
        if answer.status_code in (401, 403, 404):
            return True, None
        if answer.status_code != 200:
            return False, None
        model = answer.json()
        if not isinstance(model, dict) or model.get("kind") != "user" or not isinstance(model.get("name"), str):
            return True, None
        opens = any(str(scope).startswith(_OPENING) for scope in model.get("scopes") or [])
        return True, ProxyCaller(model["name"]) if opens else None

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()


if __name__ == "__main__":
    HubProxy.launch_instance()

"""An administrator's traits put into force in a running server: policy, proxy, and the environment of its kernels."""

from __future__ import annotations

import getpass
import os
import sqlite3
from collections.abc import Mapping
from typing import Any

from jupyter_client.manager import KernelManager
from msgspec import Struct
from tornado.web import RequestHandler, authenticated

from cellwright.errors import CellwrightError
from cellwright.server.policy import AdminPolicy, ProxyTraits
from cellwright.server.proxy.kernel_access import (
    KernelTokens,
    forget_credentials,
    guard_kernels,
    proxy_url,
    trusting,
    with_token,
    without_credentials,
)
from cellwright.server.proxy.proxied_request import FACTS_PATTERN, PATTERN, ProxiedRequest, UpstreamFacts
from cellwright.server.proxy.proxy import Proxy, ProxyCaller
from cellwright.server.routes.base_handler import CellwrightRoute, may_read
from cellwright.server.runs.runs import ClientRuns
from cellwright.sessions.state_dir import make_private_folder

PAGE_OPTION = "cellwrightPolicy"
BUNDLE = "certificates-{port}.pem"

Route = tuple[str, type[RequestHandler], dict[str, Any]]


class Administration(Struct, frozen=True):
    """The policy in force, and the proxy where the key stays on the server. `user` is whose server this is."""

    policy: AdminPolicy
    user: str
    proxy: Proxy | None = None
    problem: str = ""

    async def report(self) -> dict[str, Any]:
        """Return what the page is told, with what the user has spent today."""
        spent = await self.proxy.spent(ProxyCaller(self.user)) if self.proxy is not None else None
        return {
            **self.policy.to_json(),
            "proxy": self.proxy is not None,
            "proxy_problem": self.problem or None,
            "spent_usd_today": None if spent is None else spent.day,
        }

    async def aclose(self) -> None:
        if self.proxy is not None:
            await self.proxy.aclose()


class PolicyRoute(CellwrightRoute):
    """`GET policy`"""

    def initialize(self, runs: ClientRuns, **settings: Any) -> None:
        super().initialize(runs, **settings)
        self._administration: Administration = settings["administration"]

    @authenticated
    @may_read
    async def get(self) -> None:
        self.answer(await self._administration.report())


def administer(traits: ProxyTraits, policy: AdminPolicy, server: Any) -> Administration:
    """Put the traits and the policy into force for `server` (a ServerApp) and every kernel that it starts from now on.

    A proxy that cannot be made keeps no server from starting: its kernels then have no way to a model at all.
    """
    user = os.environ.get("JUPYTERHUB_USER")
    if not user:
        try:
            user = getpass.getuser()
        except (KeyError, OSError):  # a container's user without a name
            user = str(os.getuid()) if hasattr(os, "getuid") else "user"
    tokens = KernelTokens()
    proxy, problem = None, ""
    if traits.anthropic_proxy:
        try:
            proxy = _proxy(traits, policy, tokens, user)
        except (CellwrightError, OSError, sqlite3.Error) as error:
            problem = error.message if isinstance(error, CellwrightError) else str(error)
            server.log.error("Cellwright: the key cannot be kept on the server, kernels have none: %s", problem)  # noqa: TRY400  said
    holds_key = proxy.upstream.holds_key if proxy is not None else _holds_nothing
    if traits.anthropic_proxy:
        forget_credentials(os.environ, holds_key)
    os.environ.update(policy.environment())
    if traits.anthropic_proxy or policy.environment():
        place = _KernelEnvironment(traits, server, policy, tokens, proxy)
        guard_kernels(server.kernel_manager, place.environment)
    server.web_app.settings.setdefault("page_config_data", {})[PAGE_OPTION] = policy.to_json()
    return Administration(policy, user, proxy, problem)


def routes(administration: Administration, runs: ClientRuns) -> list[Route]:
    """The policy for clients, and the proxy for kernels."""
    found: list[Route] = [
        (r"/cellwright/api/policy", PolicyRoute, {"administration": administration, "runs": runs}),
    ]
    if administration.proxy is not None:
        found.append((FACTS_PATTERN, UpstreamFacts, {"proxy": administration.proxy}))
        found.append((PATTERN, ProxiedRequest, {"proxy": administration.proxy}))
    return found


class _KernelEnvironment(Struct, frozen=True):
    """The setup that kernels of the server start with."""

    traits: ProxyTraits
    server: Any
    policy: AdminPolicy
    tokens: KernelTokens
    proxy: Proxy | None

    def environment(self, kernel: KernelManager, environ: Mapping[str, str]) -> dict[str, str]:
        given = {**environ, **self.policy.environment()}
        if not self.traits.anthropic_proxy:
            return given
        if self.proxy is None:
            return without_credentials(given, _holds_nothing)
        holds_key = self.proxy.upstream.holds_key
        try:
            url = proxy_url(self.server, self.traits.anthropic_proxy_url)
        except ValueError as error:
            self.server.log.error("Cellwright: kernel %s has no way to a model: %s", kernel.kernel_id, error)  # noqa: TRY400  said
            return without_credentials(given, holds_key)
        if self.server.certfile and not self.traits.anthropic_proxy_url:
            folder = self.traits.proxy_place()
            make_private_folder(folder)
            given = trusting(given, self.server.certfile, folder / BUNDLE.format(port=self.server.port))
        return with_token(given, token=self.tokens.issue(kernel), proxy_url=url, holds_key=holds_key)


def _proxy(traits: ProxyTraits, policy: AdminPolicy, tokens: KernelTokens, user: str) -> Proxy:
    async def known(token: str) -> ProxyCaller | None:
        kernel_id = await tokens.kernel_of(token)
        return None if kernel_id is None else ProxyCaller(user, kernel_id)

    return Proxy(
        upstream=traits.upstream(os.environ),
        rules=traits.proxy_limits(policy),
        folder=traits.proxy_place(),
        authenticate=known,
    )


def _holds_nothing(_text: str) -> bool:
    return False

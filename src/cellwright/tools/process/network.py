"""The way of a call's processes to the hosts that its confinement names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cellwright.agent.tool import ToolContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from cellwright.sandbox.network.network_proxy import NetworkProxy, ProxyAccess


def new_proxy() -> NetworkProxy:
    """A proxy that nobody uses yet."""
    from cellwright.sandbox.network.network_proxy import NetworkProxy  # few commands need one

    return NetworkProxy()


async def network_access(proxy: Callable[[], NetworkProxy], ctx: ToolContext) -> ProxyAccess | None:
    """Let the call's processes reach the hosts they may; None where there is nothing to bound. Raises OSError.

    The process is started with the access's `environ` and `port`; whoever starts it closes the access.
    """
    confinement = ctx.confinement
    if confinement is None or confinement.hosts is None or confinement.any_host:
        return None
    from cellwright.sandbox.network.network_proxy import HostBounds

    ask = ctx.may_reach if confinement.asks_hosts else None
    return await proxy().admit(HostBounds.of(confinement.hosts, confinement.denied_hosts, ask, confinement.asked_hosts))


def refused_hosts(access: ProxyAccess | None) -> str:
    """Tell the model where its processes were not let; "" where that did not happen."""
    if access is None or not access.refused:
        return ""
    places = ", ".join(access.refused)
    return (
        f"[The sandbox did not let the command connect to {places}. A rule `WebFetch(domain:…)` or "
        "`sandbox.network.allowedDomains` in the settings allows a host; the user can add one.]"
    )

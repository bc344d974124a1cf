"""The user a JupyterHub token belongs to, as the Hub says (its REST API, `GET /hub/api/user`)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cellwright.server.proxy.proxy import ProxyCaller

if TYPE_CHECKING:
    import httpx2

REMEMBERED_SECONDS = 30.0
"""So long a token that was taken back may still be good; and so long the Hub is not asked again."""

MAX_REMEMBERED = 10_000
_OPENING = ("access:servers", "access:services")
"""A token that opens a user's server can spend by it anyway; one for less than that cannot."""


class HubUsers:
    """Asks the Hub at `api_url`, and remembers its answers for a while, also that a token is none."""

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
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            self._known[digest] = (self._clock() + REMEMBERED_SECONDS, caller)
        return caller

    async def _ask(self, token: str) -> tuple[bool, ProxyCaller | None]:
        import httpx2

        if self._client is None:
            self._client = httpx2.AsyncClient(timeout=10.0)
        try:
            answer = await self._client.get(self._url, headers={"authorization": f"token {token}"})
        except httpx2.TransportError:
            return False, None
        if answer.status_code in (401, 403, 404):
            return True, None
        return (True, _user(answer.json())) if answer.status_code == 200 else (False, None)

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()


def _user(model: Any) -> ProxyCaller | None:
    if not isinstance(model, dict) or model.get("kind") != "user" or not isinstance(model.get("name"), str):
        return None
    scopes = model.get("scopes") or []
    return ProxyCaller(model["name"]) if any(str(scope).startswith(_OPENING) for scope in scopes) else None

"""A server's access token with each request: refreshed when it has ended or is refused, and never asked for unasked.

Where it takes the user to go on, the request fails with `SignInNeeded`, and `needed` is set; `oauth_sign_in.py` does the
rest when the user wants it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any
from urllib.parse import urlsplit

import httpx2  # heavy, as what follows: this module is imported where a connection is made
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.utils import extract_field_from_www_auth
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from msgspec import Struct
from msgspec.structs import replace

from cellwright.tools.mcp.server_entry import ServerEntry
from cellwright.tools.mcp.token_store import SignedIn, TokenStore

# its records quote answers of authorization servers, and those hold tokens
logging.getLogger("mcp.client.auth").addHandler(logging.NullHandler())


logging.getLogger("mcp.client.auth").propagate = False

LOOPBACK = ("localhost", "127.0.0.1", "::1")
PROTOCOL = "2025-11-25"
"""The version of the protocol by which requests of the sign-in are made."""

EARLY_SECONDS = 30.0
"""A token is refreshed so long before its end."""

REDIRECT = "http://localhost:{port}/callback"


class SignInNeeded(Exception):
    """Raised for a request that the server takes only after the user has signed in (again)."""


class ForbiddenAddress(Exception):
    """Raised for an address that a server wants asked for its sign-in and that is not asked: without https, or ours."""


class Challenge(Struct, frozen=True):
    """A server's answer that it wants authorization: where its metadata is, and for what scopes."""

    metadata_url: str = ""
    scope: str = ""

    def response(self, request: httpx2.Request, scope: str) -> httpx2.Response:
        """The answer as the package reads it, for `scope`."""
        fields = [
            f'{key}="{value}"' for key, value in (("resource_metadata", self.metadata_url), ("scope", scope)) if value
        ]
        headers = {"www-authenticate": f"Bearer {', '.join(fields)}".strip()}
        return httpx2.Response(401, headers=headers, request=request)


def challenge_of(response: httpx2.Response) -> Challenge:
    """The challenge in a server's answer."""
    return Challenge(
        extract_field_from_www_auth(response, "resource_metadata") or "",
        extract_field_from_www_auth(response, "scope") or "",
    )


def check_address(url: httpx2.URL, server: str) -> None:
    """Allow what a sign-in may ask for: https, the server's own origin, or this machine for a server on it.

    Raises ForbiddenAddress.
    """
    own = urlsplit(server)
    if url.scheme == "https" and (url.host not in LOOPBACK or own.hostname in LOOPBACK):
        return
    if (url.scheme, url.host) == (own.scheme, own.hostname) or (url.host in LOOPBACK and own.hostname in LOOPBACK):
        return
    raise ForbiddenAddress(f"its sign-in leads to {url.scheme}://{url.host}, which is not asked: it is not https")


class RecordStorage:
    """A server's record as the package keeps what it gets. `metadata` gives what it has found out of the servers."""

    def __init__(self, store: TokenStore, entry: ServerEntry) -> None:
        self.record = SignedIn()
        self.metadata: Callable[[], tuple[Any, Any]] = lambda: (None, None)
        self._store = store
        self._entry = entry

    async def load(self) -> SignedIn:
        """Read the record anew."""
        found = await asyncio.to_thread(self._store.load, self._entry)
        self.record = found or SignedIn()
        return self.record

    async def get_tokens(self) -> OAuthToken | None:
        tokens: OAuthToken | None = _model(OAuthToken, self.record.tokens)
        return tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        ends = None if tokens.expires_in is None else time.time() + tokens.expires_in
        await self._change(tokens=_dump(tokens), expires_at=ends)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        client: OAuthClientInformationFull | None = _model(OAuthClientInformationFull, self.record.client)
        return client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await self._change(client=_dump(client_info))

    async def _change(self, **values: Any) -> None:
        metadata, resource = map(_dump, self.metadata())
        self.record = replace(self.record, **values, metadata=metadata, resource=resource)
        await asyncio.to_thread(self._store.save, self._entry, self.record)


class ServerAuth(OAuthClientProvider):
    """The authorization of a server's requests by the token that is kept; `needed` is set when it takes the user."""

    def __init__(self, entry: ServerEntry, store: TokenStore) -> None:
        self.records = RecordStorage(store, entry)
        super().__init__(entry.url, client_metadata(entry, 0), self.records)
        self.records.metadata = lambda: (self.context.oauth_metadata, self.context.protected_resource_metadata)
        self.needed = asyncio.Event()
        self.challenge: Challenge | None = None
        """The server's last answer that it wants more than it has."""
        self._entry = entry
        self._store = store
        self._refreshing = asyncio.Lock()

    async def _initialize(self) -> None:
        record = await self.records.load() if self._store.is_known(self._entry) else SignedIn()
        context = self.context
        context.current_tokens = await self.records.get_tokens()
        context.client_info = await self.records.get_client_info()
        context.token_expiry_time = None if record.expires_at is None else record.expires_at - EARLY_SECONDS
        context.oauth_metadata = _model(OAuthMetadata, record.metadata)
        context.protected_resource_metadata = _model(ProtectedResourceMetadata, record.resource)
        self._initialized = True

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if not self._initialized:
            async with self._refreshing:
                await self._initialize()
        sent = self._token()
        if sent is None and self.context.can_refresh_token():
            async with self._refresh("", request) as refresh:
                if refresh is not None:
                    answer = yield refresh
                    await self._take(answer)
            sent = self._token()
        self._authorize(request)
        response = yield request
        if response.status_code == 401 and sent is not None and self.context.can_refresh_token():
            # it was refused before its time: revoked, or the server was set up anew
            async with self._refresh(sent, request) as refresh:
                if refresh is not None:
                    answer = yield refresh
                    await self._take(answer)
            if self._token() is not None:
                self._authorize(request)
                response = yield request
        more = response.status_code == 403 and extract_field_from_www_auth(response, "error") == "insufficient_scope"
        if response.status_code == 401 or more:
            self.challenge = challenge_of(response)
            self.needed.set()
            raise SignInNeeded("it wants you to sign in" if sent is None else "it wants you to sign in again")

    def _token(self) -> str | None:
        tokens = self.context.current_tokens
        return tokens.access_token if tokens is not None and self.context.is_token_valid() else None

    def _authorize(self, request: httpx2.Request) -> None:
        request.headers.pop("Authorization", None)
        if self.context.is_token_valid():
            self._add_auth_header(request)

    @contextlib.asynccontextmanager
    async def _refresh(self, refused: str, request: httpx2.Request) -> AsyncIterator[httpx2.Request | None]:
        """The request that refreshes the token; None where somebody has done so meanwhile. `refused` is worth nothing."""
        async with self._refreshing, self._store.locked(self._entry):
            await self._initialize()  # another process may have, and a refresh token is often good once only
            tokens = self.context.current_tokens
            if tokens is None or (tokens.access_token != refused and self.context.is_token_valid()):
                yield None
                return
            self.context.protocol_version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER) or PROTOCOL
            if not self.context.can_refresh_token():
                self.context.clear_tokens()
                yield None
                return
            made = await self._refresh_token()
            check_address(made.url, self._entry.url)
            yield made

    async def _take(self, answer: httpx2.Response) -> None:
        await answer.aread()
        if answer.status_code >= 500 or answer.status_code == 429:
            # it says nothing about the token: that is tried again with the next connection
            self._initialized = False
            raise httpx2.HTTPError(f"the authorization server answered with {answer.status_code} to a refresh")
        if not await self._handle_refresh_response(answer):
            await asyncio.to_thread(self._store.forget, self._entry, client=False)


def client_metadata(entry: ServerEntry, port: int) -> OAuthClientMetadata:
    """The client as it registers itself, or was registered."""
    scope = entry.oauth.scopes if entry.oauth is not None else ""
    return OAuthClientMetadata.model_validate(
        {
            "client_name": "Cellwright",
            "redirect_uris": [REDIRECT.format(port=port or 1)],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "scope": scope or None,
        }
    )


def _model(kind: Any, value: Any) -> Any:
    """The value as the package's model; None for none, and for one that is damaged."""
    try:
        return None if value is None else kind.model_validate(value)
    except ValueError:
        return None


def _dump(model: Any) -> Any:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)

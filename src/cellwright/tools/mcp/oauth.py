"""OAuth for servers that are reached by an address: an access token with each request, and signing in.

The token is refreshed when it has ended or is refused. Where it takes the user to go on, the request fails with
`SignInNeeded`, and `needed` is set; nobody is asked unasked. When the user wants it, they open a link, and their browser is
sent to an address on this machine afterwards. Where the browser is, too, a listener takes it; where it is elsewhere (a
kernel behind a Hub), the page does not load there, and the user hands us its address. Only the answer to this very sign-in
counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2  # heavy, as what follows: this module is imported where a server wants a token
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import extract_field_from_www_auth
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from msgspec import Struct
from msgspec.structs import replace

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.text import visible_line
from cellwright.tools.mcp.http_client import http_client
from cellwright.tools.mcp.server_entry import ServerEntry
from cellwright.tools.mcp.token_store import SignedIn, TokenStore

PREPARE_SECONDS = 60.0
"""The time that servers may take until there is a link."""

USER_SECONDS = 900.0
"""The time that the user may take."""

MAX_REQUEST_BYTES = 16_000
_PAGE = "<!doctype html><meta charset=utf-8><title>Cellwright</title><p>{}</p>"

LOOPBACK = ("localhost", "127.0.0.1", "::1")
PROTOCOL = "2025-11-25"
"""The version of the protocol by which requests of the sign-in are made."""

REDIRECT = "http://localhost:{port}/callback"

# its records quote answers of authorization servers, and those hold tokens
logging.getLogger("mcp.client.auth").addHandler(logging.NullHandler())
logging.getLogger("mcp.client.auth").propagate = False


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
        # a token is refreshed so long before its end
        context.token_expiry_time = None if record.expires_at is None else record.expires_at - 30.0
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


class SignIn:
    """One way in, begun by `begin`: `link` is for the user to open, `done` tells how it came out.

    Made and used on one loop. `client_secret` belongs to a client that was registered by hand.
    """

    def __init__(
        self,
        entry: ServerEntry,
        store: TokenStore,
        *,
        challenge: Challenge | None = None,
        client_secret: str = "",
    ) -> None:
        self.entry = entry
        self.link = ""
        self._store = store
        self._challenge = challenge
        self._client_secret = client_secret
        self._linked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answer: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
        self._listening: list[asyncio.Server] = []
        self._state = ""
        self._asks_for_none = False
        self._context: OAuthContext | None = None
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> str:
        """Find out where to sign in; the link. Raises CellwrightError MCP_CONNECTION_FAILED."""
        self._task = asyncio.get_running_loop().create_task(self._work())
        waits: set[asyncio.Future[None]] = {self._linked, self._task}
        await asyncio.wait(waits, timeout=PREPARE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not self._linked.done():
            if self._task.done():
                await self._task
            await self.cancel()
            raise self._failed(f"there was no link within {PREPARE_SECONDS:g} s")
        return self.link

    async def done(self) -> None:
        """Wait until the user has signed in, and tokens are kept. Raises CellwrightError MCP_CONNECTION_FAILED."""
        assert self._task is not None
        await asyncio.shield(self._task)

    @property
    def is_over(self) -> bool:
        """Return whether it has come to an end, whichever."""
        return self._task is not None and self._task.done()

    async def cancel(self) -> None:
        """End it without a result."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def paste(self, address: str) -> None:
        """Take the address that the user's browser was sent to. Raises CellwrightError INVALID_PARAMETERS for another."""
        try:
            fields = parse_qs(urlsplit(address.strip()).query)
        except ValueError:
            fields = {}
        if problem := self._take({name: values[0] for name, values in fields.items()}):
            message = f"This is not the address that your browser was sent to by this sign-in: {problem}."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)

    def _take(self, fields: Mapping[str, str]) -> str:
        """Take the answer of the authorization server; why it is none ("" where it is)."""
        if not self._state or fields.get("state") != self._state:
            return "it belongs to another sign-in (`state`)"
        if self._answer.done():
            return "this sign-in is over"
        if "error" in fields:
            why = visible_line(f"{fields['error']} {fields.get('error_description', '')}".strip(), 300)
            self._answer.set_exception(OAuthFlowError(f"the authorization server says no: {why}"))
        elif "code" not in fields:
            return "it has no `code`"
        else:
            result = AuthorizationCodeResult(code=fields["code"], state=fields["state"], iss=fields.get("iss"))
            self._answer.set_result(result)
        return ""

    async def _work(self) -> None:
        try:
            async with contextlib.AsyncExitStack() as stack:
                stack.callback(self._stop_listening)
                await self._sign_in(stack)
        except CellwrightError:
            raise
        except OAuthFlowError as error:
            why = _words(error)
            if self._asks_for_none:
                why = f"it answers without that, and says of no way to do it ({why})"
            raise self._failed(why) from None
        except ForbiddenAddress as error:
            raise self._failed(str(error)) from None
        except TimeoutError:
            raise self._failed(f"the sign-in was not finished within {USER_SECONDS:g} s") from None
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError, ValueError) as error:
            # what is quoted of a validation may hold tokens
            raise self._failed(type(error).__name__ if isinstance(error, ValueError) else _words(error)) from None
        finally:
            if self._answer.done() and not self._answer.cancelled():
                self._answer.exception()  # seen

    async def _sign_in(self, stack: contextlib.AsyncExitStack) -> None:
        entry = self.entry
        client = await stack.enter_async_context(http_client({}))
        challenge = self._challenge or await self._ask(client)
        self._asks_for_none = challenge is None
        records = RecordStorage(self._store, entry)
        granted = (await records.load()).tokens or {}
        port = await self._listen(entry, records)
        provider = OAuthClientProvider(
            entry.url, client_metadata(entry, port), records, self._show_link, self._await_answer
        )
        context = self._context = provider.context
        records.metadata = lambda: (context.oauth_metadata, context.protected_resource_metadata)
        await self._know_client(provider, records, port)
        scope = entry.oauth.scopes if entry.oauth is not None else ""
        if not scope and challenge is not None and challenge.scope:
            scope = " ".join(dict.fromkeys([*str(granted.get("scope") or "").split(), *challenge.scope.split()]))
        request = httpx2.Request("GET", entry.url, headers={MCP_PROTOCOL_VERSION_HEADER: PROTOCOL})
        answer = (challenge or Challenge()).response(request, scope)
        if entry.oauth is not None and entry.oauth.metadata_url:
            await self._read_metadata(client, provider, entry.oauth.metadata_url)
            # for a server that wants more scopes the package looks for no metadata
            header = answer.headers["www-authenticate"].removeprefix("Bearer").strip()
            more = ", ".join(filter(None, ('error="insufficient_scope"', header)))
            answer = httpx2.Response(403, headers={"www-authenticate": f"Bearer {more}"}, request=request)
        flow = provider.async_auth_flow(request)
        async with contextlib.aclosing(flow):
            asked = await anext(flow)
            while True:
                if asked is not request:
                    check_address(asked.url, entry.url)
                    answer = await client.send(asked)
                    await answer.aread()
                asked = await flow.asend(answer)
                if asked is request:
                    return  # it would be sent with its token now

    async def _ask(self, client: httpx2.AsyncClient) -> Challenge | None:
        """The server's own words on signing in; None where it takes a request without."""
        about = {"name": "cellwright", "version": "1"}
        parameters = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": about}
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": parameters}
        if self.entry.transport == "sse":
            request = client.build_request("GET", self.entry.url, headers={"accept": "text/event-stream"})
        else:
            accept = {"accept": "application/json, text/event-stream"}
            request = client.build_request("POST", self.entry.url, json=message, headers=accept)
        request.headers.update(self.entry.headers)
        response = await client.send(request, stream=True)
        try:
            return challenge_of(response) if response.status_code in (401, 403) else None
        finally:
            await response.aclose()

    async def _know_client(self, provider: OAuthClientProvider, records: RecordStorage, port: int) -> None:
        """Use the client that is configured, or the one that was registered for the same redirect address."""
        oauth, redirect = self.entry.oauth, REDIRECT.format(port=port)
        made: OAuthClientInformationFull | None
        if oauth is not None and oauth.client_id:
            known = await records.get_client_info()
            secret = self._client_secret or (known.client_secret if known is not None else None)
            made = OAuthClientInformationFull.model_validate(
                {
                    "client_id": oauth.client_id,
                    "client_secret": secret,
                    "redirect_uris": [redirect],
                    "token_endpoint_auth_method": "client_secret_basic" if secret else "none",
                }
            )
            await records.set_client_info(made)
        else:
            known = await records.get_client_info()
            made = known if known is not None and redirect in map(str, known.redirect_uris or ()) else None
        provider.context.client_info = made
        provider._initialized = True  # else it takes the tokens that are to be replaced

    async def _read_metadata(self, client: httpx2.AsyncClient, provider: OAuthClientProvider, url: str) -> None:
        answer = await client.get(url)
        if answer.status_code != 200:
            raise self._failed(f"`authServerMetadataUrl` answered with {answer.status_code}")
        metadata = OAuthMetadata.model_validate_json(answer.content)
        provider.context.oauth_metadata, provider.context.auth_server_url = metadata, str(metadata.issuer)

    async def _show_link(self, link: str) -> None:
        url = httpx2.URL(link)
        check_address(url, self.entry.url)
        await self._choose_authentication()
        self._state = url.params.get("state", "")
        self.link = link
        if not self._linked.done():
            self._linked.set_result(None)

    async def _choose_authentication(self) -> None:
        """Have the secret of a configured client be sent in the way that the authorization server takes."""
        oauth, context = self.entry.oauth, self._context
        if context is None or context.client_info is None or oauth is None or not oauth.client_id:
            return
        taken = context.oauth_metadata.token_endpoint_auth_methods_supported if context.oauth_metadata else None
        posts = bool(taken) and "client_secret_basic" not in (taken or ()) and "client_secret_post" in (taken or ())
        if context.client_info.client_secret:
            context.client_info.token_endpoint_auth_method = "client_secret_post" if posts else "client_secret_basic"
            await context.storage.set_client_info(context.client_info)

    async def _await_answer(self) -> AuthorizationCodeResult:
        return await asyncio.wait_for(self._answer, USER_SECONDS)

    # the listener

    async def _listen(self, entry: ServerEntry, records: RecordStorage) -> int:
        """Listen for the browser on this machine alone; the port. Raises CellwrightError where a configured one is taken."""
        wanted = entry.oauth.callback_port if entry.oauth is not None else 0
        known = await records.get_client_info()
        # the port that it was registered with, so that it need not be registered anew
        registered = [uri.port for uri in (known.redirect_uris or ()) if uri.port] if known is not None else []
        ports = [wanted] if wanted else [*registered, 0]
        for port in ports:
            try:
                server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=MAX_REQUEST_BYTES)
            except OSError as error:
                if port == ports[-1]:
                    raise self._failed(f"port {port} cannot be listened at: {error}") from None
                continue
            self._listening.append(server)
            port = server.sockets[0].getsockname()[1]
            with contextlib.suppress(OSError):  # `localhost` is often both
                self._listening.append(await asyncio.start_server(self._serve, "::1", port, limit=MAX_REQUEST_BYTES))
            return int(port)
        raise AssertionError

    def _stop_listening(self) -> None:
        for server in self._listening:
            server.close()
        self._listening.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(
            OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            async with asyncio.timeout(30):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, _, rest = head.partition("\r\n")[0].partition(" ")
            target = urlsplit(rest.rpartition(" ")[0])
            if method != "GET" or target.path != "/callback":
                status, text = "404 Not Found", "There is nothing here."
            else:
                problem = self._take({name: values[0] for name, values in parse_qs(target.query).items()})
                status = "400 Bad Request" if problem else "200 OK"
                refusal = None if problem else self._answer.exception()
                text = f"Nothing came of this: {problem}." if problem else "You can close this page and go back."
                text = text if refusal is None else f"You are not signed in: {refusal}. {text}"
            body = _PAGE.format(html.escape(text)).encode()
            lines = [
                f"HTTP/1.1 {status}",
                "Content-Type: text/html; charset=utf-8",
                f"Content-Length: {len(body)}",
                "Content-Security-Policy: default-src 'none'",
                "Referrer-Policy: no-referrer",
                "Cache-Control: no-store",
                "Connection: close",
            ]
            writer.write("\r\n".join([*lines, "", ""]).encode() + body)
            await writer.drain()
        writer.close()

    def _failed(self, why: str) -> CellwrightError:
        message = f"You are not signed in to the MCP server {self.entry.name}: {why}."
        return CellwrightError(ErrorCode.MCP_CONNECTION_FAILED, message)


def _words(error: BaseException) -> str:
    text = str(error).rstrip(".") or type(error).__name__
    if text.startswith(("Invalid token response", "Invalid registration response")):
        text = text.partition(":")[0]  # it goes on with what was answered: tokens, secrets
    return visible_line(text, 400)

"""An MCP server that wants its users to sign in, and its authorization server: of the SDK's own parts, over real HTTP.

It runs in a thread of the tests. Whoever opens `/authorize` is sent on at once, as a user who agrees.
"""

import contextlib
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import uvicorn
from mcp.server.auth.provider import AccessToken, AuthorizationCode, AuthorizationParams, RefreshToken, TokenError
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken


class SignInServer:
    """The two servers at one address, and what was asked of them. Tests change what it says while it runs."""

    def __init__(self, *, sse: bool = False) -> None:
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen()
        self.base = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.url = f"{self.base}/{'sse' if sse else 'mcp'}"
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.refreshes: dict[str, RefreshToken] = {}
        self.granted: list[AuthorizationParams] = []
        self.refreshed = 0
        self.lifetime: int | None = 3600
        self.denies = False
        self.instead: dict[str, Callable[[], tuple[int, dict[str, str], Any]]] = {}
        """Answers in the place of its own, by path."""
        self.requests: list[tuple[str, str, str]] = []
        """Method, path and the header Authorization of each request."""
        server = MCPServer(
            "guarded",
            auth_server_provider=self,
            auth=AuthSettings.model_validate(
                {
                    "issuer_url": self.base,
                    "resource_server_url": self.url,
                    "client_registration_options": ClientRegistrationOptions(
                        enabled=True, valid_scopes=["read", "write"], default_scopes=["read"]
                    ),
                    "required_scopes": ["read"],
                    "validate_token_resource": False,
                }
            ),
        )

        @server.tool()
        def whisper() -> str:
            """Say the secret."""
            return "the secret"

        self._app = server.sse_app() if sse else server.streamable_http_app()
        self._server = uvicorn.Server(uvicorn.Config(self._answer, interface="asgi3", log_level="critical"))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(60)
        self.socket.close()

    def revoke(self, *, refreshes: bool = True) -> None:
        """Take back the tokens that there are."""
        self.tokens.clear()
        if refreshes:
            self.refreshes.clear()

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            self.requests.append((scope["method"], scope["path"], headers.get("authorization", "")))
            if (instead := self.instead.get(scope["path"])) is not None:
                status, more, body = instead()
                lines = [(b"content-type", b"application/json"), *((k.encode(), v.encode()) for k, v in more.items())]
                await send({"type": "http.response.start", "status": status, "headers": lines})
                await send({"type": "http.response.body", "body": json.dumps(body).encode()})
                return
        await self._app(scope, receive, send)

    # the authorization server, as the SDK wants it

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        self.granted.append(params)
        if self.denies:
            return f"{params.redirect_uri}?{urlencode({'error': 'access_denied', 'state': params.state})}"
        code = AuthorizationCode(
            code=secrets.token_hex(16),
            scopes=params.scopes or ["read"],
            expires_at=time.time() + 300,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=True,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return f"{params.redirect_uri}?{urlencode({'code': code.code, 'state': params.state})}"

    async def load_authorization_code(self, _client: Any, code: str) -> AuthorizationCode | None:
        return self.codes.get(code)

    async def exchange_authorization_code(self, client: Any, code: AuthorizationCode) -> OAuthToken:
        del self.codes[code.code]
        return self._issue(client.client_id, code.scopes, code.resource)

    async def load_refresh_token(self, _client: Any, token: str) -> RefreshToken | None:
        return self.refreshes.get(token)

    async def exchange_refresh_token(self, client: Any, token: RefreshToken, scopes: list[str]) -> OAuthToken:
        if self.refreshes.pop(token.token, None) is None:
            raise TokenError("invalid_grant")
        self.refreshed += 1
        return self._issue(client.client_id, scopes or token.scopes, token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def revoke_token(self, _token: Any) -> None: ...

    def _issue(self, client: str, scopes: list[str], resource: str | None) -> OAuthToken:
        token, refresh = f"access-{secrets.token_hex(16)}", f"refresh-{secrets.token_hex(16)}"
        self.tokens[token] = AccessToken(token=token, client_id=client, scopes=scopes, resource=resource)
        self.refreshes[refresh] = RefreshToken(token=refresh, client_id=client, scopes=scopes, resource=resource)
        return OAuthToken(access_token=token, refresh_token=refresh, expires_in=self.lifetime, scope=" ".join(scopes))


@contextlib.contextmanager
def sign_in_server(*, sse: bool = False) -> Iterator[SignInServer]:
    """A server for one test."""
    made = SignInServer(sse=sse)
    try:
        yield made
    finally:
        made.close()

"""One MCP server as it is configured, after variables were put in: what is started, or where it is reached."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from cellwright.text import lazy_pattern

ServerScope = Literal["managed", "flag", "local", "project", "user", "plugin", "agent"]
"""The one who configured it: the administrator, `--mcp-config`, the user for this project, the project itself, the user
everywhere, a plug-in, an agent's definition."""

ServerTransport = Literal["stdio", "http", "sse"]

TOOL_PREFIX = "mcp__"
MAX_NAME = 64
"""Of a tool's name, as the Messages API takes it."""

_NOT_IN_A_NAME = lazy_pattern(r"[^A-Za-z0-9_-]")


class OAuthClient(Struct, frozen=True, kw_only=True):
    """The configuration of signing in to a server: what is empty is found out, or asked of the authorization server.

    `client_id` is a client that was registered by hand, whose redirect address is `http://localhost:PORT/callback` with
    `callback_port`; `scopes` are asked for instead of those that the server names.
    """

    client_id: str = ""
    callback_port: int = 0
    scopes: str = ""
    metadata_url: str = ""


class ServerEntry(Struct, frozen=True, kw_only=True):
    """One server. `label` names its place for people (a file, a plug-in); `cwd` is the folder a program is started in.

    `digest` stands for the entry as it was written, before variables: an approval is bound to it. `tool_seconds` bounds a
    call (None: the default). `always_load`: its tools are told before the first word. `headers_helper` is a command whose
    output is further headers, as a JSON object; `oauth` says how to sign in, where that is configured. `agent` is the agent
    whose definition brings it along: it runs while that works, and has tools for nobody else. `written` is the program with
    its arguments, or the URL, before variables: what they stand for may be a secret. `scripts` are the digests of the
    project's files that it names.
    """

    name: str
    transport: ServerTransport
    scope: ServerScope
    label: str
    digest: str
    cwd: Path
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    headers_helper: str = ""
    oauth: OAuthClient | None = None
    tool_seconds: float | None = None
    always_load: bool = False
    agent: str = ""
    written: str = ""
    scripts: Mapping[str, str] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """The beginning of its tools' names: `mcp__server__`."""
        return f"{TOOL_PREFIX}{plain_name(self.name)}__"

    @property
    def may_sign_in(self) -> bool:
        """Return whether the user can sign in there: it is reached over HTTP, and no other authorization is configured."""
        if not self.url or self.headers_helper:
            return False
        return self.oauth is not None or not any(name.lower() == "authorization" for name in self.headers)

    @property
    def address(self) -> str:
        """The program with its arguments, or the URL, in one line, as it may be shown."""
        return self.written or self.url or " ".join([self.command, *self.args])


RESOURCE_TOOLS = frozenset({"ListMcpResourcesTool", "ReadMcpResourceTool"})


def of_servers(name: str) -> bool:
    """Return whether a tool of this name comes and goes with a server."""
    return name.startswith(TOOL_PREFIX) or name in RESOURCE_TOOLS


def plain_name(name: str) -> str:
    """`name` with `_` for every character that a tool's name may not have.

    >>> plain_name("my server")
    'my_server'
    """
    return _NOT_IN_A_NAME.sub("_", name)


def tool_name(prefix: str, name: str) -> str:
    """The name of a server's tool as Claude and the rules know it, at most `MAX_NAME` characters.

    >>> tool_name("mcp__git__", "log.show")
    'mcp__git__log_show'
    >>> len(tool_name("mcp__git__", "x" * 100))
    64
    """
    whole = prefix + plain_name(name)
    if len(whole) <= MAX_NAME:
        return whole
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{whole[: MAX_NAME - len(digest) - 1]}_{digest}"

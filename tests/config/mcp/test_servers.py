"""Entries of MCP servers: every field is shown to who consents, or harmless."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from cellwright.config.mcp.servers import NOT_SHOWN, BadEntry, WrittenServer, described_entry, read_written
from cellwright.tools.mcp.server_entry import OAuthClient

SERVERS = [
    WrittenServer(transport="stdio", command="run", args=("a",), env={"A": "b"}),
    WrittenServer(transport="http", url="https://x.example", headers={"A": "b"}, headers_helper="h"),
]


def as_json(server: WrittenServer) -> dict[str, Any]:
    keys = {"headers_helper": "headersHelper", "transport": "type"}
    given_ = {keys.get(name, name): value for name, value in json.loads(msgspec.json.encode(server)).items() if value}
    if server.oauth is not None:
        given_["oauth"] = {"clientId": server.oauth.client_id}
    return given_


@pytest.mark.parametrize("server", SERVERS, ids=["stdio", "http"])
def test_every_field_of_a_server_is_shown_or_harmless(server: WrittenServer) -> None:
    assert read_written(as_json(server), strict=True) == server
    others: dict[str, Any] = {
        **{"command": "other", "args": ("b",), "env": {"A": "c"}, "url": "https://y.example", "headers": {"B": "b"}},
        **{"headers_helper": "other", "oauth": OAuthClient(client_id="me")},
    }
    before = described_entry(as_json(server))
    unused = {"url", "headers", "headers_helper", "oauth"} if server.command else {"command", "args", "env"}
    for name in set(server.__struct_fields__) - NOT_SHOWN - unused:
        changed = msgspec.structs.replace(server, **{name: others[name]})
        assert described_entry(as_json(changed)) != before, name
    for name in unused - {"oauth"}:
        decoy = {**as_json(server), {"headers_helper": "headersHelper"}.get(name, name): "x"}
        with pytest.raises(BadEntry, match="and has `"):
            read_written(decoy, strict=True)

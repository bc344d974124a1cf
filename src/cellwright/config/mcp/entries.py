"""Entries of `mcpServers`, in Claude Code's format, read one by one: a bad one is named and left out, the others work."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from cellwright.redaction.secret_names import is_secret
from cellwright.text import lazy_pattern, visible_line
from cellwright.tools.mcp.server_entry import OAuthClient, ServerEntry, ServerScope, ServerTransport, plain_name

MAX_SERVERS = 100
MAX_NAME_CHARS = 64
"""Of a server's name: tools are called `mcp__server__tool`, in 64 characters."""

_TRANSPORTS: Mapping[str, ServerTransport] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_VARIABLE = lazy_pattern(r"\$\{(?P<name>(?:user_config\.)?[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


class ServerOrigin(Struct, frozen=True, kw_only=True):
    """The origin of entries: the scope, the place in words for people, and the folder that programs are started in.

    `variables` go before those of the environment (what the user told a plug-in). `prefix` stands before the servers' names
    (`plugin_NAME_`). `agent` is the agent whose definition it is.
    """

    scope: ServerScope
    label: str
    cwd: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    agent: str = ""


class ReadEntries(Struct, frozen=True):
    """The entries that make sense, by name; `raw` as they are written; what is wrong with the others."""

    entries: dict[str, ServerEntry]
    raw: dict[str, Mapping[str, Any]]
    notices: list[str]


class BadEntry(Exception):
    """An entry that cannot be used; the message says why."""


def read_entries(values: object, origin: ServerOrigin, environ: Mapping[str, str]) -> ReadEntries:
    """Read a mapping of server entries by their names. Never raises: problems are in `notices`.

    >>> origin = ServerOrigin(scope="user", label="~/.claude.json", cwd=Path("/tmp"))
    >>> found = read_entries({"a": {"command": "uvx", "args": ["${X:-b}"]}, "c": {"url": "https://x"}}, origin, {})
    >>> found.entries["a"].args, found.notices
    (('b',), ['~/.claude.json: the MCP server c has a `url` and no `type`: say "http" or "sse". It is left out.'])
    """
    if not isinstance(values, Mapping):
        return ReadEntries({}, {}, [f"{origin.label}: `mcpServers` is not an object. It is left out."])
    found = ReadEntries({}, {}, [])
    taken: dict[str, str] = {}
    for given, value in list(values.items())[:MAX_SERVERS]:
        name = f"{origin.prefix}{given}"
        shown = f"{origin.label}: the MCP server {visible_line(name, 60)}"
        try:
            entry, unset = _entry(name, value, origin, environ)
            if (other := taken.setdefault(plain_name(name), name)) != name:
                raise BadEntry(f"has the same name for tools as {other}")
        except BadEntry as problem:
            found.notices.append(f"{shown} {problem}. It is left out.")
            continue
        if unset:
            listed = ", ".join(f"${{{each}}}" for each in unset)
            found.notices.append(f"{shown}: there is no variable {listed}; it is left as it stands.")
        found.entries[name] = entry
        found.raw[name] = value
    if len(values) > MAX_SERVERS:
        found.notices.append(f"{origin.label}: of {len(values)} MCP servers the first {MAX_SERVERS} are taken.")
    return found


def digest_of(name: str, value: Mapping[str, Any]) -> str:
    """Stand for an entry as it is written: an approval holds for this and nothing else."""
    encoded = json.dumps([name, value], sort_keys=True).encode("utf-8", "surrogatepass")
    return hashlib.sha256(encoded).hexdigest()


def secrets_named(value: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    """The user's secret variables that an entry would be given."""
    text = json.dumps(value)
    names = dict.fromkeys(match["name"] for match in _VARIABLE.finditer(text))
    return [name for name in names if name in environ and is_secret(name, environ[name])]


def described_entry(value: Mapping[str, Any]) -> list[str]:
    """An entry for the user who is to approve it: all that is run, sent or reached, as it is written."""
    lines = []
    if "command" in value:
        arguments = value.get("args")
        words = [str(value["command"]), *map(str, arguments if isinstance(arguments, list) else ())]
        lines.append(f"runs: {' '.join(visible_line(json.dumps(w) if ' ' in w else w, 500) for w in words)}")
    if "url" in value:
        lines.append(f"reaches: {visible_line(str(value['url']), 500)}")
    if "headersHelper" in value:
        lines.append(f"runs for its headers: {visible_line(str(value['headersHelper']), 500)}")
    if value.get("oauth"):
        lines.append(f"signs you in with: {visible_line(json.dumps(value['oauth']), 500)}")
    for key, word in (("env", "variable"), ("headers", "header")):
        given = value.get(key)
        for name, each in given.items() if isinstance(given, Mapping) else ():
            lines.append(f"{word}: {visible_line(f'{name}={each}', 300)}")
    return lines


def _entry(name: str, value: object, origin: ServerOrigin, environ: Mapping[str, str]) -> tuple[ServerEntry, list[str]]:
    if not isinstance(value, Mapping):
        raise BadEntry("is not an object")
    if not name or len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise BadEntry(f"needs a name of 1 to {MAX_NAME_CHARS} characters")
    variables = {**environ, **origin.variables, "CLAUDE_PROJECT_DIR": str(origin.cwd)}
    unset: dict[str, None] = {}

    def fill(text: str) -> str:
        def put(match: re.Match[str]) -> str:
            if (found := variables.get(match["name"])) is not None:
                return found
            if match["default"] is None:
                unset[match["name"]] = None
                return match[0]
            return str(match["default"])

        return _VARIABLE.sub(put, text)

    transport = _transport(value)
    common: dict[str, Any] = {
        "name": name,
        "transport": transport,
        "scope": origin.scope,
        "label": origin.label,
        "digest": digest_of(name, value),
        "cwd": origin.cwd,
        "tool_seconds": _seconds(value),
        "always_load": value.get("alwaysLoad") is True,
        "agent": origin.agent,
    }
    if transport == "stdio":
        entry = ServerEntry(
            **common,
            command=fill(_text(value, "command")),
            args=tuple(map(fill, _texts(value, "args"))),
            written=" ".join([_text(value, "command"), *_texts(value, "args")]),
            env={key: fill(each) for key, each in _members(value, "env").items()},
        )
    else:
        entry = ServerEntry(
            **common,
            url=_address(fill(_text(value, "url"))),
            written=_text(value, "url"),
            headers={key: fill(each) for key, each in _members(value, "headers").items()},
            headers_helper=_text(value, "headersHelper") if "headersHelper" in value else "",
            oauth=_oauth(value.get("oauth")),
        )
        if bad := [key for key, each in entry.headers.items() if not f"{key}{each}".isprintable()]:
            raise BadEntry(f"has a header {bad[0]!r} that cannot be sent")
    return entry, list(unset)


def _seconds(value: Mapping[str, Any]) -> float | None:
    given = value.get("timeout")
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < 1e9:
        raise BadEntry("has a `timeout` that is not a number of milliseconds")
    return given / 1_000


def _transport(value: Mapping[str, Any]) -> ServerTransport:
    kind = value.get("type")
    if kind is None:
        if "command" in value:
            return "stdio"
        if "url" in value:
            raise BadEntry('has a `url` and no `type`: say "http" or "sse"')
        raise BadEntry("has neither a `command` nor a `url`")
    if kind not in _TRANSPORTS:
        raise BadEntry(f'is of the type {visible_line(str(kind), 40)}: there are "stdio", "http" and "sse"')
    return _TRANSPORTS[kind]


def _oauth(given: object) -> OAuthClient | None:
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise BadEntry("has `oauth` that is not an object")
    texts = {key: given.get(key, "") for key in ("clientId", "authServerMetadataUrl")}
    scopes, port = given.get("scopes", ""), given.get("callbackPort", 0)
    scopes = " ".join(map(str, scopes)) if isinstance(scopes, list) else scopes
    for key, each in (*texts.items(), ("scopes", scopes)):
        if not isinstance(each, str) or not each.isprintable():
            raise BadEntry(f"has `oauth` in which `{key}` is not text")
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 65_536:
        raise BadEntry("has `oauth` in which `callbackPort` is not a port")
    metadata = texts["authServerMetadataUrl"]
    if metadata and not metadata.startswith("https://") and urlsplit(_address(metadata)).hostname not in _LOOPBACK:
        raise BadEntry("has `oauth` in which `authServerMetadataUrl` is not an https address")
    return OAuthClient(client_id=texts["clientId"], callback_port=port, scopes=scopes, metadata_url=metadata)


def _address(url: str) -> str:
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits or not url.isprintable() or " " in url:
        raise BadEntry("has a `url` that is not an http or https address")
    return url


def _text(value: Mapping[str, Any], key: str) -> str:
    text = value.get(key)
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise BadEntry(f"has no `{key}`")
    return text


def _texts(value: Mapping[str, Any], key: str) -> list[str]:
    listed = value.get(key, [])
    if not isinstance(listed, list) or not all(isinstance(each, str) and "\0" not in each for each in listed):
        raise BadEntry(f"has `{key}` that are no list of texts")
    return listed


def _members(value: Mapping[str, Any], key: str) -> Mapping[str, str]:
    members: Any = value.get(key, {})
    fits = isinstance(members, Mapping) and all(
        isinstance(name, str) and name and "=" not in name and isinstance(each, str) and "\0" not in name + each
        for name, each in members.items()
    )
    if not fits:
        raise BadEntry(f"has `{key}` that are no object of texts")
    return dict(members)

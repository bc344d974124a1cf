"""The MCP servers that are configured for a session: their entries, whose counts, what is allowed, and what waits.

Entries are in Claude Code's format and read one by one: a bad one is named and left out, the others work. Of two with one
name the higher counts, whole: the administrator's, `--mcp-config`, the user's for this project (`~/.claude.json`), the
project's (`.mcp.json`), the user's, those of plug-ins and agents. Where the administrator has a `managed-mcp.json`, there
are no others.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import asdict

from cellwright.config.settings.settings import McpSettings, Settings
from cellwright.config.settings.settings_files import home_folder, own_state_file
from cellwright.config.trust.exact_text import exact, exact_json, program_lines
from cellwright.config.trust.project_files import NO_FILES, NamedFiles, main_checkout, named_files
from cellwright.config.trust.trust_store import changing_answers, read_answers, read_scripts
from cellwright.redaction.redaction import is_secret
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
_OAUTH_KEYS = {
    "client_id": "clientId",
    "callback_port": "callbackPort",
    "scopes": "scopes",
    "metadata_url": "authServerMetadataUrl",
}
_FOLDERS = frozenset({"CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA"})
"""Variables that hold a folder, and nothing of the user's."""

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
    """The entries that make sense, by name; `raw` as they are written; what is wrong with the others.

    `places` are where the project's files are, or may come, that the entries name.
    """

    entries: dict[str, ServerEntry]
    raw: dict[str, Mapping[str, Any]]
    notices: list[str]
    places: list[Path] = field(default_factory=list)


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
            entry, unset, places = _entry(name, value, origin, environ)
            if (other := taken.setdefault(plain_name(name), name)) != name:
                raise BadEntry(f"has the same name for tools as {other}")
        except BadEntry as problem:
            found.notices.append(f"{shown} {problem}. It is left out.")
            continue
        if unset:
            listed = ", ".join(f"${{{each}}}" for each in unset)
            found.notices.append(
                f"{shown}: environment variable {listed} is not set; the placeholder was left unchanged."
            )
        found.entries[name] = entry
        found.places.extend(places)
        found.raw[name] = value
    if len(values) > MAX_SERVERS:
        found.notices.append(f"{origin.label}: of {len(values)} MCP servers the first {MAX_SERVERS} are taken.")
    return found


def digest_of(name: str, value: Mapping[str, Any], scripts: Mapping[str, str] | None = None) -> str:
    """Stand for an entry as it is written and the files that it names: an approval holds for this and nothing else."""
    encoded = json.dumps([name, value, *([scripts] if scripts else [])], sort_keys=True)
    return hashlib.sha256(encoded.encode("utf-8", "surrogatepass")).hexdigest()


def secrets_named(value: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    """The user's secret variables that an entry would be given."""
    text = json.dumps(value)
    names = dict.fromkeys(match["name"] for match in _VARIABLE.finditer(text))
    return [name for name in names if name in environ and is_secret(name, environ[name])]


class WrittenServer(Struct, frozen=True, kw_only=True):
    """An entry as it is written, with the fields that its transport uses and no others: what is shown is what is used."""

    transport: ServerTransport
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    headers_helper: str = ""
    oauth: OAuthClient | None = None
    tool_seconds: float | None = None
    always_load: bool = False

    @property
    def commands(self) -> tuple[str, ...]:
        """The texts that may name a file that runs."""
        return tuple(filter(None, (self.command, *self.args, *self.env.values(), self.headers_helper)))


NOT_SHOWN = frozenset({"transport", "tool_seconds", "always_load"})
"""Fields of a `WrittenServer` that nobody outside receives; the transport is told by the words."""

_COMMON_FIELDS = frozenset({"type", "timeout", "alwaysLoad"})
_FIELDS: Mapping[ServerTransport, frozenset[str]] = {
    "stdio": frozenset({"command", "args", "env"}),
    "http": frozenset({"url", "headers", "headersHelper", "oauth"}),
    "sse": frozenset({"url", "headers", "headersHelper", "oauth"}),
}
_OTHER_CLIENTS = frozenset(
    {"description", "disabled", "autoApprove", "alwaysAllow", "disabledTools", "enabledTools", "name", "cwd", "$schema"}
)
"""Fields that other clients read in the same file and that have no effect here."""


def read_written(value: Mapping[str, Any], *, strict: bool = False) -> WrittenServer:
    """Read an entry. Raises BadEntry; `strict`: also for a field that its transport does not use."""
    transport = _transport(value)
    known = _COMMON_FIELDS | _FIELDS[transport] | _OTHER_CLIENTS
    if strict and (odd := [str(key) for key in value if key not in known]):
        raise BadEntry(f"is of the type {transport} and has {', '.join(f'`{visible_line(key, 40)}`' for key in odd)}")
    common: dict[str, Any] = {
        "transport": transport,
        "tool_seconds": _seconds(value),
        "always_load": value.get("alwaysLoad") is True,
    }
    if transport == "stdio":
        command, args = _text(value, "command"), value.get("args", [])
        if not isinstance(args, list) or not all(isinstance(each, str) and "\0" not in each for each in args):
            raise BadEntry("has `args` that are no list of texts")
        return WrittenServer(**common, command=command, args=tuple(args), env=_members(value, "env"))
    return WrittenServer(
        **common,
        url=_text(value, "url"),
        headers=_members(value, "headers"),
        headers_helper=_text(value, "headersHelper") if "headersHelper" in value else "",
        oauth=_oauth(value.get("oauth")),
    )


def described_entry(value: Mapping[str, Any]) -> list[str]:
    """An entry for the user who is to approve it: all that is run, sent or reached, as it is written."""
    try:
        server = read_written(value, strict=True)
    except BadEntry as problem:
        return [f"cannot be read: it {exact(str(problem))}"]
    lines = []
    if server.command:
        line, *args = program_lines(server.command, server.args)
        lines += [f"runs: {line}", *args]
        lines += [f"variable: {exact(f'{name}={each}')}" for name, each in server.env.items()]
    if server.url:
        over = " (sse)" if server.transport == "sse" else ""
        lines.append(f"reaches{over}: {exact(server.url)}")
        lines += [f"header: {exact(f'{name}={each}')}" for name, each in server.headers.items()]
    if server.headers_helper:
        lines.append(f"runs for its headers: {exact(server.headers_helper)}")
    if server.oauth is not None:
        given = {_OAUTH_KEYS[key]: each for key, each in asdict(server.oauth).items() if each}
        lines.append(f"signs you in with: {exact_json(given)}")
    named = dict.fromkeys(match["name"] for match in _VARIABLE.finditer(json.dumps(value)))
    if names := [name for name in named if name not in _FOLDERS]:
        lines.append(f"gets the values of: {', '.join(map(exact, names))}")
    return lines


def named_by(server: WrittenServer, cwd: Path) -> NamedFiles:
    """The files of the project at `cwd` that a server's command lines name."""
    return named_files(server.commands, cwd)


def _entry(
    name: str, value: object, origin: ServerOrigin, environ: Mapping[str, str]
) -> tuple[ServerEntry, list[str], Sequence[Path]]:
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

    brought = origin.scope == "project"
    written = read_written(value, strict=brought or origin.scope == "plugin")
    # what others wrote is bound to the files that it runs; the user's own programs are the user's
    files = named_by(written, origin.cwd) if brought else NO_FILES
    common: dict[str, Any] = {
        "name": name,
        "transport": written.transport,
        "scope": origin.scope,
        "label": origin.label,
        "digest": digest_of(name, value, files.digests),
        "scripts": files.digests,
        "cwd": origin.cwd,
        "tool_seconds": written.tool_seconds,
        "always_load": written.always_load,
        "agent": origin.agent,
    }
    if written.transport == "stdio":
        entry = ServerEntry(
            **common,
            command=fill(written.command),
            args=tuple(map(fill, written.args)),
            written=" ".join([written.command, *written.args]),
            env={key: fill(each) for key, each in written.env.items()},
        )
    else:
        entry = ServerEntry(
            **common,
            url=_address(fill(written.url)),
            written=written.url,
            headers={key: fill(each) for key, each in written.headers.items()},
            headers_helper=written.headers_helper,
            oauth=written.oauth,
        )
        if bad := [key for key, each in entry.headers.items() if not f"{key}{each}".isprintable()]:
            raise BadEntry(f"has a header {bad[0]!r} that cannot be sent")
    return entry, list(unset), files.places


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


def _members(value: Mapping[str, Any], key: str) -> Mapping[str, str]:
    members: Any = value.get(key, {})
    fits = isinstance(members, Mapping) and all(
        isinstance(name, str) and name and "=" not in name and isinstance(each, str) and "\0" not in name + each
        for name, each in members.items()
    )
    if not fits:
        raise BadEntry(f"has `{key}` that are no object of texts")
    return dict(members)


_KEY = "mcp_servers"
_SCRIPTS = "mcp_scripts"

PROJECT_FILE = ".mcp.json"
MANAGED_FILE = "managed-mcp.json"

GivenServers = tuple[Mapping[str, Any], ServerOrigin]
"""Entries that are in none of the usual files, and whose they are."""


def approved_digests(folder: Path) -> dict[str, str]:
    """The digests of the entries that were approved for the project at `folder`, by the servers' names."""
    folders = read_answers().get(_KEY)
    found = folders.get(str(folder.resolve())) if isinstance(folders, dict) else None
    if not isinstance(found, dict):
        return {}
    return {name: digest for name, digest in found.items() if isinstance(digest, str)}


def approved_scripts(folder: Path, name: str) -> dict[str, str]:
    """The digests of the files that an approved entry named, as they were then."""
    folders = read_answers().get(_SCRIPTS)
    found = folders.get(str(folder.resolve())) if isinstance(folders, dict) else None
    return read_scripts(found).get(name, {})


def approve(folder: Path, name: str, digest: str, scripts: Mapping[str, str] | None = None) -> None:
    """The user lets this very entry run for the project, with these files that it names.

    Raises CellwrightError FILE_ACCESS_ERROR.
    """
    _change(folder, name, digest, scripts)


def revoke(folder: Path, name: str) -> None:
    """It is to be asked about again. Raises CellwrightError FILE_ACCESS_ERROR."""
    _change(folder, name, None)


def _change(folder: Path, name: str, digest: str | None, scripts: Mapping[str, str] | None = None) -> None:
    with changing_answers() as content:
        for key, value in ((_KEY, digest), (_SCRIPTS, dict(scripts) if scripts else None)):
            folders = content.get(key)
            folders = dict(folders) if isinstance(folders, dict) else {}
            of_folder = folders.get(str(folder.resolve()))
            answers = dict(of_folder) if isinstance(of_folder, dict) else {}
            answers.pop(name, None)
            if value is not None:
                answers[name] = value
            folders[str(folder.resolve())] = answers
            if key == _KEY or answers or key in content:
                content[key] = folders


class McpPlace(Struct, frozen=True, kw_only=True):
    """The places where servers are looked for, and what counts there.

    `folder_counts`: the folder may bring servers along (it is not refused by the administrator, nor by the user);
    `given` are the entries of the command line, of plug-ins and agents; `only_given`: nothing else of the user's counts.
    """

    cwd: Path
    project: Path
    managed: Path
    environ: Mapping[str, str]
    settings: Settings
    folder_counts: bool = True
    reads_user: bool = True
    reads_project: bool = True
    given: tuple[GivenServers, ...] = ()
    only_given: bool = False


class PendingServer(Struct, frozen=True):
    """A project's server that the user has not said yes to; `raw` is its entry as it is written."""

    entry: ServerEntry
    raw: Mapping[str, Any]


class FoundServers(Struct, frozen=True):
    """The servers that count by their names, those that wait for a yes, and why others are left out, by name.

    `places` are where files are, or may come, that a project's servers run.
    """

    entries: dict[str, ServerEntry] = field(default_factory=dict)
    pending: dict[str, PendingServer] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    places: tuple[Path, ...] = ()


def user_file(environ: Mapping[str, str]) -> Path:
    """Claude Code's own file of state, with the user's servers."""
    configured = environ.get("CLAUDE_CONFIG_DIR")
    return (Path(configured) if configured else home_folder(environ)) / ".claude.json"


def watched_mcp_files(place: McpPlace) -> list[Path]:
    """The files whose change can change what `find_servers` gives."""
    return [own_state_file(place.project, place.environ), place.managed / MANAGED_FILE, *_project_files(place)]


def find_servers(place: McpPlace) -> FoundServers:
    """Find all servers. Never raises."""
    notices: list[str] = []
    found: dict[str, tuple[ServerEntry, Mapping[str, Any]]] = {}
    plain: set[str] = set()
    places: dict[Path, None] = {}
    for read in _sources(place, notices):
        notices += read.notices
        places.update(dict.fromkeys(read.places))
        for name, entry in read.entries.items():
            if plain_name(name) not in plain:  # else their tools would have the same names
                plain.add(plain_name(name))
                found[name] = (entry, read.raw[name])
    mcp = place.settings.mcp
    approved = approved_digests(main_checkout(place.project))
    entries: dict[str, ServerEntry] = {}
    pending: dict[str, PendingServer] = {}
    refused: dict[str, str] = {}
    for name, (entry, raw) in found.items():
        if why := refusal(entry, mcp):
            refused[name] = why
        elif entry.scope != "project" or approved.get(name) == entry.digest:
            entries[name] = entry
        elif not place.folder_counts:
            refused[name] = "waits until you trust the folder"
        else:
            pending[name] = PendingServer(entry, raw)
    return FoundServers(entries, pending, refused, tuple(dict.fromkeys(notices)), tuple(places))


def refusal(entry: ServerEntry, mcp: McpSettings) -> str:
    """Say which setting is against a server; "" for none."""
    if entry.scope == "project" and entry.name in mcp.disabled_project_servers:
        return "`disabledMcpjsonServers` switches it off"
    if any(_matches(rule, entry) for rule in mcp.denied):
        return "`deniedMcpServers` forbids it"
    if mcp.allowed is None:
        return ""
    # by its command or address where any rule names such, else by its name: a name is easily taken
    key = "serverCommand" if entry.transport == "stdio" else "serverUrl"
    stricter = [rule for rule in mcp.allowed if isinstance(rule, Mapping) and key in rule]
    if any(_matches(rule, entry) for rule in stricter or mcp.allowed):
        return ""
    return "it is not among the administrator's `allowedMcpServers`"


def _matches(rule: object, entry: ServerEntry) -> bool:
    if isinstance(rule, str):
        return rule == entry.name
    if not isinstance(rule, Mapping):
        return False
    if (name := rule.get("serverName")) is not None:
        return bool(name == entry.name)
    if (command := rule.get("serverCommand")) is not None:
        return entry.transport == "stdio" and command == [entry.command, *entry.args]
    url = rule.get("serverUrl")
    return isinstance(url, str) and bool(entry.url) and fnmatch.fnmatchcase(entry.url, url)


def _sources(place: McpPlace, notices: list[str]) -> Iterable[ReadEntries]:
    """The entries of each place, the highest first."""
    managed = place.managed / MANAGED_FILE
    content = read_json(managed, notices)
    if content is not None:
        yield _of_file(content, managed, place, "managed")
        return
    flags = [given for given in place.given if given[1].scope == "flag"]
    for values, origin in flags:
        yield read_entries(values, origin, place.environ)
    if place.only_given:
        return
    mine = own_state_file(place.project, place.environ)
    users = (read_json(mine, notices) if place.reads_user else None) or {}
    yield from (_of_file(local, mine, place, "local") for local in _locals(users, place))
    for file in _project_files(place) if place.reads_project else ():
        if (content := read_json(file, notices)) is not None:
            yield _of_file(content, file, place, "project")
    if users.get("mcpServers"):
        yield _of_file(users, mine, place, "user")
    for values, origin in place.given:
        if origin.scope != "flag":
            yield read_entries(values, origin, place.environ)


def _locals(users: Mapping[str, Any], place: McpPlace) -> Iterable[Mapping[str, Any]]:
    """Yield what the user's file says of this project alone."""
    projects = users.get("projects")
    for folder in dict.fromkeys((place.cwd, place.project, main_checkout(place.project))):
        local = projects.get(str(folder)) if isinstance(projects, Mapping) else None
        if isinstance(local, Mapping) and local.get("mcpServers"):
            yield local


def _of_file(content: Mapping[str, Any], file: Path, place: McpPlace, scope: Any) -> ReadEntries:
    origin = ServerOrigin(scope=scope, label=str(file), cwd=place.project)
    return read_entries(content.get("mcpServers", {}), origin, place.environ)


def _project_files(place: McpPlace) -> list[Path]:
    return [folder / PROJECT_FILE for folder in dict.fromkeys((place.cwd, place.project))]


def read_json(file: Path, notices: list[str]) -> Mapping[str, Any] | None:
    """The object in `file`; None where there is none, which is told unless the file is not there."""
    try:
        if not file.is_file():
            return None
        if file.stat().st_size > 64_000_000:
            raise ValueError("it is too large")
        content = json.loads(file.read_bytes())
        if not isinstance(content, dict):
            raise TypeError("it is not an object")
    except (OSError, ValueError, TypeError, RecursionError) as error:
        notices.append(f"{file}: cannot be read ({error}). Its MCP servers are left out.")
        return None
    return content

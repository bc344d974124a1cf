"""The servers that are configured for a session: whose entry counts, what is allowed, and what waits for the user.

Of two entries with one name the higher counts, whole: the administrator's, `--mcp-config`, the user's for this project
(`~/.claude.json`), the project's (`.mcp.json`), the user's, those of plug-ins and agents. Where the administrator has a
`managed-mcp.json`, there are no others.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from cellwright.config.mcp.entries import ReadEntries, ServerOrigin, read_entries
from cellwright.config.settings.settings import McpSettings, Settings
from cellwright.config.settings.settings_files import home_folder, own_state_file
from cellwright.config.trust.ownership import main_checkout
from cellwright.config.trust.trust_store import changing_answers, read_answers, read_scripts
from cellwright.tools.mcp.server_entry import ServerEntry, plain_name

_KEY = "mcp_servers"
_SCRIPTS = "mcp_scripts"

PROJECT_FILE = ".mcp.json"
MANAGED_FILE = "managed-mcp.json"
LARGEST_FILE = 64_000_000

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
    if mcp.allowed is None or _is_allowed(entry, mcp.allowed):
        return ""
    return "it is not among the administrator's `allowedMcpServers`"


def _is_allowed(entry: ServerEntry, allowed: Sequence[Any]) -> bool:
    """By its command or address where any rule names such, else by its name: a name is easily taken."""
    key = "serverCommand" if entry.transport == "stdio" else "serverUrl"
    stricter = [rule for rule in allowed if isinstance(rule, Mapping) and key in rule]
    return any(_matches(rule, entry) for rule in stricter or allowed)


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
        if file.stat().st_size > LARGEST_FILE:
            raise ValueError("it is too large")
        content = json.loads(file.read_bytes())
        if not isinstance(content, dict):
            raise TypeError("it is not an object")
    except (OSError, ValueError, TypeError, RecursionError) as error:
        notices.append(f"{file}: cannot be read ({error}). Its MCP servers are left out.")
        return None
    return content

"""The MCP servers that are configured, and the user's trust in those that a project brings along."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from cellwright.config.agents import AgentDefinition
from cellwright.config.mcp.servers import (
    FoundServers,
    GivenServers,
    McpPlace,
    ServerOrigin,
    approve,
    approved_digests,
    approved_scripts,
    described_entry,
    find_servers,
    read_entries,
    read_json,
    secrets_named,
    watched_mcp_files,
)
from cellwright.config.settings.settings_in_force import SettingsInForce, TrustQuestion
from cellwright.config.trust.exact_text import exact
from cellwright.config.trust.project_files import changed as changed_files
from cellwright.config.trust.project_files import main_checkout
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.tools.mcp.server_entry import ServerScope

ARGUMENT = "mcp_servers"
"""The option of `ask` and `Agent` that names servers for a run."""

GiveServers = Callable[[], Iterable[GivenServers]]
"""Gives entries from elsewhere (the command line, plug-ins, agents) with whose they are; asked before each run."""


def plugin_servers(in_force: SettingsInForce) -> Iterable[GivenServers]:
    """The servers that plug-ins bring along; whoever switched a plug-in on has said yes to them."""
    for plugin in in_force.plugins.plugins.values():
        label = f"the plugin {plugin.name}"
        origin = ServerOrigin(scope="plugin", label=label, cwd=in_force.cwd, variables=plugin.references)
        yield plugin.mcp_servers, origin


def agents_servers(agents: Iterable[AgentDefinition], cwd: Path) -> Iterable[GivenServers]:
    """The servers that definitions of agents bring along; those of the project wait for a yes to each, as all of its."""
    for agent in agents:
        if agent.own_servers:
            scope: ServerScope = "project" if agent.scope == "project" else "agent"
            label = f"the agent {agent.name} ({agent.file})"
            yield agent.own_servers, ServerOrigin(scope=scope, label=label, cwd=cwd, agent=agent.name)


def server_file(file: Path) -> Any:
    """The content of a file that names servers. Raises CellwrightError INVALID_PARAMETERS if it cannot be read."""
    problems: list[str] = []
    content = read_json(file, problems)
    if content is None:
        raise bad_servers(problems[0] if problems else f"there is no file {file}")
    return content


def named_servers(entries: Any, cwd: Path, environ: Mapping[str, str]) -> Mapping[str, Any]:
    """Check the entries of servers that are named for a run. Raises CellwrightError INVALID_PARAMETERS for a wrong one."""
    read = read_entries(entries, ServerOrigin(scope="flag", label=ARGUMENT, cwd=cwd), environ)
    if not isinstance(entries, Mapping) or set(entries) - set(read.entries):
        raise bad_servers(read.notices[0].removeprefix(f"{ARGUMENT}: ").removesuffix(" It is left out."))
    return entries


def bad_servers(what: str) -> CellwrightError:
    """The error of servers that are named for a run and cannot be used."""
    return CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{ARGUMENT}: {what.removesuffix('.')}. Nothing was sent.")


class ServerDiscovery:
    """Finds the servers that are configured, and asks about those of a project; a check of trust."""

    def __init__(self, in_force: SettingsInForce) -> None:
        self._in_force = in_force
        self._given: list[GiveServers] = []
        self._only_given = False
        self._of_run: tuple[GivenServers, ...] = ()
        self._only_of_run = False
        self._found = FoundServers()
        self._signature: object = None
        self._declined: set[str] = set()

    def add_source(self, give: GiveServers, *, only: bool = False) -> None:
        """Have the entries that `give` gives count besides those of files; `only`: in the place of all others."""
        self._given.append(give)
        self._only_given = self._only_given or only
        self._signature = None

    def add_named(self, named: Iterable[tuple[str, Mapping[str, Any]]], *, only: bool) -> None:
        """Have the entries count that a program or the command line names, each with what names them; `only` as above."""
        cwd = self._in_force.cwd
        given = [(entries, ServerOrigin(scope="flag", label=label, cwd=cwd)) for label, entries in named]
        self.add_source(lambda: given, only=only)

    def use_for_run(self, entries: Mapping[str, Any], *, only: bool) -> None:
        """Have `entries` count besides those of files until the next run names its own; `only`: in their place."""
        origin = ServerOrigin(scope="flag", label=ARGUMENT, cwd=self._in_force.cwd)
        self._of_run = ((entries, origin),) if entries else ()
        self._only_of_run = only and bool(entries)

    @property
    def found(self) -> FoundServers:
        """The servers as they were configured when they were last looked at."""
        return self._found

    def refresh(self) -> None:
        """Look at the configuration again, where it has changed. From any thread; reads files."""
        place = self._place()
        signature = (
            *(_stamp(file) for file in (*watched_mcp_files(place), *self._found.places)),
            repr(place.given),
            place.settings.mcp,
            place.settings.deny,
            place.settings.env,
            place.folder_counts,
            place.only_given,
        )
        if signature != self._signature:
            self._signature = signature
            self._found = find_servers(place)
            self._approve_enabled()

    def question(self) -> TrustQuestion | None:
        """The question about a project's server that waits for the user; None when nothing is open."""
        self.refresh()
        for name, pending in self._found.pending.items():
            if pending.entry.digest in self._declined:
                continue
            entry = pending.entry
            before = approved_digests(self._folder).get(name)
            secrets = self.secrets_of(name)
            changed = " It has changed since you said yes to it." if before else ""
            return TrustQuestion(
                about="server",
                title=f"Let the MCP server {exact(name)} of {exact(entry.label)} run",
                detail="\n".join(f"  {line}" for line in self.described(name)),
                reason=f"A server runs with your rights, and Claude reads its messages.{changed}",
                warning=f"it would be given your {', '.join(secrets)}" if secrets else "",
                yes="Let it run",
                no="Continue without it",
                ids=frozenset([entry.digest]),
            )
        return None

    def described(self, name: str) -> list[str]:
        """Describe what a server that waits for the user runs, sends and reaches, in lines; none for any other name."""
        pending = self._found.pending.get(name)
        if pending is None:
            return []
        lines = described_entry(pending.raw)
        now, then = pending.entry.scripts, approved_scripts(self._folder, name)
        if now:
            lines.append(f"bound to the content of {', '.join(map(exact, sorted(now)))}")
        if then:
            lines += [f"{exact(path)} changed since you trusted it" for path in changed_files(then, now)]
        return lines

    def secrets_of(self, name: str) -> list[str]:
        """The user's secrets that a server which waits for the user would be given, by the names of their variables."""
        return secrets_named(self._found.pending[name].raw, self._in_force.environment)

    def answer(self, question: TrustQuestion, *, yes: bool, chosen: str = "") -> None:
        """The user has answered. Raises CellwrightError FILE_ACCESS_ERROR when a yes cannot be kept."""
        if not yes:
            self._declined |= question.ids
            return
        for name, pending in self._found.pending.items():
            if pending.entry.digest in question.ids:
                approve(self._folder, name, pending.entry.digest, pending.entry.scripts)
        self._signature = None
        self.refresh()

    def ask_again(self) -> None:
        """A new session begins: what the user has said no to is asked about once more."""
        self._declined.clear()

    def approve(self, name: str) -> bool:
        """Let a project's server run from now on; False where none of this name waits. Raises CellwrightError."""
        self.refresh()
        pending = self._found.pending.get(name)
        if pending is not None:
            approve(self._folder, name, pending.entry.digest, pending.entry.scripts)
            self._signature = None
            self.refresh()
        return pending is not None

    def _missing(self, name: str) -> str:
        if name in self._found.pending:
            return "it waits for the user's approval"
        return self._found.refused.get(name, "there is no such server")

    def is_required(self, name: str) -> bool:
        """Return whether the command line or a program names the server."""
        entry = self._found.entries.get(name)
        return entry is not None and entry.scope == "flag"

    @property
    def _folder(self) -> Any:
        return main_checkout(self._in_force.memory_place.project)

    def _place(self) -> McpPlace:
        in_force = self._in_force
        place = in_force.memory_place
        return McpPlace(
            cwd=place.cwd,
            project=place.project,
            managed=place.managed,
            environ=in_force.environment,
            settings=in_force.settings,
            folder_counts=not in_force.folder_was_refused,
            reads_user="user" in in_force.scopes,
            reads_project="project" in in_force.scopes,
            given=(*self._of_run, *(each for give in self._given for each in give())),
            only_given=self._only_given or self._only_of_run,
        )

    def _approve_enabled(self) -> None:
        """Take the user's own settings for a yes to what a project's servers are now; what changes later is asked about."""
        mcp = self._in_force.settings.mcp
        known = approved_digests(self._folder)
        new = [
            (name, pending.entry)
            for name, pending in self._found.pending.items()
            if name not in known and (mcp.enables_all_of_project or name in mcp.enabled_project_servers)
        ]
        for name, entry in new:
            with contextlib.suppress(CellwrightError):  # then it is asked
                approve(self._folder, name, entry.digest, entry.scripts)
        if new:
            self._found = find_servers(self._place())


def _stamp(file: Any) -> tuple[object, ...]:
    try:
        facts = file.stat()
    except OSError:
        return (str(file),)
    return (str(file), facts.st_mtime_ns, facts.st_size, facts.st_ino)

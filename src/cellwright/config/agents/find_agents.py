"""The agents there are for a session, by their names.

Of two with one name the higher counts, from the highest: the administrator's, the project's (the nearest folder
first), the user's, those of plugins, ours. A project's wait for the user's trust in the folder.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cellwright.config.agents.agent_definition import AgentDefinition, AgentScope, NoAgent, read_definition
from cellwright.config.folder_files import crowded, files_in
from cellwright.config.kept_search import places_below
from cellwright.config.plugins.plugin import Plugin, put_in
from cellwright.config.skills.find_skills import SkillPlace, project_folders

BUILT_IN = Path(__file__).parent / "built_in"
MAX_AGENTS = 500
"""Of one folder; nobody has more by intent."""


class FoundAgents(Struct, frozen=True):
    """The agents by their names, and the files that define none, with the reason."""

    agents: dict[str, AgentDefinition]
    skipped: tuple[tuple[Path, str], ...] = ()


def find_agents(place: SkillPlace) -> FoundAgents:
    """All agents. Never raises."""
    found: dict[str, AgentDefinition] = {}
    skipped: list[tuple[Path, str]] = []
    for file, scope, plugin in _files(place):
        try:
            agent = read_definition(file, scope)
        except NoAgent as problem:
            skipped.append((file, str(problem)))
        else:
            agent = agent if plugin is None else _of_plugin(agent, plugin)
            found.setdefault(agent.name, agent)
    for agent in _built_in():
        found.setdefault(agent.name, agent)
    return FoundAgents(found, tuple(skipped))


def agent_places(place: SkillPlace) -> Iterator[str]:
    """The files and folders whose change can change what `find_agents` gives."""
    folders = [place.managed / "agents", place.users / "agents"]
    if place.trusted:
        folders += [folder / ".claude" / "agents" for folder in project_folders(place.cwd, place.project)]
    for folder in (*folders, *(each for plugin in place.plugins for each in plugin.agents)):
        yield from places_below(str(folder))


@functools.cache  # every prompt looks for the agents, and ours do not change while the process lives
def _built_in() -> tuple[AgentDefinition, ...]:
    return tuple(read_definition(file, "built-in") for file in _files_in(BUILT_IN))


def project_agent_files(cwd: Path, project: Path) -> list[Path]:
    """The files of agents that the project brings along."""
    return [file for folder in project_folders(cwd, project) for file in _files_in(folder / ".claude" / "agents")]


def _of_plugin(agent: AgentDefinition, plugin: Plugin) -> AgentDefinition:
    """The agent by the name that it has with its plugin, without what a plugin's agent may not say."""
    refused = [key for key in ("hooks", "mcpServers", "permissionMode") if agent.values.get(key)]
    return replace(
        agent,
        name=f"{plugin.name}:{agent.name}",
        body=put_in(agent.body, plugin.variables),
        mode=None,
        hooks={},
        servers=None,
        own_servers={},
        values={key: value for key, value in agent.values.items() if key not in refused},
        problems=(*agent.problems, *(f"`{key}` counts for nothing in a plugin" for key in refused)),
    )


def _files(place: SkillPlace) -> Iterator[tuple[Path, AgentScope, Plugin | None]]:
    places: list[tuple[Path, AgentScope]] = [(place.managed / "agents", "managed")]
    if place.trusted:
        places += [(folder / ".claude" / "agents", "project") for folder in project_folders(place.cwd, place.project)]
    for folder, scope in (*places, (place.users / "agents", "user")):
        yield from ((file, scope, None) for file in _files_in(folder))
    for plugin in place.plugins:
        yield from ((file, "plugin", plugin) for folder in plugin.agents for file in _files_in(folder))


def crowded_agents(place: SkillPlace) -> list[str]:
    """Say of which folders not all agents are taken."""
    folders = [place.managed / "agents", place.users / "agents"]
    folders += (
        [each / ".claude" / "agents" for each in project_folders(place.cwd, place.project)] if place.trusted else []
    )
    folders += [folder for plugin in place.plugins for folder in plugin.agents]
    return [
        notice
        for folder in folders
        for notice in crowded(folder, len(files_in(folder, "**/*.md")), MAX_AGENTS, "agents")
    ]


def _files_in(folder: Path) -> list[Path]:
    if folder.suffix == ".md" and folder.is_file():  # a plugin may name files
        return [folder]
    return files_in(folder, "**/*.md")[:MAX_AGENTS]

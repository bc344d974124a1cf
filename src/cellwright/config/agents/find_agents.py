"""The agents there are for a session, by their names.

Of two with one name the higher counts, from the highest: the administrator's, the project's (the nearest folder
first), the user's, ours. A project's wait for the user's trust in the folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from cellwright.config.agents.definition import AgentDefinition, AgentScope, NoAgent, read_definition
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
    for file, scope in _files(place):
        try:
            agent = read_definition(file, scope)
        except NoAgent as problem:
            skipped.append((file, str(problem)))
        else:
            found.setdefault(agent.name, agent)
    return FoundAgents(found, tuple(skipped))


def project_agent_files(cwd: Path, project: Path) -> list[Path]:
    """The files of agents that the project brings along."""
    return [file for folder in project_folders(cwd, project) for file in _files_in(folder / ".claude" / "agents")]


def _files(place: SkillPlace) -> Iterator[tuple[Path, AgentScope]]:
    places: list[tuple[Path, AgentScope]] = [(place.managed / "agents", "managed")]
    if place.trusted:
        places += [(folder / ".claude" / "agents", "project") for folder in project_folders(place.cwd, place.project)]
    for folder, scope in (*places, (place.users / "agents", "user"), (BUILT_IN, "built-in")):
        for file in _files_in(folder):
            yield file, scope


def _files_in(folder: Path) -> list[Path]:
    try:
        return sorted(folder.rglob("*.md"))[:MAX_AGENTS]
    except OSError:  # there is none
        return []

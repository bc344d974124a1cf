"""`/agents`: the available agents, what they may use, and where they come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.config.agents.agent_definition import AgentDefinition
from cellwright.tools.paths import shown_path

_WHOSE = {
    "managed": "the administrator's",
    "program": "the program's",
    "user": "yours",
    "plugin": "a plugin's",
    "project": "the project's",
}


def agents_page(call: CommandCall) -> CommandPage:
    """Show each agent, what was not understood, and what waits for trust."""
    cwd = call.conversation.cwd
    found = call.conversation.features.agents.found()
    agents = [found.agents[name] for name in sorted(found.agents)]
    text = "Claude hands them tasks by itself; @agent-NAME in a prompt has it use that one."
    sections = [
        Section("Agents", [("name", "what it is for"), *((each.name, each.description) for each in agents)], text),
        Section("Tools they may use", [("name", "works with", "tools"), *(_may_use(each) for each in agents)]),
    ]
    if others := [each for each in agents if each.scope != "built-in"]:
        rows: list[Row] = [("name", "whose"), *((each.name, _where(cwd, each)) for each in others)]
        sections.append(Section("Those that do not come with Cellwright", rows))
    problems = [(name, problem) for name, agent in found.agents.items() for problem in agent.problems]
    problems += [(shown_path(cwd, file), f"left out: {why}") for file, why in found.skipped]
    if problems:
        sections.append(Section("Not understood", [("where", "problem"), *problems]))
    waiting = [item.text for item in call.conversation.in_force.trust.waiting if "agent" in item.text]
    if waiting:
        rows = [("what", "why"), *((each, "waits until you trust the folder") for each in waiting)]
        sections.append(Section("Not there yet", rows))
    return CommandPage(sections)


def _may_use(agent: AgentDefinition) -> Row:
    tools = "all" if agent.tools is None else _tools(agent.tools)
    if agent.disallowed_tools:
        tools += f", but {_tools(agent.disallowed_tools)}"
    works = ", ".join(filter(None, (*agent.said().values(), agent.mode and f"mode {agent.mode}")))
    return agent.name, works or "as Claude does", tools


def _tools(names: Sequence[str]) -> str:
    """The names, those of each MCP server summed up."""
    of_servers = Counter(name.split("__")[1] for name in names if name.count("__") > 1)
    own = [name for name in names if name.count("__") <= 1]
    return ", ".join([*own, *(f"{count} of the MCP server {name}" for name, count in of_servers.items())])


def _where(cwd: Path, agent: AgentDefinition) -> str:
    whose = _WHOSE[agent.scope]
    return whose if agent.scope == "program" else f"{whose}, {shown_path(cwd, agent.file)}"

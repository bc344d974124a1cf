"""`/agents`: the agents there are, what they may use, and where they come from."""

from __future__ import annotations

from pathlib import Path

from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.config.agents.definition import AgentDefinition
from cellwright.tools.paths import shown_path

_WHOSE = {
    "managed": "the administrator's",
    "user": "yours",
    "plugin": "a plugin's",
    "project": "the project's",
    "built-in": "comes with Cellwright",
}


def agents_page(call: CommandCall) -> CommandPage:
    """Show each agent, what was not understood, and what waits for trust."""
    cwd = call.conversation.cwd
    found = call.conversation.agents.found()
    rows: list[Row] = [("name", "what it is for", "tools", "model and mode", "where from")]
    rows += [_row(cwd, found.agents[name]) for name in sorted(found.agents)]
    text = "Claude hands them tasks by itself; @agent-NAME in a prompt has it use that one."
    sections = [Section("Agents", rows, text)]
    problems = [(name, problem) for name, agent in found.agents.items() for problem in agent.problems]
    problems += [(shown_path(cwd, file), f"left out: {why}") for file, why in found.skipped]
    if problems:
        sections.append(Section("Not understood", [("where", "problem"), *problems]))
    waiting = [item.text for item in call.conversation.in_force.trust.waiting if "agent" in item.text]
    if waiting:
        rows = [("what", "why"), *((each, "waits until you trust the folder") for each in waiting)]
        sections.append(Section("Not there yet", rows))
    return CommandPage(sections)


def _row(cwd: Path, agent: AgentDefinition) -> Row:
    tools = "all" if agent.tools is None else ", ".join(agent.tools)
    if agent.disallowed_tools:
        tools += f", but {', '.join(agent.disallowed_tools)}"
    works = ", ".join(filter(None, (agent.model, agent.effort, agent.mode and f"mode {agent.mode}")))
    where = _WHOSE[agent.scope]
    if agent.scope != "built-in":
        where += f", {shown_path(cwd, agent.file)}"
    return agent.name, agent.description, tools, works or "Claude's own", where

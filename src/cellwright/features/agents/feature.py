"""The agents there are: listed to Claude, and named by the user with `@agent-NAME`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.prompt import ContextItems, ContextProvider, PromptContext, text_context
from cellwright.config.agents import AgentDefinition, FoundAgents, agent_places, find_agents
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.config.trust.trust import HOW_TO_TRUST
from cellwright.config.user_files import KeptSearch
from cellwright.conversation.feature import Feature, RunInfo, is_in_history, listed_line, listing, read_ahead
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.events import NotLoaded
from cellwright.markdown.prose import without_code
from cellwright.text import lazy_pattern

LISTING_CHARS = 12_000
"""The most that the list of agents may take of a conversation: about 3,000 tokens."""

MENTION = "agent-"
"""The beginning of a mention of an agent, behind the `@`."""

_TAG = "agents"
_MENTION = lazy_pattern(rf"(?<![\w@./\\-])@{MENTION}(?P<name>[\w:-]*\w)")


class Agents(Feature):
    """Finds the agents that count, and tells Claude of them. `of_run` are those of the run that goes on, by name."""

    def __init__(self, in_force: SettingsInForce) -> None:
        self._in_force = in_force
        self._search = KeptSearch(find_agents, agent_places)
        self.of_run: Mapping[str, AgentDefinition] = {}
        self._listed: tuple[object, str] = (None, "")

    def begin(self, run: RunInfo) -> None:
        self.of_run = run.options.agents

    def notices(self, run: RunInfo) -> Sequence[str]:
        """Name what is not clear of the tools that agents are given: they would have others than somebody meant."""
        return [
            f"The agent {each.name} ({each.file}): {why}."
            for each in self.found().agents.values()
            for why in each.unclear
        ]

    def context(self, run: RunInfo, prompt: PromptContext) -> ContextProvider:
        return read_ahead(self._news, prompt)

    def found(self) -> FoundAgents:
        """The agents that count now, and the files that define none."""
        found = self._search.find(self._in_force.skill_place)
        rights = self._in_force.trust.agent_rights
        agents = {
            name: replace(agent, hooks={}, own_servers={}, own_worktree=False)
            if agent.scope == "project" and agent.file not in rights
            else agent
            for name, agent in found.agents.items()
        }
        managed = {name for name, agent in agents.items() if agent.scope == "managed"}
        own = {name: agent for name, agent in self.of_run.items() if name not in managed}
        return replace(found, agents={**agents, **own})

    def not_loaded(self) -> list[NotLoaded]:
        """The files in folders of agents that define none; a README may stand there."""
        skipped = [(file, why) for file, why in self.found().skipped if file.stem.upper() != "README"]
        return [NotLoaded("agent", file.stem, f"{why} ({file})") for file, why in skipped]

    def named(self, name: str) -> AgentDefinition:
        """The agent of this name. Raises ToolError."""
        agents = self.found().agents
        if (agent := agents.get(name)) is None:
            known = ", ".join(sorted(agents))
            waits = f" {self._waiting(name)}" if self._waits_for_trust(name) else ""
            message = f"Agent {name} was not found.{waits} The agents are: {known}."
            raise ToolError(message, code=ErrorCode.TOOL_NOT_FOUND)
        return agent

    def _waits_for_trust(self, name: str) -> bool:
        place = self._in_force.skill_place
        return not place.trusted and name in find_agents(replace(place, trusted=True)).agents

    def _waiting(self, name: str) -> str:
        folder = self._in_force.trust.folder
        return f"The folder {folder} brings along an agent {name}, and you have not trusted it. {HOW_TO_TRUST}"

    def lead(self, name: str) -> AgentDefinition:
        """The agent that a run is to be worked by. Raises CellwrightError INVALID_PARAMETERS."""
        try:
            return self.named(name)
        except ToolError as error:
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{error.message} Nothing was sent.") from None

    def listed(self, agent: AgentSetup) -> str:
        """The list of agents as `agent` is told of it; "" where it could start none."""
        tool = next((tool for tool in agent.tools if tool.starts_agents), None)
        policy = agent.policy.allowing(())  # as it is now: one that follows the settings looks each time
        if tool is None or policy.hides(tool):
            return ""
        found = self.found().agents
        made_from = (tool, policy, found)
        if self._listed[0] != made_from:  # every prompt asks, and each agent is a decision
            agents = {
                name: each
                for name, each in found.items()
                if policy.decide(tool, {tool.access.field: name}).behavior != "deny"
            }
            self._listed = (made_from, listing(_TAG, listing_text(agents)))
        return self._listed[1]

    def _news(self, prompt_context: PromptContext) -> ContextItems:
        """Tell Claude which agents there are when that has changed, and which the user wants."""
        named = {match["name"]: None for match in _MENTION.finditer(without_code(prompt_context.words))}
        agent, session = prompt_context.agent, prompt_context.session
        if session.is_fresh and not named:
            return ContextItems()  # the list stands with where Claude works
        block = self.listed(agent)
        before = (
            () if session.is_fresh or is_in_history(_TAG, block, session) else (text_context("Agents", "agent", block),)
        )
        known = self.found().agents if named else {}
        wanted = [name for name in named if name in known] if block else []
        missing = "there is no such agent; /agents shows them." if block else "no agent can be started here."
        return ContextItems(
            before=before,
            after=tuple(text_context(f"@{MENTION}{name}", "agent", _wanted(name)) for name in wanted),
            notices=tuple(
                f"@{MENTION}{name}: {self._waiting(name) if self._waits_for_trust(name) else missing} It was sent as text."
                for name in named
                if name not in wanted
            ),
        )


def listing_text(agents: Mapping[str, AgentDefinition]) -> str:
    """The agents, a line each, within `LISTING_CHARS`; "" where there is none."""
    if not agents:
        return ""
    room = LISTING_CHARS // len(agents)
    lines = [listed_line(name, agents[name].description, room) for name in sorted(agents)]
    return "\n".join(["Agents that you can hand tasks to with the tool Agent:", *lines])


def _wanted(name: str) -> str:
    return (
        f'<wanted agent="{name}">\nThe user wants the agent {name} to do this: call the tool Agent with subagent_type '
        f'"{name}" and all the context it needs, then report the result.\n</wanted>'
    )

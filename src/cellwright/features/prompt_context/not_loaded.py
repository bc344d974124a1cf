"""News of what is configured and not there: servers, plugins, skills, hooks and agents that could not be loaded.

The user gets a notice, once for each; Claude a line, so that it does not look for what it was promised; programs an event.
"""

from __future__ import annotations

from collections.abc import Iterator

from cellwright.agent.prompt import ContextItem, ContextItems, ContextProvider, PromptContext, text_context
from cellwright.config.hooks.hooks_in_force import HooksInForce
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.conversation.feature import Feature, RunInfo
from cellwright.conversation.prompts.tagged_list import is_in_history, listing
from cellwright.events import ExtensionsLoaded, NotLoaded
from cellwright.features.agents.feature import Agents
from cellwright.features.mcp.feature import McpServers
from cellwright.features.skills import Skills
from cellwright.sessions.session import Session
from cellwright.text import visible_line

MOST_TOLD = 50
"""Lines for Claude; the event has them all."""

_TAG = "not-available"
_OPENING = f"<{_TAG} ".encode()
_ALL_THERE = "Everything that is configured is available now."


class NotLoadedNews(Feature):
    """Finds what is configured and not there, and tells of it."""

    def __init__(
        self, in_force: SettingsInForce, hooks: HooksInForce, skills: Skills, agents: Agents, mcp: McpServers
    ) -> None:
        self._in_force = in_force
        self._hooks = hooks
        self._skills = skills
        self._agents = agents
        self._mcp = mcp
        self._told: set[NotLoaded] = set()

    def context(self, run: RunInfo, prompt: PromptContext) -> ContextProvider:
        files, has_servers = tuple(self._files()), run.has_servers

        def for_prompt(prompt_context: PromptContext) -> ContextItems:
            servers = self._mcp.states() if has_servers else {}
            missing = [*(self._mcp.not_loaded() if has_servers else ()), *files]
            return self._news(prompt_context.session, missing, servers)

        return for_prompt

    def _files(self) -> Iterator[NotLoaded]:
        for plugin_id, why in self._in_force.plugins.left_out.items():
            yield NotLoaded("plugin", plugin_id, why)
        yield from self._skills.not_loaded()
        yield from self._agents.not_loaded()
        for problem in self._hooks.left_out:
            place, _, why = problem.partition(": ")
            yield NotLoaded("hook", place, why or problem)

    def _news(self, session: Session, missing: list[NotLoaded], servers: dict[str, str]) -> ContextItems:
        if not missing and not servers:
            return ContextItems(before=self._lines(session, []))
        notices = [each for each in missing if self._is_news(each)]
        self._told.update(missing)
        return ContextItems(
            before=self._lines(session, missing),
            notices=tuple(f"{each.words}{'' if each.words.endswith('.') else '.'}" for each in notices),
            extensions=ExtensionsLoaded(servers, tuple(missing)),
        )

    def _is_news(self, each: NotLoaded) -> bool:
        if each.kind == "hook":  # told by the hooks themselves, with the first event that they are for
            return False
        return each not in self._told or (each.kind == "MCP server" and self._mcp.is_required(each.name))

    def _lines(self, session: Session, missing: list[NotLoaded]) -> tuple[ContextItem, ...]:
        if not missing and not any(_OPENING in message for message in session.encoded):
            return ()
        lines = [f"- {visible_line(each.words, 300)}" for each in missing[:MOST_TOLD]]
        opening = "Configured for this session, but not available. Tell the user if the task needs one of them."
        block = listing(_TAG, "\n".join([opening, *lines]) if missing else _ALL_THERE)
        if is_in_history(_TAG, block, session):
            return ()
        return (text_context("Not available", "environment", block),)

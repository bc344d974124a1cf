"""News for Claude: of the tools that a session was begun with, and of what is configured and could not be loaded.

News of tools is told at a session's end: its definitions stay what they were. Another version of ours, another place, or
other servers have other tools. To tell the API so would make all that was cached and thought void; so Claude is told in
words, once for each change.

Of servers, plugins, skills, hooks and agents that could not be loaded, the user gets a notice, once for each; Claude a line,
so that it does not look for what it was promised; programs an event.
"""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from cellwright.agent.prompt import ContextItem, ContextItems, ContextProvider, PromptContext, text_context
from cellwright.agent.tool import Tool
from cellwright.config.hooks.hooks_in_force import HooksInForce
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.conversation.feature import Feature, RunInfo, is_in_history, listing
from cellwright.events import ExtensionsLoaded, NotLoaded
from cellwright.features.agents.feature import Agents
from cellwright.features.mcp.feature import McpServers
from cellwright.features.skills import Skills
from cellwright.sessions.session import Session
from cellwright.text import visible_line
from cellwright.tools.mcp.server_entry import of_servers

_TOOLS_TAG = "tools-since"
_TOOLS_OPENING = f"<{_TOOLS_TAG} ".encode()
_AS_BEFORE = "The tools are again those that this session began with."

_NOT_LOADED_TAG = "not-available"
_NOT_LOADED_OPENING = f"<{_NOT_LOADED_TAG} ".encode()
_ALL_THERE = "Everything that is configured is available now."


class ToolChanges(Feature):
    """The changes of the tools that a session was begun with."""

    def context(self, run: RunInfo, prompt: PromptContext) -> ContextProvider:
        return tool_news

    def after_summary(self, run: RunInfo | None) -> ContextProvider:
        return tool_news


def tool_news(prompt_context: PromptContext) -> ContextItems:
    """Tell which of the session's tools are gone, came, or take another input."""
    session = prompt_context.session
    if session.is_fresh:
        return ContextItems()
    agent = prompt_context.agent
    gone, new, text = _since(session.tools, _These(agent.tools), _These(agent.visible_tools(agent.tools)))
    if not text and not any(_TOOLS_OPENING in message for message in session.encoded):
        return ContextItems()
    block = listing(_TOOLS_TAG, text or _AS_BEFORE)
    if is_in_history(_TOOLS_TAG, block, session):
        return ContextItems()
    notices = [f"Tools that this session began with are gone: {', '.join(gone)}."] if gone else []
    if new:
        notices.append(
            f"Tools came since this session began, which it cannot call: {', '.join(new)}. A new one has them."
        )
    return ContextItems(before=(text_context("Tools since then", "environment", block),), notices=tuple(notices))


class _These(tuple[Tool, ...]):
    """Tools that are the same as others where each is the same object: to compare what they say is dear."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _These) and len(self) == len(other) and all(map(operator.is_, self, other))

    def __hash__(self) -> int:
        return hash(tuple(map(id, self)))


@functools.lru_cache(maxsize=4)  # the same with every prompt of a session
def _since(begun_with: bytes, tools: _These, told: _These) -> tuple[Sequence[str], Sequence[str], str]:
    """The names of tools that are gone and that came since the session was begun, and the news in words; "" for none."""
    declared = _own(json.loads(begun_with))
    # with those that a rule hides: they are denied when they are called, and not gone
    now = {each.name for each in tools}
    told_now = _own(tool.to_param() for tool in told)
    gone = sorted(declared.keys() - now)
    new = sorted(told_now.keys() - declared.keys())
    changed = {
        name: told_now[name]["input_schema"]
        for name in sorted(declared.keys() & told_now.keys())
        if declared[name] != told_now[name]
        and _form(declared[name]["input_schema"]) != _form(told_now[name]["input_schema"])
    }
    return tuple(gone), tuple(new), _news(gone, new, changed)


def _own(definitions: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The definitions by name, without those of MCP servers: they come and go with their server, and are told with it."""
    return {name: each for each in definitions if not of_servers(name := str(each["name"]))}


def _news(gone: Sequence[str], new: Sequence[str], changed: Mapping[str, Any]) -> str:
    lines = []
    if gone:
        lines.append(f"Gone since this session began, do not call them: {', '.join(gone)}.")
    if new:
        lines.append(f"Came since, and can be called in a new session only: {', '.join(new)}.")
    lines += [f"{name} takes this input now: {_form(schema)}" for name, schema in changed.items()]
    return "\n".join(lines)


def _form(schema: Any) -> str:
    """The schema as text without its descriptions: words that changed are no other input."""
    return json.dumps(_without_words(schema), ensure_ascii=False, sort_keys=True)


def _without_words(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            key: {name: _without_words(each) for name, each in value.items()}
            if key == "properties" and isinstance(value, dict)
            else _without_words(value)
            for key, value in schema.items()
            if key not in ("description", "title", "examples")
        }
    return [_without_words(each) for each in schema] if isinstance(schema, list) else schema


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
        # hooks tell of themselves, with the first event that they are for
        notices = [
            each
            for each in missing
            if each.kind != "hook"
            and (each not in self._told or (each.kind == "MCP server" and self._mcp.is_required(each.name)))
        ]
        self._told.update(missing)
        return ContextItems(
            before=self._lines(session, missing),
            notices=tuple(f"{each.words}{'' if each.words.endswith('.') else '.'}" for each in notices),
            extensions=ExtensionsLoaded(servers, tuple(missing)),
        )

    def _lines(self, session: Session, missing: list[NotLoaded]) -> tuple[ContextItem, ...]:
        if not missing and not any(_NOT_LOADED_OPENING in message for message in session.encoded):
            return ()
        lines = [f"- {visible_line(each.words, 300)}" for each in missing[:50]]  # the event has them all
        opening = "Configured for this session, but not available. Tell the user if the task needs one of them."
        block = listing(_NOT_LOADED_TAG, "\n".join([opening, *lines]) if missing else _ALL_THERE)
        if is_in_history(_NOT_LOADED_TAG, block, session):
            return ()
        return (text_context("Not available", "environment", block),)

"""Calls of tools by another program than Claude, under everything that holds Claude's: rules, hooks, limits, redaction."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from cellwright.agent.calls.approval import CanUseTool
from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.loop import AgentRun
from cellwright.agent.prompt import Steering
from cellwright.agent.tool import Content, Tool, ToolAccess, ToolContext, is_chosen
from cellwright.config.settings.settings import tool_is_allowed
from cellwright.conversation.model_connection import ModelConnection
from cellwright.conversation.resolve_options import unasked_text
from cellwright.conversation.runs.in_force import CallsAtWork
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.events import Emit, Event, Notice, ToolEnd
from cellwright.model.provider import ProviderEvent, Request
from cellwright.sessions.session import Session
from cellwright.telemetry.tool_log import ToolLog

if TYPE_CHECKING:
    from cellwright.agent.agent_setup import AgentSetup
    from cellwright.conversation.core import Core


def ignore_event(_event: Event) -> None:
    """Nobody looks on."""


async def _called_elsewhere(_input: dict[str, Any], _context: ToolContext) -> Content:
    raise NotImplementedError


class ProviderWhenNeeded:
    """A way to the model that is looked for with the first request: a hook may make one, the calls themselves do not."""

    def __init__(self, model: ModelConnection) -> None:
        self._model = model

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        provider = await asyncio.to_thread(lambda: self._model.provider)
        async for event in provider.stream(request):
            yield event


class ServedCalls:
    """The tools that `options` name, for programs that call them themselves; no model takes part, nothing is written down.

    `notify` is told what a user of Claude would be told beside the results. All calls are on one loop. Raises
    CellwrightError where the folder or the settings let nothing run; tools that the settings do not allow are not there.
    """

    def __init__(
        self,
        core: Core,
        tool_log: ToolLog,
        end_cut_off: Callable[[Session], Sequence[str]],
        options: RunOptions,
        notify: Callable[[str], None],
    ) -> None:
        there = core.tools.of(RunOptions())
        chosen = {choice: [each.name for each in there if is_chosen(each, choice)] for choice in options.tool_names}
        if missing := [choice for choice, names in chosen.items() if not names]:
            notify(f"The settings allow no {', '.join(missing)}.")
        self._core = core
        self._tool_log = tool_log
        names = dict.fromkeys(name for names in chosen.values() for name in names)
        self._options = msgspec.structs.replace(options, tool_names=tuple(names))
        self._notify = notify
        self._provider = ProviderWhenNeeded(core.model)
        self._session = Session.create(core.in_force.cwd, None)
        self._ids = itertools.count(1)
        self._one_at_a_time = asyncio.Lock()
        core.sandbox.begin()
        core.tools.add_dirs = options.add_dirs
        if (question := core.in_force.question()) is not None:
            if question.required:
                raise CellwrightError(ErrorCode.PERMISSION_DENIED, unasked_text(question))
            notify(unasked_text(question))
        for text in end_cut_off(self._session):
            notify(text)
        settings = core.in_force.settings
        tool_log.keep_in(settings.tool_log, settings.project)
        self._agent(None)  # what is wrong with the options is said now
        # as in a run: what the calls change of the settings loosens nothing, what the user changes between them counts
        self._at_work = CallsAtWork(core.in_force)
        core.in_force.run_begins(self._at_work.are_idle)

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools, less those that a rule denies as a whole."""
        return self._agent(None).offered_tools

    @property
    def granted(self) -> tuple[str, ...]:
        """The rules that were allowed for the session of these calls."""
        return self._session.granted

    def denial(self, name: str, tool_input: Mapping[str, Any]) -> str:
        """Say why the rules deny a call of that tool; empty where they do not, and for input that is none."""
        agent = self._agent(None)
        tool = next((each for each in agent.offered_tools if each.name == name), None)
        if tool is None:
            return f"Tool {name} was not found."
        try:
            decision = agent.policy.decide(tool, check_input(tool, tool_input))
        except ToolError:
            return ""
        return decision.reason if decision.behavior == "deny" else ""

    def denies(self, name: str, access: ToolAccess) -> bool:
        """Return whether a rule denies a tool as a whole that is not among these, and is called elsewhere."""
        tool = Tool(name=name, description="", input_schema={}, call=_called_elsewhere, access=access)
        return not self._agent(None).visible_tools([tool])

    def allows(self, name: str) -> bool:
        """Return whether the administrator lets there be a tool of that name."""
        return tool_is_allowed(name, self._core.in_force.settings)

    async def call(
        self,
        name: str,
        tool_input: Mapping[str, Any],
        ask_user: CanUseTool | None,
        tool: Tool | None = None,
        emit: Emit = ignore_event,
    ) -> ToolEnd:
        """Call the tool of that name, or the given one in its place; its end also says what is wrong with the call.

        `ask_user` puts what has to be asked; None: it is denied. `emit` is called with the call's events.
        """
        ends: list[ToolEnd] = []

        def on_event(event: Event) -> None:
            self._at_work.on_event(event)
            self._tool_log.add(event)
            emit(event)
            if isinstance(event, ToolEnd):
                ends.append(event)
            elif isinstance(event, Notice):
                self._notify(event.message)

        agent = self._agent(ask_user)
        if tool is not None:
            agent = replace(agent, tools=(tool,))
        run = AgentRun(agent, self._session, on_event, Steering())
        run.calls.changes.one_at_a_time = self._one_at_a_time
        tool_use = {"type": "tool_use", "id": f"call_{next(self._ids)}", "name": name, "input": dict(tool_input)}
        await run.calls.run_beside([tool_use])
        return ends[-1]

    def close(self) -> None:
        """No call follows."""
        self._core.in_force.run_ends()

    def _agent(self, ask_user: CanUseTool | None) -> AgentSetup:
        return self._core.agent(self._options, self._provider, ask_user)

"""Calls of tools in this kernel by other agents, which reach it through an MCP server of ours (docs/protocol/chat.md).

Each agent has its own memory of what was read and allowed: a `Conversation` without runs, on the same thread, shell and
pages. Nothing that it is allowed is allowed to Claude, or to another agent. What has to be asked is put to the agent's
user by the server, or to who looks at a panel of this kernel.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import logging
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.agent.thread import CallerJobs
from cellwright.agent.tool import Tool
from cellwright.conversation.core import Host
from cellwright.conversation.runs.run_options import RunOptions, existing_folder
from cellwright.conversation.runs.without_a_run import ignore_event
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Asked, Emit, Event, ToolProgress
from cellwright.features.conversation import Conversation
from cellwright.kernel.chat.conversation_log import LineLog, LoggedRun
from cellwright.kernel.kernel_tools import kernel_tools
from cellwright.kernel.pages.comm import PageError, optional, required
from cellwright.kernel.pages.open_notebooks import CalledFor, CallersNotebooks
from cellwright.kernel.run.ipykernel_api import work_between_cells
from cellwright.tools.mcp.kernel_tools import (
    KERNEL_TOOLS,
    MAX_QUESTION_CHARS,
    NOTEBOOK_TOOLS,
    CallAnswer,
    decision_of,
    question_of,
    read_answer,
)

if TYPE_CHECKING:
    from cellwright.agent.calls.approval import CanUseTool
    from cellwright.config.settings.settings_in_force import SettingsInForce
    from cellwright.conversation.runs.without_a_run import ServedCalls
    from cellwright.events import ToolEnd
    from cellwright.kernel.chat.chat import Chat
    from cellwright.kernel.chat.connections import PanelConnection

logger = logging.getLogger(__name__)

_called_for: ContextVar[CalledFor | None] = ContextVar("_called_for", default=None)


class _InBackground(Struct, frozen=True):
    """The owner of the agents' jobs: no thread waits for their end."""

    background: bool = True


class _Agent:
    """One agent's tools in this kernel. Raises CellwrightError as `ServedCalls`."""

    def __init__(self, chat: Chat, options: RunOptions) -> None:
        notebook = chat.notebook
        offer = work_between_cells(getattr(chat.shell, "kernel", None))
        if offer is None:
            message = "This kernel's ipykernel is not known: other agents cannot call tools in it."
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, message)
        jobs = CallerJobs(offer)
        self._owned = contextlib.ExitStack()
        self._owned.enter_context(jobs.owned_by(_InBackground()))
        notebooks = CallersNotebooks(chat.pages, chat.notebooks, _called_for.get)

        def make_tools(in_force: SettingsInForce) -> Sequence[Tool]:
            return kernel_tools(
                chat.shell,
                jobs,
                notebooks,
                notebook.cells,
                in_force,
                in_kernel=True,
                on_stuck=None,
                own_cell=lambda: None,
            )

        conversation = chat.conversation
        self._conversation = Conversation(
            Host(
                cwd=conversation.cwd,
                interface="an MCP client",
                inline_settings=chat.config.inline_settings,
                more_tools=make_tools,
                is_unsaved=notebook.is_unsaved,
                open_notebooks=notebooks,
            ),
            thread=conversation.thread,
            jobs=jobs,
        )
        self.calls: ServedCalls = self._conversation.served_calls(options, logger.warning)

    async def close(self) -> None:
        """Forget it. The thread is the kernel's, and goes on."""
        self.calls.close()
        self._owned.close()
        await self._conversation.features.mcp.close()


def serve_tool_calls(chat: Chat) -> None:
    """Serve `call_tool`, `call_answer` and `call_stop`."""
    calls = AgentCalls(chat)
    chat.serve("call_tool", calls.call_tool)
    chat.serve("call_answer", calls.answer)
    chat.serve("call_stop", calls.stop)


class AgentCalls:
    """The calls of all agents. On the agent's loop."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._agents: OrderedDict[str, _Agent] = OrderedDict()
        self._making = asyncio.Lock()
        self._going_on: dict[tuple[PanelConnection, str], asyncio.Task[ToolEnd]] = {}
        self._asked: dict[tuple[PanelConnection, str], asyncio.Future[CallAnswer]] = {}
        self._numbers = itertools.count(1)

    async def call_tool(self, panel: PanelConnection, params: Mapping[str, Any]) -> dict[str, Any]:
        """The call's end. Raises CellwrightError and PageError."""
        if not panel.is_server:
            raise PageError("invalid", "Tools are called by servers.")
        name, call = required(params, "name", str), required(params, "call", str)
        if name not in (*KERNEL_TOOLS, *NOTEBOOK_TOOLS):
            raise PageError("invalid", f"No agent calls {name} here.")
        agent = await self._agent(required(params, "agent", str), optional(params, "options", dict) or {})
        path = optional(params, "notebook", str)
        _called_for.set(CalledFor(None if path is None else Path(path), params.get("front_ends") is True))
        run = _LoggedCall(self._chat, f"{optional(params, 'client', str) or 'An agent'}: {name}", next(self._numbers))
        if params.get("asks") is True:
            ask: CanUseTool = functools.partial(self._ask_agent, panel, call)
            emit: Emit = ignore_event
        else:
            ask, emit = self._ask_here, run.on_event

        def on_event(event: Event) -> None:
            emit(event)
            # words alone: what code prints goes out with its result, with secrets taken out of it
            if isinstance(event, ToolProgress) and event.message:
                panel.send({"type": "call_progress", "call": call, "message": event.message})

        work = asyncio.ensure_future(agent.calls.call(name, required(params, "input", dict), ask, emit=on_event))
        self._going_on[panel, call] = work
        try:
            end = await work
        except asyncio.CancelledError:
            run.end(CellwrightError(ErrorCode.INTERRUPTED, "Interrupted.", recoverable=True))
            raise CellwrightError(ErrorCode.INTERRUPTED, "The call was stopped.", recoverable=True) from None
        finally:
            del self._going_on[panel, call]
        run.end(None)
        self._chat.notebook.file_news.notify()
        return {"status": end.status, "content": end.content, "structured": end.structured}

    async def answer(self, panel: PanelConnection, params: Mapping[str, Any]) -> None:
        """The agent's user has answered."""
        asked = self._asked.get((panel, required(params, "call", str)))
        if asked is not None and not asked.done():
            asked.set_result(read_answer(params.get("answer")))

    async def stop(self, panel: PanelConnection, params: Mapping[str, Any]) -> None:
        """Nobody waits for that call any more."""
        if (work := self._going_on.get((panel, required(params, "call", str)))) is not None:
            work.cancel()

    async def _agent(self, name: str, raw: Mapping[str, Any]) -> _Agent:
        async with self._making:
            if (agent := self._agents.get(name)) is None:
                options = await asyncio.to_thread(_options, raw)
                # it reads settings and imports tools
                agent = self._agents[name] = await asyncio.to_thread(_Agent, self._chat, options)
                # the agents whose memory is kept; the one that called least lately is forgotten for another
                if len(self._agents) > 16:
                    await self._agents.popitem(last=False)[1].close()
            self._agents.move_to_end(name)
            return agent

    async def _ask_agent(self, panel: PanelConnection, call: str, use: ToolUse) -> Allow | Deny:
        """Have the server put the question to the agent's user."""
        question = question_of(use)
        if len(question.text) > MAX_QUESTION_CHARS:
            return Deny(f"It is too long to be shown in a question. {question.unasked}", "policy")
        answer: asyncio.Future[CallAnswer] = asyncio.get_running_loop().create_future()
        self._asked[panel, call] = answer
        try:
            panel.send({"type": "call_question", "call": call, "text": question.text, "rules": list(question.rules)})
            return decision_of(await answer, question)
        finally:
            del self._asked[panel, call]

    async def _ask_here(self, use: ToolUse) -> Allow | Deny:
        """Put it to who looks at a panel; where nobody does it is denied."""
        if not self._chat.connections.is_watched:
            return Deny(question_of(use).unasked, "policy")
        return await self._chat.runs.questions().can_use_tool(use)


class _LoggedCall:
    """A call as panels show it, from its first question on: what asks nobody is not shown."""

    def __init__(self, chat: Chat, title: str, number: int) -> None:
        self._chat = chat
        self._title = title
        self._number = number
        self._before: list[Event] = []
        self._run: LoggedRun | None = None

    def on_event(self, event: Event) -> None:
        """Take in an event of the call."""
        if self._run is None:
            self._before.append(event)
            if not isinstance(event, Asked) or not self._chat.connections.is_watched:
                return
            self._run = self._begin()
            for each in self._before:
                self._run.on_event(each)
        else:
            self._run.on_event(event)
        if self._run.has_changed():
            self._chat.log.run_changed(self._run)

    def end(self, error: BaseException | None) -> None:
        """Nothing follows."""
        if self._run is not None:
            self._chat.log.end(self._run, error)

    def _begin(self) -> LoggedRun:
        session = self._chat.conversation.sessions.current.id
        run = LoggedRun(
            id=f"call-{self._number}",
            prompt=self._title,
            origin="MCP",
            kind="command",
            asked_at=time.time(),
            session=session,
            home=session,
            lines=LineLog() if self._chat.log.keeps_lines else None,
        )
        self._chat.log.begin(run)
        return run


def _options(raw: Mapping[str, Any]) -> RunOptions:
    """The options of an agent's calls. Raises CellwrightError and PageError."""
    lists = {name: tuple(map(str, optional(raw, name, list) or ())) for name in ("allow", "deny", "add_dirs")}
    return RunOptions(
        builtin_tools=False,
        tool_names=(*NOTEBOOK_TOOLS, *KERNEL_TOOLS),
        mode=optional(raw, "mode", str),
        allow=lists["allow"],
        deny=lists["deny"],
        add_dirs=tuple(existing_folder(folder) for folder in lists["add_dirs"]),
    )

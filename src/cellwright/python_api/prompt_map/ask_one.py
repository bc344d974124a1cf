"""One prompt of a map: an agent's run in a session of its own, here or in another process."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.agent.agent_setup import NO_FEATURES, AgentSetup
from cellwright.agent.loop import run_agent
from cellwright.agent.structured_output import AnswerType, answer_type
from cellwright.agent.tool import Tool
from cellwright.agent.turn_record import NO_CHECKPOINTS
from cellwright.config.settings.settings_files import start_folder
from cellwright.conversation.core import Host
from cellwright.conversation.runs.run_options import RunOptions, options_of
from cellwright.errors import ErrorCode
from cellwright.events import Event, Retrying
from cellwright.features.conversation import Conversation
from cellwright.python_api.ask_options import own_tools
from cellwright.python_api.prompt_map.answer_store import Answer
from cellwright.sessions.session import Session

SYSTEM = (
    "You answer one of many prompts that are asked unattended: nobody can answer a question of yours. "
    "Give the answer alone, without an introduction."
)

MAX_TOKENS = 4_000
"""The most that an answer may take unless its user says so: each sets its worst case aside. What is cut off goes on."""

REFUSALS = (ErrorCode.API_RATE_LIMITED, ErrorCode.API_OVERLOADED)


class MapOptions(Struct, frozen=True, kw_only=True):
    """The options that each prompt is asked with; other processes get them pickled. `schema` is as the user gave it."""

    system: str = SYSTEM
    schema: Any = None
    tools: tuple[Tool | str, ...] = ()
    run: Mapping[str, Any] = field(default_factory=dict)
    """The others, by their names in the table of options."""

    @property
    def answer_type(self) -> AnswerType | None:
        return None if self.schema is None else answer_type(self.schema)

    def run_options(self) -> RunOptions:
        given = {"max_tokens": MAX_TOKENS, **{name: value for name, value in self.run.items() if value is not None}}
        return replace(
            options_of({**given, "on_denied": "skip", "system_prompt": self.system}),
            tools=own_tools(self.tools),
            tool_names=tuple(tool for tool in self.tools if isinstance(tool, str)),
            builtin_tools=False,
            answer_type=self.answer_type,
        )


def map_agent(conversation: Conversation, options: MapOptions) -> AgentSetup:
    """The agent that asks each prompt. Raises `CellwrightError` for what is wrong with the options or the credentials."""
    # what many runs do at the same time is no turn that could be taken back; they are not told the place and instructions
    # of the conversation, neither behind a summary nor with the files that they read
    agent = conversation.agent(options.run_options())
    return dataclasses.replace(agent, checkpoints=NO_CHECKPOINTS, features=NO_FEATURES)


async def ask_one(
    agent: AgentSetup,
    cwd: Path,
    key: str,
    prompt: str,
    *,
    on_refused: Callable[[], None],
    on_event: Callable[[Event], None],
) -> Answer:
    """Ask `prompt`; what goes wrong is the answer's error."""
    refused = 0

    def emit(event: Event) -> None:
        nonlocal refused
        if isinstance(event, Retrying) and event.code in REFUSALS:
            refused += 1
            on_refused()
        on_event(event)

    began = time.perf_counter()
    end = await run_agent(agent, prompt, Session.create(cwd, None), emit)
    error = end.error or {}
    return Answer(
        key=key,
        text=end.text,
        stop_reason=end.stop_reason,
        usage=end.usage,
        cost_usd=end.cost_usd,
        seconds=round(time.perf_counter() - began, 3),
        error_code=str(error.get("code", "")),
        error=str(error.get("message", "")),
        recoverable=bool(error.get("recoverable")),
        rate_limited=refused,
    )


def ask_in_worker(options: MapOptions, key: str, prompt: str, budget_usd: float | None, _attempt: int) -> Answer:
    """Ask `prompt` in this process, whichever it is: an executor's worker, perhaps on another machine.

    `_attempt` sets a call apart from those before it: Dask gives the same arguments the same outcome.
    """
    conversation = _worker_conversation()
    agent = map_agent(conversation, options)
    agent = dataclasses.replace(agent, limits=dataclasses.replace(agent.limits, budget_usd=budget_usd))
    asking = ask_one(
        agent, conversation.cwd, key, prompt, on_refused=_ignore, on_event=conversation.features.tool_log.add
    )
    return conversation.thread.submit(asking).future.result()


_of_process: dict[int, Conversation] = {}


def _worker_conversation() -> Conversation:
    # a forked worker has none of its parent's threads, and so not its conversation either
    if os.getpid() not in _of_process:
        _of_process.clear()
        _of_process[os.getpid()] = Conversation(
            Host(cwd=start_folder(os.environ), interface="a worker of `cellwright.map`")
        )
    return _of_process[os.getpid()]


def _ignore() -> None:
    pass

"""One bad answer never ends a session: every kind of error, at every event of an answer, and then the next prompt.

Each row is a conversation of its own; a failure names every row that is wrong. The model answers `BREAK` with the row's
answer, however often it is asked, and everything else well.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from tests.agent.plain_tools import look

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.loop import run_agent
from cellwright.conversation.system_prompt import system_blocks
from cellwright.events import Event, Retrying, RunEnd, TextDelta
from cellwright.model.anthropic import connect
from cellwright.permissions.policy import PermissionPolicy
from cellwright.sessions.session import Session
from cellwright.testing import MessagesServer, fault, say, think, turn, use
from cellwright.testing.script import Fault, Turn

BREAK = "break this"
FINE = "fine"

ERROR_TYPES = (
    "overloaded_error",
    "api_error",
    "rate_limit_error",
    "timeout_error",
    "invalid_request_error",
    "authentication_error",
    "permission_error",
    "not_found_error",
    "request_too_large",
    "billing_error",
    "something_new",
)
STATUSES = (400, 401, 403, 404, 413, 422, 429, 500, 529)

PLAIN = (think("Hm."), say("Half of it."))
CALLING = (think("Hm."), say("I look."), use("look", name="x"))
EVENTS = {False: 11, True: 15}
"""The events of either answer, without and with a call: so many boundaries are before the last of them."""


class Row(Struct, frozen=True):
    """The error; in the first turn or a later one; in an answer that calls a tool, one behind results, or a plain one."""

    error: Fault
    first: bool
    parts: tuple[Any, ...]
    after_results: bool = False

    def __str__(self) -> str:
        kind = f"{self.error.kind} {self.error.error_type or self.error.status} after {self.error.after}"
        where = "behind results" if self.after_results else "with a call" if self.parts is CALLING else "plain"
        return f"{kind}, {where}, in the {'first' if self.first else 'second'} turn"


def rows() -> Iterator[Row]:
    kinds: list[dict[str, Any]] = [{"kind": "error_event", "error_type": name} for name in ERROR_TYPES]
    kinds += [{"kind": kind} for kind in ("cut", "close", "truncated", "malformed")]
    places = [(PLAIN, False), (CALLING, False), (PLAIN, True)]
    for (parts, after_results), first in itertools.product(places, (True, False)):
        for status in STATUSES:
            yield Row(fault("status", status=status), first, parts, after_results)
        for kind, after in itertools.product(kinds, range(EVENTS[parts is CALLING])):
            yield Row(fault(**kind, after=after), first, parts, after_results)


class Model:
    """The script of all rows: what is said depends on the request alone."""

    def __init__(self) -> None:
        self.row: Row | None = None

    def __call__(self, body: dict[str, Any]) -> Turn:
        row, last = self.row, json.dumps(body["messages"][-1])
        assert row is not None
        has_results = '"tool_result"' in last
        if BREAK in last or (has_results and row.after_results):
            if row.after_results and not has_results:
                return turn(use("look", name="x"))
            return turn(*row.parts, row.error)
        return turn(say(FINE))


class Conversation:
    """One row's conversation, in memory."""

    def __init__(self, agent: AgentSetup, folder: Path) -> None:
        self.agent = agent
        self.session = Session.create(folder, None)
        self.events: list[Event] = []

    async def say(self, prompt: str) -> RunEnd:
        self.events = []
        return await run_agent(self.agent, prompt, self.session, self.events.append)

    def shown(self) -> str:
        """The text of the last answer that was not asked for again."""
        last: list[str] = []
        for event in self.events:
            match event:
                case Retrying():
                    last = []
                case TextDelta():
                    last.append(event.text)
        return "".join(last)


async def problems_of(row: Row, model: Model, server: MessagesServer, agent: AgentSetup, folder: Path) -> list[str]:
    model.row = row
    played = Conversation(agent, folder)
    before = len(server.requests)
    if not row.first and not (await played.say("first")).ok:
        return ["the first prompt failed"]
    end = await played.say(BREAK)
    shown = played.shown()
    # what is refused before it begins may be left out, with an answer to the rest
    problems = ["it is no error"] if end.ok and (end.text != FINE or row.error.after) else []
    following = await played.say("next")
    if not following.ok or following.text != FINE:
        problems.append(f"the next prompt: {following.error}")
    said = json.dumps(played.session.messages)
    if row.error.kind != "status" and row.error.after and not row.after_results:
        if BREAK not in said:
            problems.append("the question is lost")
        if shown and shown not in said:
            problems.append(f"{shown!r} was shown and is lost")
    problems += [f"refused: {request.error}" for request in server.requests[before:] if request in server.rejected]
    return problems


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.mark.thorough
def test_the_next_prompt_is_accepted_whatever_went_wrong(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELLWRIGHT_MAX_RETRIES", "0")

    async def play_all() -> list[str]:
        with MessagesServer(model) as server:
            environ = {**os.environ, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
            async with connect(environ) as provider:
                agent = AgentSetup(
                    provider=provider,
                    model="claude-opus-5-5",
                    system=system_blocks(),
                    tools=[look],
                    policy=PermissionPolicy(mode="bypassPermissions", roots=(tmp_path,), cwd=tmp_path),
                )
                wrong = []
                for row in rows():
                    wrong += [f"{row}: {said}" for said in await problems_of(row, model, server, agent, tmp_path)]
                return wrong

    assert asyncio.run(play_all()) == []

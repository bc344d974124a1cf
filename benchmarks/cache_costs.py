"""The cost of steps with 1 to 40 parallel calls in a long conversation, with and without breakpoints between answers.

`python -m benchmarks.cache_costs --write` puts the table into `docs/costs.md`. The conversation is played by the agent's
loop against the package's own Messages API server, whose cache looks back 20 blocks from a breakpoint as the API's does.
Each request is then sent once more to a server that knows nothing yet, with the breakpoints between answers taken out.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.loop import run_agent
from cellwright.agent.tool import tool
from cellwright.conversation.system_prompt import system_blocks
from cellwright.model.anthropic import connect
from cellwright.model.pricing import cost_usd
from cellwright.permissions.policy import PermissionPolicy
from cellwright.sessions.session import Session
from cellwright.testing import MessagesServer, say, turn, use

PAGE = Path(__file__).parents[1] / "docs" / "costs.md"
BEGIN, END = "<!-- cache -->", "<!-- /cache -->"
MODEL = "claude-opus-5-5"
CALLS = (1, 2, 4, 6, 8, 9, 10, 12, 15, 20, 25, 30, 35, 40)
STEPS = 5
HISTORY = "The tide gauge at Brest has been read since 1846, with a gap in the war years. " * 4_000
RESULT = "Nothing stands out here. " * 40


@tool(read_only=True)
async def look(name: str) -> str:
    """Look at something."""
    return f"{name}: {RESULT}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table into docs/costs.md")
    options = parser.parse_args()
    rows = [(calls, *asyncio.run(costs(calls))) for calls in CALLS]
    table = _table(rows)
    print(table)
    if options.write:
        head, rest = PAGE.read_text("utf-8").split(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{table}{END}{rest.split(END)[1]}", "utf-8")


async def costs(calls: int) -> tuple[float, float]:
    """US dollars for the input of the steps: with the end of the conversation marked alone, and as we send them."""
    step = turn(say("I look."), *[use("look", name=f"{number}.csv") for number in range(calls)])
    with MessagesServer([say("Read."), *[step] * STEPS, say("Done.")]) as server:
        environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
        agent = AgentSetup(
            provider=connect(environ),
            model=MODEL,
            system=system_blocks(),
            tools=[look],
            policy=PermissionPolicy(mode="bypassPermissions"),
        )
        session = Session.create(Path.cwd(), None)
        await run_agent(agent, HISTORY, session, lambda _event: None)
        await run_agent(agent, "Look at everything.", session, lambda _event: None)
        bodies = [copy.deepcopy(request.body) for request in server.requests]
    return input_cost(map(_without_breakpoints_between, bodies)), input_cost(bodies)


def input_cost(bodies: Iterable[Mapping[str, Any]]) -> float:
    """The cost of these requests' input, one after the other; the first, which reads the history, is left out."""
    spent = 0.0
    with MessagesServer(lambda body: say("x")) as server:
        for number, body in enumerate(bodies):
            usage = _posted(server, {**body, "stream": False})["usage"]
            price = cost_usd(MODEL, {**usage, "output_tokens": 0})
            assert price is not None
            spent += price if number else 0.0
    return spent


def _posted(server: MessagesServer, body: Mapping[str, Any]) -> Any:
    headers = {
        "content-type": "application/json",
        "x-api-key": server.api_key,
        "anthropic-version": "2026-10-21",
    }
    request = urllib.request.Request(f"{server.url}/v1/messages", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.loads(response.read())


def _without_breakpoints_between(body: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = copy.deepcopy(dict(body))
    for message in plain["messages"]:
        for block in message["content"]:
            block.pop("cache_control", None)
    return plain


def _table(rows: Iterable[tuple[int, float, float]]) -> str:
    lines = ["| calls in a step | one breakpoint at the end | with those between | |", "| --: | --: | --: | --: |"]
    lines += [f"| {calls} | ${before:.3f} | ${after:.3f} | {before / after:.1f}× |" for calls, before, after in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

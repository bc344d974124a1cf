"""A long session: hundreds of tool turns, each request checked by the strict server, cut off and resumed on the way."""

import asyncio
import itertools
import statistics

import pytest

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.loop import run_agent
from cellwright.conversation.system_prompt import system_blocks
from cellwright.model.anthropic import connect
from cellwright.permissions.policy import PermissionPolicy
from cellwright.sessions.session import Session
from cellwright.testing import MessagesServer, say, think, turn, use
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.read import read_tool

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TURNS = 500


def test_five_hundred_turns_stay_valid_and_flat(tmp_path):
    (tmp_path / "notes.txt").write_text("a line\n" * 30)
    left = TURNS

    def answer(body):
        nonlocal left
        left -= 1
        if left % 100 == 0:
            return turn(think("Enough for now."), say("A pause."))
        return turn(think("Once more."), say("Reading again."), use("Read", file_path="notes.txt"))

    with MessagesServer(answer) as server:
        provider = connect({"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key})
        session = Session.create(tmp_path, tmp_path / "sessions")
        for number in range(5):
            agent = AgentSetup(
                provider=provider,
                model="claude-opus-5-5",
                system=system_blocks(),
                tools=[read_tool(FileState(), tmp_path)],
                policy=PermissionPolicy(roots=(tmp_path,), cwd=tmp_path),
            )
            end = asyncio.run(run_agent(agent, f"part {number}", session, lambda event: None))
            assert end.ok, end.error
            session.close()
            session = Session.load(session.path)
        assert server.rejected == []
        assert len(server.requests) == TURNS
        requests = server.requests
    gaps = [(b.arrived_at - a.finished_at) * 1000 for a, b in itertools.pairwise(requests)]
    early, late = statistics.median(gaps[5:45]), statistics.median(gaps[-45:-5])
    print(f"gap per turn: {early:.1f} ms early, {late:.1f} ms late")
    assert late < early * 4 + 5
    assert session.next_seq > TURNS
    assert len(session.messages) == 2 * TURNS

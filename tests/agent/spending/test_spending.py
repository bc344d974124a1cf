"""Budgets of a session, a notebook and a day: counted across processes, kept by what may still be spent, and crash-safe."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.agent.test_compaction import SMALL, dig, digging

from cellwright.agent.agent_setup import CompactionSettings
from cellwright.agent.loop import run_agent
from cellwright.agent.spending import MAX_BYTES, Budget, CountedFile, SharedBudgets, SpendingFile, day_spending
from cellwright.events import Notice, TextDelta, TurnEnd
from cellwright.sessions.session import Session
from cellwright.testing import Gate, MessagesServer, fault, hold, say, turn

OTHER_PROCESS = """
import asyncio, os, sys
from pathlib import Path
from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.loop import run_agent
from cellwright.conversation.system_prompt import system_blocks
from cellwright.agent.spending import Budget, CountedFile, RunLimits, SharedBudgets
from cellwright.agent.spending import SpendingFile
from cellwright.events import TextDelta
from cellwright.model.anthropic import connect
from cellwright.permissions.policy import PermissionPolicy
from cellwright.sessions.session import Session

file, budget, folder = Path(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
agent = AgentSetup(
    provider=connect(os.environ), model="claude-opus-5-5", system=system_blocks(), tools=(),
    policy=PermissionPolicy(roots=(folder,), cwd=folder),
    limits=RunLimits(
        shared_budgets=SharedBudgets(files=(CountedFile(SpendingFile(lambda: file), Budget(budget, "day")),))
    ),
)
def on_event(event):
    if isinstance(event, TextDelta):
        print("streams", flush=True)
asyncio.run(run_agent(agent, "go", Session.create(folder, None), on_event))
print("ended", flush=True)
"""


def shared(file: Path, usd: float | None, whose: str = "day") -> SharedBudgets:
    budget = None if usd is None else Budget(usd, whose, "`cellwright.dailyBudget`")
    return SharedBudgets(files=(CountedFile(SpendingFile(lambda: file), budget),))


def at_work(server: MessagesServer, file: Path, usd: float, folder: Path) -> subprocess.Popen[str]:
    """Another process whose request has an answer that streams."""
    environ = {**os.environ, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS, str(file), str(usd), str(folder)],
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "streams\n"
    return process


def test_what_runs_spend_adds_up_and_stops_the_next_before_it_asks(play: Any, tmp_path: Path) -> None:
    file = tmp_path / "spending" / "day"
    first = play([say("word " * 200)], shared_budgets=shared(file, None))
    assert SpendingFile(lambda: file).usd() == pytest.approx(first.end.cost_usd)
    stopped = play([say("never asked")], shared_budgets=shared(file, first.end.cost_usd + 0.001))
    assert stopped.bodies == []
    assert stopped.end.stop_reason == "budget"
    message = stopped.end.error["message"]
    assert message.startswith("The day's budget")
    assert "can cost up" in message
    assert "`cellwright.dailyBudget`" in message
    assert stopped.end.error["details"]["budget_of"] == "day"
    assert SpendingFile(lambda: file).spent().open_usd == 0


def test_an_answer_is_made_short_enough_to_fit(play: Any, tmp_path: Path) -> None:
    played = play([say("short")], shared_budgets=shared(tmp_path / "day", 0.1))
    assert 256 <= played.bodies[0]["max_tokens"] < 6_000
    assert played.end.ok


def test_a_session_counts_what_was_spent_before_it_was_forked(scene: Any, play: Any) -> None:
    played = play([say("word " * 2_000)])
    spent = played.session.cost_usd
    budget = SharedBudgets(session=Budget(spent + 0.001, "session"))
    again = scene([say("never asked")], session=played.session, shared_budgets=budget)
    assert again.go_on("more").error["message"].startswith("The session's budget")
    fork = scene([say("never asked")], session=played.session.fork(), shared_budgets=budget)
    assert fork.go_on("more").error["code"] == "BUDGET_EXCEEDED"
    assert fork.bodies == again.bodies == []


def test_another_process_has_set_aside_what_its_request_may_cost(scene: Any, tmp_path: Path) -> None:
    file, gate = tmp_path / "day", Gate()
    with MessagesServer([turn(say("word " * 20), hold(gate))]) as server:
        other = at_work(server, file, 0.7, tmp_path)
        here = scene([say("my turn")], shared_budgets=shared(file, 0.7))
        spent = SpendingFile(lambda: file).spent()
        assert spent.open_usd > 0.6

        async def both() -> None:
            run = asyncio.create_task(here.run("go"))
            while not here.of(Notice):
                await asyncio.sleep(0.01)
            assert here.bodies == []
            gate.open()
            await run

        asyncio.run(both())
        assert other.communicate()[0].endswith("ended\n")
    assert here.end.ok
    assert "waits" in here.of(Notice)[0].message
    # what is left is less than the other could have taken, and more than would be left then
    assert SpendingFile(lambda: file).spent().open_usd == 0
    assert SpendingFile(lambda: file).usd() < 0.7


def test_a_summary_waits_for_another_process_and_is_not_cut_short_by_what_it_set_aside(
    scene: Any, tmp_path: Path
) -> None:
    file, gate = tmp_path / "day", Gate()
    here = scene(digging(9), tools=[dig], compaction=CompactionSettings(automatic=False))
    here.go_on("Dig.")
    with MessagesServer([turn(say("word " * 20), hold(gate))]) as server:
        other = at_work(server, file, 0.7, tmp_path)
        again = scene(digging(0), tools=[dig], session=here.session, compaction=SMALL, shared_budgets=shared(file, 0.7))

        async def both() -> None:
            run = asyncio.create_task(again.run("And what was it?"))
            while not again.of(Notice):
                await asyncio.sleep(0.01)
            assert again.bodies == []
            gate.open()
            await run

        asyncio.run(both())
        assert other.communicate()[0].endswith("ended\n")
    assert again.end.ok, again.end.error
    assert "The summary waits" in again.of(Notice)[0].message
    assert again.bodies[0]["max_tokens"] >= 4_000
    assert "42 years old" in str(again.bodies[-1]["messages"][0])
    spent = SpendingFile(lambda: file).spent()
    assert spent.open_usd == 0
    assert again.end.cost_usd < spent.usd < 0.7, "the summary, the answer, and the other's"


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
def test_what_a_killed_process_had_spent_counts_and_what_it_set_aside_is_free(scene: Any, tmp_path: Path) -> None:
    file, gate = tmp_path / "day", Gate()
    with MessagesServer([turn(say("word " * 2_000), hold(gate))]) as server:
        other = at_work(server, file, 0.7, tmp_path)
        lines = iter(other.stdout or ())
        while sum(line.startswith("=") for line in file.read_text().splitlines()) < 2:
            next(lines)  # the answer goes on
        other.send_signal(signal.SIGKILL)
        other.communicate()
        gate.open()
    spent = SpendingFile(lambda: file).spent()
    assert spent.open_usd == 0
    assert 0.005 < spent.usd < 0.1
    assert scene([say("my turn")], shared_budgets=shared(file, 0.7)).go_on("go").ok


def test_a_retry_that_has_spent_the_budget_is_not_made(play: Any, tmp_path: Path) -> None:
    from cellwright.testing import fault

    def breaks_off(body: Any) -> Any:
        return turn(say("x" * min(12_000, body["max_tokens"] * 3)), fault("truncated"))

    played = play(breaks_off, shared_budgets=shared(tmp_path / "day", 0.3))
    assert played.end.error["code"] == "BUDGET_EXCEEDED"
    assert 0.15 < SpendingFile(lambda: tmp_path / "day").usd() <= 0.3


def test_an_interrupted_run_leaves_nothing_set_aside(scene: Any, tmp_path: Path) -> None:
    file = tmp_path / "day"
    played = scene([turn(say("word " * 600), hold(Gate()))], shared_budgets=shared(file, 5.0))

    def stop(event: Any) -> None:
        played.events.append(event)
        if isinstance(event, TextDelta):
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

    async def interrupted() -> None:
        with pytest.raises(asyncio.CancelledError):
            await run_agent(played.agent, "go", played.session, stop)

    asyncio.run(interrupted())
    spent = SpendingFile(lambda: file).spent()
    assert spent.open_usd == 0
    assert spent.usd == pytest.approx(played.end.cost_usd)


class TestFile:
    def test_a_long_file_is_summed_up_with_what_is_open(self, tmp_path: Path) -> None:
        file = tmp_path / "day"
        one, other = SpendingFile(lambda: file), SpendingFile(lambda: file)
        reservation = one.reserve(lambda _: (0.5, 0.1))
        assert reservation is not None
        for _ in range(MAX_BYTES // 12 + 50):
            other.add(0.001)
        assert file.stat().st_size < MAX_BYTES // 2
        assert other.spent().open_usd == 0.5
        reservation.release()
        assert one.spent().open_usd == 0
        assert one.usd() == pytest.approx((MAX_BYTES // 12 + 50) * 0.001)

    def test_a_torn_line_spoils_no_other(self, tmp_path: Path) -> None:
        (tmp_path / "day").write_text("0.5\n+abc.1 0.")
        file = SpendingFile(lambda: tmp_path / "day")
        file.add(0.25)
        assert file.usd() == 0.75

    def test_a_session_without_a_known_price_cannot_keep_one(self, play: Any, tmp_path: Path) -> None:
        played = play([say("x")], model="claude-unknown-9", shared_budgets=shared(tmp_path / "day", 1.0))
        assert played.end.error["code"] == "CONFIG_INVALID"
        assert played.bodies == []


def test_in_memory_sessions_count_as_well(scene: Any, tmp_path: Path) -> None:
    session = Session.create(tmp_path, None)
    played = scene([say("x")], session=session, shared_budgets=shared(tmp_path / "day", None))
    assert played.go_on("go").ok
    assert SpendingFile(lambda: tmp_path / "day").usd() == pytest.approx(session.cost_usd)


class TestLostAnswers:
    """An answer that breaks off was paid for: its input wholly, its output as far as it came."""

    LONG = "word " * 600

    async def interrupted(self, played):
        with contextlib.suppress(asyncio.CancelledError):
            await run_agent(played.agent, "go", played.session, lambda event: self.stop_at_text(played, event))

    def stop_at_text(self, played, event):
        played.events.append(event)
        if isinstance(event, TextDelta):
            asyncio.current_task().cancel()

    def test_what_a_retry_threw_away_counts(self, play):
        played = play([turn(say(self.LONG), fault("truncated")), say("done")])
        assert played.end.text == "done"
        kept = played.of(TurnEnd)[0]
        assert played.end.cost_usd > kept.cost_usd + len(self.LONG) / 4 * 20 / 1e6
        assert played.end.usage["output_tokens"] >= kept.usage["output_tokens"] + len(self.LONG) / 4
        assert played.end.session_cost_usd == pytest.approx(played.end.cost_usd)
        played.session.close()
        again = Session.load(played.session.path)
        assert again.cost_usd == pytest.approx(played.end.cost_usd)
        assert again.usage == played.end.usage

    def test_the_attempt_after_which_the_run_gives_up_counts(self, play):
        played = play([turn(say(self.LONG), fault("error_event", error_type="invalid_request_error"))])
        assert not played.end.ok
        assert played.end.cost_usd > 0.01
        assert played.end.session_cost_usd == pytest.approx(played.end.cost_usd)

    def test_an_attempt_that_never_began_costs_nothing(self, play):
        played = play([fault("status", status=529, retry_after_ms=1), say("done")])
        assert played.end.cost_usd == pytest.approx(played.of(TurnEnd)[0].cost_usd)

    def test_what_was_interrupted_counts(self, scene):
        gate = Gate()
        played = scene([turn(say(self.LONG), hold(gate)), say("on")])
        asyncio.run(self.interrupted(played))
        assert played.end.stop_reason == "interrupted"
        assert played.end.cost_usd > 0
        interrupted = played.end.cost_usd
        assert played.go_on("again").session_cost_usd == pytest.approx(interrupted + played.end.cost_usd)

    def test_a_budget_bounds_all_attempts_together(self, play):
        def breaks_off(body):
            return turn(say("x" * min(12_000, body["max_tokens"] * 3)), fault("truncated"))

        played = play(breaks_off, budget_usd=0.3)
        assert played.end.error["code"] == "BUDGET_EXCEEDED"
        assert 0.15 < played.end.cost_usd <= 0.3
        asked_for = [body["max_tokens"] for body in played.bodies]
        assert asked_for == sorted(asked_for, reverse=True)
        assert len(set(asked_for)) > 1


def test_every_prompt_that_was_not_answered_counts_for_the_budget(scene):
    played = scene([fault("status", status=401)] * 3 + [say("done")], budget_usd=0.5)
    for _ in range(3):
        assert not played.go_on("word " * 8_000).ok
    assert played.go_on("go").ok
    # 120,000 characters that may cost $0.32 leave $0.18 for the answer
    assert played.bodies[-1]["max_tokens"] < 10_000


def test_processes_add_up_and_days_do_not(tmp_path: Path) -> None:
    day = "2026-11-22"
    one, other = (day_spending(tmp_path / "spent", lambda: day) for _ in range(2))
    one.add(0.25)
    other.add(0.5)
    assert one.usd() == other.usd() == pytest.approx(0.75)
    day = "2026-11-24"
    assert one.usd() == 0
    one.add(0.1)
    assert sorted(file.name for file in (tmp_path / "spent").iterdir()) == ["2026-11-24", "2026-11-24.lock"]


def test_where_nothing_can_be_written_the_process_knows_its_own(tmp_path: Path) -> None:
    (tmp_path / "spent").write_text("a file")
    spending = day_spending(tmp_path / "spent", lambda: "2026-11-22")
    spending.add(0.25)
    spending.add(0.25)
    assert spending.usd() == 0.5


def test_a_broken_line_counts_nothing(tmp_path: Path) -> None:
    (tmp_path / "2026-11-22").write_text("0.5\nnan\n-3\n0.2\xff\n0.25")
    assert day_spending(tmp_path, lambda: "2026-11-22").usd() == 0.75

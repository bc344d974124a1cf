"""Runs of one conversation: one at a time, in the order they were asked for, told something, stopped, remembered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.prompt import SteeringText
from cellwright.agent.thread import WAITING_NOTICE_SECONDS, CallerJobs, running_agent_code
from cellwright.agent.tool import tool
from cellwright.commands.command import CommandCall
from cellwright.commands.registry import answer_of, command_of
from cellwright.config.settings.settings_in_force import TrustQuestion
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import Run, RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.conversation.session_choice import ConversationSessions
from cellwright.errors import CellwrightError
from cellwright.events import Event, Notice, Steered, TextDelta, ToolProgress
from cellwright.features.conversation import Conversation
from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import sessions_folder
from cellwright.sessions.transcripts.transcript_lock import is_held, lease_path
from cellwright.testing import Gate, MessagesServer, fault, hold, say, turn, use
from cellwright.text import dollars


class Ends:
    """Counts the runs that are over; that is so a little after who waits for one has its result."""

    def __init__(self) -> None:
        self._ends = threading.Semaphore(0)

    def run_added(self, run: Run) -> None:
        pass

    def on_event(self, run: Run, event: Event) -> None:
        pass

    def session_changed(self, session: Session) -> None:
        pass

    def run_ended(self, run: Run) -> None:
        self._ends.release()

    def wait(self, count: int) -> None:
        for _ in range(count):
            assert self._ends.acquire(timeout=60)


class AtTurn:
    """What is done where a run asks about trust: when its turn has come."""

    def __init__(self, do: Callable[[], object]) -> None:
        self._do = do

    def question(self) -> None:
        self._do()

    def answer(self, question: TrustQuestion, *, yes: bool, chosen: str = "") -> None:
        raise AssertionError("nothing was asked")


class Talk:
    """A conversation, its model and what its runs emitted."""

    def __init__(self, server: MessagesServer, cwd: Path, home: Path) -> None:
        self.server = server
        environ = {"HOME": str(home), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
        self.conversation = Conversation(Host(cwd=cwd, interface="a test", environ=environ))
        self.ends = Ends()
        self.conversation.observers.add(self.ends)

    def start(self, prompt: str, events: list[Event] | None = None, **more: Any) -> Run:
        emit = (lambda _: None) if events is None else events.append
        return self.conversation.start(
            RunRequest(prompt=prompt, options=RunOptions(builtin_tools=False), **more), RunSurface(emit)
        )

    def steer(self, text: str) -> None:
        self.conversation.runs.steer(SteeringText("words", text, "steer"))

    def page(self, line: str) -> str:
        command, text = command_of(line)
        call = CommandCall(self.conversation, RunOptions(), text)
        return self.conversation.thread.submit(answer_of(command, call)).future.result(60).plain()

    def said(self, request: int) -> list[str]:
        return [self.server.requests[request].body["messages"][-1]["content"][-1]["text"]]


@pytest.fixture
def talk(messages_server: Any, tmp_path: Path, own_place: Path) -> Iterator[Talk]:
    made = Talk(messages_server([]), tmp_path, own_place)
    yield made
    made.conversation.close()
    assert made.server.rejected == []
    assert made.server.remaining_turns == 0


@pytest.fixture
def gate(talk: Talk) -> Iterator[Gate]:
    """A run that is in the middle of its answer until the gate is opened."""
    gate = Gate()
    talk.server.add(turn(say("First "), hold(gate), say("done.")))
    yield gate
    gate.open()


def test_runs_go_one_after_another_in_the_order_they_were_asked_for(talk: Talk, gate: Gate):
    talk.server.add(say("two"), say("three"))
    events: list[Event] = []
    first, second, third = talk.start("one"), talk.start("two", events), talk.start("three")
    gate.wait_until_reached()
    assert [run.state for run in talk.conversation.runs.active] == ["running", "waiting", "waiting"]
    gate.open()
    assert [task.future.result(60).text for task in (first, second, third)] == ["First done.", "two", "three"]
    assert isinstance(events[0], Notice)
    assert "“one” (run-1)" in events[0].message
    talk.ends.wait(3)
    assert [run.title for run in talk.conversation.runs.finished] == ["one", "two", "three"]
    assert [message["role"] for message in talk.conversation.sessions.current.messages] == ["user", "assistant"] * 3


def test_a_run_that_is_cancelled_while_it_waits_sends_nothing(talk: Talk, gate: Gate):
    talk.server.add(say("three"))
    events: list[Event] = []
    first, second, third = talk.start("one"), talk.start("two", events), talk.start("three")
    gate.wait_until_reached()
    second.cancel()
    with pytest.raises(CancelledError):
        second.future.result(60)
    gate.open()
    first.future.result(60)
    assert third.future.result(60).text == "three"
    assert len(talk.server.requests) == 2
    assert "Nothing was sent" in [event.message for event in events if isinstance(event, Notice)][-1]


def test_a_run_that_fails_lets_the_next_one_go(talk: Talk, gate: Gate):
    talk.server.add(turn(fault("status", status=401, error_type="authentication_error")), say("three"))
    first, second, third = talk.start("one"), talk.start("two"), talk.start("three")
    gate.open()
    first.future.result(60)
    assert second.future.result(60).error is not None
    assert third.future.result(60).text == "three"
    talk.ends.wait(3)
    assert [run.state for run in talk.conversation.runs.finished] == ["done", "failed", "done"]
    assert "API_KEY_INVALID" in talk.conversation.runs.finished[1].error


def test_what_is_done_at_the_turn_of_a_run_is_done_then(talk: Talk, gate: Gate):
    talk.server.add(say("fresh"))
    turns: list[str] = []
    asking = AtTurn(lambda: turns.append(talk.conversation.sessions.current.id))
    first = talk.start("one")
    second = talk.start("two", new_session=True, trust_checks=(asking,))
    gate.wait_until_reached()
    assert turns == []
    with pytest.raises(CellwrightError, match="still working"):
        talk.conversation.sessions.start_new()
    gate.open()
    assert first.future.result(60).session_id != second.future.result(60).session_id
    assert turns == [second.result().session_id]


def test_what_is_wrong_at_its_turn_is_the_run_s_end(talk: Talk, gate: Gate):
    first = talk.start("one")
    second = talk.start("two", resume="no-such-session")
    gate.open()
    first.future.result(60)
    end = second.future.result(60)
    assert end.error is not None
    assert end.error["code"] == "SESSION_NOT_FOUND"
    assert "no-such-session" in end.error["message"]
    talk.ends.wait(2)
    assert (second.state, second.last_event) == ("failed", end)
    assert talk.conversation.runs.active == []


def test_a_run_that_cannot_be_made_ready_is_over_and_says_why(talk: Talk):
    with pytest.raises(CellwrightError, match="no-such-session"):
        talk.start("one", resume="no-such-session")
    (run,) = talk.conversation.runs.finished
    assert (run.state, run.error[:17]) == ("failed", "SESSION_NOT_FOUND")
    assert isinstance(run.failure, CellwrightError)


def test_a_run_that_is_stopped_while_it_is_made_ready_sends_nothing(talk: Talk):
    task = talk.start("one", trust_checks=(AtTurn(lambda: talk.conversation.runs.active[0].cancel()),))
    with pytest.raises(CancelledError):
        task.future.result(60)
    talk.ends.wait(1)
    assert [run.state for run in talk.conversation.runs.finished] == ["interrupted"]
    assert talk.server.requests == []


def test_runs_are_made_ready_one_after_another_also_when_one_was_stopped(talk: Talk, gate: Gate):
    talk.server.add(say("three"))
    begun, go_on = threading.Event(), threading.Event()
    at_work: list[str] = []

    def slow() -> None:
        at_work.append("two begins")
        begun.set()
        go_on.wait(60)
        at_work.append("two ends")

    first = talk.start("one")
    second = talk.start("two", trust_checks=(AtTurn(slow),))
    third = talk.start("three", trust_checks=(AtTurn(lambda: at_work.append("three")),))
    gate.open()
    assert begun.wait(60)
    second.cancel()
    with pytest.raises(CancelledError):
        second.future.result(60)
    go_on.set()
    assert [task.future.result(60).text for task in (first, third)] == ["First done.", "three"]
    assert at_work == ["two begins", "two ends", "three"]


def test_no_run_begins_while_the_session_is_exchanged(talk: Talk):
    talk.server.add(say("one"), say("two"))
    talk.start("one").future.result(60)
    started: list[Run] = []
    starting = threading.Thread(target=lambda: started.append(talk.start("two")))
    with talk.conversation.runs.held_off():
        starting.start()
        starting.join(0.2)  # it cannot come to anything, however long it had
        assert talk.conversation.runs.active == []
        talk.conversation.sessions.start_new()
    starting.join(60)
    assert started[0].future.result(60).session_id == talk.conversation.sessions.current.id
    assert len(talk.server.requests[-1].body["messages"]) == 1


def test_a_session_that_cannot_be_gone_on_with_now_is_not_taken_from_others(talk: Talk, gate: Gate):
    other = Session.create(talk.conversation.cwd, sessions_folder(talk.conversation.cwd))
    other.begin(model="claude-opus-5-5", system=[], tools=[])
    other.append({"role": "user", "content": "Hello"})
    other.close()
    assert other.path is not None
    task = talk.start("one")
    with pytest.raises(CellwrightError, match="still working") as refused:
        talk.conversation.sessions.resume(other.id)
    assert not is_held(lease_path(other.path)), refused
    gate.open()
    assert task.future.result(60).ok


def test_whoever_asks_first_begins_the_one_session(tmp_path: Path):
    for _ in range(50):
        sessions = Conversation(Host(cwd=tmp_path, interface="a test")).sessions
        together = threading.Barrier(8)

        def ask(sessions: ConversationSessions = sessions, together: threading.Barrier = together) -> Session:
            together.wait(60)
            return sessions.current

        with ThreadPoolExecutor(8) as threads:
            found = {future.result(60).id for future in [threads.submit(ask) for _ in range(8)]}
        assert len(found) == 1


def test_words_reach_the_run_that_goes_on_and_can_be_taken_back(talk: Talk, gate: Gate):
    talk.server.add(say("With tests."))
    events: list[Event] = []
    first = talk.start("one", events)
    gate.wait_until_reached()
    talk.steer("And tests.")
    talk.conversation.runs.steer(SteeringText("gone", "Never mind.", "queue"))
    assert talk.conversation.runs.withdraw("gone")
    assert not talk.conversation.runs.withdraw("gone")
    gate.open()
    assert first.future.result(60).text == "With tests."
    assert talk.said(1) == ["And tests."]
    states = [(event.text, event.state) for event in events if isinstance(event, Steered)]
    assert ("Never mind.", "withdrawn") in states
    assert ("And tests.", "delivered") in states
    with pytest.raises(CellwrightError, match=r"Claude is not working\. Send a prompt"):
        talk.steer("Too late.")


def test_code_that_claude_runs_does_not_speak_for_the_user(talk: Talk, gate: Gate):
    first = talk.start("one")
    with running_agent_code():
        with pytest.raises(CellwrightError, match="cannot speak for the user"):
            talk.steer("Allow everything.")
        refused: list[str] = []

        def speak() -> None:
            try:
                talk.steer("Allow everything.")
            except CellwrightError as error:
                refused.append(error.message)

        thread = threading.Thread(target=speak)
        thread.start()
        thread.join()
    assert len(refused) == 1
    gate.open()
    first.future.result(60)


def test_the_end_of_the_conversation_ends_all_runs(talk: Talk, gate: Gate):
    tasks = [talk.start("one"), talk.start("two")]
    gate.wait_until_reached()
    talk.conversation.close()
    for task in tasks:
        assert task.done
        with pytest.raises(CancelledError):
            task.result()


def test_tasks_shows_what_goes_on_with_its_cost(talk: Talk, gate: Gate):
    talk.server.add(say("two"))
    first = talk.start("Write the report\nwith all figures", origin="[7]", background=True)
    second = talk.start("And then?", origin="[8]")
    gate.wait_until_reached()
    page = talk.page("/tasks")
    (one, two) = [line for line in page.splitlines() if line.strip().startswith("run-")]
    assert ("Write the report" in one, "[7] in the background" in one, "at work" in one) == (True, True, True)
    assert ("And then?" in two, "[8]" in two, "waits for" in two) == (True, True, True)
    assert "figures" not in page
    gate.open()
    end = first.future.result(60)
    second.future.result(60)
    page = talk.page("/tasks")
    assert "is not working." in page
    assert dollars(end.cost_usd) in page
    assert "And then?" not in page


def test_tasks_stops_one_or_all(talk: Talk, gate: Gate):
    first, second, third = talk.start("one"), talk.start("two"), talk.start("three")
    gate.wait_until_reached()
    assert "two" in talk.page("/tasks stop run-2")
    with pytest.raises(CancelledError):
        second.future.result(60)
    assert not first.done
    with pytest.raises(CellwrightError, match="Running: run-1, run-3"):
        talk.page("/tasks stop run-9")
    with pytest.raises(CellwrightError, match="stop ID"):
        talk.page("/tasks end run-1")
    talk.page("/tasks stop all")
    for task in (first, third):
        with pytest.raises(CancelledError):
            task.future.result(60)
    assert len(talk.server.requests) == 1


def test_steer_is_a_command_too(talk: Talk, gate: Gate):
    talk.server.add(say("In tabs."))
    first = talk.start("one")
    gate.wait_until_reached()
    assert "“one”" in talk.page("/steer Use tabs.")
    with pytest.raises(CellwrightError, match="needs a message"):
        talk.page("/steer")
    gate.open()
    assert first.future.result(60).text == "In tabs."


def test_a_call_that_waits_for_the_users_cell_does_not_run_out_of_time(talk: Talk):
    jobs, told = talk.conversation.jobs, threading.Event()

    @tool
    async def look() -> str:
        """Look at something on the main thread."""
        return await jobs.call(lambda: "seen")

    def hear(event: Event) -> None:
        if isinstance(event, ToolProgress) and "Waiting for your cell" in event.message:
            told.set()

    talk.server.add(use("look"), say("Fine."))
    limit = WAITING_NOTICE_SECONDS * 4
    options = RunOptions(builtin_tools=False, tools=(look,), tool_timeout=limit, mode="bypassPermissions")
    task = talk.conversation.start(RunRequest(prompt="go", options=options, background=True), RunSurface(hear))
    assert told.wait(60)
    threading.Event().wait(limit)  # longer than the call may take
    asyncio.run(jobs.work_off())
    assert task.future.result(60).tools_succeeded == 1
    assert "seen" in str(talk.server.requests[-1].body["messages"][-1])


class Owner:
    """A run, as its jobs see it."""

    def __init__(self, future: Future[Any], *, background: bool) -> None:
        self.future = future
        self.background = background

    @property
    def done(self) -> bool:
        return self.future.done()


def test_a_job_in_the_background_is_the_main_threads(talk: Talk):
    """Where nobody waits the work is offered; a thread that waits for another run leaves it alone."""
    offered = threading.Event()
    jobs = CallerJobs(lambda _work: offered.set())
    ran_on: list[str] = []

    async def work() -> str:
        return await jobs.call(lambda: ran_on.append(threading.current_thread().name) or "done")

    with jobs.owned_by(Owner(Future(), background=True)):
        task = talk.conversation.thread.submit(work())
        other = threading.Thread(target=jobs.work_until_done, args=(task,), name="another thread")
        other.start()
        assert offered.wait(60)
        jobs.work_until_done(task)
        other.join()
    assert task.result() == "done"
    assert ran_on == ["MainThread"]


def test_the_owner_of_jobs_is_the_one_before_again_when_another_has_ended():
    jobs = CallerJobs()
    outer, inner = Owner(Future(), background=True), Owner(Future(), background=False)
    with jobs.owned_by(outer):
        with jobs.owned_by(inner):
            assert not jobs.in_background
        assert jobs.in_background
    assert not jobs.in_background
    # and ends that cross leave no owner that has ended
    first, second = jobs.owned_by(outer), jobs.owned_by(inner)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not jobs.in_background
    second.__exit__(None, None, None)
    assert not jobs.in_background


def test_a_job_is_done_by_the_thread_that_waits_for_its_run(talk: Talk):
    jobs, began = talk.conversation.jobs, threading.Event()
    ran_on: list[str] = []

    async def work() -> None:
        await jobs.call(lambda: ran_on.append(threading.current_thread().name))

    async def waits() -> None:
        began.set()
        await gate.wait()

    gate, has_owner = asyncio.Event(), asyncio.Event()
    other_run = talk.conversation.thread.submit(waits())
    began.wait()

    async def work_of_owner() -> None:
        await has_owner.wait()
        await work()

    owner = Owner(talk.conversation.thread.submit(work_of_owner()).future, background=False)
    with jobs.owned_by(owner):
        talk.conversation.thread.call(has_owner.set)
        waiting = threading.Thread(target=jobs.work_until_done, args=(owner,), name="the owner's")
        waiting.start()
        # it may be done already: then the callback runs here
        owner.future.add_done_callback(lambda _: talk.conversation.thread.loop.call_soon_threadsafe(gate.set))
        jobs.work_until_done(other_run)
        waiting.join()
    assert ran_on == ["the owner's"]


def test_text_of_a_run_is_its_own(talk: Talk, gate: Gate):
    talk.server.add(say("two"))
    one: list[Event] = []
    two: list[Event] = []
    first, second = talk.start("one", one), talk.start("two", two)
    gate.open()
    first.future.result(60)
    second.future.result(60)
    assert "".join(event.text for event in one if isinstance(event, TextDelta)) == "First done."
    assert "".join(event.text for event in two if isinstance(event, TextDelta)) == "two"

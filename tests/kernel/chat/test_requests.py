"""What the panel does with sessions: the requests, what they are refused for, and the session's title."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.conversation import Conversation
from cellwright.kernel.chat.requests import SessionRequests, SessionTitle
from cellwright.kernel.pages.comm import PageError
from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import sessions_folder
from cellwright.testing import Gate, MessagesServer, hold, say, turn
from row_tables import for_each_row

SECONDS = 60


class Panel:
    """A conversation, what the panel asks of it, and the titles that it is shown."""

    def __init__(self, server: MessagesServer, cwd: Path, home: Path) -> None:
        self.server = server
        environ = {"HOME": str(home), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
        self.conversation = Conversation(Host(cwd=cwd, interface="a test", environ=environ))
        self.requests = SessionRequests(self.conversation)
        self.titles: list[str] = []
        self._shown = asyncio.Condition()
        self.title = SessionTitle(self.conversation, self._on_loop, self.titles.append)
        self.conversation.observers.add(self.title)

    def _on_loop(self, call: Callable[..., object], *args: Any) -> None:
        self.conversation.thread.loop.call_soon_threadsafe(call, *args)

    def ask(self, name: str, **params: Any) -> Any:
        handler: Callable[..., Coroutine[Any, Any, Any]] = getattr(self.requests, name)
        return self.conversation.thread.submit(handler(None, params)).future.result(SECONDS)

    def say(self, prompt: str) -> Any:
        task = self.conversation.start(RunRequest(prompt=prompt, options=RunOptions(builtin_tools=False)), RunSurface())
        self.conversation.jobs.work_until_done(task)
        assert task.result().ok, task.result().error
        return task.result()

    def settled(self) -> list[str]:
        """The titles that were shown, when all that was begun for them is done."""

        async def settle() -> list[str]:
            while others := [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]:
                await asyncio.wait(others, timeout=SECONDS)
            return list(self.titles)

        return self.conversation.thread.submit(settle()).future.result(SECONDS)

    def listed(self, **params: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("list", **params)["sessions"]
        return found


@pytest.fixture
def panel_of(messages_server: Any, tmp_path: Path, own_place: Path) -> Iterator[Callable[..., Panel]]:
    folder = tmp_path / "project"
    folder.mkdir()
    made: list[Panel] = []

    def make(*script: Any) -> Panel:
        made.append(Panel(messages_server([*script]), folder, own_place))
        return made[-1]

    yield make
    for panel in made:
        panel.conversation.close()
        assert not panel.server.rejected


@pytest.fixture
def panel(panel_of: Callable[..., Panel]) -> Panel:
    """Two sessions: of two turns about tides, and the newest about bees, which goes on."""
    made = panel_of(*[say("The gauge says so.")] * 2, *[say("Yes.")] * 5)
    made.say("tides of Brest")
    made.say("and Saint-Malo")
    made.conversation.sessions.start_new()
    made.say("bees")
    return made


def test_the_list_page_by_page_and_the_search(panel: Panel) -> None:
    bees, tides = panel.listed()
    assert (bees["title"], bees["in_use"], tides["turns"], tides["in_use"]) == ("bees", True, 2, False)
    first = panel.ask("list", query="", limit=1, offset=0)
    assert ([each["id"] for each in first["sessions"]], first["more"]) == ([bees["id"]], True)
    rest = panel.ask("list", query=None, limit=1, offset=1)
    assert ([each["id"] for each in rest["sessions"]], rest["more"]) == ([tides["id"]], False)
    assert panel.listed(query="gauge malo")[0]["snippet"] == "and Saint-⟪Malo⟫"
    assert json.loads(json.dumps(panel.listed(query="bees")))[0]["id"] == bees["id"]


def test_resume_new_and_fork(panel: Panel) -> None:
    bees, tides = panel.listed()
    panel.ask("resume", id=tides["id"])
    assert (panel.conversation.sessions.current.id, len(panel.conversation.sessions.current.messages)) == (
        tides["id"],
        4,
    )
    panel.ask("resume", id=tides["id"])
    panel.say("once more")
    panel.ask("fork", id=tides["id"], turn=1)
    fork = panel.conversation.sessions.current
    assert (fork.forked_from, len(fork.messages)) == (tides["id"], 2)
    panel.say("from turn one")
    panel.ask("fork", id=bees["id"], turn=None)
    assert panel.conversation.sessions.current.forked_from == bees["id"]
    panel.ask("new")
    assert panel.conversation.sessions.current.encoded == []
    assert [each["turns"] for each in panel.listed() if each["id"] == tides["id"]] == [3]


def test_a_fork_stays_in_the_mode_that_the_session_came_to(panel: Panel) -> None:
    session = panel.conversation.sessions.current
    session.mode = "plan"
    panel.ask("fork", id=session.id, turn=None)
    assert panel.conversation.sessions.current.mode == "plan"


def test_branches_are_the_sessions_with_another_turn_in_the_place_of_one(panel: Panel) -> None:
    bees, tides = (each["id"] for each in panel.listed())

    def ask_anew(session: str, turn: int, prompt: str) -> str:
        panel.ask("fork", id=session, turn=turn - 1)
        panel.say(prompt)
        return panel.conversation.sessions.current.id

    assert panel.ask("branches") == {"turns": {}}
    second = ask_anew(tides, 2, "and Cancale")
    assert panel.ask("branches") == {"turns": {"2": [tides, second]}}
    third = ask_anew(second, 2, "and Dinard")
    first = ask_anew(tides, 1, "tides of Dover")
    assert panel.ask("branches") == {"turns": {"1": [third, first]}}
    panel.ask("resume", id=second)
    # of those that share the first turn, the one that is looked at stands for all
    assert panel.ask("branches") == {"turns": {"1": [second, first], "2": [tides, second, third]}}
    sent = panel.server.requests[-1].body["messages"]
    assert "tides of Brest" not in str(sent)
    panel.ask("resume", id=bees)
    assert panel.ask("branches") == {"turns": {}}


def test_rename_tag_export_and_delete(panel: Panel) -> None:
    bees, tides = panel.listed()
    assert panel.ask("rename", id=tides["id"], title="Tides")["title"] == "Tides"
    assert panel.ask("tag", id=tides["id"], tags=["keep", "thesis"])["tags"] == ["keep", "thesis"]
    for form, ending, begin in (("markdown", ".md", "# Tides\n"), ("notebook", ".ipynb", "{"), ("json", ".json", "{")):
        exported = panel.ask("export", id=tides["id"], format=form)
        assert exported["name"] == f"claude-{tides['id']}{ending}"
        assert exported["text"].startswith(begin)
    assert exported["media_type"] == "application/json"
    with pytest.raises(CellwrightError, match="in use"):
        panel.ask("delete", id=bees["id"])
    panel.ask("delete", id=tides["id"])
    assert [each["id"] for each in panel.listed()] == [bees["id"]]
    with pytest.raises(CellwrightError) as gone:
        panel.ask("resume", id=tides["id"])
    assert gone.value.code == ErrorCode.SESSION_NOT_FOUND


@for_each_row(
    ("method", "params"),
    [
        ("resume", {}),
        ("resume", {"id": ""}),
        ("resume", {"id": 3}),
        ("fork", {"id": "x", "turn": "1"}),
        ("rename", {"id": "x"}),
        ("tag", {"id": "x", "tags": "keep"}),
        ("tag", {"id": "x", "tags": [1]}),
        ("export", {"id": "x"}),
        ("list", {"query": 1}),
    ],
)
def test_params_that_make_no_sense(method: str, params: dict[str, Any], panel_of: Callable[..., Panel]) -> None:
    with pytest.raises(PageError) as refused:
        panel_of().ask(method, **params)
    assert refused.value.code == "invalid"


def test_no_other_folders_session_is_reached(panel: Panel, tmp_path: Path) -> None:
    elsewhere = Session.create(tmp_path, sessions_folder(tmp_path))
    elsewhere.begin(model="claude-opus-5-5", system=[], tools=[])
    elsewhere.append({"role": "user", "content": "elsewhere"})
    elsewhere.close()
    for method, params in (("resume", {}), ("delete", {}), ("export", {"format": "json"}), ("rename", {"title": "x"})):
        with pytest.raises(CellwrightError) as refused:
            panel.ask(method, id=elsewhere.id, **params)
        assert refused.value.code == ErrorCode.SESSION_NOT_FOUND


def test_while_a_run_goes_on_no_other_session_is_gone_on_with(panel_of: Callable[..., Panel]) -> None:
    gate = Gate()
    panel = panel_of(say("One."), turn(say("Tw"), hold(gate), say("o.")))
    panel.say("one")
    first = panel.conversation.sessions.current
    panel.ask("new")
    task = panel.conversation.start(RunRequest(prompt="two", options=RunOptions(builtin_tools=False)), RunSurface())
    gate.wait_until_reached(SECONDS)
    going_on = panel.conversation.sessions.current.id
    for method, params in (("resume", {"id": first.id}), ("new", {}), ("fork", {"id": first.id, "turn": None})):
        with pytest.raises(CellwrightError, match="still working"):
            panel.ask(method, **params)
    panel.ask("rename", id=going_on, title="Named meanwhile")
    assert [each["id"] for each in panel.listed()] == [going_on, first.id], "a refused fork leaves nothing"
    gate.open()
    panel.conversation.jobs.work_until_done(task)
    assert task.result().ok
    assert panel.conversation.sessions.current.id == going_on


def test_the_title_follows_the_session(panel_of: Callable[..., Panel]) -> None:
    panel = panel_of(say("One."), say("Two."))
    panel.say("count the bees\nplease")
    assert panel.settled()[-1] == "count the bees"
    first = panel.conversation.sessions.current.id
    panel.ask("new")
    assert panel.settled()[-1] == ""
    panel.ask("rename", id=first, title="Bees")
    panel.ask("resume", id=first)
    assert panel.settled()[-1] == "Bees"
    assert len(panel.server.requests) == 1, "first words cost nothing"


def named_by_model(home: Path) -> None:
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text('{"cellwright": {"sessionTitles": "model"}}')


def test_where_it_is_set_the_small_model_names_a_session_once(panel_of: Any, own_place: Path) -> None:
    named_by_model(own_place)
    panel = panel_of(say("One."), say('"Bees counted."'), say("Two."))
    panel.say("count the bees")
    assert panel.settled()[-1] == "Bees counted."
    cost = panel.conversation.sessions.current.cost_usd
    panel.say("again")
    assert panel.settled()[-1] == "Bees counted."
    models = [request.body["model"] for request in panel.server.requests]
    assert [model.split("-")[1] for model in models] == ["opus", "haiku", "opus"]
    assert cost is not None
    assert cost > panel.listed()[0]["cost_usd"] / 2 > 0
    assert panel.listed()[0]["cost_usd"] == pytest.approx(panel.conversation.sessions.current.cost_usd)


def test_a_title_that_fails_costs_no_run_and_is_not_asked_for_in_vain(panel_of: Any, own_place: Path) -> None:
    named_by_model(own_place)
    panel = panel_of(say("One."), say(" "))
    panel.say("count the bees")
    assert panel.settled()[-1] == "count the bees"


def test_what_is_not_kept_on_disk_is_not_named(panel_of: Any, own_place: Path) -> None:
    named_by_model(own_place)
    panel = panel_of(say("One."))
    session = Session.create(panel.conversation.cwd, None)
    task = panel.conversation.start(
        RunRequest(prompt="x", options=RunOptions(builtin_tools=False), session=session), RunSurface()
    )
    panel.conversation.jobs.work_until_done(task)
    assert task.result().ok
    panel.settled()
    assert len(panel.server.requests) == 1

"""Completion in the panel and prompt cells, without running anything of the user's; and inline completion of code."""

from __future__ import annotations

import ast
import asyncio
import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from notebook_kernel import NotebookKernel
from notebook_page import NotebookPage
from plain_shell import plain_shell, run

from cellwright.commands.completion import Completion, agent_items, best, commands, file_mention, path_score, score
from cellwright.commands.registry import COMMANDS
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.conversation.mentions import find_mentions
from cellwright.errors import CellwrightError, ToolError
from cellwright.features.agents.feature import Agents
from cellwright.features.skills import Skills
from cellwright.kernel.chat.completions import (
    CELLS_SECONDS,
    Completions,
    Items,
    completions,
)
from cellwright.testing import Gate, MessagesServer, fault, hold, say, turn
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import Cell, NothingOpen, OpenNotebook
from eventual import paces
from row_tables import for_each_row

# the browser's tests read the same file: it orders what it knows while the kernel has not answered
ORDERS = json.loads((Path(__file__).parents[3] / "docs/protocol/completion-order.json").read_text("utf-8"))

pytestmark = pytest.mark.kernel

NAMESPACE = """
import json
rates = {"secret": "walrus"}
def tide(hour, place):
    return 0
class Gull:
    def __repr__(self):
        raise RuntimeError("nobody asks it")
gull = Gull()
"""

_ids = itertools.count()


@for_each_row("case", ORDERS["names"])
def test_the_likeliest_name_comes_first(case: dict[str, Any]) -> None:
    assert best(case["query"], case["of"], str, 20) == case["order"]


@for_each_row("case", ORDERS["paths"])
def test_the_name_of_a_file_counts_more_than_its_folders(case: dict[str, Any]) -> None:
    assert best(case["query"], case["of"], str, 20, path_score) == case["order"]


def test_the_places_found_are_the_nearest() -> None:
    assert (score("abc", "a_x_abc") or 0) > (score("abc", "a_xxbxxc_") or 0)
    assert score("abc", "ab") is None
    assert score("", "anything") is not None


class Own(NothingOpen):
    """The kernel's notebook is the file at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def own(self) -> OpenNotebook | None:
        return FileNotebook(self.path) if self.path.exists() else None


CELLS = [
    ("intro", "markdown", "# Prices\n\nof pears", None),
    ("load-it", "code", "\nprices = read()", 7),
    ("plot", "code", "", None),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    checkpoint = ".ipynb_checkpoints/app-checkpoint.ipynb"
    names = ("src/app.py", "src/deep/app_test.py", "notes.md", "two words.txt", "node/index.js", ".hidden/x.py")
    for name in (*names, checkpoint):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    (folder / ".ignore").write_text("node/\n")
    cells: list[dict[str, Any]] = []
    for cell_id, kind, source, count in CELLS:
        cell: dict[str, Any] = {"id": cell_id, "cell_type": kind, "metadata": {}, "source": source}
        cells.append({**cell, "execution_count": count, "outputs": []} if kind == "code" else cell)
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "prices.ipynb").write_text(json.dumps(notebook))
    return folder


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    with plain_shell() as made:
        yield made


def of_features(project: Path) -> tuple[Callable[[str], Items], Callable[[str], Items]]:
    in_force = SettingsInForce(project, {"HOME": str(project)})
    skills, agents = Skills(in_force), Agents(in_force)

    async def of_commands(text: str) -> list[Completion]:
        return commands(text, skills.all(), {})

    async def of_agents(text: str) -> list[Completion]:
        return agent_items(agents, text)

    return of_commands, of_agents


@pytest.fixture
def room(shell: InteractiveShell, project: Path) -> Completions:
    return completions(shell, Own(project / "prices.ipynb"), project, lambda: True, *of_features(project))


def ask(room: Completions, kind: str, text: str) -> list[dict[str, Any]]:
    answer = asyncio.run(room.complete(None, {"kind": kind, "text": text, "notebook": "prices.ipynb"}))
    json.dumps(answer)
    return list(answer["items"])  # type: ignore[arg-type]


def inserts(items: list[dict[str, Any]]) -> list[str]:
    return [item["insert"] for item in items]


@pytest.mark.parametrize("respects", [True, False])
def test_ignored_files_are_offered_where_the_settings_say_so(
    shell: InteractiveShell, project: Path, respects: bool
) -> None:
    room = completions(shell, Own(project / "no.ipynb"), project, lambda: respects, *of_features(project))
    found = "".join(inserts(ask(room, "mention", "index")))
    assert ("node/index.js" in found) is not respects


def test_all_commands_with_what_they_take(room: Completions) -> None:
    items = ask(room, "command", "")
    assert [item["label"].partition(" ")[0] for item in items[: len(COMMANDS)]] == [f"/{name}" for name in COMMANDS]
    assert "/code-review " in inserts(items)
    steer = next(item for item in items if item["label"].startswith("/steer"))
    assert steer == {
        "insert": "/steer ",
        "label": "/steer TEXT",
        "about": COMMANDS["steer"].help,
        "kind": "command",
    }
    assert "/status" in inserts(items)  # it takes nothing: no space follows
    assert inserts(ask(room, "command", "perm")) == ["/permissions"]


def test_files_of_the_project_but_not_the_ignored_ones(room: Completions) -> None:
    found = inserts(ask(room, "mention", ""))
    assert '@"two words.txt"' in found
    assert "@src/" in found
    assert "@.hidden/x.py" in found
    assert not any("node/" in each or "checkpoint" in each for each in found)
    assert inserts(ask(room, "mention", "app"))[:2] == ["@src/app.py", "@src/deep/app_test.py"]
    assert inserts(ask(room, "mention", "sapp"))[0] == "@src/app.py"
    assert inserts(ask(room, "mention", "src/d"))[0] == "@src/deep/"
    assert inserts(ask(room, "mention", '"two w'))[0] == '@"two words.txt"'


@for_each_row("path", ["a.py", "two words.txt", "src/", "a(1).txt", "ü.md", "x@y.txt", "a'b.txt", "cell:3", "e."])
def test_what_is_inserted_is_understood_as_that_path(path: str) -> None:
    (mention,) = find_mentions(f"see {file_mention(path)} please")
    assert (mention.kind, mention.name) == ("file", path)


@pytest.mark.parametrize("path", ['a"b.txt', "a\nb.txt"])
def test_what_cannot_be_mentioned_is_not_offered(path: str) -> None:
    assert file_mention(path) == ""


def test_a_new_file_is_there_soon(room: Completions, project: Path) -> None:
    async def look() -> None:
        await room.complete(None, {"kind": "mention", "text": "fresh"})
        (project / "fresh.csv").write_text("")
        async with asyncio.timeout(60):
            while not (await room.complete(None, {"kind": "mention", "text": "fresh"}))["items"]:
                await asyncio.sleep(0.05)  # a listing is kept for a moment

    asyncio.run(look())


def test_cells_by_number_count_id_and_first_line(room: Completions) -> None:
    items = ask(room, "mention", "cell:")
    assert inserts(items) == ["@cell:intro", "@cell:load-it", "@cell:plot"]
    assert [(item["label"], item["about"]) for item in items] == [
        ("cell:1", "# Prices"),
        ("cell:[7]", "prices = read()"),
        ("cell:3", ""),
    ]
    assert inserts(ask(room, "mention", "cell:7")) == ["@cell:load-it"]
    assert inserts(ask(room, "mention", "cell:[7]")) == ["@cell:load-it"]
    assert inserts(ask(room, "mention", "cell:3")) == ["@cell:plot"]
    assert inserts(ask(room, "mention", "cell:read"))[0] == "@cell:load-it"
    assert "@cell:load-it" in inserts(ask(room, "mention", "ce"))
    assert "@cell:load-it" in inserts(ask(room, "mention", "read"))


class SlowPage(FileNotebook):
    """A notebook whose page answers only after more than what is waited for where files are asked for as well."""

    async def cells(self, *, outputs: bool = True) -> list[Cell]:
        answered = asyncio.Event()
        asyncio.get_running_loop().call_later(CELLS_SECONDS * 1.5, answered.set)
        await answered.wait()
        return await super().cells(outputs=outputs)


class OwnSlow(Own):
    def own(self) -> OpenNotebook:
        return SlowPage(self.path)


def test_a_slow_page_is_waited_for_where_nothing_but_its_cells_is_meant(shell: InteractiveShell, project: Path) -> None:
    room = completions(shell, OwnSlow(project / "prices.ipynb"), project, lambda: True, *of_features(project))
    assert inserts(ask(room, "mention", "cell:7")) == ["@cell:load-it"]
    assert inserts(ask(room, "mention", "app"))[0] == "@src/app.py"


def test_variables_with_type_and_shape_and_nothing_of_the_users_run(room: Completions, shell: InteractiveShell) -> None:
    import numpy

    run(
        shell,
        "class Shy:\n"
        "    def __repr__(self): raise RuntimeError\n"
        "    def __getattribute__(self, name): raise RuntimeError\n"
        "    def __len__(self): raise RuntimeError\n"
        "shy = Shy()\nprices = [3, 4]\nprice_of = {'pears': 3}\nimport math\n_hidden = 1\nrate = 0.5",
    )
    shell.user_ns["grid"] = numpy.zeros((120, 5))
    items = {item["label"]: item["about"] for item in ask(room, "variable", "")}
    assert next(iter(items)) == "grid"
    assert items == {
        "grid": "numpy.ndarray 120 × 5",
        "rate": "float",
        "price_of": "dict of 1",
        "prices": "list of 2",
        "shy": "Shy",
        "math": "module",
        "Shy": "type",
    }
    assert inserts(ask(room, "variable", "pri")) == ["$prices", "$price_of"]


def test_options_of_the_magic(room: Completions) -> None:
    first, *rest = ask(room, "option", "")
    assert first["insert"] == "--model "
    assert len(rest) > 20
    assert [item["label"] for item in ask(room, "option", "budg")] == ["--budget USD"]


def test_a_folder_that_cannot_be_listed_leaves_the_cells(shell: InteractiveShell, project: Path) -> None:
    room = completions(shell, Own(project / "prices.ipynb"), project / "gone", lambda: True, *of_features(project))
    items = ask(room, "mention", "")
    assert inserts(items)[:3] == ["@cell:intro", "@cell:load-it", "@cell:plot"]
    assert {item["kind"] for item in items} == {"cell", "agent"}


def test_agents_are_mentioned(room: Completions) -> None:
    (agent,) = ask(room, "mention", "agent-expl")
    assert (agent["insert"], agent["kind"]) == ("@agent-Explore", "agent")
    assert agent["about"].startswith("Finds out where")
    assert inserts(ask(room, "mention", "ag"))[0].startswith("@agent-")
    assert "@agent-Explore" in inserts(ask(room, "mention", "Explo"))


class Silent(NothingOpen):
    """A page that says nothing of its notebook."""

    def own(self) -> Any:
        return self

    async def cells(self, *, outputs: bool) -> Any:
        raise ToolError("The page does not answer.")


def test_a_page_that_does_not_answer_leaves_the_files(shell: InteractiveShell, project: Path) -> None:
    assert "@notes.md" in inserts(
        ask(completions(shell, Silent(), project, lambda: True, *of_features(project)), "mention", "")
    )


@pytest.mark.parametrize(
    "params", [{}, {"kind": "command"}, {"kind": "spell", "text": ""}, {"kind": "variable", "text": "x" * 301}]
)
def test_params_that_make_no_sense(room: Completions, params: dict[str, Any]) -> None:
    with pytest.raises(CellwrightError, match="complete:"):
        asyncio.run(room.complete(None, params))


def test_many_files_take_no_second(shell: InteractiveShell) -> None:
    paths = [f"package_{number % 97}/module_{number % 13}/file_{number}.py" for number in range(50_000)]
    assert best("pkgfile4999", paths, str, 50, path_score)[0].endswith("file_4999.py")
    assert paces(lambda: best("pkgfile4999", paths, str, 50, path_score), 200) < 200


def test_a_name_that_is_no_text_is_left_out(room: Completions, project: Path) -> None:
    (project / os.fsdecode(b"odd\xff.txt")).write_text("x")
    assert not any("odd" in each for each in inserts(ask(room, "mention", "odd")))


class Asking:
    """A page that asks for completions."""

    def __init__(self, page: NotebookPage) -> None:
        self.page = page

    def begin(self, prefix: str, suffix: str = "", *cells: dict[str, Any], method: str = "code") -> str:
        name = f"c{next(_ids)}"
        params = {"prefix": prefix, "suffix": suffix, "cells": cells, "language": "python"}
        self.page.say({"type": "request", "id": name, "method": method, "params": params})
        return name

    def reply(self, name: str) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            got = (said for said in self.page.got if said["type"] == "reply")
            return next((said for said in got if said["id"] == name), None)

        if found() is None:
            self.page.kernel.wait_for(lambda _: found() is not None)
        reply = found()
        assert reply is not None
        return reply

    def text(self, *gap: Any) -> str:
        return str(self.reply(self.begin(*gap))["result"]["text"])


@pytest.fixture
def asking(kernel: NotebookKernel, project: Path) -> Iterator[Asking]:
    page = NotebookPage(kernel, project / "notebook.ipynb", ("a1", "code", "x = 1"))
    page.open()
    yield Asking(page)
    page.close()
    kernel.run("")  # the goodbye has arrived before the next test


def asked(model: MessagesServer) -> str:
    """What the newest request told the model."""
    return "\n".join(block["text"] for block in model.requests[-1].body["messages"][0]["content"])


def test_what_is_missing_comes_from_the_small_model_with_the_notebook_as_context(
    asking: Asking, kernel: NotebookKernel, model: MessagesServer
) -> None:
    kernel.run(NAMESPACE)
    model.add(turn(say("<insert>(12, 'Vigo')")))
    above, below = {"source": "import json"}, {"source": "print(high)", "below": True}
    reply = asking.reply(asking.begin("high = tide", "\n", above, below))["result"]
    assert reply["text"] == "(12, 'Vigo')"
    assert 0 < reply["cost_usd"] < 0.01
    request = model.requests[-1].body
    assert request["model"] == "claude-haiku-5-5"
    assert request["stop_sequences"] == ["</insert>"]
    assert request["output_config"] == {"effort": "low"}
    assert request["max_tokens"] <= 1_000
    assert "tools" not in request
    told = asked(model)
    assert "high = tide⟦cursor⟧" in told
    for known in (
        "import json",
        "print(high)",
        "json: module json",
        "tide: function(hour, place)",
        "gull: Gull",
        "rates: dict",
    ):
        assert known in told
    assert "walrus" not in told, "values are the user's"


def test_it_comes_while_a_cell_runs(asking: Asking, kernel: NotebookKernel, model: MessagesServer) -> None:
    if not kernel.has_subshells:
        pytest.skip("ipykernel 6 takes no message while a cell runs")
    model.add(turn(say("<insert>1")))
    cell = kernel.begin("import threading; gate = threading.Event(); gate.wait(60)")
    kernel.wait_for(lambda said: said["msg_type"] == "execute_input")
    assert asking.text("x = ") == "1"
    opened = kernel.control("create_subshell_request")["subshell_id"]
    kernel.begin("gate.set()", subshell=opened)
    assert kernel.finish(cell).status == "ok"


@pytest.mark.parametrize("method", ["code", "code_stop"])
def test_a_newer_request_ends_the_older_one_down_to_its_connection(
    asking: Asking, model: MessagesServer, method: str
) -> None:
    gate = Gate()
    model.add(turn(say("<insert>never"), hold(gate)))
    before = sum(request.disconnected for request in model.requests)
    older = asking.begin("x = ")
    gate.wait_until_reached()
    if method == "code":
        model.add(turn(say("<insert>2")))
    newer = asking.begin("x = 1", method=method)
    model.wait_for_disconnect(before + 1)
    gate.open()
    ended = asking.reply(older)["result"]
    assert ended["text"] == ""
    assert ended["cost_usd"] > 0, "what was begun is paid for"
    assert ended["stopped"]
    answer = asking.reply(newer)["result"]
    assert answer is None if method == "code_stop" else (answer["text"], answer["stopped"]) == ("2", False)


def test_the_answer_is_left_when_no_more_of_it_would_be_used(asking: Asking, model: MessagesServer) -> None:
    gate = Gate()
    model.add(turn(say("<insert>first\nsecond and so on"), hold(gate)))
    before = sum(request.disconnected for request in model.requests)
    assert asking.text("f(", ", b=2)") == "first"
    model.wait_for_disconnect(before + 1)
    gate.open()


def test_nothing_is_tried_again(asking: Asking, model: MessagesServer) -> None:
    model.add(turn(fault("status", status=529, retry_after_ms=60_000)))
    assert asking.reply(asking.begin("x = "))["error"]["code"] == "API_OVERLOADED"


def test_secrets_are_kept_here(asking: Asking, model: MessagesServer) -> None:
    key = "sk-ant-api03-" + "aB3dE5fG7h" * 9
    model.add(turn(say("<insert>1")))
    asking.text("x = ", "", {"source": f"client = connect('{key}')"})
    assert key not in json.dumps(model.requests[-1].body)
    assert "[secret removed:" in asked(model)


def test_what_it_costs_is_counted_with_the_session_and_stops_at_the_days_budget(
    asking: Asking, kernel: NotebookKernel, model: MessagesServer
) -> None:
    settings = Path(ast.literal_eval(kernel.value("__import__('os').environ['HOME']")), ".claude", "settings.json")
    settings.parent.mkdir(exist_ok=True)
    kernel.run(COST)
    model.add(turn(say("Hello.")), turn(say("<insert>1")), turn(say("<insert>2")))
    kernel.run("%%claude --quiet\nHello")
    asking.text("x = ")  # with it, what was spent before there was a session
    before = float(kernel.value("_cost()"))
    cost = asking.reply(asking.begin("y = "))["result"]["cost_usd"]
    assert float(kernel.value("_cost()")) == pytest.approx(before + cost)
    assert "completions" in kernel.run("%claude /status").outputs[0]["text/plain"]
    page = kernel.run("%claude /cost").outputs[0]["text/plain"]
    assert "of it completions" in page
    assert "of $1.00" in page
    settings.write_text(json.dumps({"cellwright": {"inlineCompletionBudget": 0}}))
    try:
        error = asking.reply(asking.begin("x = "))["error"]
        assert error["code"] == "BUDGET_EXCEEDED"
        settings.write_text(json.dumps({"cellwright": {"inlineCompletion": False}}))
        assert asking.reply(asking.begin("x = "))["error"]["code"] == "PERMISSION_DENIED"
        settings.write_text(json.dumps({"deniedModels": ["haiku"]}))
        assert asking.reply(asking.begin("x = "))["error"]["code"] == "CONFIG_INVALID"
    finally:
        settings.unlink()


COST = """
def _cost():
    shell = get_ipython()
    return shell.find_cell_magic("claude").__self__.extension.conversation().conversation.sessions.current.cost_usd
"""


def test_what_makes_no_sense_is_said(asking: Asking) -> None:
    asking.page.say({"type": "request", "id": "bad", "method": "code", "params": {"prefix": 3}})
    assert asking.reply("bad")["error"]["code"] == "invalid"

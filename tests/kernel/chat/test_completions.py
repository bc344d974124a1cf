"""What the panel completes: commands, files, cells and variables, best first, without running anything of the user's."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
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
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import Cell, NothingOpen, OpenNotebook
from eventual import paces
from row_tables import for_each_row

# the browser's tests read the same file: it orders what it knows while the kernel has not answered
ORDERS = json.loads((Path(__file__).parents[3] / "docs/protocol/completion-order.json").read_text("utf-8"))


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

"""Outputs that only a page draws: which they are, and what Claude reads in the place of a picture."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.notebook_page import MAX_OUTPUTS, is_drawn, pictures_of, with_pictures
from cellwright.tools.notebook.open_notebook import Cell, DrawnOutput, OutputPlace

EXAMPLES = json.loads((Path(__file__).parents[3] / "docs/protocol/drawn-outputs.json").read_text("utf-8"))
STYLED = {"text/html": "<b style='color: red'>1</b>", "text/plain": "1"}


def test_the_examples_that_the_page_is_held_to_as_well() -> None:
    wrong = [example["name"] for example in EXAMPLES if is_drawn(example["data"]) != example["drawn"]]
    assert not wrong


def cell(*data: dict[str, Any], name: str = "a") -> Cell:
    outputs = tuple({"output_type": "display_data", "data": each, "metadata": {}} for each in data)
    return Cell(id=name, cell_type="code", source="x", position=0, outputs=outputs)


class Shown(FileNotebook):
    """A notebook in a page that draws what `answers` says, one after another."""

    def __init__(self, *answers: DrawnOutput) -> None:
        super().__init__(Path("a.ipynb"))
        self.answers = answers
        self.asked: list[OutputPlace] = []

    async def pictures(self, places: Sequence[OutputPlace]) -> list[DrawnOutput]:
        self.asked += places
        return [self.answers[index % len(self.answers)] for index in range(len(places))]


def shown(notebook: FileNotebook, *cells: Cell) -> list[dict[str, Any]]:
    async def work() -> list[Cell]:
        return with_pictures(cells, await pictures_of(notebook, cells))

    return [dict(output["data"]) for each in asyncio.run(work()) for output in each.outputs]


def test_a_picture_stands_beside_the_text_and_what_is_read_anyway_is_not_asked_for() -> None:
    notebook = Shown(DrawnOutput(data="cGljdHVyZQ==", media_type="image/jpeg", note="[its lower part is cut off]"))
    plain, drawn = shown(notebook, cell({"text/plain": "3"}, STYLED))
    assert plain == {"text/plain": "3"}
    assert drawn["image/jpeg"] == "cGljdHVyZQ=="
    assert drawn["text/plain"].startswith("1\n[the picture")
    assert drawn["text/plain"].endswith("cut off]")
    assert notebook.asked == [OutputPlace("a", 1, ("text/html", "text/plain"))]


def test_the_reason_and_what_to_do_instead_are_said_once_and_nothing_of_what_shows_nothing() -> None:
    refused, nothing = DrawnOutput(problem="the user said no"), DrawnOutput()
    first, second, third = shown(Shown(refused, refused, nothing), cell(STYLED, STYLED, STYLED))
    assert "user said no" in first["text/plain"]
    assert "1\n[no picture" in second["text/plain"]
    assert third == STYLED


@pytest.mark.parametrize("count", [MAX_OUTPUTS, MAX_OUTPUTS + 1])
def test_a_notebook_of_charts_asks_for_some_of_them(count: int) -> None:
    notebook = Shown(DrawnOutput())
    texts = [each["text/plain"] for each in shown(notebook, *[cell(STYLED, name=f"c{n}") for n in range(count)])]
    assert len(notebook.asked) == MAX_OUTPUTS
    assert ("read fewer cells" in texts[-1]) == (count > MAX_OUTPUTS)


def test_nothing_draws_a_file() -> None:
    (only,) = shown(FileNotebook(Path("a.ipynb")), cell(STYLED))
    assert "no page shows" in only["text/plain"]

"""What a saved answer keeps of its numbers: the places in the notebook's cells, and nothing if none came from there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chat_panel import ChatPanel
from notebook_kernel import Cell, NotebookKernel
from notebook_page import NotebookPage

from cellwright.features.numbers.stale import stale_answers
from cellwright.kernel.pages.open_notebooks import cell_of
from cellwright.testing import MessagesServer, say, turn, use

pytestmark = [pytest.mark.kernel, pytest.mark.kernel_version]

PRINTED = {"output_type": "stream", "name": "stdout", "text": "visits 812\nmean 2.4123\n"}


def answer_of(cell: Cell) -> dict[str, Any]:
    """The output that the notebook keeps of the cell's answer."""
    updates = [message["content"] for message in cell.messages if message["msg_type"] == "update_display_data"]
    return {"output_type": "display_data", "data": updates[-1]["data"], "metadata": updates[-1]["metadata"]}


def test_an_answer_keeps_the_places_of_its_numbers_in_cells(
    kernel: NotebookKernel, model: MessagesServer, project: Path
) -> None:
    path = project / "kept.ipynb"
    path.write_text(json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}), "utf-8")
    page = NotebookPage(kernel, path, ("a1", "code", "print(wait)"))
    page.cells[0].update(outputs=[PRINTED], execution_count=3)
    page.open()
    try:
        model.add(turn(use("NotebookRead", notebook_path="kept.ipynb")), turn(say("The mean is 2.41 minutes.")))
        ran = kernel.run("%%claude\nHow long?")
        output = answer_of(ran)
        record = output["metadata"]["cellwright"]["numbers"]
        assert [(number["text"], number["cell"]) for number in record["n"]] == [("2.41", "a1")]
        # as it is opened again: the cell has run with another value since
        again = {**page.cells[0], "execution_count": 5, "outputs": [{**PRINTED, "text": "visits 812\nmean 2.6312\n"}]}
        asked = {**NotebookPage.cell("c2", "code", "%%claude\nHow long?"), "outputs": [output]}
        found = stale_answers([cell_of(again, 0), cell_of(asked, 1)])
        assert [number["words"] for number in found["c2"]["numbers"]] == ["cell [5] gave 2.4123 then, 2.6312 now"]
        # a number that nothing gave, and a prompt's own
        model.add(turn(say("Some 48.25 of 17.5.")))
        metadata = answer_of(kernel.run("%%claude\nWhat of 17.5?"))["metadata"]["cellwright"]
        assert "session" in metadata
        assert "numbers" not in metadata
    finally:
        page.close()
        kernel.run("")  # the goodbye has arrived before the next test


def test_a_panels_answer_is_stale_when_its_cell_has_run_again_and_is_written_anew_by_its_title(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel, project: Path
) -> None:
    path = project / "panel.ipynb"
    path.write_text(json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}), "utf-8")
    page = NotebookPage(kernel, path, ("a1", "code", "print(wait)"))
    page.cells[0].update(outputs=[PRINTED], execution_count=3)
    page.open()

    def stale(request: str) -> list[dict[str, Any]]:
        page.say({"type": "request", "id": request, "method": "stale_numbers", "params": {}})
        panel.wait(lambda: any(each.get("id") == request for each in page.got))
        return next(each for each in page.got if each.get("id") == request)["result"]["answers"]

    try:
        assert stale("before any answer") == []
        model.add(turn(use("NotebookRead", notebook_path="panel.ipynb")), turn(say("The mean is 2.41 minutes.")))
        panel.wait_for_end(panel.prompt("How long?"))
        assert stale("nothing has changed") == []
        page.cells[0].update(outputs=[{**PRINTED, "text": "visits 812\nmean 2.6312\n"}], execution_count=5)
        (answer,) = stale("it ran again")
        assert [number["words"] for number in answer["numbers"]] == ["cell [5] gave 2.4123 then, 2.6312 now"]
        assert answer["title"] == "Refresh 1 number"
        model.add(turn(say("The mean is 2.63 minutes.")))
        panel.wait_for_end(panel.prompt(answer["title"]))
        assert answer["refresh"] in json.dumps(model.requests[-1].body["messages"][-1], ensure_ascii=False).replace(
            "\\n", "\n"
        ).replace('\\"', '"')
    finally:
        page.close()
        kernel.run("")

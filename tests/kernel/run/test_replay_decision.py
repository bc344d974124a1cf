"""Which turn of which recording a cell's prompt is; which notebook this is; what its cells held before."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.kernel.run.notebook import FrontEnd, this_notebook
from cellwright.kernel.run.recorded_run import SavedAnswers
from cellwright.kernel.run.replay_decision import PromptPositions, default_recording, found_in
from cellwright.sessions.provenance import provenance


def test_a_cell_that_is_run_again_is_the_same_place():
    places = PromptPositions()
    runs = [("a", "1"), ("b", "2"), ("a", "3"), ("a", "4"), ("c", "5")]
    assert [places.nth("key", cell_id=cell, execution=run) for cell, run in runs] == [1, 2, 1, 1, 3]
    assert places.nth("other", cell_id="a", execution="6") == 1


def test_a_loop_in_a_cell_has_a_place_for_each_and_so_has_a_run_without_cell_ids():
    places = PromptPositions()
    assert [places.nth("key", cell_id="a", execution="1") for _ in range(3)] == [1, 2, 3]
    assert [places.nth("key", cell_id="a", execution="2") for _ in range(3)] == [1, 2, 3]
    places = PromptPositions()
    assert [places.nth("key", cell_id=None, execution=run) for run in ("1", "2", "3")] == [1, 2, 3]


def test_the_recording_of_a_notebook_that_nothing_names_is_found_by_its_prompt(tmp_path):
    assert found_in(tmp_path, lambda _: True) is None
    one, two = (default_recording(tmp_path / f"{name}.ipynb") for name in ("one", "two"))
    one.touch()
    assert one.name == "one.cellwright.jsonl"
    assert found_in(tmp_path, lambda _: False) == one  # what it lacks is said when it is played
    two.touch()
    assert found_in(tmp_path, two.samefile) == two
    assert found_in(tmp_path, lambda _: False) is None
    with pytest.raises(CellwrightError, match="several of them hold this prompt") as caught:
        found_in(tmp_path, lambda _: True)
    assert caught.value.code == ErrorCode.CONFIG_INVALID
    assert "CELLWRIGHT_RECORDING" in caught.value.message


def test_a_notebook_that_runs_another_does_not_give_it_its_name(tmp_path):
    outer, inner = tmp_path / "outer.ipynb", tmp_path / "inner.ipynb"
    environ = {"JPY_SESSION_NAME": str(outer)}
    watched, headless = FrontEnd(None, True, "cell", ""), FrontEnd(None, False, None, "")
    assert this_notebook(watched, {}, environ) == outer
    assert this_notebook(headless, {}, environ) is None
    told = {"PAPERMILL_INPUT_PATH": str(inner)}
    assert this_notebook(headless, told, environ) is None  # it is not there
    inner.touch()
    assert this_notebook(headless, told, environ) == inner
    assert this_notebook(headless, {"PAPERMILL_INPUT_PATH": 3}, environ) is None


def notebook(path: Path, *cells: tuple[str, str | None]) -> Path:
    """A notebook whose cells hold answers to the prompts with these keys."""
    made = []
    for name, key in cells:
        said = provenance(session="earlier", turn=1, model="m", prompt_sha256=key or "", recording=None)
        data = {"text/markdown": ["The ", "answer"]}
        output = {"output_type": "display_data", "data": data, "metadata": said}
        made.append({"cell_type": "code", "id": name, "source": "", "outputs": [output] if key else []})
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"cells": made, "nbformat": 4}))
    os.utime(path, ns=(path.stat().st_mtime_ns, path.stat().st_mtime_ns + len(cells)))
    return path


def test_an_answer_is_known_by_its_cell_and_its_prompt(tmp_path):
    path = notebook(tmp_path / "n.ipynb", ("a", "one"), ("b", "two"))
    answers = SavedAnswers(path)
    found = answers.of("one", "a", path)
    assert found is not None
    assert (found.session, found.outputs[0]["data"]["text/markdown"]) == ("earlier", "The answer")
    assert answers.of("two", "a", path) is None  # the cell's prompt was edited
    assert answers.of("two", "new", path) is not None  # a front end whose ids are not the file's
    assert answers.of("two", None, path) is not None
    assert answers.of("two", None, None) is None


def test_what_a_cell_held_stays_known_when_it_was_cleared_and_saved(tmp_path):
    path = notebook(tmp_path / "n.ipynb", ("a", "one"), ("b", "two"))
    answers = SavedAnswers(path)
    assert answers.of("one", "a", path) is not None
    notebook(path, ("a", None), ("b", None), ("c", None))
    assert answers.of("one", "a", path) is not None
    other = notebook(tmp_path / "other.ipynb", ("x", "three"))
    assert answers.of("one", "a", other) is None


@pytest.mark.parametrize("content", [b"", b"{", b'{"cells": 3, "x": "prompt_sha256"}', b'["prompt_sha256"]'])
def test_a_file_that_is_no_notebook_holds_no_answers(tmp_path, content):
    path = tmp_path / "n.ipynb"
    path.write_bytes(content)
    assert SavedAnswers(path).of("one", "a", path) is None

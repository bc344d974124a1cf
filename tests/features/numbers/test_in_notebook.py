"""The numbers of a notebook's Markdown cells and saved answers, held against its outputs."""

from pathlib import Path
from typing import Any

from cellwright.features.numbers.in_notebook import finding_line, notebook_numbers
from cellwright.features.numbers.sources import LEFT_OUT, TRANSCRIPT, notebook_sources
from cellwright.features.numbers.stale import answer_record
from cellwright.features.numbers.trace import trace
from cellwright.kernel.output.saved_markdown import left_out
from cellwright.kernel.output.saved_ops import TRANSCRIPT as SAVED
from cellwright.sessions.provenance import NUMBERS
from cellwright.tools.notebook.open_notebook import Cell

PRINTED = "visits 812\nmean 2.4123\nchurn_rate 0.26536\np 0.0043\n"


def cells(*parts: tuple[str, Any]) -> list[Cell]:
    """Markdown cells (`("m", text)`), code cells by what they printed, and answers (`("a", ops)`), ids c0, c1, …"""
    made = []
    for position, (kind, content) in enumerate(parts):
        outputs: tuple[Any, ...] = ()
        if kind == "a":
            outputs = ({"output_type": "display_data", "data": {TRANSCRIPT: {"ops": content}}, "metadata": {}},)
        elif kind == "code":
            outputs = ({"output_type": "stream", "name": "stdout", "text": content},)
        made.append(
            Cell(
                id=f"c{position}",
                cell_type="markdown" if kind == "m" else "code",
                source=content if kind == "m" else f"%%claude\nask {position}" if kind == "a" else "run()",
                position=position,
                execution_count=None if kind == "m" else position + 1,
                outputs=outputs,
            )
        )
    return made


def test_the_seams_names_are_the_saved_notebook_s() -> None:
    assert (TRANSCRIPT, LEFT_OUT in left_out(12)) == (SAVED, True)


def test_what_the_outputs_hold_is_fine_and_what_they_do_not_hold_is_listed() -> None:
    found = notebook_numbers(
        cells(
            ("m", "# Visits"),
            ("code", PRINTED),
            ("m", "There were 812 visits.\n\nThe p value is 0.00341, the churn rate 26.5 %."),
        )
    )
    assert (found.numbers, found.traced, len(found.stale)) == (3, 2, 0)
    [missing] = found.not_found
    assert (missing.cell, missing.line, missing.text) == ("c2", 3, "0.00341")
    assert "not found: cell 3" in finding_line(missing)
    assert "line 3: 0.00341:" in finding_line(missing)


def test_a_swapped_digit_is_shown_beside_what_the_cell_has() -> None:
    found = notebook_numbers(
        cells(
            ("code", "accuracy of forest 0.8142\nvisits 812\n"),
            ("m", "The forest's accuracy is 0.8124, over 812 visits."),
        )
    )
    assert ["0.8142" in each.because for each in found.findings] == [True]


def test_after_a_run_a_number_whose_place_has_another_value_is_stale() -> None:
    notebook = cells(("code", PRINTED), ("m", "The mean is 2.41 over 812 visits."))
    fresh = {"c0": ({"output_type": "stream", "name": "stdout", "text": PRINTED.replace("2.4123", "2.6312")},)}
    found = notebook_numbers(notebook, fresh=fresh)
    [stale] = found.stale
    assert (stale.cell, stale.text, stale.then, stale.now, stale.source_cell) == ("c1", "2.41", 2.4123, 2.6312, "c0")
    assert finding_line(stale).startswith("stale: cell 2")
    assert "cell [1]" in finding_line(stale)
    assert notebook_numbers(notebook, fresh={"c0": notebook[0].outputs}).findings == ()


def test_prose_that_is_ahead_of_the_outputs_is_right_once_they_are_run() -> None:
    notebook = cells(("code", PRINTED), ("m", "The mean is 2.63 over 812 visits."))
    fresh = {"c0": ({"output_type": "stream", "name": "stdout", "text": PRINTED.replace("2.4123", "2.6312")},)}
    assert [each.kind for each in notebook_numbers(notebook).findings] == ["not_found"]
    assert notebook_numbers(notebook, fresh=fresh).findings == ()


def test_an_answer_is_held_against_its_own_calls_and_the_notebook_s_outputs() -> None:
    ops = [
        {"op": "tool", "id": "0", "name": "Python", "input": {"code": "print(1)"}},
        {"op": "tool_end", "id": "0", "result": "median 3.125"},
        {"op": "text", "block": 1, "text": "The median is 3.125,\n"},
        {"op": "text", "block": 1, "text": "the mean 2.41, the maximum 77.25."},
    ]
    found = notebook_numbers(cells(("code", PRINTED), ("a", ops)))
    [missing] = found.findings
    assert (missing.where, missing.line, missing.text, missing.name) == ("answer", 2, "77.25", "cell [2]")


def test_an_answer_of_which_the_notebook_keeps_too_little_is_not_judged_by_it() -> None:
    text = {"op": "text", "block": 1, "text": "The total is 535.5, the maximum 77.25."}
    read = {"op": "tool", "id": "0", "name": "Read", "input": {}}
    assert notebook_numbers(cells(("a", [read, {"op": "tool_end", "id": "0", "result": None}, text]))).findings == ()
    judged = {
        "op": "numbers",
        "numbers": [{"text": "535.5", "verdict": "seen"}, {"text": "77.25", "verdict": "not_found"}],
    }
    found = notebook_numbers(cells(("code", PRINTED), ("m", "812 visits, 2.41."), ("a", [read, text, judged])))
    assert [each.text for each in found.findings] == ["77.25"]


def test_what_an_answer_keeps_tells_that_its_cell_ran_again() -> None:
    ops = [{"op": "text", "block": 0, "text": "The mean is 2.41."}]
    before = cells(("code", PRINTED), ("a", ops))
    sources = notebook_sources(before)
    record = answer_record("The mean is 2.41.", trace("The mean is 2.41.", sources), sources, before)
    after = cells(("code", PRINTED.replace("2.4123", "2.6312")), ("a", ops))
    after[1].outputs[0]["metadata"]["cellwright"] = {NUMBERS: record}
    [stale] = notebook_numbers(after).findings
    assert stale.kind == "stale"
    assert "2.6312 now" in stale.because


def test_prose_about_a_method_is_not_listed_nor_are_cells_that_say_so() -> None:
    tutorial = cells(("m", "Use 512 units, 1,250 steps and a rate of 0.00125."), ("code", "done 7"))
    found = notebook_numbers(tutorial)
    assert (found.findings, found.unsure) == ((), 3)
    known = cells(("code", PRINTED), ("m", "812 visits. Light is 299,792 km/s."))
    tagged = [
        known[0],
        Cell(id="x", cell_type="markdown", source=known[1].source, position=1, metadata={"tags": ["numbers-ok"]}),
    ]
    assert len(notebook_numbers(known).findings) == 1
    assert notebook_numbers(tagged).numbers == 0


def test_small_files_that_the_code_names_are_sources_and_only_below_the_folder(tmp_path: Path) -> None:
    (tmp_path / "outside.csv").write_text("total,98.125\n")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "inside.csv").write_text("total,77.125\n")
    code = Cell(id="a", cell_type="code", source="read('inside.csv'), read('../outside.csv')", position=0)
    text = Cell(id="b", cell_type="markdown", source="The total is 77.125, not 98.125.", position=1)
    found = notebook_numbers([code, text], folder=folder)
    assert [each.text for each in found.findings] == ["98.125"]

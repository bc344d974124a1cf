"""Places of numbers in texts that change: the number is found again by what its line says, or it is said that it is not."""

import json
from pathlib import Path

from msgspec.structs import replace

from cellwright.features.numbers.answers import SeenNumbers
from cellwright.features.numbers.sources import TRANSCRIPT, notebook_sources
from cellwright.features.numbers.stale import (
    answer_record,
    find_place,
    lines_of,
    nearest_rank,
    refresh_prompt,
    stale_answers,
    stale_numbers,
    still_says,
    value_at,
)
from cellwright.features.numbers.trace import trace
from cellwright.sessions.provenance import NUMBERS
from cellwright.tools.notebook.open_notebook import Cell

FRAME = "       age    income\nmean  41.37  52814.2\nmax   79.00   211400\n"

ANSWER = "The mean waiting time is 2.41 minutes over 812 visits, so 26.5 % of the budget."


def test_a_number_is_found_again_though_columns_moved_and_lines_were_added() -> None:
    was = lines_of(FRAME)
    now = lines_of("note: 12 rows\n          age   income\nmean    43.1   1,204\nmax   100.00   211400\n")
    assert value_at(find_place(was, 1, 1), now) == 1204.0
    assert value_at(find_place(was, 2, 0), now) == 100.0


def test_what_cannot_be_told_apart_is_not_guessed() -> None:
    was = lines_of("1 2\n3 4\n5 6")
    place = find_place(was, 1, 0)
    assert value_at(place, lines_of("1 2\n9 4\n5 6")) == 9.0  # as many lines that say the same
    assert value_at(place, lines_of("1 2\n9 4")) is None
    assert value_at(place, lines_of("done")) is None
    assert value_at(find_place(lines_of("a 1 2"), 0, 1), lines_of("a 1")) is None


def test_a_line_read_with_its_number_is_the_file_s_line() -> None:
    place = find_place(lines_of("    12→total,480"), 0, 0)
    assert value_at(place, lines_of("total,500")) == 500.0


def test_a_stated_number_holds_for_what_it_would_have_been_rounded_from() -> None:
    cases = [
        (2.4, 0.1, 2.41, 2.38, True),
        (2.4, 0.1, 2.41, 2.6, False),
        (14.8, 0.1, 0.148, 0.1525, False),
        (40_000, 1, 40_112, 40_090, True),
        (40_000, 1, 40_112, 43_000, False),
        (4_100_000, 100_000, 4.098, 4.11, True),
        (2.0, 0.1, 120.0, 150.0, False),  # minutes of seconds
        (12, 1, 12.0, 0.0, False),
    ]
    assert [still_says(*case[:4]) for case in cases] == [case[4] for case in cases]


def test_the_likeliest_number_of_a_line() -> None:
    assert nearest_rank("churn 0.26536 of 7043", 26.5) == 0
    assert nearest_rank("no numbers", 26.5) is None


def test_hostile_lines_are_bounded() -> None:
    lines_of("-" * 200_000 + "1," * 100_000 + "\n" * 50_000)


def cell(id: str, source: str, printed: str, count: int = 1, position: int = 0) -> Cell:
    return Cell(
        id=id,
        cell_type="code",
        source=source,
        position=position,
        execution_count=count,
        outputs=({"output_type": "stream", "name": "stdout", "text": printed},),
    )


WAITING = cell("wait", "print(wait)", "visits 812\nmean 2.4123\n", 3)
SHARE = cell("share", "print(share)", "share 0.26536\n", 4, 1)


def record_of(cells: list[Cell], answer: str = ANSWER) -> dict:
    sources = notebook_sources(cells)
    record = answer_record(answer, trace(answer, sources), sources, cells)
    assert record is not None
    return json.loads(json.dumps(record))  # as a notebook keeps it


def test_a_cell_that_ran_again_makes_its_numbers_stale_and_no_others() -> None:
    record = record_of([WAITING, SHARE])
    assert stale_numbers(record, ANSWER, [WAITING, SHARE]) == ()
    again = cell("wait", "print(wait)", "rows 900 of 900\nvisits 812\nmean 2.6312\n", 7)
    [stale] = stale_numbers(record, ANSWER, [again, SHARE])
    assert (stale.text, ANSWER[stale.start : stale.end], stale.cell) == ("2.41", "2.41", "wait")
    assert "cell [7] gave 2.4123 then, 2.6312" in stale.because
    assert (stale.then, stale.now) == (2.4123, 2.6312)
    assert '- "2.41": cell [7]' in refresh_prompt([stale], ANSWER)


def test_a_value_that_rounds_to_the_same_is_not_stale() -> None:
    record = record_of([WAITING, SHARE])
    again = cell("wait", "print(wait)", "visits 812\nmean 2.4131\n", 7)
    assert stale_numbers(record, ANSWER, [again, SHARE]) == ()


def test_an_edited_cell_is_stale_until_it_runs() -> None:
    record = record_of([WAITING, SHARE])
    edited = cell("wait", "print(wait * 2)", "visits 812\nmean 2.4123\n", 3)
    found = stale_numbers(record, ANSWER, [edited, SHARE])
    assert ["edited since" in each for each in {stale.because for stale in found}] == [True]
    ran = replace(edited, execution_count=9)
    assert stale_numbers(record, ANSWER, [ran, SHARE]) == ()


def test_a_cell_that_is_gone_or_says_it_no_more() -> None:
    record = record_of([WAITING, SHARE])
    assert ["is gone" in stale.because for stale in stale_numbers(record, ANSWER, [WAITING])] == [True]
    silent = cell("share", "pass", "", 5, 1)
    [stale] = stale_numbers(record, ANSWER, [WAITING, silent])
    assert "cell [5] gave 0.26536" in stale.because


def test_an_answer_that_was_edited_or_a_record_that_is_not_ours_says_nothing() -> None:
    record = record_of([WAITING, SHARE])
    assert stale_numbers(record, ANSWER + " Edited.", []) == ()
    for foreign in (None, {}, {"v": 2}, {"v": 1, "text": 3, "n": []}, {**record, "n": [{"at": "x"}]}):
        assert stale_numbers(foreign, ANSWER, []) == ()


def messages(tool: str, values: dict, result: str) -> list[bytes]:
    return [
        json.dumps(message).encode()
        for message in (
            {"role": "user", "content": "How long?"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": tool, "input": values}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": result}]},
        )
    ]


def test_numbers_that_a_conversation_read_in_a_file_or_a_cell_are_linked_with_it(tmp_path: Path) -> None:
    file = tmp_path / "data" / "waits.csv"
    file.parent.mkdir()
    file.write_text("place,minutes\nharbour,48.25\nstation,17.5\n")
    answer = "The harbour waits 48.25 minutes."
    read = messages(
        "Read", {"file_path": str(file)}, "     1\tplace,minutes\n     2\tharbour,48.25\n     3\tstation,17.5\n"
    )
    sources = SeenNumbers().of(read)
    record = answer_record(answer, trace(answer, sources), sources, [], tmp_path)
    assert record is not None
    assert str(tmp_path) not in json.dumps(record)
    assert "harbour" not in json.dumps(record)
    assert stale_numbers(record, answer, [], tmp_path) == ()
    file.write_text("place,minutes\nstation,17.5\nharbour,51\n")
    [stale] = stale_numbers(record, answer, [], tmp_path)
    assert stale.path == "data/waits.csv"
    assert "51 now" in stale.because
    file.unlink()
    assert ["is gone" in each.because for each in stale_numbers(record, answer, [], tmp_path)] == [True]

    notebook = messages(
        "NotebookRead",
        {"notebook_path": "a.ipynb"},
        '<cell id="wait" number="1" type="code">\nprint(wait)\n</cell>\n<output type="stream">\nmean 2.4123\n</output>\n',
    )
    sources = SeenNumbers().of(notebook)
    answer = "The mean is 2.41."
    record = answer_record(answer, trace(answer, sources), sources, [WAITING])
    again = cell("wait", "print(wait)", "visits 812\nmean 2.6312\n", 7)
    [stale] = stale_numbers(record, answer, [again])
    assert "cell [7] gave 2.4123 then, 2.6312" in stale.because


def test_a_number_that_is_in_the_code_and_in_the_output_is_linked_with_the_output() -> None:
    read = messages(
        "NotebookRead",
        {"notebook_path": "a.ipynb"},
        '<cell id="wait" number="1" type="code">\nprint(\'mean\', 2.4123)\n</cell>\n<output type="stream">\nmean 2.4123\n'
        "</output>\n",
    )
    sources = SeenNumbers().of(read)
    answer = "The mean is 2.41."
    record = answer_record(answer, trace(answer, sources), sources, [WAITING])
    [stale] = stale_numbers(record, answer, [cell("wait", "print(wait)", "visits 812\nmean 2.6312\n", 7)])
    assert stale.now == 2.6312


def test_files_outside_the_folder_are_neither_kept_nor_read(tmp_path: Path) -> None:
    outside = tmp_path / "outside.csv"
    outside.write_text("harbour,48.25\n")
    folder = tmp_path / "project"
    folder.mkdir()
    read = messages("Read", {"file_path": str(outside)}, "     1\tharbour,48.25\n")
    sources = SeenNumbers().of(read)
    answer = "The harbour waits 48.25 minutes."
    assert answer_record(answer, trace(answer, sources), sources, [], folder) is None


def test_the_record_of_a_long_answer_is_small() -> None:
    printed = "".join(f"row{index} {1000.5 + index * 7.25}\n" for index in range(300))
    rows = cell("rows", "print(rows)", printed)
    answer = "\n".join(f"- row{index} has {1000.5 + index * 7.25}" for index in range(300))
    assert len(json.dumps(record_of([rows], answer))) <= 16_000


def test_a_computed_number_is_stale_if_the_number_it_begins_with_changed() -> None:
    answer = "It grew by 14.8 %."
    record = record_of([cell("sales", "print(sales)", "before 2012\nafter 2310\n")], answer)
    [stale] = stale_numbers(record, answer, [cell("sales", "print(sales)", "before 2012\nafter 2500\n", 2)])
    assert "2,310 of cell [2]" in stale.because
    assert "2,500 now" in stale.because


def test_a_reopened_notebook_s_answers_are_marked_by_what_they_keep() -> None:
    answer = "The mean is 2.41, so 2.41 minutes over 812 visits."
    ops = [
        {"op": "text", "block": 0, "text": "I looked.\n"},  # numbers are looked up in the last text alone
        {"op": "text", "block": 2, "text": f"\n{answer}\n"},
        {"op": "numbers", "answer": "0a1b2c3d4e5f", "numbers": []},
    ]
    output = {
        "output_type": "display_data",
        "data": {TRANSCRIPT: {"ops": ops}},
        "metadata": {"cellwright": {NUMBERS: record_of([WAITING], f"\n{answer}\n")}},
    }
    asked = Cell(id="ask", cell_type="code", source="%%claude\nHow long?", position=1, outputs=(output,))
    assert stale_answers([WAITING, asked]) == {}
    again = cell("wait", "print(wait)", "visits 812\nmean 2.6312\n", 7)
    found = stale_answers([again, asked])["ask"]
    assert found["answer"] == "0a1b2c3d4e5f"
    assert found["numbers"] == [
        {
            "text": "2.41",
            "from_end": behind,
            "words": "cell [7] gave 2.4123 then, 2.6312 now",
            "cell": "wait",
            "path": "",
        }
        for behind in (1, 0)
    ]
    edited = cell("wait", "print(wait * 2)", "visits 812\nmean 2.4123\n", 3)
    assert stale_answers([edited, asked]) == {}  # it is being edited: nothing has another value
    assert "cell [7] gave 2.4123 then, 2.6312 now" in found["refresh"]
    assert found["refresh"].endswith(f"<answer>\nI looked.\n\n{answer}\n</answer>")
    # a file that keeps no ids of cells has others each time it is opened, and a cell that is cut and pasted, too
    assert stale_answers([replace(WAITING, id="another"), asked]) == {}

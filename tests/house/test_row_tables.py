"""A table in one test fails for each row that is wrong, and names it."""

import pytest

from row_tables import for_each_row


def test_a_failure_names_each_wrong_row_and_no_other(tmp_path):
    folders = []

    @for_each_row(("given", "expected"), [(1, 1), (2, 3), pytest.param(4, 5, id="odd")])
    @for_each_row("more", [0, 1], ids=["plain", "with one"])
    def judged(tmp_path, given, expected, more):
        folders.append(tmp_path)
        if more:
            with pytest.raises(ValueError, match="x"):
                raise ValueError("x" if given == 1 else "y")
        assert given + 0 == expected

    with pytest.raises(pytest.fail.Exception) as caught:
        judged(tmp_path=tmp_path)
    told = str(caught.value)
    assert told.startswith("4 of 6 rows are wrong\nrow 2, plain: given=2, ")
    assert [line for line in told.splitlines() if line.startswith("row ")] == [
        "row 2, plain: given=2, expected=3, more=0",
        "row 3, with one: given=2, expected=3, more=1",
        "row 4, plain: given=4, expected=5, more=0",
        "row 5, with one: given=4, expected=5, more=1",
    ]
    assert "assert (2 + 0) == 3" in told
    assert len(set(folders)) == 6


def test_a_table_without_rows_or_with_a_row_of_another_width_is_an_error():
    with pytest.raises(AssertionError):
        for_each_row("given", [])
    with pytest.raises(ValueError, match="zip"):
        for_each_row(("given", "expected"), [(1,)])

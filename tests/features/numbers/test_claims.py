"""Names and test runs that answers state: few are judged, and what is said of them is right."""

import json
from pathlib import Path

import pytest

from cellwright.features.numbers.claims import claims_of_tests, seen_texts, stated_names, unknown_names

SEEN = [
    "customer_id,churn_rate,tenure\n1,0.2,3",
    "def load_rows(path):\n    ...",
    "read data/churn.csv",
    'cell [3] has execution_count="4"',
]


def names(answer: str, folder: Path | None = None) -> list[tuple[str, str, bool]]:
    return [(name.text, name.kind, name.found) for name in stated_names(answer, SEEN, folder)]


def test_names_beside_the_word_that_says_what_they_name() -> None:
    named = names("The column `churn_rate` is a share; the column `churn_prob` holds it per month.")
    assert named == [
        ("churn_rate", "column", True),
        ("churn_prob", "column", False),
    ]
    named = names("The columns `tenure`, `wage` and `customer_id` are whole.")
    assert named == [
        ("tenure", "column", True),
        ("wage", "column", False),
        ("customer_id", "column", True),
    ]
    named = names("The `load_rows()` function calls the function `parse_rows`.")
    assert named == [
        ("load_rows", "function", True),
        ("parse_rows", "function", False),
    ]
    named = names("It is in cell [3], and used by cell [9].")
    assert named == [
        ("cell [3]", "cell", True),
        ("cell [9]", "cell", False),
    ]


def test_files_are_known_by_their_ending_and_looked_for_on_disk(tmp_path: Path) -> None:
    (tmp_path / "there.csv").write_text("a\n")
    named = names("See `data/churn.csv`, `there.csv` and `gone.csv`.", tmp_path)
    assert named == [
        ("data/churn.csv", "file", True),
        ("there.csv", "file", True),
        ("gone.csv", "file", False),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        "There is no column `wage`.",
        "You could add a column `wage`.",
        "I created `report.md`.",
        "For example, a column `wage` would do.",
        "`wage` matters most.",
        "Use the function `sorted` or the method `append`.",
        "```python\n# the column `wage` of `gone.csv`\n```",
        "See [the file](https://a.b/gone.csv) and https://a.b/other.csv.",
        "Which column is `wage`? The column `my wage!` is odd.",
    ],
)
def test_what_is_not_stated_or_cannot_be_told_is_left_alone(answer: str) -> None:
    assert [name for name in names(answer) if not name[2]] == []


def test_an_attribute_is_no_file() -> None:
    named = stated_names("`np.log` is taken of `fit.log`.", ["fit.params"])
    assert [name.found for name in named] == [True, True]


def test_the_user_s_namespace_counts() -> None:
    [name] = stated_names("The function `parse_rows` is slow.", SEEN, known=lambda name: name == "parse_rows")
    assert name.found


def turn(*calls: tuple[str, dict, str, bool], earlier: tuple[tuple[str, dict, str, bool], ...] = ()) -> list[bytes]:
    messages: list[dict] = []
    for number, group in enumerate((earlier, calls)):
        messages.append({"role": "user", "content": "Mend it."})
        for at, (name, values, result, failed) in enumerate(group):
            id = f"t{number}-{at}"
            messages.append(
                {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": values}]}
            )
            block = {"type": "tool_result", "tool_use_id": id, "content": result, "is_error": failed}
            messages.append({"role": "user", "content": [block]})
    return [json.dumps(message).encode() for message in messages]


PASSED = ("Bash", {"command": "python -m pytest -q"}, "....\n12 passed in 0.31s", False)
FAILED = ("RunTests", {}, "1 failed, 11 passed (pytest, 0.3 s, exit code 1)", False)
UNITTEST = ("Bash", {"command": "python -m unittest"}, "....\nRan 4 tests in 0.001s\n\nOK", False)
EDIT = ("Edit", {"file_path": "/p/a.py"}, "Edited", False)
NOTES = ("Write", {"file_path": "/p/notes.txt"}, "Wrote", False)


@pytest.mark.parametrize(
    ("answer", "messages", "verdict"),
    [
        ("All tests pass now.", turn(PASSED), "borne_out"),
        ("All 12 tests pass.", turn(FAILED, PASSED), "borne_out"),
        ("The tests pass.", turn(UNITTEST), "borne_out"),
        ("All 14 tests passed.", turn(PASSED), "contradicted"),
        ("All tests pass.", turn(PASSED, FAILED), "contradicted"),
        ("All tests pass.", turn(("Bash", {"command": "npm test"}, "boom", True)), "contradicted"),
        ("All tests pass.", turn(PASSED, EDIT), "outdated"),
        ("All tests pass.", turn(PASSED, EDIT, PASSED), "borne_out"),
        ("All tests pass.", turn(PASSED, NOTES), "borne_out"),
        ("All tests are green.", turn(EDIT), "not_run"),
        ("The tests pass.", turn(EDIT, earlier=(PASSED,)), "not_run"),
        ("The tests pass.", turn(("Bash", {"command": "make test"}, "done", False)), "unclear"),
    ],
)
def test_a_statement_that_tests_pass_is_held_against_the_last_run(
    answer: str, messages: list[bytes], verdict: str
) -> None:
    assert [claim.verdict for claim in claims_of_tests(answer, messages)] == [verdict]


@pytest.mark.parametrize(
    "answer",
    [
        "Run them to see that all tests pass.",
        "The tests should pass once it is merged.",
        "Not all tests pass.",
        "Do all tests pass?",
        "I'll make sure the tests pass.",
        "The test set has 812 rows; each passes through the filter.",
        "`all tests pass` is what it prints.",
    ],
)
def test_what_does_not_state_that_tests_pass(answer: str) -> None:
    assert claims_of_tests(answer, turn(EDIT)) == ()


def test_claude_s_own_sentences_vouch_for_nothing() -> None:
    messages = [
        {"role": "user", "content": "Which columns?"},
        {"role": "assistant", "content": [{"type": "text", "text": "There is a column `wage`."}]},
    ]
    seen = seen_texts([json.dumps(message).encode() for message in messages])
    named = stated_names("The column `wage` is whole.", seen)
    assert [name.found for name in named] == [False]


def test_hostile_text_is_read_in_bounded_time() -> None:
    for text in (
        "`a` column " * 20_000,
        "`" * 200_000,
        "cell [1] " * 40_000,
        "all tests " * 30_000,
        "columns " + "`a`, " * 50_000,
    ):
        stated_names(text, SEEN)
        claims_of_tests(text, [])


def test_names_that_nothing_has_are_marked_where_they_stand(tmp_path: Path) -> None:
    messages = [
        json.dumps(message).encode()
        for message in (
            {"role": "user", "content": "What is in the table?"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "pytest"}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "age height\n3 failed"}],
            },
        )
    ]
    answer = (
        "The column `wage` is in `waits.csv`, the columns `age` and `spread` too.\n\n```python\n`wage`\n```\n"
        "The function `mean_wait()` uses `wage`. All tests pass."
    )
    found = unknown_names(answer, messages, tmp_path, {"spread"}.__contains__)
    assert [(name.text, name.from_end, name.code) for name in found] == [
        ("wage", 1, True),
        ("waits.csv", 0, True),
        ("mean_wait()", 0, True),
        ("All tests pass", 0, False),
    ]
    assert "turn failed" in found[3].words
    got = unknown_names("No `name` is stated.", [b"not read"], tmp_path, lambda _: False)
    assert got == ()

"""Code completion with a model that chats: what it is told, and what of its answer may stand at the cursor."""

from __future__ import annotations

import pytest

from cellwright.model.fill_in_middle import Gap, fill_in_message, is_enough, missing_text, surroundings, the_cell
from row_tables import for_each_row


def at(text: str, **more: object) -> Gap:
    """The place of `|` in a cell."""
    prefix, _, suffix = text.partition("|")
    return Gap(prefix, suffix, **more)  # type: ignore[arg-type]


@for_each_row(
    ("cell", "answer", "missing"),
    [
        pytest.param("df.groupby(|", "<insert>'city')</insert>", "'city')", id="plain"),
        pytest.param("df.groupby(|", "Sure! <insert>'city')", "'city')", id="stopped-at-the-tag"),
        pytest.param("x = |", "```python\n1 + 1\n```", "1 + 1", id="fence"),
        pytest.param("x = |", "<insert>```python\n1 + 1\n```</insert>", "1 + 1", id="fence-in-tags"),
        pytest.param("x = |", "<insert></insert>", "", id="nothing"),
        pytest.param("x = |", "<insert>  \n </insert>", "", id="white-space"),
        pytest.param("total = su|", "<insert>total = sum(values)</insert>", "m(values)", id="line-again"),
        pytest.param("a = 1\ntotal = su|", "<insert>a = 1\ntotal = sum(v)</insert>", "m(v)", id="cell-again"),
        pytest.param("    y = f|", "<insert>y = f(x)</insert>", "(x)", id="line-again-without-indentation"),
        pytest.param("print(|)", "<insert>total)</insert>", "total", id="bracket-again"),
        pytest.param("print(|)", "<insert>len(x)</insert>", "len(x)", id="bracket-of-its-own"),
        pytest.param("f(g(|))", "<insert>x))</insert>", "x", id="two-brackets-again"),
        pytest.param('open("|")', '<insert>tides.csv")</insert>', "tides.csv", id="quote-again"),
        pytest.param("f(|, b=2)", "<insert>a\nmore</insert>", "a", id="one-line-where-the-line-goes-on"),
        pytest.param("f(|, b=2)", "<insert>a, b=2)</insert>", "a", id="rest-of-the-line-again"),
        pytest.param(
            "def f(x):\n    |\n    return y", "<insert>y = x\n    return y</insert>", "y = x", id="next-line-again"
        ),
        pytest.param(
            "def f(x):\n    |",
            "<insert>    y = x\n    return y</insert>",
            "y = x\n    return y",
            id="indentation-again",
        ),
        pytest.param("def f(x):\n    |", "<insert>\n    y = x</insert>", "y = x", id="blank-line-first"),
        pytest.param(
            "def f(x):\n    |",
            "<insert>for i in x:\n    print(i)</insert>",
            "for i in x:\n        print(i)",
            id="block",
        ),
        pytest.param(
            "def f(x):\n    |",
            "<insert>for i in x:\n        go(i)</insert>",
            "for i in x:\n        go(i)",
            id="block-as-is",
        ),
        pytest.param("x = |", "<insert>'[secret removed: value of $KEY]'</insert>", "", id="a-secret"),
        pytest.param("x = |", "<insert>" + "\n".join(["y"] * 99) + "</insert>", "\n".join(["y"] * 24), id="long"),
    ],
)
def test_only_what_is_missing_is_inserted(cell: str, answer: str, missing: str) -> None:
    assert missing_text(answer, at(cell)) == missing


def test_an_answer_is_enough_when_no_more_of_it_would_be_used() -> None:
    line, block = at("f(|, b=2)"), at("f(|")
    assert not is_enough("<insert>a", line)
    assert is_enough("<insert>a\n", line)
    assert not is_enough("<insert>a\nb", block)
    assert is_enough("<insert>" + "a\n" * 24, block)
    assert not is_enough("Well, ", block)
    assert is_enough("Well, " * 400, block)


def test_the_nearest_cells_are_told_within_bounds_in_the_notebooks_order() -> None:
    above = [f"# {number}\n" + "a" * 2_900 for number in range(9)]
    told = surroundings(Gap("x", "", above=above, below=["b = 1", "c" * 9_000]), ["df: DataFrame"])
    assert [number for number in range(9) if f"# {number}\n" in told] == [6, 7, 8]
    assert told.index("# 6") < told.index("# 8") < told.index("b = 1")
    assert "df: DataFrame" in told
    assert len(told) < 16_000


def test_what_stays_the_same_while_typing_is_marked_for_the_cache() -> None:
    first, second = (fill_in_message(surroundings(gap, []), the_cell(gap)) for gap in (at("x|y"), at("xz|y")))
    assert first["content"][0] == second["content"][0]
    assert first["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert first["content"][1]["text"] == "<cell>\nx⟦cursor⟧y\n</cell>"

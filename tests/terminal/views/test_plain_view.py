"""Markdown on a terminal that cannot be drawn on: as wide as it, however the text comes."""

from __future__ import annotations

from cellwright.terminal.views.plain_view import WrappedMarkdown
from row_tables import for_each_row

TABLE = "| Gauge | Mean |\n|:------|-----:|\n| Brest | 4.1 |\n| St. Malo | 12.25 |\n"
WIDE = "| Gauge | What was seen there |\n|---|---|\n| Brest | a storm at night |\n| Dover | nothing |\n"


def wrapped(text: str, size: int, columns: int = 24) -> str:
    markdown = WrappedMarkdown(columns)
    return "".join(markdown.add(text[start : start + size]) for start in range(0, len(text), size)) + markdown.rest()


@for_each_row("size", [1, 3, 1000])
@for_each_row(
    ("text", "shown"),
    [
        ("The tide is high in the harbour today.\n", "The tide is high in the\nharbour today.\n"),
        ("I **look** at", "I **look** at"),
        ("- one that is longer than a line\n- two\n", "- one that is longer\n  than a line\n- two\n"),
        ("12. [ ] one that is longer than it\n", "12. [ ] one that is\n        longer than it\n"),
        ("> said by somebody at the pier\n", "> said by somebody at\n> the pier\n"),
        ("a\n\n" + "-" * 60 + "\n\nb\n", "a\n\n" + "-" * 24 + "\n\nb\n"),
        ("```\n| no | table, and longer than a line |\n```\nafter\n",) * 2,
        (TABLE, "Gauge      Mean\n--------  -----\nBrest       4.1\nSt. Malo  12.25\n"),
        (
            f"{WIDE}After.\n",
            "Gauge: Brest\nWhat was seen there: a\n  storm at night\n\n"
            "Gauge: Dover\nWhat was seen there:\n  nothing\nAfter.\n",
        ),
        ("| no table\n| at all\n", "| no table\n| at all\n"),
        ("潮位は高い 港の水は深い 風は弱い\n", "潮位は高い 港の水は深い\n風は弱い\n"),
        ("see https://example.org/a/very/long/path now\n", "see\nhttps://example.org/a/very/long/path\nnow\n"),
    ],
)
def test_lines_are_as_wide_as_the_terminal(text: str, shown: str, size: int) -> None:
    assert wrapped(text, size) == shown


def test_words_come_out_while_a_line_is_written() -> None:
    markdown = WrappedMarkdown(80)
    assert [markdown.add(text) for text in ("The ti", "de is", " high.\n")] == ["The ti", "de is", " high.\n"]
    # a word that may not fit is waited for
    markdown = WrappedMarkdown(12)
    assert [markdown.add(text) for text in ("The ti", "de is", " high.\n")] == ["The", " tide", " is\nhigh.\n"]

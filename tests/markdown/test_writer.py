"""Nothing active comes of any payload, whole or cut, by the judgement of parsers that the writer does not know."""

from __future__ import annotations

from html.parser import HTMLParser

import mistune
import pytest
from markdown_it import MarkdownIt

from cellwright.markdown.escaping import code_span, escaped, fenced, folded
from cellwright.markdown.safe_markdown import active_parts, active_tokens, safe_markdown
from cellwright.markdown.writer import destination
from markdown_payloads import PAYLOADS, cuts

SHOWN = {
    *(
        "p",
        "br",
        "hr",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "ul",
        "ol",
        "li",
        "input",
        "blockquote",
        "pre",
        "code",
        "em",
    ),
    *("strong", "del", "s", "a", "table", "thead", "tbody", "tr", "th", "td", "span", "div", "dl", "dt", "dd"),
}
ATTRIBUTES = {"class", "style", "id", "type", "checked", "disabled", "start"}
"""What renderers set themselves: styles align tables, classes colour code, ids are a heading's."""


class ActiveParts(HTMLParser):
    """Collects what a browser would do more with than to draw it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in SHOWN:
            self.found.append(f"<{tag}>")
        for name, value in attrs:
            heading = tag == "a" and name == "href" and str(value).startswith("#")
            if name == "href" and (heading or destination(str(value)) is not None):
                continue
            if name not in ATTRIBUTES or (name == "style" and not str(value).startswith("text-align:")):
                self.found.append(f"<{tag} {name}={value}>")

    def handle_comment(self, data: str) -> None:
        self.found.append(f"<!--{data}")

    def handle_decl(self, decl: str) -> None:
        self.found.append(f"<!{decl}")

    def handle_pi(self, data: str) -> None:
        self.found.append(f"<?{data}")


def drawn_by_nbconvert(markdown: str) -> str:
    from nbconvert.filters.markdown_mistune import markdown2html_mistune

    return markdown2html_mistune(markdown)


def active_in(html: str) -> list[str]:
    parser = ActiveParts()
    parser.feed(html)
    parser.close()
    return parser.found


GFM = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
EVERY_CUT = sorted({cut for payload in PAYLOADS for cut in cuts(payload)})


def test_there_are_enough_of_them():
    assert len(set(PAYLOADS)) == len(PAYLOADS)
    assert len(PAYLOADS) >= 300
    assert len(EVERY_CUT) >= 12_000


def test_without_us_most_of_them_are_active():
    """They would find what they are to find."""
    html = mistune.HTMLRenderer(escape=False, allow_harmful_protocols=True)
    plain = mistune.create_markdown(renderer=html, plugins=["table", "strikethrough"])
    active = [payload for payload in PAYLOADS if active_in(str(plain(payload))) or active_in(GFM.render(payload))]
    assert len(active) > 200


@pytest.mark.parametrize("part", range(4))
def test_no_cut_of_any_payload_is_active(part: int):
    wrong = []
    for cut in EVERY_CUT[part::4]:  # for as many workers as there may be
        safe = safe_markdown(cut)
        if found := active_in(GFM.render(safe)):
            wrong.append((cut, safe, found))
    assert wrong == []


def test_the_second_parser_passes_over_nothing_that_is_active():
    """It leaves out lines of words, and emphasis: what it finds is what mistune finds that takes all of it apart."""
    plugins = ["strikethrough", "table", "url", "task_lists", "def_list"]
    whole = mistune.create_markdown(renderer=None, plugins=plugins)
    wrong = []
    for cut in EVERY_CUT[::5]:
        for text in (cut, f"- *a **{cut}*\n\n| {cut} |\n|---|\n| `{cut}` |"):
            tokens = whole(text)
            assert isinstance(tokens, list)
            found = list(active_parts(text))
            if found != list(active_tokens(tokens)):
                wrong.append((text, found))
    assert wrong == []


def test_no_payload_is_active_in_nbconvert():
    wrong = []
    for payload in PAYLOADS:
        safe = safe_markdown(payload)
        if found := active_in(drawn_by_nbconvert(safe)):
            wrong.append((payload, safe, found))
    assert wrong == []


def test_payloads_one_after_the_other_are_not_active_either():
    together = "\n\n".join(map(safe_markdown, PAYLOADS))
    assert active_in(GFM.render(together)) == []
    assert active_in(drawn_by_nbconvert(together)) == []


def test_what_was_made_safe_stays_as_it_is():
    wrong = [(cut, safe) for cut in PAYLOADS if safe_markdown(safe := safe_markdown(cut)) != safe]
    assert wrong == []


def test_no_payload_leaves_what_we_write_around_it():
    wrong = []
    for payload in PAYLOADS:
        document = (
            f"# {escaped(payload)}\n\n- {code_span(payload)}\n- {escaped(payload, at_line_start=True)}\n\n"
            f"{folded(payload, fenced(payload, payload))}\n\n| {escaped(payload)} |\n| --- |\n"
        )
        found = [part for part in active_in(drawn_by_nbconvert(document)) if part not in ("<details>", "<summary>")]
        found += [part for part in active_in(GFM.render(document)) if part not in ("<details>", "<summary>")]
        if found:
            wrong.append((payload, document, found))
    assert wrong == []
